"""Segments: immutable frames of partial aggregates, collected per pane and merged when there are many or a window
fires.

This is a log-structured merge tree of columns: a segment is written once. In snapshots the segments of a key
group are one Arrow IPC stream, found by the canonical hash of their keys, so that key groups move without being read.
Used by the task's thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from runtime.common.typeinfo import TypeInformation
from runtime.core.arrow_views import without_views
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import KeyGroup
from runtime.operators.columnar.frames import arrow_of
from runtime.operators.columnar.window_plan import WindowPlan
from runtime.state.errors import StateMigrationError
from runtime.state.key_groups import assign_key_groups
from runtime.state.segments.files import Header as Header
from runtime.state.segments.files import pack_rows, to_ipc, unpack_rows
from runtime.state.segments.snapshot import SegmentsSnapshot
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry
from runtime.state.state_meta import COLUMNAR, StateMeta

PANE = "__pane"
MAX_SEGMENTS = 16
"""Maximum number of segments of a pane that wait to be merged. With fewer, each row is merged more often; with more,
memory holds more partials of the same key than needed.
"""
_MAX_SHARED = 2
"""Maximum number of segments of a pane in several windows that are merged with each window; more are merged once
beforehand."""
_MERGED_ROWS = 1 << 18
"""Partials of several windows that are merged at a time; bounds memory to some 20 MB."""
_TIME = "__time"
_MARKS = b"marks"
Numbers = npt.NDArray[np.int64]


class PaneId(NamedTuple):
    """Key by which segments are collected."""

    start: int
    """Of the pane, ms."""
    fired_until: int = MIN_WATERMARK
    """End of the windows that had already fired before a restore set event time back; otherwise a smaller number."""


class SegmentStore:
    """The segments of one operator, by pane.

    Args:
        plan: how they merge.
    """

    def __init__(self, plan: WindowPlan) -> None:
        self._plan = plan
        #: told of all partials that are kept
        self.on_add: Callable[[PaneId, pl.DataFrame], None] = _tell_nobody
        self._panes: dict[PaneId, list[pl.DataFrame]] = {}
        #: panes with a segment that may hold several partials of a key
        self._repeating: set[PaneId] = set()

    def __iter__(self) -> Iterator[PaneId]:
        return iter(self._panes)

    @property
    def num_rows(self) -> int:
        """Return the number of partials, of which several may be of one key and pane."""
        return sum(segment.height for segments in self._panes.values() for segment in segments)

    def add(self, pane: PaneId, partials: pl.DataFrame, repeating: bool = False) -> None:
        """Keep partials.

        Args:
            repeating: whether there may be several for a key.
        """
        segments = self._panes.setdefault(pane, [])
        segments.append(partials)
        self.on_add(pane, partials)
        if repeating:
            self._repeating.add(pane)
        if len(segments) >= MAX_SEGMENTS:
            self.of_pane(pane)

    def merged(self, panes: Iterable[PaneId]) -> pl.DataFrame | None:
        """Return one partial for each key of these panes; None if there is none."""
        found = [self.of_pane(pane) for pane in panes if pane in self._panes]
        if not found:
            return None
        return found[0] if len(found) == 1 else self._plan.merged(pl.concat(found))

    def of_pane(self, pane: PaneId) -> pl.DataFrame:
        """Return one partial for each key of an existing pane; merges its segments for good."""
        segments = self._panes[pane]
        if len(segments) > 1 or pane in self._repeating:
            segments = self._panes[pane] = [self._plan.merged(pl.concat(segments))]
            self._repeating.discard(pane)
        return segments[0]

    def merged_together(self, windows: Sequence[Sequence[PaneId]]) -> Iterator[tuple[Numbers, pl.DataFrame]]:
        """Yield one partial for each key of each window, for a plan with arrays.

        Args:
            windows: the panes of each, at least one; all must exist.

        Returns:
            The numbers of windows, ascending, and a partial for each of them.
        """
        first = rows = 0
        parts: list[list[pl.DataFrame]] = []
        for number, panes in enumerate(windows):
            found = [segment for pane in panes for segment in self._few_segments(pane, len(panes) > 1)]
            parts.append(found)
            rows += sum(segment.height for segment in found)
            if rows >= _MERGED_ROWS or number == len(windows) - 1:
                yield from self._merged(parts, first, windows[first : number + 1])
                first, rows, parts = number + 1, 0, []

    def _few_segments(self, pane: PaneId, is_shared: bool) -> list[pl.DataFrame]:
        """Return the segments of a pane; merged first if there are several for several windows."""
        if is_shared and len(self._panes[pane]) > _MAX_SHARED:
            self.of_pane(pane)
        return self._panes[pane]

    def _merged(
        self, parts: Sequence[Sequence[pl.DataFrame]], first: int, windows: Sequence[Sequence[PaneId]]
    ) -> Iterator[tuple[Numbers, pl.DataFrame]]:
        """Merge the segments of some windows, which are numbered from `first`."""
        numbers = np.repeat(
            np.arange(first, first + len(parts), dtype=np.int64),
            [sum(segment.height for segment in found) for found in parts],
        )
        frame = pl.concat([segment for found in parts for segment in found])
        if all(
            len(found) == 1 and self._repeating.isdisjoint(panes) for found, panes in zip(parts, windows, strict=True)
        ):
            yield numbers, frame
            return
        assert self._plan.arrays is not None
        merged = self._plan.arrays.of_partials(with_panes(frame, numbers), [PANE])
        if merged is not None:
            yield merged.drop_in_place(PANE).to_numpy(), merged
            return
        for number, panes in enumerate(windows, first):
            one = self.merged(panes)
            assert one is not None
            yield np.full(one.height, number), one

    def drop(self, panes: Iterable[PaneId]) -> None:
        """Drop panes."""
        for pane in panes:
            del self._panes[pane]
            self._repeating.discard(pane)

    def all_segments(self, watermark: int) -> list[tuple[int, pl.DataFrame]]:
        """Return everything, with the start of the pane in PANE; for a snapshot.

        Args:
            watermark: until which windows have fired.

        Returns:
            Frames by the watermark until which the windows of their panes have fired, that one first: before a restore
            set event time back it was a greater one.
        """
        empty = self._plan.empty_partials.with_columns(pl.lit(0, pl.Int64).alias(PANE))
        frames: dict[int, list[pl.DataFrame]] = {watermark: [empty]}
        for pane in self._panes:
            partials = self.of_pane(pane).with_columns(pl.lit(pane.start, pl.Int64).alias(PANE))
            frames.setdefault(max(watermark, pane.fired_until), []).append(partials)
        return [(fired_until, pl.concat(found)) for fired_until, found in frames.items()]

    def add_all(self, segments: pl.DataFrame, fired_until: int) -> None:
        """Take in a frame that `all_segments` returned, or a part of it."""
        first = segments.get_column(PANE)
        if first.min() == first.max():
            parts = {(first[0],): segments.drop(PANE)} if segments.height else {}
        else:
            parts = segments.partition_by(PANE, as_dict=True, include_key=False)
        for (start,), partials in parts.items():
            # merged once before it is used: a top-N may keep fewer rows than the one that saved it
            self.add(PaneId(start, fired_until), partials, repeating=True)


def _tell_nobody(_pane: PaneId, _partials: pl.DataFrame) -> None:
    pass


def with_panes(frame: pl.DataFrame, panes: Numbers) -> pl.DataFrame:
    """Return the frame with a column PANE before the others."""
    return pl.DataFrame([pl.Series(PANE, panes, pl.Int64), *frame])


def runs_of(values: Numbers) -> tuple[list[int], list[int]]:
    """Return the different values of an ascending array, and their first indexes with the array's length at the end."""
    begins = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[begins].tolist(), [*begins.tolist(), len(values)]


# --- snapshots --------------------------------------------------------------------------------------------------------


def keyed_snapshot(
    name: str, frame: pl.DataFrame, type_info: TypeInformation, keys: ColumnKeys, max_parallelism: int, header: Header
) -> KeyedSnapshot:
    """Return a frame's rows by the key groups of their keys.

    Args:
        name: of the state.
        frame: has the columns of the key.
        type_info: of its rows; a restored state must have the same.
        keys: how the stream is keyed.
        max_parallelism: number of key groups.
        header: kept with each key group.
    """
    metas = {name: columnar_state(name, type_info)}
    columns = without_views(arrow_of(frame))
    if not columns.num_rows:
        return KeyedSnapshot(max_parallelism, metas, {})
    groups = assign_key_groups(keys.hashes(columns), max_parallelism)
    order = np.argsort(groups, kind="stable")
    columns = columns.take(pa.array(order))
    present, starts = np.unique(groups[order], return_index=True)
    stops = [*starts[1:].tolist(), columns.num_rows]
    saved: dict[KeyGroup, KeyGroupSnapshot] = {}
    for group, start, stop in zip(present.tolist(), starts.tolist(), stops, strict=True):
        value = pack_rows(header, columns.slice(start, stop - start))
        saved[KeyGroup(group)] = KeyGroupSnapshot({name: [StateEntry(b"", b"", value)]})
    return KeyedSnapshot(max_parallelism, metas, saved)


def together(snapshots: Sequence[KeyedSnapshot]) -> KeyedSnapshot:
    """Return snapshots of one operator's states as one; several of a state have different headers."""
    metas = {name: meta for snapshot in snapshots for name, meta in snapshot.metas.items()}
    states: dict[KeyGroup, dict[str, list[StateEntry]]] = {}
    for snapshot in snapshots:
        for group, saved in snapshot.groups.items():
            for name, entries in saved.states.items():
                states.setdefault(group, {}).setdefault(name, []).extend(entries)
    groups = {group: KeyGroupSnapshot(found) for group, found in states.items()}
    return KeyedSnapshot(snapshots[0].max_parallelism, metas, groups)


def restored_frames(
    name: str,
    type_info: TypeInformation,
    schema: Sequence[tuple[str, pl.DataType]],
    snapshot: KeyedSnapshot,
    names: Collection[str] = (),
) -> Iterator[tuple[Header, pl.DataFrame]]:
    """Yield what `keyed_snapshot` saved, by header.

    Args:
        schema: of the frames.
        names: of all states of the operator, if there are several.

    Raises:
        StateMigrationError: the snapshot has other state.
    """
    check_readable(name, type_info, snapshot, names)
    if isinstance(snapshot, SegmentsSnapshot):
        rows = snapshot.rows(name)
        if rows is not None:
            yield snapshot.listed.header, cast_to(rows, schema)
        return
    frames: dict[Header, list[pl.DataFrame]] = {}
    for group in snapshot.groups.values():
        for entry in group.states.get(name, ()):
            header, table = unpack_rows(entry.value)
            frames.setdefault(header, []).append(cast_to(pl.DataFrame(table), schema))
    for header, found in frames.items():
        yield header, pl.concat(found)


def check_readable(name: str, type_info: TypeInformation, snapshot: KeyedSnapshot, names: Collection[str] = ()) -> None:
    """Check that a snapshot has no state but that of a type, under a name; for the arguments see `restored_frames`.

    Raises:
        StateMigrationError: the snapshot has other state.
    """
    for saved in snapshot.metas.values():
        if saved.name != name and saved.name in names:
            continue
        if saved.name != name or not saved.is_readable_as(columnar_state(name, type_info)):
            raise StateMigrationError(saved.name, saved.describe(), columnar_state(name, type_info).describe())


def saved_frames(name: str, snapshot: KeyedSnapshot) -> Iterator[tuple[Header, pl.DataFrame]]:
    """Yield what `keyed_snapshot` saved, key group by key group, as it is: for people who look into a snapshot."""
    for group in snapshot.groups.values():
        for entry in group.states.get(name, ()):
            header, table = unpack_rows(entry.value)
            yield header, pl.DataFrame(table)


def to_bytes(frame: pl.DataFrame) -> bytes:
    """Return a frame as bytes."""
    return to_ipc(without_views(arrow_of(frame)))


def from_bytes(data: bytes, schema: Sequence[tuple[str, pl.DataType]]) -> pl.DataFrame:
    """Return the frame that `to_bytes` was given."""
    with pa.ipc.open_stream(data) as reader:
        return cast_to(pl.DataFrame(reader.read_all()), schema)


def results_to_bytes(batch: RecordBatch) -> bytes:
    """Return a batch of columns as bytes, with event times and marks."""
    columns = without_views(batch.arrow())
    columns = columns.append_column(_TIME, pa.array(batch.timestamps_array(), pa.int64()))
    return to_ipc(columns.replace_schema_metadata({_MARKS: json.dumps(list(batch.marks))}))


def results_from_bytes(items: Sequence[bytes], type_info: TypeInformation, watermark: int) -> RecordBatch:
    """Return batches that `results_to_bytes` was given, at least one, as one batch.

    Args:
        items: of one subtask, or of several.
        type_info: of the rows.
        watermark: of the subtask that hands them on: marks beyond it, which are those of another one, are left out.
    """
    tables: list[pa.Table] = []
    marks: list[Mark] = []
    reached = MIN_WATERMARK
    rows = 0
    for item in items:
        with pa.ipc.open_stream(item) as reader:
            for offset, mark in json.loads(reader.schema.metadata[_MARKS]):
                if reached < mark <= watermark:
                    marks.append(Mark(rows + offset, mark))
                    reached = mark
            tables.append(reader.read_all().replace_schema_metadata(None))
            rows += tables[-1].num_rows
    (columns,) = pa.concat_tables(tables).combine_chunks().to_batches()
    times = columns.column(_TIME).to_numpy().astype(np.int64)
    return RecordBatch.of_arrow(columns.drop_columns([_TIME]), type_info, times, marks)


def columnar_state(name: str, type_info: TypeInformation) -> StateMeta:
    """Return the meta of the state that `keyed_snapshot` saves under a name."""
    return StateMeta(name, COLUMNAR, type_info.type_string(), namespaced=False)


def cast_to(frame: pl.DataFrame, schema: Sequence[tuple[str, pl.DataType]]) -> pl.DataFrame:
    """Return the columns of a schema, with its dtypes, of a frame that was read."""
    return frame.select([pl.col(name).cast(dtype) for name, dtype in schema])
