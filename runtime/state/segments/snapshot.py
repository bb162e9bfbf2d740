"""SegmentsSnapshot: columnar state as the segments of a checkpoint have it.

A checkpoint names its segments, oldest first, and what their rows mean: newer rows of a key replace all older ones
(top-N), or add to them (windows, joins); rows below a bound are over. The same rows by key group, as canonical
snapshots have them, are made on request. Any thread, one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from runtime.core.ids import KeyGroup
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle, StateFileReader
from runtime.state.key_groups import KeyGroupRange
from runtime.state.segments.files import PLACE, Header, decode_segment, key_groups_of, pack_rows
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry

SEGMENTS_FORMAT: Final = "segments"
"""`KeyedStateHandle.format` of state in such files."""
_VERSION: Final = 1
_NUMBER: Final = "__segment"


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of a state."""

    state: str
    file: FileHandle
    rows: int
    first: int | None = None
    """Least value in the column that says when rows are over; None: there is no such column."""
    last: int | None = None
    """Greatest value."""


@dataclass(frozen=True, slots=True)
class StateRules:
    """Meaning of the rows of one state."""

    replaced_by: tuple[str, ...] = ()
    """Columns of the key by which newer rows replace all older ones; () = they add to them."""
    expiry: str = ""
    """Column of which values below a bound mean that the row is over; "" = there is none."""


@dataclass(frozen=True, slots=True)
class SegmentList:
    """Content of a handle's metadata, with the files."""

    header: Header
    rules: Mapping[str, StateRules]
    segments: Sequence[Segment] = ()
    """Of all states; those of a state are in order, the oldest first."""
    alive_from: Mapping[str, int] = field(default_factory=dict)
    """By state with an expiry: the bound."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The operator's own; JSON."""

    def files(self) -> dict[str, FileHandle]:
        """Return the files by the names that they have in a handle."""
        return {f"{number:04d}": segment.file for number, segment in enumerate(self.segments)}

    def to_json(self) -> bytes:
        """Return everything but the files."""
        document = {
            "version": _VERSION,
            "header": list(self.header),
            "rules": {name: [list(r.replaced_by), r.expiry] for name, r in self.rules.items()},
            "segments": [[s.state, s.rows, s.first, s.last] for s in self.segments],
            "alive_from": dict(self.alive_from),
            "extra": dict(self.extra),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def of(cls, handle: KeyedStateHandle) -> SegmentList:
        """Return what a handle says.

        Raises:
            DamagedSnapshotError: it is not of this format, or of a newer version of it.
        """
        try:
            document = json.loads(handle.metadata)
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']}; this program reads version {_VERSION}")
            files = [file for _, file in sorted(handle.files.items())]
            segments = [
                Segment(state, file, rows, first, last)
                for (state, rows, first, last), file in zip(document["segments"], files, strict=True)
            ]
            rules = {name: StateRules(tuple(keys), expiry) for name, (keys, expiry) in document["rules"].items()}
            return cls(Header(*document["header"]), rules, segments, document["alive_from"], document["extra"])
        except (LookupError, TypeError, ValueError) as error:
            raise DamagedSnapshotError("of columnar state", f"its list of segments is invalid: {error}") from error


@dataclass(frozen=True, slots=True)
class SegmentsSnapshot(KeyedSnapshot):
    """The segments of one subtask, read."""

    listed: SegmentList = field(default_factory=lambda: SegmentList(Header(0, 0), {}))
    tables: Sequence[pa.Table] = ()
    """One for each segment."""

    def frames(self, state: str) -> list[pl.DataFrame]:
        """Return the rows of each segment of a state, the oldest first, with PLACE, without those that are over."""
        rules, found = self.listed.rules[state], []
        for segment, table in zip(self.listed.segments, self.tables, strict=True):
            if segment.state == state:
                frame = pl.DataFrame(table)
                if segment.first is not None and segment.first < self.listed.alive_from[state]:
                    frame = frame.filter(pl.col(rules.expiry) >= self.listed.alive_from[state])
                found.append(frame)
        return found

    def rows(self, state: str) -> pl.DataFrame | None:
        """Return the present rows of a state, with PLACE; None if there are none."""
        frames = [frame for frame in self.frames(state) if frame.height]
        if not frames:
            return None
        keys = self.listed.rules[state].replaced_by
        return newest_rows(frames, keys) if keys else pl.concat(frames)


def newest_rows(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """Return the rows that each key has in the newest of some frames, at least one; null equals null.

    Args:
        frames: the oldest first.
        keys: columns of the key.
    """
    if len(frames) == 1:
        return frames[0]
    numbers = np.repeat(np.arange(len(frames), dtype=np.uint32), [frame.height for frame in frames])
    rows = pl.concat(frames).with_columns(pl.Series(_NUMBER, numbers))
    return rows.filter(pl.col(_NUMBER) == pl.col(_NUMBER).max().over(keys)).drop(_NUMBER)


def read_segments(handle: KeyedStateHandle, key_groups: KeyGroupRange, files: StateFileReader) -> SegmentsSnapshot:
    """Return the state of a handle.

    Args:
        handle: of columnar state.
        key_groups: those that `groups` shows; `frames` and `rows` have all.
        files: reads the segments, each verified.

    Raises:
        DamagedSnapshotError: a segment is missing or corrupt.
    """
    listed = SegmentList.of(handle)
    tables = [decode_segment(files.read(segment.file), segment.file.uri) for segment in listed.segments]
    metas = {meta.name: meta for meta in handle.states or ()}
    wanted = range(max(key_groups.start, handle.key_groups.start), min(key_groups.end, handle.key_groups.end) + 1)
    groups = _Groups(wanted)
    snapshot = SegmentsSnapshot(handle.max_parallelism, metas, groups, listed, tables)
    groups.snapshot = snapshot
    return snapshot


class _Groups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups of segments as canonical snapshots have them; divided on the first request.

    Args:
        wanted: the key groups.
    """

    def __init__(self, wanted: range) -> None:
        self.snapshot: SegmentsSnapshot | None = None
        self._wanted = wanted
        self._divided: dict[KeyGroup, dict[str, pa.Table]] | None = None

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        assert self.snapshot is not None
        header = self.snapshot.listed.header
        states = {}
        for name, table in self._by_group()[key_group].items():
            (columns,) = table.combine_chunks().to_batches()
            states[name] = [StateEntry(b"", b"", pack_rows(header, columns))]
        return KeyGroupSnapshot(states)

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._by_group()

    def __iter__(self) -> Iterator[KeyGroup]:
        return iter(self._by_group())

    def __len__(self) -> int:
        return len(self._by_group())

    def _by_group(self) -> dict[KeyGroup, dict[str, pa.Table]]:
        if self._divided is None:
            assert self.snapshot is not None
            divided: dict[KeyGroup, dict[str, pa.Table]] = {}
            for state in self.snapshot.listed.rules:
                for key_group, table in _divided(self.snapshot, state).items():
                    if key_group in self._wanted:
                        divided.setdefault(key_group, {})[state] = table
            self._divided = dict(sorted(divided.items()))
        return self._divided


def _divided(snapshot: SegmentsSnapshot, state: str) -> dict[KeyGroup, pa.Table]:
    """Return the present rows of a state by key group, without PLACE."""
    rows = snapshot.rows(state)
    if rows is None:
        return {}
    groups = key_groups_of(rows.drop_in_place(PLACE).to_numpy())
    order = np.argsort(groups, kind="stable")
    present, starts = np.unique(groups[order], return_index=True)
    # plain strings, as everywhere in snapshots
    schema = next(
        table.schema
        for segment, table in zip(snapshot.listed.segments, snapshot.tables, strict=True)
        if segment.state == state
    )
    table = rows[order].to_arrow().cast(schema.remove(schema.get_field_index(PLACE)))
    stops = [*starts[1:].tolist(), table.num_rows]
    return {
        KeyGroup(group): table.slice(start, stop - start)
        for group, start, stop in zip(present.tolist(), starts.tolist(), stops, strict=True)
    }
