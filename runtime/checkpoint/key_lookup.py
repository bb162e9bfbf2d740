"""Looks up what a checkpoint or savepoint has of one key, and lists the first keys, reading only small parts of it.

`SavepointReader.lookup` and `SavepointReader.first_keys` are the way in. Values are decoded by the serializer that the
state names; pickled ones only if the caller allows it. Any thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from runtime.checkpoint.errors import KeyTypeError, NoSuchStateError, UnknownKeyColumnsError
from runtime.checkpoint.handles import OperatorState
from runtime.checkpoint.state_frames import is_pickled, read_codec
from runtime.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types, parse_type
from runtime.core.arrow import from_arrow, to_arrow
from runtime.core.column_keys import ColumnKeys
from runtime.core.keys import KeyEncodingError, decode_key, encode_key
from runtime.graph.key_types import key_type_info
from runtime.operators.columnar.frames import arrow_of
from runtime.operators.columnar.segments import saved_frames
from runtime.state.errors import StateError
from runtime.state.handles import KeyedStateHandle, StateFileReader
from runtime.state.key_groups import assign_key_groups, key_group_of
from runtime.state.lookup import FoundKey, columnar_entries, find_key, first_keys, stored_states
from runtime.state.namespaces import decode_namespace
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, StateMeta
from runtime.state.state_meta import COLUMNAR

MAX_GUESSES: Final = 1_000
"""Maximum number of combinations of columns of columnar state that are tried as its key. More: it takes seconds; fewer:
a key of three of a dozen columns is not found."""
SAMPLE_ROWS: Final = 64
"""Rows that combinations are tried with first."""
MAX_GROUPS: Final = 8
"""Maximum number of key groups that are read to tell combinations apart. More: a look takes longer; fewer: a column is
more often taken for one that may be the key, too."""
MAX_NAMED: Final = 3
"""Maximum number of combinations that an error names."""
_INTERNAL: Final = "__"
#: of the columns in which a window join has the key of both sides, numbered
_JOIN_KEY: Final = "__k"


@dataclass(frozen=True, slots=True)
class FoundValue:
    """The value of a key in one namespace."""

    namespace: Any
    """The window, of windows; None: the state has no namespaces."""
    value: Any
    """None if it is not decoded. Of columnar state: a list of rows, dicts."""
    touched_ms: Any = None
    """Of state with time to live: when it was last touched; of a list the times of its items, of a map a dict."""
    is_decoded: bool = True
    """Whether it could be read without unpickling."""


@dataclass(frozen=True, slots=True)
class FoundTimer:
    """A timer of a key."""

    service: str
    is_event_time: bool
    timestamp: int
    """Event or processing time in ms."""
    namespace: Any


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """State and timers of one key in a snapshot, of one keyed state."""

    state: StateMeta
    key: Any
    key_group: int
    subtask: int
    """Index of the subtask that had the key group."""
    values: Sequence[FoundValue]
    """One for each namespace; () if there is none."""
    timers: Sequence[FoundTimer]
    """Of the key, of all timer services of the operator, in firing order; not all if there are very many."""
    num_timers: int
    """Of all of them."""


class KeyFinder:
    """Looks into the keyed state of one operator.

    Args:
        operator: of a snapshot.
        location: of the snapshot, for errors.
        files: reads its files.
        directory: exists; local copies of parts go there.
        allow_pickle: whether pickled values may be unpickled.
    """

    def __init__(
        self, operator: OperatorState, location: str, files: StateFileReader, directory: Path, allow_pickle: bool
    ) -> None:
        self._operator = operator
        self._location = location
        self._files = files
        self._directory = directory
        self._allow_pickle = allow_pickle
        self._handles = [subtask.keyed for subtask in operator.subtasks]

    def states(self) -> dict[str, StateMeta]:
        """Return the keyed states of all subtasks by name."""
        found: dict[str, StateMeta] = {}
        for handle in self._handles:
            if handle is not None:
                found |= stored_states(handle, self._files)
        return found

    def lookup(self, state: str, key: Any) -> KeyLookup:
        """See `SavepointReader.lookup`."""
        meta = self._meta(state)
        key = self._typed(key)
        encoded = self._encoded(key)
        key_group = key_group_of(encoded, self._operator.max_parallelism)
        subtask, handle = self._handle_of(key_group)
        if handle is None:
            return KeyLookup(meta, key, key_group, subtask, (), (), 0)
        found = find_key(handle, state, encoded, self._files, self._directory, self._may_decode)
        # a subtask may have a state in its former form until it asks for it
        meta = found.meta or meta
        if meta.kind == COLUMNAR:
            values = self._rows(meta, key, key_group, found)
        else:
            values = self._values(meta, found.entries)
        timers = sorted(_timers(found), key=lambda timer: timer.timestamp)
        return KeyLookup(meta, key, key_group, subtask, values, timers, found.num_timers)

    def first_keys(self, state: str) -> Iterator[Any]:
        """See `SavepointReader.first_keys`."""
        meta = self._meta(state)
        if meta.kind == COLUMNAR:
            yield from self._columnar_keys(meta)
            return
        for handle in self._handles:
            if handle is not None:
                yield from map(decode_key, first_keys(handle, state, self._files, self._directory))

    def _meta(self, state: str) -> StateMeta:
        known = self.states()
        if state not in known:
            name = self._operator.name
            raise NoSuchStateError(self._location, f"{name!r} has no keyed state {state!r}", sorted(known))
        return known[state]

    def _typed(self, key: Any) -> Any:
        """Return a key as the program's key selector makes it."""
        declared = key_type_info(self._operator.key_type)
        coerce = None if declared is None else declared.coercer()
        if coerce is None:
            return key
        try:
            return coerce(key)
        except (TypeError, ValueError, OverflowError) as error:
            raise KeyTypeError(self._location, self._operator.key_type, str(error)) from error

    def _encoded(self, key: Any) -> bytes:
        try:
            return encode_key(key)
        except KeyEncodingError as error:
            raise KeyTypeError(self._location, self._operator.key_type, str(error)) from error

    def _handle_of(self, key_group: int) -> tuple[int, KeyedStateHandle | None]:
        for subtask, handle in enumerate(self._handles):
            if handle is not None and key_group in handle.key_groups:
                return subtask, handle
        # the subtask has no state at all
        return key_group * self._operator.parallelism // self._operator.max_parallelism, None

    def _may_decode(self, serializer: str) -> bool:
        return self._allow_pickle or not is_pickled(serializer)

    def _values(self, meta: StateMeta, entries: Iterable[StateEntry]) -> list[FoundValue]:
        if not self._may_decode(meta.serializer):
            return [FoundValue(decode_namespace(entry.namespace), None, is_decoded=False) for entry in entries]
        codec, _ = read_codec(meta)
        found = []
        for entry in entries:
            namespace, touched_ms = decode_namespace(entry.namespace), None
            try:
                value = codec.decode_timed(entry.value) if meta.has_ttl else codec.decode(entry.value)
            except Exception as error:
                raise StateError(f"state {meta.name!r} cannot be decoded as {meta.describe()}: {error}") from error
            if meta.has_ttl:
                value, touched_ms = codec.drop_times(value), _times_of(meta.kind, value)
            found.append(FoundValue(namespace, value, touched_ms))
        return found

    # --- columnar state -----------------------------------------------------------------------------------------------

    def _rows(self, meta: StateMeta, key: Any, key_group: int, found: FoundKey) -> list[FoundValue]:
        """Return the rows of a key: its columns are those by which all rows belong to their key groups."""
        frame = _frame(meta, found.entries)
        if frame.is_empty():
            return []
        columns = _KeyColumns(self._operator, self._location, meta)
        columns.narrow(frame, key_group)
        for number, other in itertools.islice(self._columnar_groups(meta), MAX_GROUPS):
            if columns.is_told:
                break
            columns.narrow(other, number)
        same = columns.agreed([rows.to_dicts() for rows in columns.rows(frame, key)])
        return [FoundValue(None, same)] if same else []

    def _columnar_keys(self, meta: StateMeta) -> Iterator[Any]:
        columns = _KeyColumns(self._operator, self._location, meta)
        held: list[pl.DataFrame] = []
        for key_group, frame in self._columnar_groups(meta):
            columns.narrow(frame, key_group)
            held.append(frame)
            if columns.is_told or len(held) == MAX_GROUPS:
                for each in held:
                    yield from columns.agreed(columns.keys(each))
                held.clear()
        for each in held:
            yield from columns.agreed(columns.keys(each))

    def _columnar_groups(self, meta: StateMeta) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the rows of each key group that has any."""
        for handle in self._handles:
            if handle is not None:
                for key_group, entries in columnar_entries(handle, meta.name, self._files):
                    frame = _frame(meta, entries)
                    if not frame.is_empty():
                        yield key_group, frame


class _KeyColumns:
    """The columns that may be the key of columnar state: those by which all rows that were seen belong where they are.

    Args:
        operator: has the state.
        location: of the snapshot, for errors.
        meta: of the state.
    """

    def __init__(self, operator: OperatorState, location: str, meta: StateMeta) -> None:
        self._operator = operator
        self._location = location
        self._state = meta.name
        declared, rows = key_type_info(operator.key_type), parse_type(meta.serializer)
        self._types: list[TypeInformation] = []
        #: None: the type of the keys is not declared
        self._left: list[ColumnKeys] | None = None
        if declared is not None and isinstance(rows, RowTypeInfo):
            self._types = list(declared.field_types) if isinstance(declared, TupleTypeInfo) else [declared]
            found = list(itertools.islice(_combinations(rows, self._types), MAX_GUESSES + 1))
            self._left = [ColumnKeys(names, Types.ROW_NAMED(names, self._types)) for names in found]

    @property
    def is_told(self) -> bool:
        """Return whether no more than one combination is left."""
        return self._left is not None and len(self._left) == 1

    def narrow(self, frame: pl.DataFrame, key_group: int) -> None:
        """Keep what fits all rows of a key group.

        Raises:
            UnknownKeyColumnsError: nothing does, or there is too much to try.
        """
        if self._left is None:
            raise self._unknown("the program has not declared the type of its keys")
        if len(self._left) > MAX_GUESSES:
            raise self._unknown(f"more than {MAX_GUESSES} combinations of columns are of its type")
        for some in (frame.head(SAMPLE_ROWS), frame):
            columns = arrow_of(some)
            self._left = [keys for keys in self._left if self._fits(keys, columns, key_group)]
        if not self._left:
            raise self._unknown(
                f"by no columns of the type {self._operator.key_type} do the rows of key group {key_group} belong there"
            )

    def _fits(self, keys: ColumnKeys, columns: pa.RecordBatch, key_group: int) -> bool:
        groups = assign_key_groups(keys.hashes(columns), self._operator.max_parallelism)
        return bool((groups == key_group).all())

    def rows(self, frame: pl.DataFrame, key: Any) -> list[pl.DataFrame]:
        """Return the rows of a key by each combination that is left."""
        parts = key if len(self._types) > 1 else (key,)
        try:
            wanted = pl.DataFrame(to_arrow([tuple(parts)], Types.TUPLE(self._types)))
        except TypeError as error:
            raise KeyTypeError(self._location, self._operator.key_type, str(error)) from error
        found = []
        for keys in self._left or ():
            pairs = zip(keys.names, wanted, strict=True)
            same = [pl.col(name).eq_missing(pl.lit(part.cast(frame.schema[name])).first()) for name, part in pairs]
            found.append(frame.filter(same))
        return found

    def keys(self, frame: pl.DataFrame) -> list[list[Any]]:
        """Return the keys by each combination that is left."""
        found = []
        for keys in self._left or ():
            unique = arrow_of(frame.select(keys.names).unique(maintain_order=True))
            parts = from_arrow(unique, Types.TUPLE(self._types))
            found.append(parts if len(self._types) > 1 else [part for (part,) in parts])
        return found

    def agreed(self, answers: Sequence[list[Any]]) -> list[Any]:
        """Return the answer that the combinations have in common.

        Raises:
            UnknownKeyColumnsError: they differ.
        """
        if any(answer != answers[0] for answer in answers[1:]):
            several = " or ".join(", ".join(keys.names) for keys in (self._left or [])[:MAX_NAMED])
            raise self._unknown(f"they may be {several}")
        return answers[0]

    def _unknown(self, why: str) -> UnknownKeyColumnsError:
        return UnknownKeyColumnsError(self._location, self._state, why)


def _combinations(rows: RowTypeInfo, types: Sequence[TypeInformation]) -> Iterator[tuple[str, ...]]:
    """Yield columns of these types, those in front first; none of an operator's own but the key that a join has."""
    of_join = tuple(f"{_JOIN_KEY}{number}" for number in range(len(types)))
    if set(of_join) <= set(rows.field_names):
        return iter([of_join])
    columns = [
        (name, kind) for name, kind in zip(rows.field_names, rows.field_types, strict=True) if name[:2] != _INTERNAL
    ]
    names = [[name for name, kind in columns if kind == wanted] for wanted in types]
    return (found for found in itertools.product(*names) if len(set(found)) == len(found))


def _frame(meta: StateMeta, entries: Sequence[StateEntry]) -> pl.DataFrame:
    group = KeyGroupSnapshot({meta.name: entries})
    frames = [frame for _, frame in saved_frames(meta.name, KeyedSnapshot(1, {}, {key_group_of(b"", 1): group}))]
    return pl.concat(frames) if frames else pl.DataFrame()


# --- parts ------------------------------------------------------------------------------------------------------------


def _times_of(kind: str, timed: Any) -> Any:
    """Return the times of a value with time to live, as `StateCodec.decode_timed` gives it."""
    if kind == "list":
        return [time for _, time in timed]
    if kind == "map":
        return {key: time for key, (_, time) in timed.items()}
    return timed[1]


def _timers(found: FoundKey) -> Iterator[FoundTimer]:
    for is_event_time, services in ((True, found.event_timers), (False, found.processing_timers)):
        for service, timers in services.items():
            for timer in timers:
                yield FoundTimer(service, is_event_time, timer.timestamp, decode_namespace(timer.namespace))
