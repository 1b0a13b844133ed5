"""The copy that drops ids, against its definition, for any ids and any chunking (D12, D25, D26)."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lychgate._dead import _Choosing, _Dropping
from lychgate._lines import all_valid, is_valid, seal
from lychgate._records import JSON, DeadTask, dead_line, id_text, record_id

ids = st.one_of(
    st.text(alphabet='ab"\\:\n\0é\ud800', min_size=1, max_size=4),
    st.sampled_from(["a", 'a"', 'a\\', 'a\\"', '"', "\\", '\\"']),
)


def _line(task_id: str, context: object) -> bytes:
    return dead_line(JSON, DeadTask(task_id, "t", 1, context, "E", task_id, 1.0))


lines = st.one_of(
    st.builds(_line, ids, st.one_of(ids, st.none())),
    st.sampled_from([b"\n", seal(b""), seal(b'{"task_id":"a'), seal(b"foreign"), b"00000000:x\n"]),
    ids.map(lambda task_id: b"0" + _line(task_id, None)),
)


@given(st.lists(lines, max_size=8), st.sets(ids, max_size=3), st.lists(st.integers(0, 400)))
def test_drops_every_record_of_the_ids_and_nothing_else(
    content: list[bytes], wanted: set[str], cuts: list[int]
) -> None:
    """D12, D26: bad lines go, records of the ids go and are counted once, the rest stays."""
    data = b"".join(content) + b"torn"
    keys = frozenset(id_text(task_id) for task_id in wanted)
    kept, found, bad = b"", set(), 0
    for line in content:
        task_id = record_id(line[9:-1]) if is_valid(line[:-1]) else None
        if not is_valid(line[:-1]):
            bad += 1
        elif task_id in keys:
            found.add(task_id)
        else:
            kept += line
    copier = _Dropping(keys)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    written = b"".join(copier.feed(data[start:end]) for start, end in pairwise(edges))
    assert (written, copier.found, copier.bad) == (kept, found, bad)


@given(st.lists(lines, max_size=8), st.sets(st.integers(0, 7)), st.integers(1, 200))
def test_drops_the_chosen_records_and_nothing_else(
    content: list[bytes], numbers: set[int], size: int
) -> None:
    """D12, D26: of the valid lines those that are chosen, each counted, whatever their ids."""
    data = b"".join(content) + b"torn"
    chosen = {line[9:-1] for n, line in enumerate(content) if n in numbers}
    valid = [line for line in content if is_valid(line[:-1])]
    kept = [line for line in valid if line[9:-1] not in chosen]
    copier = _Choosing(lambda body: body in chosen)
    written = b"".join(copier.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert (written, copier.count) == (b"".join(kept), len(valid) - len(kept))
    assert copier.bad == len(content) - len(valid)


@given(st.lists(lines.map(lambda line: line[:-1]), max_size=6))
def test_all_valid_is_every_one_valid(texts: list[bytes]) -> None:
    """D12: the fast answer for many lines is the slow one."""
    assert all_valid(texts) == all(is_valid(text) for text in texts)
