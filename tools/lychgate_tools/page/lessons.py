"""The scenarios of `lychgate explain`: question, where the trace comes from, rule, guards.

    Mutant   a fault planted in the engine, in the run of the lab that is known to show it
    Engine   the engine as it is, up to a moment at which all processes end
    Model    a model of the manifest; with `extra`, a module on top that TLC is given besides
    Program  a litmus program under one persistence model

Nothing here says how a trace goes: that is found by TLC or by the lab whenever it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lychgate_conformance.lab._image import Image
from lychgate_tools.page.from_litmus import Promise


@dataclass(frozen=True)
class Mutant:
    name: str


@dataclass(frozen=True)
class Engine:
    workload: str
    until: str
    """The entry of the run after which all processes end."""


@dataclass(frozen=True)
class Model:
    name: str
    extra: str = ""
    """Definitions of a module that extends the model's own."""
    changes: tuple[tuple[str, str], ...] = ()
    """Lines of the model file, and what stands there instead; an empty one is put at the end."""


@dataclass(frozen=True)
class Program:
    name: str
    model: str
    promise: Promise
    about: str


@dataclass(frozen=True)
class Lesson:
    """`guards` are (kind, name) pairs; `says` is the verdict where a tool's own words are not
    enough."""

    name: str
    title: str
    question: str
    source: Mutant | Engine | Model | Program
    rule: str
    guards: tuple[tuple[str, str], ...]
    says: str = ""
    holds: bool = False
    """Whether the promise is kept: most lessons are about how it is not."""


def _whole(image: Image, ended: bool) -> str:
    """f is the old file or the new one, whole."""
    content = image.get("f")
    if content in (b"a" * 10, b"b" * 100):
        return ""
    return "f is neither the old file nor the new one"


def _renamed(image: Image, ended: bool) -> str:
    """Once fdatasync has returned, f is the new file with its last change."""
    content = image.get("f")
    return "" if not ended or content == b"c" * 100 else "the old f is back after fdatasync"


_BACK = """
PlanBack == <<{Add("b")}, {Remove("a")}, {Remove("b")}>>
\\* One call after another, the first and the last by w1.
TakeTurns ==
  \\A w \\in Workers :
    pc[w]["f1"] = "idle" /\\ pc'[w]["f1"] # "idle" =>
      /\\ \\A v \\in Workers \\ {w} : pc[v]["f1"] \\in Rest
      /\\ (left.calls = 2) = (w = "w2")
"""

_RECOVERED = """
PlanOne == <<{<<"remove", "a">>}, {<<"list", "">>}>>
CrashOnce == [kills |-> 0, crashes |-> 1]
\\* The power fails while the live file is empty and the journal is durable.
CrashWhenCut ==
  left'.crashes < left.crashes => FsSeen(fs', "live") = << >> /\\ FsExists(fs', "tmp")
NotRecoveredYet == ~(left.crashes = 0 /\\ job.op = "list" /\\ pc = "start")
"""

LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "torn-append",
        "A torn append",
        "A record was appended with one write, and the writer told its caller so. The power fails "
        "before anybody calls fsync. What may the file hold afterwards?",
        Mutant("no-fsync-data"),
        "A write that was not synced may be there, absent, cut at any byte, or there as NULs of "
        "the right length. So fsync before the acknowledgement, and let a checksum and a "
        "terminator tell a whole record from a torn one.",
        (
            ("requirement", "D10"), ("requirement", "D28"), ("invariant", "AcknowledgedSurvives"),
            ("model", "DeadTasksNoFsyncData"), ("mutant", "no-fsync-data"),
            ("case", "L3-DLQ-001"),
        ),  # fmt: skip
    ),
    Lesson(
        "append-after-torn-tail",
        "An append after a torn tail",
        "A crash has left half a line at the end of the file. The next writer simply appends its "
        "record, and fsyncs. Can anybody read that record?",
        Mutant("no-tail-repair"),
        "Whoever appends looks first whether the file ends in a newline, and cuts the fragment off "
        "if it does not. Otherwise the new line is glued to the fragment and neither is valid.",
        (
            ("requirement", "D11"), ("invariant", "AcknowledgedSurvives"),
            ("model", "DeadTasksNoTailRepair"), ("mutant", "no-tail-repair"),
        ),  # fmt: skip
    ),
    Lesson(
        "ghost-inode",
        "The ghost inode",
        "Each worker opens the data file once, keeps the descriptor and locks the file through it. "
        "Another worker replaces the file by rename. Where do further appends go?",
        Model("DeadTasksGhostInode"),
        "A descriptor is bound to an inode, never to a path. Lock a file that is never renamed, "
        "and open the data file by its path under that lock, every time.",
        (
            ("requirement", "D13"), ("requirement", "D20"), ("invariant", "NoGhostWrite"),
            ("model", "DeadTasksGhostInode"), ("mutant", "ghost-inode"), ("mutant", "cached-data"),
        ),  # fmt: skip
        "NoGhostWrite is broken: what is written next goes to an inode that no name leads to.",
    ),
    Lesson(
        "ghost-renamed-back",
        "The ghost is renamed back",
        "The same design: the data file is its own lock, through a descriptor that is kept. A "
        "removed record was acknowledged as gone. Can a compaction by another worker revive it?",
        Model(
            "DeadTasksGhostRename",
            _BACK,
            (
                ("Plan <- PlanGhostRename", "Plan <- PlanBack"),
                ("INVARIANTS AcknowledgedSurvives", "INVARIANTS AbsentStaysAbsent"),
                ("", "ACTION_CONSTRAINTS TakeTurns"),
            ),
        ),
        "A compaction copies what it reads; through a stale descriptor it reads the ghost, and its "
        "rename puts the ghost's records back over the live file. Open by path, under the lock.",
        (
            ("requirement", "D20"), ("invariant", "AbsentStaysAbsent"),
            ("invariant", "AcknowledgedSurvives"), ("model", "DeadTasksGhostRename"),
            ("mutant", "ghost-inode"),
        ),  # fmt: skip
        "AbsentStaysAbsent is broken: a was promised to be absent, and is back under the "
        "live name.",
    ),
    Lesson(
        "in-place-rewrite",
        "Rewriting in place",
        "A compaction cuts the file to nothing and writes what is to stay, then fsyncs. Its "
        "process is killed, or the power fails, in between. What is left of the records?",
        Mutant("in-place"),
        "Never make the only copy shorter than it has to be. Write a new file, fsync it, rename "
        "it over the old one, fsync the directory: at every moment one whole file has the name.",
        (
            ("requirement", "D12"), ("requirement", "D20"), ("invariant", "AcknowledgedSurvives"),
            ("model", "DeadTasksInPlace"), ("mutant", "in-place"),
        ),  # fmt: skip
    ),
    Lesson(
        "rename-without-fsync",
        "Rename without fsync",
        "A new file is written and renamed over the old one; rename is atomic. Is the content of "
        "f after a power failure always the old one or the new one?",
        Program("replace-no-fsync", "portable", _whole, "f is the old file or the new one, whole"),
        "Rename is atomic about names and says nothing about content: the name may be durable "
        "before the bytes. fsync the file before you rename it.",
        (
            ("requirement", "D12"), ("litmus", "replace-no-fsync"),
            ("model", "DeadTasksNoFsyncStaging"), ("mutant", "no-fsync-staging"),
            ("mutant", "rename-before-fsync"),
        ),  # fmt: skip
    ),
    Lesson(
        "rename-without-directory-fsync",
        "Rename without fsync of the directory",
        "A record is removed: the new file is written, fsynced and renamed over the old one, and "
        "the caller is told that the record is gone. Is it, after a power failure?",
        Mutant("no-dir-fsync"),
        "A rename changes the directory; an fsync of the file does not promise it. fsync the "
        "directory before you acknowledge.",
        (
            ("requirement", "D12"), ("requirement", "D18"), ("invariant", "AbsentStaysAbsent"),
            ("model", "DeadTasksNoFsyncDir"), ("mutant", "no-dir-fsync"), ("case", "L3-DLQ-002"),
        ),  # fmt: skip
    ),
    Lesson(
        "fdatasync-after-rename",
        "fdatasync after rename",
        "The new file was renamed over f, a byte of it was changed, and fdatasync on it has "
        "returned. On ext4: may the old f be back after a power failure?",
        Program(
            "fdatasync-after-rename", "ext4-ordered", _renamed,
            "after fdatasync f is the new file with its last change",
        ),  # fmt: skip
        "fdatasync leaves out metadata that is not needed to read the data, and a name is not. It "
        "never makes a rename durable: fsync the directory.",
        (
            ("requirement", "D12"), ("litmus", "fdatasync-after-rename"),
            ("mutant", "fdatasync-after-rename"),
        ),  # fmt: skip
    ),
    Lesson(
        "handoff-wrong-order",
        "The handoff in the wrong order",
        "A task gives up: it is removed from the log of tasks, then written to the dead-task "
        "store. The worker is killed between the two. Where is the task?",
        Mutant("remove-first"),
        "Add to the new place first, and remove from the old one when the add is durable. A crash "
        "in between then leaves the task twice, never nowhere.",
        (
            ("requirement", "U3"), ("invariant", "NoGivenUpLoss"), ("model", "QueueRemoveFirst"),
            ("mutant", "remove-first"), ("case", "L3-HANDOFF-001"),
        ),  # fmt: skip
    ),
    Lesson(
        "handoff-crash",
        "A crash within the handoff",
        "The right order: the dead-task store has the task, durably, and then the worker is "
        "killed before it could remove the task from its log. What does the next start find?",
        Engine("new;0;task:t,giveup:t", "add:t returns"),
        "At least once is what two stores without a common commit can promise: duplicates are "
        "possible, loss is not. So removal drops all records of an id, and finding one gives the "
        "newest.",
        (
            ("requirement", "U3"), ("requirement", "D26"), ("invariant", "NoGivenUpLoss"),
            ("case", "L3-HANDOFF-001"), ("mutant", "unburied"),
        ),  # fmt: skip
        "Nothing is lost: the task is in both stores. At least once, not exactly once.",
        holds=True,
    ),
    Lesson(
        "fibers-sharing-a-lock",
        "Fibers that share a lock descriptor",
        "Two threads of one process use one open lock file. Both ask flock for the exclusive lock, "
        "without waiting. How many of them get it?",
        Model("LockNoFlag"),
        "flock belongs to the open file description: who shares it, shares the lock. Within a "
        "process a flag in memory must exclude the fibers, taken before the lock and freed by its "
        "taker alone.",
        (
            ("requirement", "D15"), ("invariant", "MutualExclusion"), ("model", "LockNoFlag"),
            ("mutant", "no-flag"),
        ),  # fmt: skip
        "MutualExclusion is broken: both fibers have the lock.",
    ),
    Lesson(
        "unlinked-lock-file",
        "The lock file that is unlinked",
        "A tidy program deletes its lock file when it has released it. Somebody else has it open "
        "already and waits. Who excludes whom afterwards?",
        Model("LockUnlinkedOnRelease"),
        "An unlinked lock file still locks those who have it open, and a new file of the same name "
        "locks everybody else. Never unlink, rename or replace a lock file.",
        (
            ("requirement", "D13"), ("requirement", "D24"), ("invariant", "MutualExclusion"),
            ("model", "LockUnlinkedOnRelease"), ("mutant", "lock-unlinked"),
        ),  # fmt: skip
        "MutualExclusion is broken: each worker has locked a file of its own.",
    ),
    Lesson(
        "fork-with-a-lock",
        "Fork with a lock",
        "A process forks while it holds the lock, and the child goes on with the descriptor that "
        "it inherited. Does flock part the two?",
        Model("LockForkShares"),
        "A forked child has copies of the same open file descriptions, and so of the same locks. "
        "It must close them at once and open its own.",
        (
            ("requirement", "D23"), ("invariant", "MutualExclusion"), ("model", "LockForkShares"),
            ("mutant", "fork-shares-lock"), ("mutant", "fork-keeps-lock"),
        ),  # fmt: skip
        "MutualExclusion is broken: parent and child have the lock at once.",
    ),
    Lesson(
        "fsync-failure",
        "An fsync that fails",
        "An fsync fails with EIO, and the add says so. The next add finds the file as it should "
        "be, appends, and its fsync succeeds. Is that record safe?",
        Mutant("mark-not-set-by-add"),
        "After a failed fsync the kernel may count the lost pages as clean: reads show them, and "
        "no later fsync writes them. Believe nothing that you read back; write the live content "
        "to a new file, fsync and publish it, before anything is acknowledged again.",
        (
            ("requirement", "W9"), ("requirement", "D32"), ("invariant", "AcknowledgedSurvives"),
            ("model", "DeadTasksFailedFsyncClean"), ("model", "WalBelieved"),
            ("mutant", "mark-not-set-by-add"),
        ),  # fmt: skip
    ),
    Lesson(
        "journal-without-recovery",
        "A journal, and nobody who recovers",
        "To keep the live inode, what is to stay goes to a journal first, durably; then the live "
        "file is cut and filled in place. Is a durable journal enough?",
        Model("JournalNoRecovery"),
        "A journal protects only if whoever comes next looks for it first and copies it back. "
        "Until then the live file may be anything.",
        (
            ("requirement", "D21"), ("invariant", "AcknowledgedSurvives"),
            ("model", "JournalNoRecovery"),
        ),  # fmt: skip
    ),
    Lesson(
        "journal-with-recovery",
        "A journal with recovery",
        "The power fails when the live file has been cut to nothing and not filled again. The "
        "next worker recovers first. What does it have to do, and in which order?",
        Model(
            "Journal",
            _RECOVERED,
            (
                ("Plan <- PlanTwo", "Plan <- PlanOne"),
                ("Budget <- KillCrash", "Budget <- CrashOnce"),
                ("PROPERTIES AbstractSpec", "ACTION_CONSTRAINTS CrashWhenCut"),
                ("", "INVARIANTS NotRecoveredYet"),
            ),
        ),
        "Recovery makes the journal durable itself before it believes it, copies it back, fsyncs, "
        "and makes the journal void, durably, before it unlinks it: an unlink can come undone.",
        (
            ("requirement", "D21"), ("invariant", "AcknowledgedSurvives"), ("model", "Journal"),
            ("model", "JournalComesBack"), ("model", "JournalRecoversUnsynced"),
        ),  # fmt: skip
        "The promise holds: the record that stays is read again after the crash.",
        holds=True,
    ),
)
"""All scenarios, in the order of a course."""

BY_NAME = {lesson.name: lesson for lesson in LESSONS}
