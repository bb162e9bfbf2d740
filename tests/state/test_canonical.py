"""The canonical file: what is written is read, group by group, and no damaged byte goes unnoticed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.ids import KeyGroup
from runtime.state.block_file import COMPRESSIONS, BlockFile, BlockStream, pack_columns, unpack_columns
from runtime.state.canonical import CanonicalFile, encode_canonical
from runtime.state.handles import DamagedSnapshotError
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, StateMeta, TimerEntry

NAMES = st.text(max_size=8)
BYTES = st.binary(max_size=12)
ENTRIES = st.lists(st.builds(StateEntry, BYTES, BYTES, BYTES), max_size=4)
TIMERS = st.lists(st.builds(TimerEntry, st.integers(-(2**63), 2**63 - 1), BYTES, BYTES), max_size=3)
GROUPS = st.builds(
    KeyGroupSnapshot,
    st.dictionaries(NAMES, ENTRIES, max_size=3),
    st.dictionaries(NAMES, TIMERS, max_size=2),
    st.dictionaries(NAMES, TIMERS, max_size=2),
)
METAS = st.builds(StateMeta, NAMES, st.sampled_from(["value", "list", "map"]), NAMES, st.booleans(), st.booleans())
SNAPSHOTS = st.builds(
    KeyedSnapshot,
    st.integers(1, 32768),
    st.lists(METAS, max_size=3).map(lambda metas: {meta.name: meta for meta in metas}),
    st.dictionaries(st.integers(0, 32767).map(KeyGroup), GROUPS, max_size=4),
)


def a_snapshot(num_groups: int = 8, keys_per_group: int = 5) -> KeyedSnapshot:
    """Return a snapshot of one value state and one timer service."""
    groups = {}
    for number in range(num_groups):
        keys = [b"%d/%d" % (number, key) for key in range(keys_per_group)]
        groups[KeyGroup(number)] = KeyGroupSnapshot(
            {"count": [StateEntry(key, b"", key * 3) for key in keys]},
            {"timers": [TimerEntry(7 * number, key, b"w") for key in keys]},
        )
    return KeyedSnapshot(num_groups, {"count": StateMeta("count", "value", "LONG", namespaced=False)}, groups)


def encoded(snapshot: KeyedSnapshot, compression: str = "none") -> bytes:
    return b"".join(encode_canonical(snapshot, compression))


@settings(max_examples=60)
@given(snapshot=SNAPSHOTS, compression=st.sampled_from(COMPRESSIONS))
def test_what_is_written_is_read(snapshot: KeyedSnapshot, compression: str) -> None:
    file = CanonicalFile.of_bytes(encoded(snapshot, compression))
    file.verify()
    assert file.snapshot() == snapshot


def test_only_the_key_groups_that_are_asked_for_are_read() -> None:
    whole = a_snapshot(num_groups=64, keys_per_group=100)
    data = encoded(whole)
    read: list[tuple[int, int]] = []

    def reads(offset: int, length: int) -> bytes:
        read.append((offset, length))
        return data[offset : offset + length]

    part = CanonicalFile(reads, len(data)).snapshot(range(8, 10))
    index_bytes = sum(length for _, length in read)
    assert list(part.groups) == [8, 9]
    assert sum(length for _, length in read) == index_bytes, "listing groups reads none"
    assert KeyGroup(8) in part.groups
    assert KeyGroup(7) not in part.groups
    assert dict(part.groups) == {key: whole.groups[key] for key in part.groups}
    assert sum(length for _, length in read) - index_bytes < len(data) / 16


def test_groups_are_encoded_one_at_a_time() -> None:
    alive: list[int] = []

    class Loading(Mapping[KeyGroup, KeyGroupSnapshot]):
        def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
            alive.append(key_group)
            return a_snapshot(4).groups[key_group]

        def __iter__(self) -> Iterator[KeyGroup]:
            return iter([KeyGroup(3), KeyGroup(1)])

        def __len__(self) -> int:
            return 2

    stream = encode_canonical(KeyedSnapshot(4, a_snapshot().metas, Loading()))
    pieces = iter(stream)
    next(pieces)
    assert not alive
    next(pieces)
    assert alive == [1]
    assert CanonicalFile.of_bytes(b"".join(stream)).key_groups == [1, 3], "and again from the start"


def test_a_file_on_disk_is_read_without_being_held_open(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(encoded(a_snapshot(), "zstd"))
    file = CanonicalFile.of_path(path)
    assert file.snapshot() == a_snapshot()
    assert file.size_of(KeyGroup(0)) > 0
    assert file.size_of(KeyGroup(99)) == 0
    with pytest.raises(KeyError):
        file.snapshot().groups[KeyGroup(99)]


def test_compression_makes_files_smaller() -> None:
    assert len(encoded(a_snapshot(4, 500), "zstd")) < len(encoded(a_snapshot(4, 500))) / 2


def test_an_unknown_compression_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="none, zstd, lz4"):
        encode_canonical(a_snapshot(), "snappy")


def test_block_numbers_may_occur_more_than_once() -> None:
    data = b"".join(BlockStream({"format": "mine"}, [(5, b"a"), (2, b"b"), (5, b"c")]))
    file = BlockFile.of_bytes(data, "x")
    assert file.header == {"format": "mine"}
    assert file.numbers == [2, 5]
    assert list(file.blocks(5)) == [b"a", b"c"]
    assert list(file.all_blocks()) == [(5, b"a"), (2, b"b"), (5, b"c")]


@given(st.lists(st.tuples(st.none() | BYTES, BYTES), max_size=5), BYTES)
def test_columns_may_have_values_that_are_absent(rows: list[tuple[bytes | None, bytes]], before: bytes) -> None:
    columns: list[list[bytes | None]] = [[row[0] for row in rows], [row[1] for row in rows]]
    packed = pack_columns(columns)
    assert unpack_columns(before + packed + b"behind", len(before), 2) == (columns, len(before) + len(packed))


def test_another_format_is_not_taken_for_a_canonical_file() -> None:
    data = b"".join(BlockStream({"format": "hashmap"}, []))
    with pytest.raises(DamagedSnapshotError, match="a hashmap file, not a canonical one"):
        CanonicalFile.of_bytes(data)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_flipped_byte_is_found(compression: str) -> None:
    data = encoded(a_snapshot(num_groups=2, keys_per_group=3), compression)
    numbers = random.Random(7)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= numbers.randrange(1, 256)
        with pytest.raises(DamagedSnapshotError):
            CanonicalFile.of_bytes(bytes(damaged)).verify()


def test_every_truncation_is_found() -> None:
    data = encoded(a_snapshot(num_groups=2, keys_per_group=3))
    for size in range(len(data)):
        with pytest.raises(DamagedSnapshotError):
            CanonicalFile.of_bytes(data[:size]).verify()
