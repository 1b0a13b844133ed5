"""A spec of two workers and a lock, small enough to check in a second, with models that pass and
models that must not."""

from __future__ import annotations

from pathlib import Path

MODULE = r"""---- MODULE Tiny ----
EXTENDS Naturals
CONSTANTS Workers, Max
VARIABLES pc, held, n
vars == <<pc, held, n>>

Init == pc = [w \in Workers |-> "idle"] /\ held = {} /\ n = 0

LockTry(w) ==
  /\ pc[w] = "idle"
  /\ held = {}
  /\ n < Max
  /\ held' = {w}
  /\ pc' = [pc EXCEPT ![w] = "in"]
  /\ UNCHANGED n

Unlock(w) ==
  /\ pc[w] = "in"
  /\ held' = held \ {w}
  /\ pc' = [pc EXCEPT ![w] = "idle"]
  /\ n' = n + 1

\* The lock is not asked for.
Barge(w) ==
  /\ pc[w] = "idle" /\ n < Max
  /\ held' = held \cup {w}
  /\ pc' = [pc EXCEPT ![w] = "in"]
  /\ UNCHANGED n

Done == n = Max /\ UNCHANGED vars

Step(w) == LockTry(w) \/ Unlock(w)
Next == (\E w \in Workers : Step(w)) \/ Done
Fairness == \A w \in Workers : WF_vars(Step(w))
Spec == Init /\ [][Next]_vars /\ Fairness
BadSpec == Init /\ [][Next \/ \E w \in Workers : Barge(w)]_vars
LazySpec == Init /\ [][Next]_vars

TypeOK == n \in 0..Max /\ pc \in [Workers -> {"idle", "in"}] /\ held \in SUBSET Workers
Mutex == \A v, w \in Workers : pc[v] = "in" /\ pc[w] = "in" => v = w
Counts == [][n' \in {n, n + 1}]_vars
Ends == <>(n = Max)
Vacuous == n >= 0
====
"""

MODELS = {
    "Good": ("Spec", "INVARIANTS TypeOK Mutex\nPROPERTIES Counts Ends", "ok", "liveness = true"),
    "Barged": ("BadSpec", "INVARIANTS Mutex", "violates Mutex", ""),
    "Lazy": ("LazySpec", "PROPERTY Ends", "violates Ends", "liveness = true"),
}
NUMBERS = {
    "Good": {"distinct": 7, "depth": 5},
    "Barged": {"trace_length": 3},
    "Lazy": {"trace_length": 4},
}


def write(root: Path, module: str = MODULE, numbers: dict[str, dict[str, int]] = NUMBERS) -> Path:
    """The spec in a directory; `--spec` takes what this returns."""
    (root / "models").mkdir(parents=True)
    (root / "Tiny.tla").write_text(module)
    entries = []
    for name, (behaviour, checked, expect, more) in MODELS.items():
        (root / "models" / f"{name}.cfg").write_text(
            f"SPECIFICATION {behaviour}\nCONSTANTS Workers = {{w1, w2}}\n  Max = 2\n{checked}\n"
        )
        measured = "".join(f"{key} = {value}\n" for key, value in numbers.get(name, {}).items())
        entries.append(
            f'[[model]]\nname = "{name}"\nmodule = "Tiny"\nconfig = "models/{name}.cfg"\n'
            f'expect = "{expect}"\nclass = "quick"\n{measured}{more}\n'
        )
    (root / "manifest.toml").write_text("\n".join(entries))
    return root
