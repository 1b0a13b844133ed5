"""`python bad_adapter.py FAULT`: an adapter with one fault, for tests of what the suite says of it.

Everything that is not the fault is right: a dictionary that forgets everything with its process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CLAIMS: dict[str, Any] = {
    "survives_restart": False,
    "survives_process_kill": False,
    "multi_process": False,
    "fsync_policy": "never",
    "pending_scope": "all",
}
FOREVER_S = 3600.0


class Bad:
    """The adapter; `fault` is the word of the command line."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.stores: dict[int, tuple[str, dict[str, Any]]] = {}
        self.held: list[bytes] = []

    def answer(self, message: Any) -> Any:
        verb = message["do"]
        if verb == "hello":
            version = 2 if self.fault == "version" else 1
            claims = {**CLAIMS, "flies": True} if self.fault == "claim" else CLAIMS
            return {"protocol": version, "name": "bad", "claims": claims, "capabilities": []}
        if verb == "open":
            return self.open(message)
        path, tasks = self.stores[message["store"]]
        if verb == "close":
            del self.stores[message["store"]]
            return None
        if verb == "add_task":
            self.add(path)
            new = message["task_id"] or f"t{time.monotonic_ns()}"
            tasks[new] = {name: message[name] for name in ("task", "publish_at")}
            if self.fault == "lies" and "opaque" in json.dumps(message["task"]):
                raise ValueError("it cannot be stored")  # and it is
            return new
        if verb == "remove_task":
            if self.fault == "dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            tasks.pop(message["task_id"], None)
            return None
        if verb == "pending_tasks":
            return [{"task_id": task_id, **task} for task_id, task in tasks.items()]
        return {"list_dead_tasks": [], "remove_dead_tasks": 0}.get(verb)

    def open(self, message: Any) -> Any:
        path = message["path"]
        self.stores[message["store"]] = (path, {})
        Path(path).mkdir(parents=True, exist_ok=True)
        if self.fault == "outside":
            return {"files": ["log", "../../../etc/passwd"]}
        if self.fault == "absolute":
            return {"files": ["/etc/passwd"]}
        if self.fault == "link":
            (Path(path) / "log").symlink_to("/etc/passwd")
            return {"files": ["log"]}
        return {"files": ["log"]}

    def add(self, path: str) -> None:
        """What goes wrong within `add_task`."""
        match self.fault:
            case "hangs":
                time.sleep(FOREVER_S)
            case "children":
                subprocess.Popen(["sleep", str(FOREVER_S)], start_new_session=True)
            case "fills":
                for n in range(40):
                    (Path(path) / f"{len(self.stores)}-{n}").write_bytes(b"x" * 1_000_000)
            case "error-class":
                raise TimeoutError("locked")

    def reply(self, message: Any) -> list[bytes]:
        """The lines that answer a request: one, where all is well."""
        try:
            line = {"id": message["id"], "ok": self.answer(message)}
        except (ValueError, KeyError) as error:
            said = {"code": "refused", "message": str(error), "definite": True}
            line = {"id": message["id"], "error": said}
        except TimeoutError as error:
            said = {"code": "lock_timeout", "message": str(error), "definite": False}
            line = {"id": message["id"], "error": said}
        whole = json.dumps(line).encode()
        if message["do"] == "hello":
            return [whole]
        if message["do"] != "pending_tasks":
            return [whole, whole] if self.fault == "twice" else [whole]
        return {
            "noise": [b"now listing the tasks", whole],
            "number": [b"42"],
            "nan": [whole.replace(b'"ok"', b'"ok": NaN, "k"')],
            "nested": [b"[" * 100_000],
            "empty": [b"", whole],
            "not-utf-8": [b"\xff\xfe" + whole],
            "no-field": [json.dumps({"id": message["id"]}).encode()],
            "kind": [json.dumps({"id": message["id"], "ok": "none"}).encode()],
            "tag": [json.dumps({"id": message["id"], "ok": [strange()]}).encode()],
            "other-id": [json.dumps({"id": message["id"] + 7, "ok": []}).encode()],
            "endless": [b"x" * 5_000_000],
        }.get(self.fault, [whole])


def strange() -> dict[str, Any]:
    return {"task_id": "t", "task": {"deep": [{"$": "rm -rf"}]}, "publish_at": None}


def main(fault: str) -> int:
    if fault == "no-start":
        print("no database to connect to", file=sys.stderr)
        return 7
    if fault == "banner":
        print("my adapter, version 3", flush=True)
    if fault == "silent":
        time.sleep(FOREVER_S)
    if fault == "stderr":
        sys.stderr.write("a line of a chatty library\n" * 500_000)
    adapter = Bad(fault)
    for line in sys.stdin:
        if fault == "forks" and adapter.stores:
            os.fork()  # both go on, and both answer
            fault = "forked"
        for out in adapter.reply(json.loads(line)):
            os.write(1, out if fault == "endless" and out[:1] == b"x" else out + b"\n")
    while fault == "goes-on":
        os.write(1, b'{"id": 1, "ok": null}\n' * 1000)
    if fault == "stays":
        time.sleep(FOREVER_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
