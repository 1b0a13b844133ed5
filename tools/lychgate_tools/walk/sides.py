"""Which side of the engine stands beside which model, and which models have none, with the reason.

Every quick model that must hold is walked, or named here: `lychgate walk` prints both lists.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from lychgate import _lock
from lychgate_tools.manifest import Model
from lychgate_tools.tlc import cfg
from lychgate_tools.walk import (
    composed,
    delivery,
    delivery_leases,
    delivery_space,
    ids,
    queue,
    sql,
    sql_graph,
    store,
    wal,
)
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Side

SIDES: dict[str, Callable[[Graph, str], Side]] = {
    "MC_Lock": store.Side,
    "MC_DeadTasks": store.Side,
    "Wal": wal.Side,
    "WalIds": ids.Side,
    "Queue": queue.Side,
    "Store": composed.Side,
    "Sql": sql.Side,
    "Delivery": delivery.Side,
    "DeliverySpace": delivery_space.Side,
    "DeliverySpec": delivery_leases.Side,
}
"""The engine's side, by root module; called with the graph and the text of the model file."""

_TRIES = 2  # attempts on a lock where the model does not count them

_WITHOUT_ENGINE = {
    "BackendSpec": "a promise without steps of its own: Queue and Store refine it",
}


def possible(models: tuple[Model, ...]) -> list[Model]:
    """The quick models that must hold: those that a walk is asked for."""
    return [model for model in models if model.positive and model.time_class == "quick"]


def excluded(model: Model) -> str:
    """Why a model is not walked; empty if it is."""
    if not model.positive:
        return "it must fail, and the engine must not"
    if model.module.endswith("Broken"):
        return "a design that was rejected: no engine is built so"
    if plain(model.module, "")[0] in SIDES:
        return ""
    return _WITHOUT_ENGINE.get(model.module, f"module {model.module} has no side of the engine")


def walked(root: str, graph: Graph) -> Graph:
    """The part of a graph that the engine's side can take: of Sql, what one writer leaves."""
    return sql_graph.atomic(graph) if root == "Sql" else graph


def plain(root: str, config: str) -> tuple[str, str]:
    """Root module and model file of the graph to walk.

    WalRefines computes two more variables out of the others in each step, and TLC does not name the
    actions inside. The same model without them has the same states and steps, and names.
    """
    if root != "WalRefines":
        return root, config
    for refined, name in (("RefSpec", "WalSystem"), ("RefLeftSpec", "LeftSystem")):
        config = re.sub(rf"SPECIFICATION {refined}\b", f"SPECIFICATION {name}", config)
    return "Wal", config


@contextmanager
def constants(config: str) -> Iterator[None]:
    """The engine with the model's constants, the cap of the retry loop (D14), and without a log."""
    tries = int(cfg.constant(config, "MaxTries") or _TRIES)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", tries))
        log = logging.getLogger("lychgate.queue")
        stack.enter_context(mock.patch.object(log, "disabled", True))
        yield
