"""A real headless browser, driven over Chromium's debugging pipe with the standard library.

Messages are JSON with a NUL at the end: ours to descriptor 3 of the browser, its own from
descriptor 4. Errors of the page (exceptions, console, failed loads) are collected as they come.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-pipe", "--disable-extensions", "--disable-background-networking"),
)
_PLACE = """
import fcntl, os, sys
high = [fcntl.fcntl(int(it), fcntl.F_DUPFD, 10) for it in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the two ends where Chromium looks for them, and becomes Chromium."""
_NO_PAGE = -32000
"""The protocol's error for a page that is being left."""


class Browser:
    """One page of one browser."""

    def __init__(self, place: Path) -> None:
        program = next((found for it in _NAMES if (found := shutil.which(it))), None)
        if program is None:
            pytest.skip("no Chromium is installed")
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        words = [program, *_OPTIONS, f"--user-data-dir={place}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _PLACE, str(theirs), str(ours), *words],
            pass_fds=(theirs, ours),
            env={**os.environ, "TMPDIR": str(place)},  # killed, it leaves a directory there
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(ours)
        self._buffer = b""
        self._ids = 0
        self._session: str | None = None
        self.errors: list[str] = []
        try:
            self._attach()
        except BaseException:
            self.end()
            raise

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        (page,) = [it["targetId"] for it in targets if it["type"] == "page"]
        found = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """A command of the debugging protocol; its result."""
        reply = self._ask(method, params)
        assert "error" not in reply, reply
        return reply["result"]

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._ids += 1
        message = {"id": self._ids, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != self._ids:
            self._note(reply)
        answer: dict[str, Any] = reply
        return answer

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file, and wait until it is there."""
        self.call("Page.navigate", url=f"{path.as_uri()}{fragment}")
        while (event := self._next()).get("method") != "Page.loadEventFired":
            self._note(event)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + LIMIT_S
        while not self._holds(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"{expression} is not true"
            time.sleep(0.02)

    def _holds(self, expression: str) -> bool:
        """Whether it is true now; it is not while one page goes and another comes."""
        params = {"expression": expression, "returnByValue": True}
        reply = self._ask("Runtime.evaluate", params)
        if reply.get("error", {}).get("code") == _NO_PAGE:
            return False
        found = reply["result"]
        assert "exceptionDetails" not in found, found
        return bool(found["result"]["value"])

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def _note(self, event: Any) -> None:
        bad = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        if event.get("method") in bad:
            self.errors.append(json.dumps(event["params"])[:500])

    def _next(self) -> Any:
        deadline = time.monotonic() + LIMIT_S
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._from], [], [], left)[0], "no answer"
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def end(self) -> None:
        os.close(self._to)
        os.close(self._from)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
