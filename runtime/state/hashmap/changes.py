"""Tracks changes since a snapshot, so that the next one neither reads every key nor holds up processing.

Snapshots divide time into *epochs*. The first touch of a key's entry in an epoch puts it on the epoch's list. If a
running snapshot still needs the entry's old values, they are captured then (copy on first write), together with its
neighbours where that is cheaper than recording which entries were captured. So the synchronous part of a snapshot only
takes the lists away. Changes go back to the last snapshot whose checkpoint is *complete*: those of aborted ones become
part of the next. If most entries change from one snapshot to the next, everything is written and touches are not
tracked. Task's thread, but for `PendingHashMapState.write`.

Flink's changelog logs every change; this one logs the changed keys, and only the latest values are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.errors import StateError
from runtime.state.handles import FileHandle, KeyedStateHandle, PendingKeyedState, StateFileWriter
from runtime.state.hashmap.columns import KeyColumn, KeyOrder, SavedState, TakenEntries
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
"""Maximum number of files of changes on one base. With more, a restore reads many; with fewer, everything is rewritten
more often."""
_SMALL_BYTES = 1 << 20
"""Bytes of changes that are always allowed, however small the base. With less, small states are rewritten all the time.
"""
_SMALL_ENTRIES = 4_096
"""Number of entries that a list may always have, however few entries the backend has."""
_STEP: Final = 64
"""Entries or timers that are encoded between two readings of the clock (some 0.2 ms)."""
_CHEAP_STEP: Final = 8_192
"""Entries that are captured in bulk between two readings of the clock (some 0.2 ms; up to 0.8 for numbers with
gaps)."""
_PAGE_BITS: Final = 9
"""Log2 of the number of neighbours that are captured together in bulk: 512. With more, a function that touches one
waits longer (some 20 µs); with fewer, there is more to record."""
_MOST_BLIND_EPOCHS: Final = 15
"""Maximum number of consecutive epochs without tracking of touches: that many checkpoints may write everything although
little has changed."""

_ROW_ATTRIBUTES = (attrgetter("key"), attrgetter("namespace"), attrgetter("value"))

LiveTimer = tuple[int, Any, Hashable]
ChangedTimers = dict[LiveTimer, bool]
"""Timer → whether it is registered now."""


@dataclass(frozen=True, slots=True)
class SavedService:
    """The timer queues of one timer service."""

    name: str
    event: TimerQueue
    processing: TimerQueue


@dataclass(frozen=True, slots=True)
class _Base:
    """The complete snapshot on which the next one builds."""

    epoch: int
    files: Mapping[str, FileHandle]

    @property
    def is_worn(self) -> bool:
        """Return whether it is time for a new base."""
        sizes = [file.size for _, file in sorted(self.files.items())]
        return len(sizes) > MAX_CHANGE_FILES or sum(sizes[1:]) > max(sizes[0], _SMALL_BYTES)


@dataclass(slots=True)
class _Epoch:
    """Keys and timers that were touched in one epoch."""

    number: int
    entries: list[Entry]
    timers: Sequence[tuple[ChangedTimers, ChangedTimers]]
    """By timer service: event time, processing time."""


class ChangeLog:
    """The epochs of one backend."""

    def __init__(self, clock: Clock, on_watch: Callable[[int], None]) -> None:
        """Start without epochs.

        Args:
            clock: for the budgets of snapshots.
            on_watch: is told the epoch that entries must have: `touch` must be called for entries of earlier ones.
        """
        self.clock = clock
        #: number of the current epoch
        self.epoch = 1
        self._on_watch = on_watch
        #: entries touched in the current epoch; None as long as no snapshot builds on another
        self._touched: list[Entry] | None = None
        #: number of entries of an epoch from which on it is cheaper to write everything
        self._most_touched = _SMALL_ENTRIES
        #: whether that has happened, so that touches are not tracked
        self._is_blind = False
        #: snapshots until they are tracked again, and their number at the beginning
        self._blind_left = 0
        self._blind_epochs = 0
        self._base: _Base | None = None
        #: closed epochs since the base, or since the first snapshot that may become one; oldest first
        self._epochs: list[_Epoch] = []
        #: touches up to that epoch are unknown: no snapshot before it can be a base
        self._unknown_until = 0
        #: snapshots that still need old values of entries, oldest first
        self._pending: list[PendingHashMapState] = []
        #: snapshots whose checkpoint is neither complete nor aborted
        self._undecided: dict[CheckpointId, PendingHashMapState] = {}

    def touch(self, entry: Entry) -> None:
        """Note that `entry`, which does not have the watched epoch, is about to be used and perhaps changed."""
        for pending in self._pending:
            pending.keep(entry)
        entry.touched = self.epoch
        if self._touched is not None:
            self._touched.append(entry)
            if len(self._touched) > self._most_touched:
                self._go_blind()

    def add(self, entry: Entry) -> None:
        """Note that `entry` is new and counts as touched in this epoch; call while `is_tracking`."""
        if self._touched is not None:
            self._touched.append(entry)
            if len(self._touched) > self._most_touched:
                self._go_blind()

    def snapshot(
        self,
        request: SnapshotRequest,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        entries: list[Entry],
        keys: KeyColumn,
        states: Sequence[SavedState],
        services: Sequence[SavedService],
        unclaimed: KeyedSnapshot,
    ) -> PendingHashMapState:
        """Close the epoch.

        Args:
            request: describes the snapshot.
            key_groups: of the backend.
            max_parallelism: number of key groups of the operator.
            entries: all entries, each with its position; the list may grow, only at its end, while `is_taking`.
            keys: their keys.
            states: in the order of their numbers.
            services: the timer services.
            unclaimed: restored state that has not been requested; part of a self-contained snapshot.
        """
        self._pending = [pending for pending in self._pending if not pending.is_discarded]
        builds_up = request.kind is SnapshotKind.INCREMENTAL
        if self._touched is not None:
            self._close_epoch(services, entries)
        elif builds_up:
            self._track_or_rest(services)
        self._most_touched = max(len(entries) // 2, _SMALL_ENTRIES)
        base = self._base if builds_up and self._base is not None and not self._base.is_worn else None
        pending = PendingHashMapState(
            self, request, self.epoch, base, key_groups, max_parallelism, states, services, unclaimed
        )
        if base is None:
            pending.take_all(entries, keys)
        else:
            pending.take_changes(self._epochs)
        self.epoch += 1
        if self._is_blind:
            self._unknown_until = self.epoch
        self._pending.append(pending)
        self._undecided[request.checkpoint_id] = pending
        self._watch()
        return pending

    def complete(self, checkpoint_id: CheckpointId) -> None:
        """Note that the checkpoint is complete: the next snapshot builds on it."""
        pending = self._undecided.get(checkpoint_id)
        if pending is None:
            return
        self._undecided = {other: p for other, p in self._undecided.items() if other > checkpoint_id}
        if pending.kind is SnapshotKind.CANONICAL:
            return
        if pending.kind is SnapshotKind.FULL or pending.files is None or pending.epoch < self._unknown_until:
            # earlier files may be deleted now, and its own files may not be shared
            self._base = None
        else:
            self._base = _Base(pending.epoch, pending.files)
        self._epochs = [epoch for epoch in self._epochs if epoch.number > pending.epoch]

    def abort(self, checkpoint_id: CheckpointId) -> None:
        """Note that the checkpoint was aborted."""
        pending = self._undecided.pop(checkpoint_id, None)
        if pending is not None:
            pending.discard()
            self.done(pending)

    def done(self, pending: PendingHashMapState) -> None:
        """Note that a snapshot no longer needs any entry."""
        if pending in self._pending:
            self._pending.remove(pending)
            self._watch()

    def _watch(self) -> None:
        self._on_watch(self.epoch if self._pending or self._touched is not None else 0)

    def _track_or_rest(self, services: Sequence[SavedService]) -> None:
        is_resting = self._is_blind and self._blind_left > 0
        if is_resting:
            self._blind_left -= 1
        else:
            self._touched = []
            self._is_blind = False
        for service in services:
            service.event.changed = None if is_resting else {}
            service.processing.changed = None if is_resting else {}

    def _go_blind(self) -> None:
        """Stop tracking touches: so much has changed that everything will be written, perhaps next time, too."""
        self._touched = None
        self._is_blind = True
        self._blind_epochs = self._blind_left = min(2 * self._blind_epochs + 1, _MOST_BLIND_EPOCHS)
        self._forget()
        self._watch()

    def _forget(self) -> None:
        self._base = None
        self._epochs.clear()
        self._unknown_until = self.epoch

    def _close_epoch(self, services: Sequence[SavedService], entries: list[Entry]) -> None:
        assert self._touched is not None
        timers = [(service.event.take_changed(), service.processing.take_changed()) for service in services]
        if self._base is None and not self._undecided:
            self._epochs.clear()
        self._epochs.append(_Epoch(self.epoch, self._touched, timers))
        if sum(len(epoch.entries) for epoch in self._epochs) > max(len(entries) // 2, _SMALL_ENTRIES):
            # much has changed, or checkpoints failed repeatedly: writing everything is cheaper
            self._forget()
        else:
            self._blind_epochs = 0
        self._touched = []

    @property
    def is_taking(self) -> bool:
        """Return whether a snapshot still needs entries to keep their positions."""
        return any(not pending.is_discarded for pending in self._pending)

    @property
    def is_tracking(self) -> bool:
        """Return whether new timer queues have to log their changes."""
        return self._touched is not None


class PendingHashMapState(PendingKeyedState):
    """A snapshot of the hashmap backend in progress."""

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
        #: the written files of the handle, if the next snapshot may build on them
        self.files: Mapping[str, FileHandle] | None = None
        self._base_epoch = -1 if base is None else base.epoch
        self._log = log
        self._base = base
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._states = states
        self._namespaced = [(index, state) for index, state in enumerate(states) if state.meta.namespaced]
        self._service_names = [service.name for service in services]
        self._services = services
        #: rows of namespaced states, and timers
        self._groups: dict[int, GroupDraft] = {}
        self._taken = TakenEntries(states, [], are_all=False)
        #: full snapshot: number of entries, captured pages, and the position up to which all are captured
        self._keys: KeyColumn | None = None
        self._count = 0
        self._pages = bytearray()
        self._page_bits = 0
        self._next_page = 0
        #: changes: lists of entries, and their number; the last list is processed from its beginning
        self._lists: list[tuple[list[Entry], int]] = []
        #: captured entries
        self._saved: set[int] = set()
        self._timers: list[tuple[int, int, int, Sequence[tuple[LiveTimer, bool]]]] = []
        self._position = 0
        self._is_taken = False
        self._has_room = False
        self._error: StateError | None = None
        self._unclaimed = unclaimed

    def take_all(self, entries: list[Entry], keys: KeyColumn) -> None:
        """Write everything."""
        self._taken = TakenEntries(self._states, entries, are_all=True)
        self._keys = keys
        self._count = len(entries)
        self._page_bits = _PAGE_BITS if self._is_cheap else 0
        self._pages = bytearray(-(-self._count >> self._page_bits))
        for index, service in enumerate(self._services):
            self._timers.append((EVENT_TIMER, 0, index, [(timer, True) for timer in service.event.live]))
            self._timers.append((PROCESSING_TIMER, 0, index, [(timer, True) for timer in service.processing.live]))

    def take_changes(self, epochs: Iterable[_Epoch]) -> None:
        """Write the entries touched in these epochs."""
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

    def keep(self, entry: Entry) -> None:
        """Capture an entry now, unless it was captured, or has changed since the snapshot was requested."""
        if self._keys is not None:
            index = entry.index
            if index < self._count:
                # the page of a changed entry has been captured
                page = index >> self._page_bits
                if not self._pages[page]:
                    self._take_pages(page, page + 1)
        elif self._base_epoch < entry.touched <= self.epoch:
            self._take_entry(entry)

    @property
    def _is_cheap(self) -> bool:
        return not self._namespaced and self._taken.is_cheap

    def _take_pages(self, page: int, end_page: int) -> None:
        if not self._has_room:
            self._taken.make_room(self._count)
            self._has_room = True
        for i in range(page, end_page):
            self._pages[i] = 1
        self._take(page << self._page_bits, min(end_page << self._page_bits, self._count))

    def _take_entry(self, entry: Entry) -> None:
        if id(entry) not in self._saved:
            # the list keeps it alive, so that its id stays unique
            self._saved.add(id(entry))
            entries = self._taken.entries
            entries.append(entry)
            self._take(len(entries) - 1, len(entries))

    def _take(self, start: int, end: int) -> None:
        try:
            for index, state in self._namespaced:
                for entry in self._taken.entries[start:end]:
                    self._add_rows(index, state, entry)
            self._taken.take(start, end)
        except StateError as error:
            # perhaps touched by a user's function, which did not cause the error
            self._error = self._error or error

    def _add_rows(self, index: int, state: SavedState, entry: Entry) -> None:
        slot = state.slot_of(entry)
        if slot is None:
            return
        keys, namespaces, values = self._group(entry.key_group).rows_of(index)
        keep = state.keep
        try:
            for namespace, value in slot.items():
                left = value if keep is None else keep(value)
                if left is not None:
                    encoded, encoded_namespace = state.encode(left), encode_namespace(namespace)
                    keys.append(entry.encoded_key)
                    namespaces.append(encoded_namespace)
                    values.append(encoded)
        except Exception as error:
            raise StateError(f"state {state.meta.name!r} of key {entry.key!r} cannot be saved: {error}") from error

    def _group(self, key_group: int) -> GroupDraft:
        """Return the draft of a key group's block."""
        group = self._groups.get(key_group)
        if group is None:
            group = self._groups[key_group] = GroupDraft()
        return group

    def advance(self, budget_ms: float) -> bool:
        clock = self._log.clock
        deadline = clock.monotonic_ms() + budget_ms
        goes_on = True
        while goes_on:
            goes_on = self._step(budget_ms > 0)
            if self._error is not None:
                raise self._error
            if clock.monotonic_ms() >= deadline:
                break
        return not goes_on

    def _step(self, is_large: bool) -> bool:
        """Do a small step; returns False if nothing was left to do."""
        if not self._is_taken:
            step = (_CHEAP_STEP if self._is_cheap else _STEP) if is_large else 1
            if self._next_page < len(self._pages):
                self._take_next(max(step >> self._page_bits, 1))
            elif self._lists:
                self._take_changed(step)
            if self._next_page >= len(self._pages) and not self._lists:
                self._is_taken = True
                self._log.done(self)
        elif self._timers:
            self._encode_timers(_STEP if is_large else 1)
        else:
            return self._taken.encode_some(_STEP if is_large else 1)
        return True

    def _take_next(self, num_pages: int) -> None:
        pages = self._pages
        start = pages.find(0, self._next_page)
        if start < 0:
            self._next_page = len(pages)
            return
        last = min(start + num_pages, len(pages))
        end = pages.find(1, start, last)
        self._next_page = last if end < 0 else end
        self._take_pages(start, self._next_page)

    def _take_changed(self, step: int) -> None:
        entries, count = self._lists[-1]
        epoch, start = self.epoch, self._position
        self._position = end = min(start + step, count)
        saved, taken = self._saved, self._taken.entries
        unsaved = [e for e in entries[start:end] if e.touched <= epoch and id(e) not in saved]
        saved.update(map(id, unsaved))
        position = len(taken)
        taken += unsaved
        self._take(position, len(taken))
        if end == count:
            self._lists.pop()
            self._position = 0

    def _encode_timers(self, step: int) -> None:
        kind, gone, index, timers = self._timers[-1]
        start = self._position
        self._position = end = start + step
        for (timestamp, entry, namespace), is_live in timers[start:end]:
            rows = self._group(entry.key_group).timers_of(kind if is_live else gone, index)
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
        order = (
            KeyOrder.of_entries(self._taken.entries, self._max_parallelism)
            if self._keys is None
            else self._keys.order(self._count)
        )
        columns = self._taken.packed(order)
        if self.kind is SnapshotKind.CANONICAL:
            drafts = GroupDrafts(columns, self._groups, metas, services)
            snapshot = KeyedSnapshot(self._max_parallelism, {meta.name: meta for meta in metas}, drafts)
            written = {CANONICAL_FILE: files.write("keyed-state", encode_canonical(snapshot, self.compression))}
            handle_format = CANONICAL_FORMAT
        else:
            content = encode_file(metas, services, columns, self._groups, self._base is None, self.compression)
            written = {} if self._base is None else dict(self._base.files)
            name = f"{len(written):04d}-{'base' if self._base is None else 'changes'}"
            written[name] = files.write("keyed-state", content, shared=self.kind is SnapshotKind.INCREMENTAL)
            handle_format = HASHMAP_FORMAT
            # files in the directory of one checkpoint or savepoint are deleted with it: nothing may build on them
            self.files = written if all(file.is_shared for file in written.values()) else None
        self._groups = {}
        states = {meta.name: meta for meta in (*self._unclaimed.metas.values(), *metas)}
        return KeyedStateHandle(
            handle_format, self._key_groups, self._max_parallelism, written, states=tuple(states.values())
        )

    def _add_unclaimed(self, metas: list[StateMeta], services: list[str]) -> tuple[list[StateMeta], list[str]]:
        metas, services = [*metas, *self._unclaimed.metas.values()], services.copy()
        number_of = {meta.name: number for number, meta in enumerate(metas)}
        for key_group, restored in self._unclaimed.groups.items():
            group = self._group(key_group)
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
        self._count = 0
        self._base_epoch = self.epoch
        self._lists = []
        self._timers = []
        self._groups = {}
        self._pages = bytearray()
        self._taken = TakenEntries((), [], are_all=False)
