"""Image enumeration: against a brute-force search, counts, bounds, mounting, writing out (F1)."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from lab.brute_force import brute
from lychgate_conformance.lab._enumerate import image_set
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import (
    DIRECTORY,
    Content,
    Symlink,
    cached_image,
    image_of,
)
from lychgate_conformance.lab._micro import (
    ROOT,
    Growth,
    Kind,
    Recorder,
    Scope,
    SizeSet,
    Sync,
)
from lychgate_conformance.lab._models import PORTABLE, find_model

STEPWISE = find_model("posix-min")

# --- random programs ------------------------------------------------------------------------------

NAMES = st.sampled_from("fgh")
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("append"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("write"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("unlink"), NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("fsync"), NAMES),
    st.tuples(st.just("fsync_dir")),
)


def play(steps: list[tuple[object, ...]], unit: int = 4096) -> Recorder:
    """Do what is possible of the steps on a disk with one durable file."""
    disk = image_of({"f": b"base"}).mount(unit)
    entries = disk.nodes[ROOT].entries
    for number, (kind, *words) in enumerate(steps):
        letter = bytes([ord("A") + number])
        name = str(words[0]) if words else ""
        if kind == "create":
            if name not in entries:
                disk.create(ROOT, name)
        elif kind == "fsync_dir":
            disk.sync(Scope.DIR)
        elif name in entries:
            inode = entries[name]
            if kind == "append":
                data = letter * int(str(words[1]))
                disk.write(inode, len(disk.nodes[inode].data), data)
            elif kind == "write":
                offset = min(int(str(words[1])), len(disk.nodes[inode].data))
                disk.write(inode, offset, letter)
            elif kind == "unlink":
                disk.unlink(ROOT, name)
            elif kind == "rename":
                disk.rename(ROOT, name, ROOT, str(words[1]))
            else:
                disk.sync(Scope.FILE, inode)
    return disk


@settings(max_examples=250, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_the_free_order_is_every_subset(steps: list[tuple[object, ...]]) -> None:
    """F1: products of versions, sizes and bindings give what all subsets give."""
    disk = play(steps)
    if len(disk.log) > 13:
        return
    model = find_model("portable")
    plain = type(model)("atomic", model.order, split_cross_rename=True)
    found = list(image_set(disk, plain).images())
    assert len(found) == len(set(found))
    assert set(found) == brute(disk, "posix")


def grows_inside_a_durable_block(disk: Recorder) -> bool:
    return any(
        isinstance(op, SizeSet)
        and op.growth is Growth.IN
        and (op.before <= 4096 and _durable_at(disk, op))
        for op in disk.log
    )


def _durable_at(disk: Recorder, op: SizeSet) -> bool:
    node = disk.nodes[op.inode]
    synced = any(
        isinstance(s, Sync) and s.scope is Scope.FILE and s.inode == op.inode
        for s in disk.log[: op.index]
    )
    return bool(node.base_size) or synced


@settings(max_examples=250, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_the_journal_is_every_legal_subset(steps: list[tuple[object, ...]]) -> None:
    """F1: where every growth is into a block that a crash may leave unallocated, the ext4 model is
    the rule of crash-semantics §3 applied to all subsets."""
    disk = play(steps)
    if len(disk.log) > 13 or grows_inside_a_durable_block(disk):
        return
    assert set(image_set(disk, find_model("ext4-ordered")).images()) == brute(disk, "journal")


def test_small_units_tear_where_pages_do_not() -> None:
    """F1: a device that writes 512 bytes whole, in place of 4096."""
    for knob, tears in (("", False), ("+512", True)):
        model = find_model(f"posix-min{knob}")
        disk = image_of({"f": b"a" * 600}).mount(model.unit)
        disk.write(disk.nodes[ROOT].entries["f"], 0, b"b" * 600)
        found = {image.get("f") for image in image_set(disk, model).images()}
        assert (b"b" * 512 + b"a" * 88 in found) is tears
        assert {b"a" * 600, b"b" * 600} <= found


def test_single_bytes_tear_in_any_way() -> None:
    """F1: a unit of one byte gives every mixture of old and new."""
    model = find_model("posix-min+1")
    disk = image_of({"f": b"aaaa"}).mount(model.unit)
    disk.write(disk.nodes[ROOT].entries["f"], 0, b"bbbb")
    assert len(set(image_set(disk, model).images())) == 16


def test_knobs_are_put_behind_a_name() -> None:
    """F1: several at a time; what does not exist is named."""
    model = find_model("xfs+512+garbage+lying")
    assert (model.name, model.unit, len(model.fills)) == ("xfs+512+garbage+lying", 512, 2)
    assert model.lying_flush
    with pytest.raises(ValueError, match="unknown knob 'x'"):
        find_model("xfs+x")
    with pytest.raises(ValueError, match="unknown persistence model 'zfs'"):
        find_model("zfs+1")


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=7))
def test_a_bounded_set_is_part_of_the_whole(steps: list[tuple[object, ...]]) -> None:
    """F1: what replaces a set that is too large invents nothing, and says that it is partial."""
    disk = play(steps)
    for name in ("portable", "ext4-ordered", "xfs", "btrfs"):
        model = find_model(name)
        whole = image_set(disk, model)
        assert not whole.partial or "torn writes" in whole.partial
        cut = image_set(disk, model, limits=Limits(images_max=0, sample=20, torn_files_max=9))
        assert cut.partial
        everything = image_set(disk, model, limits=Limits(torn_files_max=9))
        assert set(cut.images()) <= set(everything.images()), name
        assert cached_image(disk) in set(cut.images())


# --- the portable model, exactly ------------------------------------------------------------------


def contents(disk: Recorder, name: str = "f", **limits: int) -> set[object]:
    return {i.get(name) for i in image_set(disk, PORTABLE, limits=Limits(**limits)).images()}


def test_portable_has_every_prefix_and_the_same_length_as_nuls() -> None:
    """D28: the last write may be torn at any byte, or its length come without its bytes."""
    disk = image_of({"f": b"old"}).mount()
    disk.write(disk.nodes[ROOT].entries["f"], 3, b"NEW")
    expected = {b"old" + b"NEW"[:n] for n in range(4)} | {b"old" + bytes(n) for n in range(4)}
    assert contents(disk) == expected


def test_an_earlier_write_of_the_same_unit_comes_along_or_not_at_all() -> None:
    """F1: the page cache writes pages; only the last write can be torn inside one."""
    disk = image_of({"f": b""}).mount()
    inode = disk.nodes[ROOT].entries["f"]
    disk.write(inode, 0, b"ab")
    disk.write(inode, 2, b"cd")
    assert contents(disk) == {
        b"", b"ab", b"abc", b"abcd", b"\0\0", b"\0\0\0", b"\0\0\0\0", b"ab\0", b"ab\0\0",
    }  # fmt: skip


def test_an_overwrite_may_be_torn_between_old_and_new() -> None:
    """D32: the mark is written in place."""
    disk = image_of({"f": b"oldold"}).mount()
    disk.write(disk.nodes[ROOT].entries["f"], 0, b"NEW")
    assert contents(disk) == {b"oldold", b"Nldold", b"NEdold", b"NEWold"}


def test_what_this_inode_held_before_may_come_back() -> None:
    """D29: truncate, append without its bytes: zeros or the old bytes."""
    disk = image_of({"f": b"line\ntorn"}).mount()
    inode = disk.nodes[ROOT].entries["f"]
    disk.truncate(inode, 5)
    disk.write(inode, 5, b"new\n")
    found = contents(disk)
    assert {b"line\ntorn", b"line\nnew\n", b"line\n\0\0\0\0", b"line\n", b"line\nne"} <= found
    disk.sync(Scope.FILE, inode)
    assert contents(disk) == {b"line\nnew\n"}


def test_hidden_bytes_are_carried_to_the_next_mount() -> None:
    """D29: an image knows what its files hold beyond their end."""
    disk = image_of({"f": b"a"}).mount()
    disk.write(disk.nodes[ROOT].entries["f"], 1, b"bc")
    (short,) = [i for i in image_set(disk, PORTABLE).images() if i.get("f") == b"a"]
    assert short.hidden == {"f": b"bc"}
    again = short.mount()
    again.write(again.nodes[ROOT].entries["f"], 1, b"XY")
    assert {b"abc", b"aXY", b"a\0\0", b"a"} <= contents(again)


def test_a_rename_inside_a_directory_is_atomic_and_two_names_are_not() -> None:
    """F1."""
    disk = image_of({"f": b"1", "g": b"2"}).mount()
    disk.rename(ROOT, "g", ROOT, "f")
    assert {tuple(i.files().items()) for i in image_set(disk, PORTABLE).images()} == {
        (("f", b"1"), ("g", b"2")),
        (("f", b"2"),),
    }
    assert len(list(image_set(disk, STEPWISE).images())) == 6


def test_a_file_is_lost_with_its_directory() -> None:
    """D22: every directory on the way must be durable in its parent."""
    disk = Recorder()
    parent = disk.create(ROOT, "d", Kind.DIR).number
    inode = disk.create(parent, "f").number
    disk.write(inode, 0, b"x")
    disk.sync(Scope.FILE, inode)
    disk.sync(Scope.DIR, parent)
    images = list(image_set(disk, PORTABLE).images())
    assert {i.paths for i in images} == {(), ("d", "d/f")}


def test_lost_pages_reach_no_image_until_they_are_rewritten() -> None:
    """W9: a failed fsync, then one that succeeds without writing."""
    disk = image_of({"f": b"old"}).mount()
    inode = disk.nodes[ROOT].entries["f"]
    disk.write(inode, 3, b"new")
    disk.sync_failed(inode, frozenset((0,)))
    disk.sync(Scope.FILE, inode)
    assert contents(disk) == {b"old\0\0\0"}
    disk.write(inode, 6, b"!")
    disk.sync(Scope.FILE, inode)
    assert contents(disk) == {b"oldnew!"}


def test_a_lost_directory_entry_never_comes() -> None:
    """D19: the directory's fsync failed and lost it; the next one succeeds without writing."""
    disk = image_of({}).mount()
    disk.create(ROOT, "f")
    disk.sync_failed(ROOT, lost_names=frozenset(("f",)))
    disk.sync(Scope.DIR)
    for name in ("portable", "ext4-ordered", "xfs", "btrfs"):
        assert {i.paths for i in image_set(disk, find_model(name)).images()} == {()}


@pytest.mark.parametrize("unit, count", [(4096, 3), (2, 9)])
def test_the_torn_unit_is_a_knob(unit: int, count: int) -> None:
    """F1: with small units every subset of them may be written."""
    disk = image_of({"f": b"aaaa"}).mount(unit)
    inode = disk.nodes[ROOT].entries["f"]
    disk.write(inode, 0, b"bbbb")
    disk.write(inode, 0, b"cccc")
    model = type(PORTABLE)("units", PORTABLE.order)
    assert len(list(image_set(disk, model).images())) == count


# --- counts and bounds ----------------------------------------------------------------------------


def test_images_are_deduplicated_and_both_counts_are_told() -> None:
    """F1: before, legal choices; after, distinct contents."""
    disk = image_of({"f": b"same"}).mount()
    inode = disk.nodes[ROOT].entries["f"]
    for _ in range(3):
        disk.write(inode, 0, b"same")
    found = image_set(disk, PORTABLE)
    assert found.choices > 1 and len(list(found.images())) == 1 and not found.partial


def test_a_set_over_the_bound_is_partial_and_says_what_was_tried() -> None:
    """F1: never silently cut."""
    disk = image_of({}).mount()
    for number in range(12):
        disk.create(ROOT, f"f{number}")
    whole = image_set(disk, PORTABLE)
    assert not whole.partial and len(list(whole.images())) == 2**12 == whole.choices
    cut = image_set(disk, PORTABLE, limits=Limits(images_max=1000, sample=10))
    assert "1- and 2-omissions" in cut.partial and "12 pending" in cut.partial
    seen = {len(i.paths) for i in cut.images()}
    assert {0, 1, 2, 10, 11, 12} <= seen


def test_torn_lengths_over_the_bound_are_sampled_and_told() -> None:
    """F1."""
    disk = image_of({"f": b""}).mount()
    disk.write(disk.nodes[ROOT].entries["f"], 0, b"x" * 3000)
    cut = image_set(disk, PORTABLE, limits=Limits(torn_max=10))
    assert cut.partial == "10 of 2999 torn lengths"
    assert len(list(image_set(disk, PORTABLE).images())) == 6001


def test_a_torn_write_touches_its_own_file_only() -> None:
    """F1: two files with equal bytes; only one of them was written."""
    disk = image_of({"f": b"xyz"}).mount()
    disk.write(disk.create(ROOT, "g").number, 0, b"xyz")
    cut = image_set(disk, PORTABLE, limits=Limits(images_max=0, sample=5))
    assert cut.partial and {image.get("f") for image in cut.images()} == {b"xyz"}


def test_torn_writes_in_two_files_are_taken_one_at_a_time_unless_asked() -> None:
    """F1."""
    disk = image_of({"f": b"", "g": b""}).mount()
    for name in "fg":
        disk.write(disk.nodes[ROOT].entries[name], 0, b"xyz")
    one = image_set(disk, PORTABLE)
    both = image_set(disk, PORTABLE, limits=Limits(torn_files_max=2))
    assert "1 file(s) at a time" in one.partial and not both.partial
    assert len(list(both.images())) == 7 * 7 and len(list(one.images())) == 9 + 2 * 3 * 4


# --- images ---------------------------------------------------------------------------------------


def test_an_image_is_written_out_and_mounted_alike(tmp_path: Path) -> None:
    """F1: names, types, bytes and hard links survive both."""
    disk = image_of({"d/f": b"1", "way": Symlink("d/f"), "e": DIRECTORY}).mount()
    directory = disk.nodes[ROOT].entries["d"]
    disk.link(directory, "g", disk.nodes[directory].entries["f"])
    image = cached_image(disk)
    assert image.groups and cached_image(image.mount()) == image
    target = tmp_path / "out"
    target.mkdir()
    image.write_to(target)
    assert (target / "way").read_bytes() == b"1" and (target / "e").is_dir()
    assert (target / "d/f").stat().st_ino == (target / "d/g").stat().st_ino
    assert (target / "d/f").stat().st_mode & 0o777 == 0o600


def test_equal_images_have_one_digest_and_others_have_not() -> None:
    """F1: the canonical form is names, types and bytes."""
    first, same = image_of({"a": b"1", "b": b""}), image_of({"b": b"", "a": b"1"})
    assert first == same and first.digest() == same.digest()
    others: list[dict[str, Content]] = [
        {"a": b"1"},
        {"a": b"1", "b": DIRECTORY},
        {"a": b"1", "b": Symlink("")},
        {"a1": b"b"},
    ]
    digests = {image_of(files).digest() for files in others} | {first.digest()}
    assert len(digests) == 5
