"""A plan: everything that fixes one run, as a value with a text form that replays it.

    {"target": …, "model": …, "workload": …, "setting": {…}, "fault": […],
     "phases": [[choices, image, how], …]}

A phase is a list of choices and how it ended: with a host crash that left the image of this digest,
with the end of all processes (`kill`), or by the violation itself (neither). The target is `engine`
or the name of a mutant. The setting holds what differs from its defaults.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields

from lychgate_conformance.lab._faults import Fault, Lasting, Loss
from lychgate_conformance.lab._workload import Workload, parse_workload


@dataclass(frozen=True, slots=True)
class Phase:
    """The choices up to a crash, and the image that it left."""

    choices: tuple[int, ...]
    image: str | None
    how: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run needs to know besides its workload. The explorer takes it from its bounds."""

    kills: int = 0
    revive: str = ""
    """Steps of a new process after a kill."""
    second: str = "list,pending,add:z,list"
    """Steps of the first process after a host crash that a second one follows."""
    attempts: int = 3
    """On the lock of the dead-task store, before it times out."""
    rotate: int = 1 << 40
    """The size in bytes from which on a WAL file is rotated."""
    images_max: int = 50_000
    torn_max: int = 4096
    sample: int = 2_000
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    target: str
    model: str
    workload: Workload
    fault: Fault | None
    phases: tuple[Phase, ...]
    setting: Setting = Setting()

    def then(self, phase: Phase) -> Plan:
        return replace(self, phases=(*self.phases, phase))

    def __str__(self) -> str:
        fault = self.fault
        fields = {
            "target": self.target,
            "model": self.model,
            "workload": str(self.workload),
            "fault": None
            if fault is None
            else [
                fault.at, fault.code, fault.keep, fault.lasting.value, fault.loss.value, fault.lost
            ],  # fmt: skip
            "setting": {
                field.name: getattr(self.setting, field.name)
                for field in dataclass_fields(Setting)
                if getattr(self.setting, field.name) != field.default
            },
            "phases": [[_packed(phase.choices), phase.image, phase.how] for phase in self.phases],
        }
        return json.dumps(fields, separators=(",", ":"))


def parse_plan(text: str) -> Plan:
    """The plan behind its text; ValueError when it is none."""
    try:
        fields = json.loads(text)
        fault = fields["fault"]
        return Plan(
            str(fields["target"]),
            str(fields["model"]),
            parse_workload(fields["workload"]),
            None
            if fault is None
            else Fault(fault[0], fault[1], fault[2], Lasting(fault[3]), Loss(fault[4]), fault[5]),
            tuple(Phase(_unpacked(c), image, how) for c, image, how in fields["phases"]),
            Setting(**fields.get("setting", {})),
        )
    except (KeyError, TypeError, IndexError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"this is no plan: {error!r}") from error


def _packed(choices: tuple[int, ...]) -> list[object]:
    """Runs of zeros as text, "12x" for twelve of them."""
    found: list[object] = []
    zeros = 0
    for choice in choices:
        if choice == 0:
            zeros += 1
            continue
        if zeros:
            found.append(f"{zeros}x")
        found.append(choice)
        zeros = 0
    if zeros:
        found.append(f"{zeros}x")
    return found


def _unpacked(packed: list[object]) -> tuple[int, ...]:
    found: list[int] = []
    for item in packed:
        if isinstance(item, str):
            found += [0] * int(item.removesuffix("x"))
        elif isinstance(item, int):
            found.append(item)
        else:
            raise ValueError(f"no choice: {item!r}")
    return tuple(found)
