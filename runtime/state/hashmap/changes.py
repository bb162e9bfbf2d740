"""What has changed since a snapshot, so that the next one need not look at every key, and need not hold up processing.

Time is cut into *epochs* by snapshots. The first touch of a key's entry in an epoch puts it on the epoch's list; if a
snapshot that is still being written needs what the entry held before, it is encoded then (copy on first write). So the
synchronous part of a snapshot is to take the lists away. Changes go back to the last snapshot whose checkpoint is
*complete*: those of aborted ones are simply part of the next. Task's thread, but for `PendingHashMapState.write`.

Flink calls this a changelog; theirs logs every change, ours the keys, and keeps nothing but the latest value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from runtime.core.checkpointing import SnapshotKind
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.errors import StateError
from runtime.state.handles import FileHandle, KeyedStateHandle, PendingKeyedState, StateFileWriter
from runtime.state.hashmap.entries import Entry
from runtime.state.hashmap.files import (
    EVENT_TIMER,
    GONE_EVENT_TIMER,
    GONE_PROCESSING_TIMER,
    HASHMAP_FORMAT,
    PROCESSING_TIMER,
    GroupDraft,
    GroupDrafts,
    encode_file,
)
from runtime.state.key_groups import KeyGroupRange
from runtime.state.namespaces import encode_namespace
from runtime.state.snapshot import KeyedSnapshot, SnapshotRequest, StateMeta
from runtime.state.timers import TimerQueue

MAX_CHANGE_FILES = 16
"""Files of changes on one base. More, and a restore reads many; fewer, and everything is written anew more often."""
_SMALL_BYTES = 1 << 20
"""Changes that are never too many, however small the base: less, and small states are written anew all the time."""
_SMALL_ENTRIES = 4_096
"""Entries of which a list is never too long, however few there are."""
_STEP = 64
"""Entries or timers that are encoded between two looks at the clock (some 0.2 ms)."""

_ROW_ATTRIBUTES = (attrgetter("key"), attrgetter("namespace"), attrgetter("value"))

LiveTimer = tuple[int, Any, Hashable]
ChangedTimers = dict[LiveTimer, bool]
"""Timer → whether it is registered now."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """How a snapshot takes one state out of an entry."""

    meta: StateMeta
    encode: Callable[[Any], bytes]
    keep: Callable[[Any], Any] | None
    """What it leaves of a value, None if nothing; None = all of it."""


@dataclass(frozen=True, slots=True)
class SavedService:
    """The queues of one timer service."""

    name: str
    event: TimerQueue
    processing: TimerQueue


@dataclass(frozen=True, slots=True)
class _Base:
    """The complete snapshot that the next one builds on."""

    epoch: int
    files: Mapping[str, FileHandle]

    @property
    def is_worn(self) -> bool:
        """Whether it is time for a new one."""
        sizes = [file.size for _, file in sorted(self.files.items())]
        return len(sizes) > MAX_CHANGE_FILES or sum(sizes[1:]) > max(sizes[0], _SMALL_BYTES)


@dataclass(slots=True)
class _Epoch:
    """What was touched in one epoch."""

    number: int
    entries: list[Entry]
    timers: Sequence[tuple[ChangedTimers, ChangedTimers]]
    """By timer service: event time, processing time."""


class ChangeLog:
    """The epochs of one backend."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        #: number of the current epoch; entries that carry it have been touched in it
        self.epoch = 1
        #: entries touched in the current epoch; None while no snapshot builds on another
        self._touched: list[Entry] | None = None
        self._base: _Base | None = None
        #: closed epochs behind the base, or behind the first snapshot that may become one; oldest first
        self._epochs: list[_Epoch] = []
        #: what was touched up to that epoch is not known: no snapshot before it can be a base
        self._unknown_until = 0
        #: snapshots that still need entries as they were, oldest first
        self._pending: list[PendingHashMapState] = []
        #: snapshots whose checkpoint is neither complete nor given up
        self._undecided: dict[CheckpointId, PendingHashMapState] = {}

    def touch(self, entry: Entry) -> None:
        """`entry`, which does not carry the current epoch, is about to be used and perhaps changed."""
        if self._pending and entry.saved < self._pending[-1].epoch:
            self._save(entry)
        entry.touched = self.epoch
        if self._touched is not None:
            self._touched.append(entry)

    def add(self, entry: Entry) -> None:
        """`entry` is new."""
        entry.touched = self.epoch
        if self._touched is not None:
            self._touched.append(entry)

    def snapshot(
        self,
        request: SnapshotRequest,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        entries: list[Entry],
        states: Sequence[SavedState],
        services: Sequence[SavedService],
        unclaimed: KeyedSnapshot,
    ) -> PendingHashMapState:
        """Close the epoch.

        Args:
            request: which snapshot.
            key_groups: of the backend.
            max_parallelism: number of key groups of the operator.
            entries: all there are; the list may grow at its end while the snapshot is written.
            states: in the order of their numbers.
            services: the timer services.
            unclaimed: what was restored and nobody has asked for; part of a snapshot that is complete in itself.
        """
        self._pending = [pending for pending in self._pending if not pending.is_discarded]
        builds_up = request.kind is SnapshotKind.INCREMENTAL
        if builds_up and self._touched is None:
            self._track(services)
        elif self._touched is not None:
            self._close_epoch(services, entries)
        base = self._base if builds_up and self._base is not None and not self._base.is_worn else None
        pending = PendingHashMapState(
            self, request, self.epoch, base, key_groups, max_parallelism, states, services, unclaimed
        )
        if base is None:
            pending.take_all(entries)
        else:
            pending.take_changes(self._epochs)
        self.epoch += 1
        self._pending.append(pending)
        self._undecided[request.checkpoint_id] = pending
        return pending

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint is complete: the next snapshot builds on it."""
        pending = self._undecided.get(checkpoint_id)
        if pending is None:
            return
        self._undecided = {other: p for other, p in self._undecided.items() if other > checkpoint_id}
        if pending.kind is SnapshotKind.CANONICAL:
            return
        if pending.kind is SnapshotKind.FULL or pending.files is None or pending.epoch < self._unknown_until:
            # what came before it may be deleted now, and its own files may not be shared
            self._base = None
        else:
            self._base = _Base(pending.epoch, pending.files)
        self._epochs = [epoch for epoch in self._epochs if epoch.number > pending.epoch]

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """The checkpoint was given up."""
        pending = self._undecided.pop(checkpoint_id, None)
        if pending is not None:
            pending.discard()
            self.done(pending)

    def done(self, pending: PendingHashMapState) -> None:
        """A snapshot needs no entry any more."""
        if pending in self._pending:
            self._pending.remove(pending)

    def save(self, entry: Entry, pending: PendingHashMapState) -> None:
        """Encode an entry for `pending`, unless it was saved, or is not as it was then."""
        if entry.saved < pending.epoch and entry.touched <= pending.epoch:
            self._save(entry)

    def _save(self, entry: Entry) -> None:
        # the entry is as it was for every snapshot since it was touched last
        last = self._pending[-1].epoch
        if any(pending.is_discarded for pending in self._pending):
            self._pending = [pending for pending in self._pending if not pending.is_discarded]
        for pending in self._pending:
            if entry.saved < pending.epoch and pending.base_epoch < entry.touched <= pending.epoch:
                pending.add(entry)
        entry.saved = last

    def _track(self, services: Sequence[SavedService]) -> None:
        self._touched = []
        for service in services:
            service.event.changed = {}
            service.processing.changed = {}

    def _close_epoch(self, services: Sequence[SavedService], entries: list[Entry]) -> None:
        assert self._touched is not None
        timers = [(service.event.take_changed(), service.processing.take_changed()) for service in services]
        if self._base is None and not self._undecided:
            self._epochs.clear()
        self._epochs.append(_Epoch(self.epoch, self._touched, timers))
        if sum(len(epoch.entries) for epoch in self._epochs) > 2 * max(len(entries), _SMALL_ENTRIES):
            # one checkpoint after the other failed: to write everything costs less than to remember it
            self._base = None
            self._epochs.clear()
            self._unknown_until = self.epoch
        self._touched = []

    @property
    def is_tracking(self) -> bool:
        """Whether new timer queues have to log what changes."""
        return self._touched is not None


class PendingHashMapState(PendingKeyedState):
    """A snapshot of the hashmap backend that is being written."""

    def __init__(
        self,
        log: ChangeLog,
        request: SnapshotRequest,
        epoch: int,
        base: _Base | None,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        states: Sequence[SavedState],
        services: Sequence[SavedService],
        unclaimed: KeyedSnapshot,
    ) -> None:
        self.is_discarded = False
        self.kind = request.kind
        self.epoch = epoch
        self.base_epoch = -1 if base is None else base.epoch
        #: the files of the handle, once written, if the next snapshot may build on them
        self.files: Mapping[str, FileHandle] | None = None
        self._log = log
        self._base = base
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._states = states
        self._service_names = [service.name for service in services]
        self._services = services
        self._groups: dict[int, GroupDraft] = {}
        self._lists: list[tuple[list[Entry], int]] = []
        self._timers: list[tuple[int, int, int, list[tuple[LiveTimer, bool]]]] = []
        self._position = 0
        self._error: StateError | None = None
        self._unclaimed = unclaimed

    def take_all(self, entries: list[Entry]) -> None:
        """Everything is to be written."""
        self._lists.append((entries, len(entries)))
        for index, service in enumerate(self._services):
            self._timers.append((EVENT_TIMER, 0, index, [(timer, True) for timer in service.event.live]))
            self._timers.append((PROCESSING_TIMER, 0, index, [(timer, True) for timer in service.processing.live]))

    def take_changes(self, epochs: Iterable[_Epoch]) -> None:
        """What was touched in these epochs is to be written."""
        epochs = list(epochs)
        for epoch in epochs:
            self._lists.append((epoch.entries, len(epoch.entries)))
        for index in range(len(self._services)):
            for which, kind, gone in (
                (0, EVENT_TIMER, GONE_EVENT_TIMER),
                (1, PROCESSING_TIMER, GONE_PROCESSING_TIMER),
            ):
                changed = [epoch.timers[index][which] for epoch in epochs if index < len(epoch.timers)]
                latest = changed[0] if len(changed) == 1 else {t: live for c in changed for t, live in c.items()}
                if latest:
                    self._timers.append((kind, gone, index, list(latest.items())))

    def group(self, key_group: int) -> GroupDraft:
        """The draft of a key group's block."""
        group = self._groups.get(key_group)
        if group is None:
            group = self._groups[key_group] = GroupDraft()
        return group

    def add(self, entry: Entry) -> None:
        """Encode an entry as it is now."""
        group, key = self.group(entry.key_group), entry.encoded_key
        if self._base is not None:
            group.touched.append(key)
        for index, (state, slot) in enumerate(zip(self._states, entry.values, strict=False)):
            if slot is None:
                continue
            try:
                self._add_slot(group, index, state, key, slot)
            except Exception as error:
                # touched by a user's function perhaps, which is not to blame
                message = f"state {state.meta.name!r} of key {entry.key!r} cannot be saved: {error}"
                self._error = self._error or StateError(message)

    def _add_slot(self, group: GroupDraft, index: int, state: SavedState, key: bytes, slot: Any) -> None:
        keys, namespaces, values = group.rows_of(index)
        keep = state.keep
        if not state.meta.namespaced:
            left = slot if keep is None else keep(slot)
            if left is not None:
                values.append(state.encode(left))
                keys.append(key)
                namespaces.append(b"")
            return
        for namespace, value in slot.items():
            left = value if keep is None else keep(value)
            if left is not None:
                encoded, encoded_namespace = state.encode(left), encode_namespace(namespace)
                keys.append(key)
                namespaces.append(encoded_namespace)
                values.append(encoded)

    def advance(self, budget_ms: float) -> bool:
        clock = self._log.clock
        deadline = clock.monotonic_ms() + budget_ms
        step = _STEP if budget_ms > 0 else 1
        while self._lists or self._timers:
            if self._error is not None:
                raise self._error
            if self._lists:
                self._encode_entries(step)
            else:
                self._encode_timers(step)
            if clock.monotonic_ms() >= deadline:
                break
        if self._error is not None:
            raise self._error
        if self._lists or self._timers:
            return False
        self._log.done(self)
        return True

    def _encode_entries(self, step: int) -> None:
        entries, count = self._lists[-1]
        save, start = self._log.save, self._position
        self._position = end = min(start + step, count)
        for entry in entries[start:end]:
            save(entry, self)
        if end == count:
            self._lists.pop()
            self._position = 0

    def _encode_timers(self, step: int) -> None:
        kind, gone, index, timers = self._timers[-1]
        start = self._position
        self._position = end = start + step
        for (timestamp, entry, namespace), is_live in timers[start:end]:
            rows = self.group(entry.key_group).timers_of(kind if is_live else gone, index)
            encoded = encode_namespace(namespace)
            rows[0].append(timestamp)
            rows[1].append(entry.encoded_key)
            rows[2].append(encoded)
        if end >= len(timers):
            self._timers.pop()
            self._position = 0

    def write(self, files: StateFileWriter) -> KeyedStateHandle:
        metas, services = [state.meta for state in self._states], self._service_names
        if self._base is None:
            metas, services = self._add_unclaimed(metas, services)
        if self.kind is SnapshotKind.CANONICAL:
            drafts = GroupDrafts(self._groups, metas, services)
            snapshot = KeyedSnapshot(self._max_parallelism, {meta.name: meta for meta in metas}, drafts)
            written = {CANONICAL_FILE: files.write("keyed-state", encode_canonical(snapshot, self.compression))}
            handle_format = CANONICAL_FORMAT
        else:
            content = encode_file(metas, services, self._groups, self._base is None, self.compression)
            written = {} if self._base is None else dict(self._base.files)
            name = f"{len(written):04d}-{'base' if self._base is None else 'changes'}"
            written[name] = files.write("keyed-state", content, shared=self.kind is SnapshotKind.INCREMENTAL)
            handle_format = HASHMAP_FORMAT
            # what lies in the directory of one checkpoint or savepoint goes with it: nothing may build on that
            self.files = written if all(file.is_shared for file in written.values()) else None
        self._groups = {}
        return KeyedStateHandle(handle_format, self._key_groups, self._max_parallelism, written)

    def _add_unclaimed(self, metas: list[StateMeta], services: list[str]) -> tuple[list[StateMeta], list[str]]:
        metas, services = [*metas, *self._unclaimed.metas.values()], services.copy()
        number_of = {meta.name: number for number, meta in enumerate(metas)}
        for key_group, restored in self._unclaimed.groups.items():
            group = self.group(key_group)
            for name, entries in restored.states.items():
                for column, attribute in zip(group.rows_of(number_of[name]), _ROW_ATTRIBUTES, strict=True):
                    column.extend(map(attribute, entries))
            for kind, by_service in (
                (EVENT_TIMER, restored.event_timers),
                (PROCESSING_TIMER, restored.processing_timers),
            ):
                for name, timers in by_service.items():
                    if name not in services:
                        services.append(name)
                    rows = group.timers_of(kind, services.index(name))
                    for timer in timers:
                        rows[0].append(timer.timestamp)
                        rows[1].append(timer.key)
                        rows[2].append(timer.namespace)
        return metas, services

    def discard(self) -> None:
        self.is_discarded = True
        self._lists = []
        self._timers = []
        self._groups = {}
