"""SegmentLog: what columnar state has changed since a checkpoint, so that the next one writes that only.

Snapshots divide time into *epochs*, as in `runtime.state.hashmap.changes`. A checkpoint refers to the segments of the
last *complete* one, and adds one segment for each state with the rows of all epochs since. Everything is written anew
when most rows have changed, when there are many segments, or when less than half of their rows are still needed. The
log never changes a segment, and deletes none: the JobMaster does, when no checkpoint refers to it any more.

Task's thread, but for `PendingSegments.write`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from runtime.core.arrow_views import without_views
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.column_keys import ColumnKeys
from runtime.core.ids import CheckpointId
from runtime.operators.columnar.frames import arrow_of
from runtime.operators.columnar.keyed_rows import Hashes, Restored
from runtime.operators.columnar.segments import cast_to
from runtime.state.handles import KeyedStateHandle, PendingKeyedState, StateFileWriter
from runtime.state.key_groups import KeyGroupRange
from runtime.state.segments.files import PLACE, Header, encode_segment, places_of
from runtime.state.segments.snapshot import (
    SEGMENTS_FORMAT,
    Segment,
    SegmentList,
    SegmentsSnapshot,
    StateRules,
    newest_rows,
)
from runtime.state.snapshot import SnapshotRequest
from runtime.state.state_meta import StateMeta

MAX_SEGMENTS_OF_STATE: Final = 40
"""Maximum number of segments of one state. With more, a restore opens many; with fewer, everything is written anew more
often: once in 40 checkpoints is 2.5 % of the state for each."""
_SMALL_ROWS: Final = 1 << 16
"""Rows that a log may always hold, and that segments may always have in vain, however small the state."""

Changes = Mapping[str, list[pl.DataFrame]]
"""Rows by state, the oldest first."""


@dataclass(frozen=True, slots=True)
class LoggedState:
    """A state of the operator."""

    meta: StateMeta
    keys: ColumnKeys
    """How the stream is keyed; finds its columns by name."""
    rules: StateRules


@dataclass(frozen=True, slots=True)
class Content:
    """An operator's state at the time of a snapshot, as its log needs it."""

    header: Header
    num_rows: int
    """Of all states, about."""
    all_rows: Callable[[], Mapping[str, pl.DataFrame]]
    """Returns all rows by state; called at once, if at all."""
    alive_from: Mapping[str, int]
    """By state with an expiry: the bound below which rows are over."""
    extra: Mapping[str, Any]
    """The operator's own."""


@dataclass(frozen=True, slots=True)
class _Base:
    """The complete checkpoint on which the next one builds."""

    epoch: int
    segments: Sequence[Segment]

    def is_worn(self, num_rows: int, num_states: int) -> bool:
        """Return whether it is time to write everything."""
        rows = sum(segment.rows for segment in self.segments)
        return len(self.segments) > MAX_SEGMENTS_OF_STATE * num_states or rows > 2 * num_rows + _SMALL_ROWS


class SegmentLog:
    """The changes of one operator's columnar state.

    Args:
        states: in a fixed order.
        key_groups: of the subtask.
        max_parallelism: number of key groups of the operator.
    """

    def __init__(self, states: Sequence[LoggedState], key_groups: KeyGroupRange, max_parallelism: int) -> None:
        self._states = {state.meta.name: state for state in states}
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        #: number of the current epoch
        self._epoch = 1
        #: rows of the current epoch; None: they are not tracked, and the next snapshot writes everything
        self._written: dict[str, list[pl.DataFrame]] | None = None
        self._num_written = 0
        #: rows at which it is cheaper to write everything
        self._most_written = _SMALL_ROWS
        self._base: _Base | None = None
        #: closed epochs since the base, the oldest first
        self._epochs: list[tuple[int, Changes, int]] = []
        #: changes up to that epoch are unknown: no snapshot before it can be a base
        self._unknown_until = 0
        #: snapshots whose checkpoint is neither complete nor aborted
        self._undecided: dict[CheckpointId, PendingSegments] = {}

    @property
    def is_tracking(self) -> bool:
        """Return whether rows have to be added."""
        return self._written is not None

    def add(self, state: str, rows: pl.DataFrame) -> None:
        """Note rows that have been written; nothing happens unless `is_tracking`."""
        if self._written is None or not rows.height:
            return
        self._written[state].append(rows)
        self._num_written += rows.height
        if self._num_written > self._most_written:
            self._make_room()

    def restore(self, snapshot: SegmentsSnapshot, num_rows: int) -> None:
        """Go on from the segments that the operator has restored, all of them as they are."""
        segments = snapshot.listed.segments
        if all(segment.file.is_shared for segment in segments):
            self._base = _Base(0, segments)
            self._most_written = max(num_rows // 2, _SMALL_ROWS)
            self._track()

    def forget(self) -> None:
        """Let the next snapshot write everything: the state is not what the log says."""
        self._base = None
        self._epochs.clear()
        self._unknown_until = self._epoch
        self._written = None

    def snapshot(self, request: SnapshotRequest, content: Content) -> PendingSegments:
        """Close the epoch."""
        is_shared = request.kind is SnapshotKind.INCREMENTAL
        if not is_shared:
            # the restored segments may be the user's
            self.forget()
        elif self._written is not None:
            self._close_epoch(content.num_rows)
        base = self._base
        if base is None or base.is_worn(content.num_rows, len(self._states)):
            changes: Changes = {name: [rows] for name, rows in content.all_rows().items()}
            kept: Sequence[Segment] = ()
        else:
            changes = _together([found for epoch, found, _ in self._epochs if epoch > base.epoch])
            kept = [segment for segment in base.segments if _is_needed(segment, content.alive_from)]
        pending = PendingSegments(
            self._epoch, is_shared, content, kept, changes, self._states, self._key_groups, self._max_parallelism
        )
        self._epoch += 1
        if is_shared:
            self._undecided[request.checkpoint_id] = pending
            self._most_written = max(content.num_rows // 2, _SMALL_ROWS)
            self._track()
        return pending

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """Note that the checkpoint is complete: the next snapshot builds on it."""
        pending = self._undecided.get(checkpoint_id)
        if pending is None:
            return
        self._undecided = {other: p for other, p in self._undecided.items() if other > checkpoint_id}
        segments = pending.segments
        is_known = pending.epoch >= self._unknown_until
        if is_known and segments is not None and all(segment.file.is_shared for segment in segments):
            self._base = _Base(pending.epoch, segments)
        else:
            self._base = None
        self._epochs = [epoch for epoch in self._epochs if epoch[0] > pending.epoch]

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """Note that the checkpoint was aborted."""
        pending = self._undecided.pop(checkpoint_id, None)
        if pending is not None:
            pending.discard()

    def _track(self) -> None:
        self._written = {name: [] for name in self._states}
        self._num_written = 0

    def _close_epoch(self, num_rows: int) -> None:
        assert self._written is not None
        if self._base is None and not self._undecided:
            self._epochs.clear()
        else:
            self._epochs.append((self._epoch, self._written, self._num_written))
        if sum(rows for _, _, rows in self._epochs) > max(num_rows // 2, _SMALL_ROWS):
            # much has changed, or checkpoints failed repeatedly: writing everything is cheaper
            self.forget()

    def _make_room(self) -> None:
        """Drop rows of the epoch that newer ones have replaced, or give the epoch up."""
        assert self._written is not None
        for name, frames in self._written.items():
            keys = self._states[name].rules.replaced_by
            if keys and len(frames) > 1:
                frames[:] = [newest_rows(frames, keys)]
        self._num_written = sum(frame.height for frames in self._written.values() for frame in frames)
        if 2 * self._num_written > self._most_written:
            self.forget()


def _together(epochs: Sequence[Changes]) -> Changes:
    changes: dict[str, list[pl.DataFrame]] = {}
    for found in epochs:
        for name, frames in found.items():
            changes.setdefault(name, []).extend(frames)
    return changes


def _is_needed(segment: Segment, alive_from: Mapping[str, int]) -> bool:
    return segment.last is None or segment.last >= alive_from[segment.state]


def restored_rows(
    rows: pl.DataFrame, keys: ColumnKeys, schema: Sequence[tuple[str, pl.DataType]], max_parallelism: int
) -> Restored:
    """Return the rows of a segment, with PLACE, as rows that are found by key.

    Args:
        schema: of the rows, without PLACE.
    """

    def hashes_of(found: pl.DataFrame) -> Hashes:
        return places_of(without_views(arrow_of(found)), keys, max_parallelism)

    return Restored(rows.get_column(PLACE).to_numpy(), cast_to(rows, schema), hashes_of)


class PendingSegments(PendingKeyedState):
    """A snapshot of columnar state in progress: frames that nothing changes.

    Args:
        epoch: the last one whose changes it has.
        is_shared: whether later checkpoints may refer to its segments.
        content: the state.
        kept: segments of an earlier checkpoint that it refers to.
        changes: the rows to write.
        states: by name.
        key_groups: of the subtask.
        max_parallelism: number of key groups of the operator.
    """

    has_timers = False

    def __init__(
        self,
        epoch: int,
        is_shared: bool,
        content: Content,
        kept: Sequence[Segment],
        changes: Changes,
        states: Mapping[str, LoggedState],
        key_groups: KeyGroupRange,
        max_parallelism: int,
    ) -> None:
        self.epoch = epoch
        #: those of the handle, once it is written
        self.segments: Sequence[Segment] | None = None
        self._is_shared = is_shared
        self._content = content
        self._kept = kept
        self._changes: Changes | None = changes
        self._states = states
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._lock = threading.Lock()

    def advance(self, budget_ms: float) -> bool:
        return True

    def write(self, files: StateFileWriter) -> KeyedStateHandle:
        with self._lock:
            changes, self._changes = self._changes, None
        if changes is None:
            raise OSError("the snapshot was discarded")
        added = [self._write(self._states[name], frames, files) for name, frames in changes.items()]
        segments = [*self._kept, *(segment for segment in added if segment is not None)]
        content = self._content
        listed = SegmentList(
            content.header,
            {name: state.rules for name, state in self._states.items()},
            segments,
            content.alive_from,
            content.extra,
        )
        self.segments = segments
        return KeyedStateHandle(
            SEGMENTS_FORMAT,
            self._key_groups,
            self._max_parallelism,
            listed.files(),
            listed.to_json(),
            tuple(state.meta for state in self._states.values()),
            has_timers=False,
        )

    def discard(self) -> None:
        with self._lock:
            self._changes = None

    def _write(self, state: LoggedState, frames: Sequence[pl.DataFrame], files: StateFileWriter) -> Segment | None:
        """Write the rows of a state, unless there are none."""
        rules = state.rules
        bounds: tuple[int | None, int | None] = (None, None)
        if not frames:
            return None
        rows = newest_rows(frames, rules.replaced_by) if rules.replaced_by else pl.concat(frames)
        if rules.expiry:
            rows = rows.filter(pl.col(rules.expiry) >= self._content.alive_from[state.meta.name])
        if not rows.height:
            return None
        if rules.expiry:
            ends = rows.get_column(rules.expiry).to_numpy()
            bounds = int(ends.min()), int(ends.max())
        columns = without_views(arrow_of(rows))
        data = encode_segment(columns, state.keys, self._max_parallelism, self.compression)
        file = files.write("keyed-state", data, shared=self._is_shared)
        return Segment(state.meta.name, file, rows.height, *bounds)
