"""One run of TLC: the flags that make it safe and reproducible, its progress, its end.

Why each flag is there (every one was earned by a failure):
  * a private java.io.tmpdir: TLC unpacks its standard modules there under fixed names and deletes
    them at the end, so parallel runs in a shared one break each other;
  * a private -metadir: its default name has a resolution of one second;
  * -fp 0, -workers 1: the same numbers and the same counter-example every time;
  * -lncheck final: else liveness is also checked now and then while states are still missing, so
    the length of a counter-example would depend on the speed of the machine;
  * -checkpoint 0: a recovered run counts wrongly, so there is nothing to recover to;
  * -Xss8m: recursive operators overflow the default stack at 500 levels;
  * a private user.home: TLC sends statistics if a file in the user's home says so;
  * ExitOnOutOfMemoryError and the GC limits: TLC was seen to hang for ever on a full heap;
  * TieredStopAtLevel=1 for small models: below some 50,000 states the optimising compiler costs
    more than it gives (measured: 2.8 s of processor time in place of 6.3 s at 6,000 states).

The spec is copied flat into the private directory first. So a path with spaces, a read-only
checkout and a spec mutant are all the same case.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from lychgate_tools.tlc import archive, cfg
from lychgate_tools.tlc.output import Output, Verdict, judge
from lychgate_tools.tlc.toolchain import Toolchain, environment


@dataclass(frozen=True)
class Task:
    """What to run: modules by name, the root module, a model file's text."""

    modules: Mapping[str, str]  # module name -> source
    root: str
    config: str
    liveness: bool = False
    deadlock: bool = True  # whether a deadlock is an error
    coverage: bool = True
    small: bool = True  # fewer than some 50,000 states
    memory: str = "1g"
    timeout_s: float | None = None
    extra: tuple[str, ...] = ()  # further arguments of TLC, e.g. -dump
    lenient: bool = False  # whether it may turn out that there is no liveness to check


@dataclass(frozen=True)
class Run:
    verdict: Verdict
    seconds: float
    output: Output


class Runner:
    """Runs TLC, several at once if called from several threads; ends all its children on leaving.

    Children live in process groups of their own: Ctrl-C at the terminal reaches us alone, and we
    end them, and nothing else.
    """

    def __init__(self, tools: Toolchain) -> None:
        self.tools = tools
        self._children: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every child; later runs end at once."""
        with self._guard:
            self._stopped = True
            children = list(self._children)
        for child in children:
            _end(child)

    def run(self, task: Task, on_progress: Callable[[int], None] | None = None) -> Run:
        """Run one task to its end, its time-out or `stop`. `on_progress` gets distinct states."""
        assert task.root in task.modules, f"no module {task.root}"
        assert not (task.liveness and "-dfid" in task.extra), "-dfid leaves liveness out"
        start = time.monotonic()
        private = Path(tempfile.mkdtemp(prefix="lychgate-tlc-"))
        try:
            return self._run_in(private, task, on_progress, start)
        finally:
            shutil.rmtree(private, ignore_errors=True)

    def _run_in(
        self, private: Path, task: Task, on_progress: Callable[[int], None] | None, start: float
    ) -> Run:
        place(private / "spec", task.modules)
        (private / "spec" / "MODEL.cfg").write_text(task.config, encoding="utf-8")
        output = Output(on_progress=on_progress)
        timed_out = threading.Event()
        with (private / "stderr").open("w+", encoding="utf-8", errors="replace") as stderr:
            child = self._start(self._command(private, task), private / "spec", stderr)
            timer = _timer(child, task.timeout_s, timed_out)
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    output.feed(line)
                code = child.wait()
            finally:
                timer.cancel()
                _end(child)
                child.stdout.close()
                with self._guard:
                    self._children.discard(child)
            output.finish()
            stderr.seek(0)
            said = stderr.read()
        verdict = self._judge(task, output, code, said, timed_out.is_set())
        return Run(verdict, time.monotonic() - start, output)

    def _judge(
        self, task: Task, output: Output, code: int, stderr: str, timed_out: bool
    ) -> Verdict:
        if self._stopped:
            return Verdict("error", kind="stopped", detail="stopped before its end")
        if timed_out:
            return Verdict("error", kind="timeout", detail=f"no verdict in {task.timeout_s:.0f} s")
        properties = cfg.parse(task.config).properties
        only = properties[0] if len(properties) == 1 else ""
        liveness = None if task.lenient else task.liveness
        return judge(output, code, stderr, liveness, only)

    def _command(self, private: Path, task: Task) -> list[str]:
        java = [
            str(self.tools.java),
            "-Xss8m",
            f"-Xmx{task.memory}",
            *(["-XX:TieredStopAtLevel=1"] if task.small else []),
            "-XX:+UseParallelGC",
            *archive.flags(self.tools.archive),
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:GCTimeLimit=90",
            "-XX:GCHeapFreeLimit=5",
            f"-Djava.io.tmpdir={private}",
            f"-Duser.home={private}",
            "-cp",
            str(self.tools.jar),
        ]
        tlc = ["tlc2.TLC", "-tool", "-metadir", str(private / "meta"), "-fp", "0", "-workers", "1"]
        tlc += ["-checkpoint", "0"]
        tlc += ["-lncheck", "final"] if task.liveness else []
        tlc += ["-coverage", "1"] if task.coverage else []
        tlc += [] if task.deadlock else ["-deadlock"]
        return [*java, *tlc, *task.extra, "-config", "MODEL.cfg", f"{task.root}.tla"]

    def _start(self, command: list[str], directory: Path, stderr: IO[str]) -> subprocess.Popen[str]:
        with self._guard:
            child = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=environment(),
                start_new_session=True,
            )
            self._children.add(child)
            stopped = self._stopped
        if stopped:
            _end(child)
        return child


def place(directory: Path, modules: Mapping[str, str]) -> None:
    """Write the modules, flat, one file each."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, source in modules.items():
        (directory / f"{name}.tla").write_text(source, encoding="utf-8")


def _timer(
    child: subprocess.Popen[str], timeout_s: float | None, timed_out: threading.Event
) -> threading.Timer:
    def expire() -> None:
        timed_out.set()
        _end(child)

    timer = threading.Timer(timeout_s if timeout_s is not None else 1e6, expire)
    timer.daemon = True
    timer.start()
    return timer


def _end(child: subprocess.Popen[str]) -> None:
    """Kill a child's process group; harmless when it is gone."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    child.wait()
