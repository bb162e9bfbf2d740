"""StateMeta: the name, kind and type of a state; what a snapshot has, and what an operator declares before it runs.

Plain text, so that states can be compared where nobody can load user code: in the JobMaster and in a web process. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from runtime.core.serializers import serializer_for
from runtime.state.codecs import codec_of
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor

COLUMNAR: Final = "columnar"
"""Kind of keyed state of vectorised operators: Arrow IPC of many keys; the serializer is the type of its rows."""
WRITTEN: Final = "__written"
"""Last column of the rows of columnar state with time to live: processing time of the last write for their key, ms. It
comes and goes with the time to live, and so does not count when states are compared."""
_WRITTEN_IN_TYPE = f', "{WRITTEN}": long>'
LIST_OF_OPERATOR: Final = "operator list"
"""Kind of operator state whose items are dealt out when the parallelism changes."""
UNION_OF_OPERATOR: Final = "operator union list"
"""Kind of operator state of which every subtask gets all items."""
BROADCAST: Final = "broadcast"
"""Kind of operator state that is the same in every subtask."""
OPERATOR_KINDS: Final = frozenset({LIST_OF_OPERATOR, UNION_OF_OPERATOR, BROADCAST})


@dataclass(frozen=True, slots=True)
class StateMeta:
    """Information to read a state back: its kind and the names of its serializers."""

    name: str
    kind: str
    """value | list | map | reducing | aggregating | columnar, of keyed state; or one of OPERATOR_KINDS"""
    serializer: str
    """Name of the serializer that encoded the values, for the compatibility check; see runtime.core.serializers. "" =
    unknown."""
    namespaced: bool
    has_ttl: bool = False
    """Whether values carry the times at which they were last touched."""
    former: tuple[str, ...] = ()
    """Of a declared state: other serializers' names under which earlier versions wrote what can be read."""

    @property
    def is_keyed(self) -> bool:
        """Return whether it is state per key."""
        return self.kind not in OPERATOR_KINDS

    def is_readable_as(self, other: StateMeta) -> bool:
        """Return whether state written as `self` can be read as `other`: time to live may be added or removed."""
        if (self.kind, self.namespaced) != (other.kind, other.namespaced):
            return False
        is_named = bool(self.serializer and other.serializer)
        return not is_named or self._values == other._values or self.serializer in other.former

    @property
    def _values(self) -> str:
        """Return the name of the serializer of the values themselves."""
        if self.kind == COLUMNAR and has_written(self):
            return f"{self.serializer.removesuffix(_WRITTEN_IN_TYPE)}>"
        return self.serializer

    def describe(self) -> str:
        """Describe the state for error messages."""
        scope = "namespaced " if self.namespaced else ""
        values = f" of {self.serializer}" if self.serializer else ""
        return f"{scope}{self.kind} state{values}{' with time to live' if self.has_ttl else ''}"


class StatePart(NamedTuple):
    """A part of what an operator keeps that its type does not tell: an aggregate, an expression that rows are ordered
    by."""

    content: str
    """What it is; state with another content at this place is not read."""
    of: str = ""
    """The expression that it is computed from; state of another one goes on, unless it was at another place before."""

    def describe(self) -> str:
        """Describe the part for error messages."""
        return f"{self.content}({self.of})" if self.of else self.content


def moved_parts(written: Sequence[StatePart], expected: Sequence[StatePart]) -> list[StatePart]:
    """Return the parts that are at another place than the one at which they were written, in their present order.

    Args:
        written: as they are in a snapshot.
        expected: as the operator keeps them; as many.
    """
    differing = [pair for pair in zip(written, expected, strict=True) if pair[0] != pair[1]]
    before = {was for was, _ in differing}
    return [now for _, now in differing if now in before]


def has_written(columnar: StateMeta) -> bool:
    """Return whether the rows of columnar state carry WRITTEN."""
    return columnar.serializer.endswith(_WRITTEN_IN_TYPE)


@dataclass(frozen=True, slots=True)
class DeclaredStates:
    """The states that an operator is known to use before it runs."""

    states: Sequence[StateMeta] = ()
    is_complete: bool = True
    """Whether it uses no others; else user functions may ask for more when they are opened."""

    @property
    def is_columnar(self) -> bool:
        """Return whether the operator reads its keyed state itself, and refuses any that it does not know."""
        return any(state.kind == COLUMNAR for state in self.states)

    def of(self, name: str, *, is_keyed: bool) -> StateMeta | None:
        """Return the state of a name; None: none is declared."""
        return next((state for state in self.states if state.name == name and state.is_keyed == is_keyed), None)


NO_STATES: Final = DeclaredStates()


def json_of(what: str) -> str:
    """Return the name in place of a serializer's for items of JSON, given what they are; "" = unknown."""
    return f"json<{what}>" if what else ""


def is_json(serializer: str) -> bool:
    """Return whether a name is one that `json_of` has made: there is no serializer of that name."""
    return serializer.startswith("json<")


def timed_windows(name: str, *, is_event_time: bool) -> str:
    """Return the type of windows of a time, given its name without it."""
    return f"{name} of {'event' if is_event_time else 'processing'} time"


def are_windows_readable(written: str, expected: str) -> bool:
    """Return whether state of windows of one type can be read as of another.

    Args:
        written: type of the windows in a snapshot; earlier versions do not say of which time a "TimeWindow" is.
        expected: type of the windows of the operator.
    """
    if written == expected:
        return True
    times = (timed_windows(written, is_event_time=is_event_time) for is_event_time in (True, False))
    return written in ("TimeWindow", "merging TimeWindow") and expected in times


def keyed_state(descriptor: StateDescriptor, *, namespaced: bool = False) -> StateMeta:
    """Return the meta of the keyed state of a descriptor.

    Raises:
        TypeError: not one of the five kinds of keyed state.
    """
    codec = codec_of(descriptor)
    return StateMeta(descriptor.name, codec.kind, codec.name, namespaced, descriptor.ttl_config is not None)


def operator_list(descriptor: ListStateDescriptor) -> StateMeta:
    """Return the meta of a descriptor's list state that is dealt out when the parallelism changes."""
    serializer = serializer_for(descriptor.elem_type_info).name
    return StateMeta(descriptor.name, LIST_OF_OPERATOR, serializer, namespaced=False)


def broadcast_state(descriptor: MapStateDescriptor) -> StateMeta:
    """Return the meta of a descriptor's broadcast state."""
    keys, values = serializer_for(descriptor.key_type_info), serializer_for(descriptor.value_type_info)
    return StateMeta(descriptor.name, BROADCAST, f"map<{keys.name}, {values.name}>", namespaced=False)


def meta_to_json(meta: StateMeta) -> dict[str, Any]:
    """Return a state's meta as JSON."""
    saved = {
        "name": meta.name,
        "kind": meta.kind,
        "serializer": meta.serializer,
        "namespaced": meta.namespaced,
        "has_ttl": meta.has_ttl,
    }
    return saved | ({"former": list(meta.former)} if meta.former else {})


def meta_from_json(saved: Mapping[str, Any]) -> StateMeta:
    """Return the meta passed to `meta_to_json`."""
    former = tuple(saved.get("former", ()))
    return StateMeta(saved["name"], saved["kind"], saved["serializer"], saved["namespaced"], saved["has_ttl"], former)
