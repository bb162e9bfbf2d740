"""StreamFacts: what is known of the stream that leaves a port, before anything runs. Plain values.

`Unknown` stands for a stream above which something is unfinished or wrong: what lies below it is not known yet, and is
nobody's fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TimestampTypeInfo, TypeInformation, Types
from runtime.operators.columnar.frames import FrameReader, fields_of

Changelog = Literal["append", "retract"]
Origin = tuple[str, str]
"""(node, column) of the source, or of the node that computes the column."""


@dataclass(frozen=True)
class StreamFacts:
    """Facts of a stream.

    Args:
        row: type of its records; None: Python objects.
        changelog: whether rows take earlier ones back.
        unique_key: columns of which no two rows of the current state agree, if there are such.
        event_time: whether records have event times.
        watermarks: whether the stream has watermarks.
        time_column: a column that equals the event time, if one is known.
        bounded: whether the stream ends by itself.
        origins: column → where it comes from.
    """

    row: TypeInformation | None
    changelog: Changelog = "append"
    unique_key: tuple[str, ...] | None = None
    event_time: bool = False
    watermarks: bool = False
    time_column: str | None = None
    bounded: bool = False
    origins: tuple[tuple[str, Origin], ...] = ()

    @property
    def columns(self) -> dict[str, TypeInformation]:
        """Return the columns by name; of records that are no rows, the one column "value"; of objects, none."""
        return {} if self.row is None else fields_of(self.row)

    @property
    def row_type(self) -> RowTypeInfo | None:
        """Return the type of the rows, if they have named columns."""
        return self.row if isinstance(self.row, RowTypeInfo) and self.row.is_named else None

    @property
    def origin(self) -> Mapping[str, Origin]:
        """Return where each column comes from."""
        return dict(self.origins)

    @cached_property
    def _hash(self) -> int:
        return hash((self.row, self.changelog, self.unique_key, self.event_time, self.watermarks, self.origins))

    def __hash__(self) -> int:
        return self._hash

    def to_json(self) -> Mapping[str, Any]:
        """Return the form for the page; the same one each time."""
        return self._json

    @cached_property
    def _json(self) -> Mapping[str, Any]:
        return {
            "columns": None if self.row is None else _columns_json(self.row),
            "changelog": self.changelog,
            "unique_key": None if self.unique_key is None else list(self.unique_key),
            "event_time": self.event_time,
            "watermarks": self.watermarks,
            "time_column": self.time_column,
            "bounded": self.bounded,
            # tuples: of lists, a full collection of garbage had 100,000 to look at
            "origin": dict(self.origins),
        }


@lru_cache(maxsize=4096)
def _columns_json(row: TypeInformation) -> list[dict[str, str]]:
    return [_column_json(name, type_info) for name, type_info in fields_of(row).items()]


@lru_cache(maxsize=4096)
def _column_json(name: str, type_info: TypeInformation) -> dict[str, str]:
    (dtype,) = FrameReader(Types.ROW_NAMED([name], [type_info])).schema.values()
    return {"name": name, "type": type_info.type_string(), "dtype": str(dtype)}


@dataclass(frozen=True, slots=True)
class Unknown:
    """Says that nothing is known of a stream, because of a node above it, or the node that makes it."""

    because_of: str


def is_time(type_info: TypeInformation) -> bool:
    """Return whether a column may hold event times."""
    if isinstance(type_info, TimestampTypeInfo):
        return True
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in (BasicType.LONG, BasicType.INSTANT)


def origins_of(
    names: Iterable[str], node: str, passed_on: Mapping[str, str], facts: StreamFacts | None
) -> tuple[tuple[str, Origin], ...]:
    """Return where the columns of a result come from.

    Args:
        names: of the result's columns.
        node: that makes it.
        passed_on: column of the result → column of the input that it is unchanged.
        facts: of the input; None: there is none.
    """
    known = {} if facts is None else {pair[0]: pair for pair in facts.origins}
    made = []
    for name in names:
        column = passed_on.get(name)
        pair = None if column is None else known.get(column)
        if pair is None:
            pair = (name, (node, name))
        # of rows with many columns below each other, most pairs are the same
        made.append(pair if pair[0] == name else (name, pair[1]))
    return tuple(made)
