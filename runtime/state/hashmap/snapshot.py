"""Converts the hashmap backend's state to the canonical snapshot form and back.

SnapshotWriter encodes entries by key group. RestoredState holds restored state, still encoded, until a descriptor or a
timer service requests it; state that is never requested goes into the next snapshot unchanged. Task thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runtime.core.ids import KeyGroup
from runtime.state.codecs import StateCodec
from runtime.state.errors import StateError
from runtime.state.hashmap.entries import Entry
from runtime.state.key_groups import KeyGroupRange
from runtime.state.namespaces import encode_namespace
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, StateMeta, TimerEntry
from runtime.state.timers import TimerQueue

KeepUnexpired = Callable[[Any, int], Any]
"""(slot value, now in ms) → its unexpired part, or None."""


class _GroupDraft:
    """Builds a KeyGroupSnapshot."""

    __slots__ = ("event_timers", "processing_timers", "states")

    def __init__(self) -> None:
        self.states: dict[str, list[StateEntry]] = {}
        self.event_timers: dict[str, list[TimerEntry]] = {}
        self.processing_timers: dict[str, list[TimerEntry]] = {}


class SnapshotWriter:
    """Builds a KeyedSnapshot."""

    def __init__(self, max_parallelism: int, now_ms: int) -> None:
        self._max_parallelism = max_parallelism
        self._now_ms = now_ms
        self._metas: dict[str, StateMeta] = {}
        self._groups: dict[KeyGroup, _GroupDraft] = {}

    def group(self, key_group: int) -> _GroupDraft:
        return self._groups.setdefault(KeyGroup(key_group), _GroupDraft())

    def add_meta(self, meta: StateMeta) -> None:
        self._metas[meta.name] = meta

    def add_state(
        self,
        slots: Sequence[Any],
        meta: StateMeta,
        codec: StateCodec,
        entries: Sequence[Entry],
        keep: KeepUnexpired | None,
    ) -> None:
        """Encode the content of a state.

        Args:
            slots: by position of the entry.
            meta: of the state.
            codec: of the state.
            entries: all of them.
            keep: returns the part of a value to keep; None = all of it.

        Raises:
            StateError: a value does not fit its serializer; the message names state and key.
        """
        self.add_meta(meta)
        encode = codec.encode_timed if meta.has_ttl else codec.encode
        for entry, slot in zip(entries, slots, strict=True):
            if slot is None:
                continue
            encoded: list[StateEntry] = []
            try:
                for namespace, value in slot.items() if meta.namespaced else ((None, slot),):
                    left = value if keep is None else keep(value, self._now_ms)
                    if left is not None:
                        encoded.append(StateEntry(entry.encoded_key, encode_namespace(namespace), encode(left)))
            except Exception as error:
                raise StateError(f"state {meta.name!r} of key {entry.key!r} cannot be saved: {error}") from error
            if encoded:
                self.group(entry.key_group).states.setdefault(meta.name, []).extend(encoded)

    def add_timers(self, service: str, event: TimerQueue, processing: TimerQueue) -> None:
        """Encode the live timers of a timer service, in the order in which they would fire."""
        for timestamp, key, namespace in event.in_order():
            timer = TimerEntry(timestamp, key.encoded_key, encode_namespace(namespace))
            self.group(key.key_group).event_timers.setdefault(service, []).append(timer)
        for timestamp, key, namespace in processing.in_order():
            timer = TimerEntry(timestamp, key.encoded_key, encode_namespace(namespace))
            self.group(key.key_group).processing_timers.setdefault(service, []).append(timer)

    def finish(self) -> KeyedSnapshot:
        groups = {
            key_group: KeyGroupSnapshot(draft.states, draft.event_timers, draft.processing_timers)
            for key_group, draft in sorted(self._groups.items())
        }
        return KeyedSnapshot(self._max_parallelism, self._metas, groups)


class RestoredState:
    """State restored for some key groups that has not been requested yet."""

    def __init__(self, key_group_range: KeyGroupRange) -> None:
        self._range = key_group_range
        self._metas: dict[str, StateMeta] = {}
        self._groups: dict[KeyGroup, _GroupDraft] = {}

    def add(self, snapshot: KeyedSnapshot) -> None:
        """Take over the key groups of the range."""
        self._metas.update(snapshot.metas)
        for key_group, group in sorted(snapshot.groups.items()):
            if key_group in self._range:
                draft = self._groups.setdefault(key_group, _GroupDraft())
                for source, target in (
                    (group.event_timers, draft.event_timers),
                    (group.processing_timers, draft.processing_timers),
                ):
                    for name, timers in source.items():
                        target.setdefault(name, []).extend(timers)
                for name, entries in group.states.items():
                    draft.states.setdefault(name, []).extend(entries)

    def meta_of(self, state_name: str) -> StateMeta | None:
        return self._metas.get(state_name)

    def keys_of(self, state_name: str) -> Iterator[bytes]:
        """Yield the encoded keys that have this state, once per namespace."""
        for group in self._groups.values():
            yield from (entry.key for entry in group.states.get(state_name, ()))

    def take_state(self, meta: StateMeta, codec: StateCodec, now_ms: int) -> Iterator[tuple[StateEntry, Any]]:
        """Remove and decode a state, with or without times according to `meta`."""
        written = self._metas.pop(meta.name, None)
        if written is None:
            return
        decode = codec.decode_timed if written.has_ttl else codec.decode
        for group in self._groups.values():
            for entry in group.states.pop(meta.name, ()):
                value = decode(entry.value)
                if meta.has_ttl and not written.has_ttl:
                    value = codec.add_times(value, now_ms)
                elif written.has_ttl and not meta.has_ttl:
                    value = codec.drop_times(value)
                yield entry, value

    def take_timers(self, service: str) -> tuple[list[TimerEntry], list[TimerEntry]]:
        """Remove and return the event-time and the processing-time timers of a timer service."""
        groups = self._groups.values()
        return (
            [timer for group in groups for timer in group.event_timers.pop(service, ())],
            [timer for group in groups for timer in group.processing_timers.pop(service, ())],
        )

    @property
    def has_timers(self) -> bool:
        """Return whether there are timers of services that have not been requested."""
        return any(
            timers
            for group in self._groups.values()
            for by_service in (group.event_timers, group.processing_timers)
            for timers in by_service.values()
        )

    def frozen(self) -> KeyedSnapshot:
        """Return a copy of the current content, unaffected by later removals."""
        groups = {
            key_group: KeyGroupSnapshot(dict(group.states), dict(group.event_timers), dict(group.processing_timers))
            for key_group, group in self._groups.items()
        }
        return KeyedSnapshot(0, dict(self._metas), groups)

    def copy_to(self, writer: SnapshotWriter) -> None:
        """Add everything that is still here to a snapshot."""
        for meta in self._metas.values():
            writer.add_meta(meta)
        for key_group, group in self._groups.items():
            for name, entries in group.states.items():
                writer.group(key_group).states.setdefault(name, []).extend(entries)
            for name, timers in group.event_timers.items():
                writer.group(key_group).event_timers.setdefault(name, []).extend(timers)
            for name, timers in group.processing_timers.items():
                writer.group(key_group).processing_timers.setdefault(name, []).extend(timers)
