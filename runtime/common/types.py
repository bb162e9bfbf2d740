"""Row and RowKind: a record with positions and, where it has them, field names.

Rows are made once per record, so they have slots and a constructor for hot paths (`row_of`, `rows_of`) that checks
nothing. A row is mutable through `row[...] = ...` until it is emitted. Source: PyFlink, common/types.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

__all__ = ["Row", "RowKind", "row_of", "rows_of"]


class RowKind(enum.Enum):
    """A row's effect on a changelog; almost always INSERT."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short_string(self) -> str:
        """Return the text that Flink prints before a row: +I, -U, +U or -D."""
        return _SHORT[self.value]

    def __str__(self) -> str:
        return _SHORT[self.value]


_SHORT = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT


class Row:
    """A record whose values are reached by position, by name or as attributes.

    `Row(1, "a")` has no field names; `Row(name="x", age=3)` has, in the order written; `Row("name", "age")` can be
    called with values: `Row("name", "age")("x", 3)` equals `Row(name="x", age=3)`.

    Raises:
        ValueError: positions and names are mixed.
    """

    __slots__ = ("_fields", "_row_kind", "_values")
    _values: list[Any] | tuple[Any, ...]
    _fields: tuple[str, ...] | None
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("Row: give values either by position or by name, not both")
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Return a row of the given kind; arguments as for `Row`."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return field name → value; with `recursive` rows inside (also in lists and dicts) become dicts too.

        Raises:
            TypeError: the row has no field names.
        """
        if self._fields is None:
            raise TypeError(f"a row without field names cannot become a dict: {self!r}")
        if not recursive:
            return dict(zip(self._fields, self._values, strict=True))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=True)}

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields; as many names as values."""
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values in the order of `names`; all values in their own order if the row has no field names.

        Raises:
            ValueError: a name is not a field of the row.
        """
        if self._fields is None:
            return list(self._values)
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise ValueError(f"fields {missing} are not in {list(self._fields)}")
        return [self._values[self._fields.index(name)] for name in names]

    def __call__(self, *values: Any) -> Row:
        if len(values) > len(self._values):
            raise ValueError(f"Row: {len(values)} values for the fields {list(self._values)}")
        row = row_of(list(values), tuple(self._values))
        row._row_kind = self._row_kind
        return row

    def __getitem__(self, item: int | slice | str) -> Any:
        if isinstance(item, str):
            if self._fields is None or item not in self._fields:
                raise KeyError(item)
            return self._values[self._fields.index(item)]
        return self._values[item]

    def __setitem__(self, item: int | slice | str, value: Any) -> None:
        if isinstance(item, str):
            if self._fields is None or item not in self._fields:
                raise KeyError(item)
            item = self._fields.index(item)
        values = self._values
        if not isinstance(values, list):
            # the hot path stores the tuple that zip made; it becomes a list only for those who write to it
            values = self._values = list(values)
        values[item] = value

    def __getattr__(self, name: str) -> Any:
        if name[:1] != "_" or name[:2] != "__":
            # "_values" itself ends up here while an instance is being unpickled or copied
            fields = None if name in Row.__slots__ else self._fields
            if fields is not None and name in fields:
                return self._values[fields.index(name)]
        raise AttributeError(f"Row has no field {name!r}")

    def __contains__(self, item: Any) -> bool:
        """Return whether the row has a field of that name; without names, such a value."""
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return (
            self._fields == other._fields
            and self._row_kind is other._row_kind
            and tuple(self._values) == tuple(other._values)
        )

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[Any, ...]]:
        if self._row_kind is _INSERT:
            return row_of, (self._values, self._fields)
        return _restore, (self._values, self._fields, self._row_kind.value)

    def __copy__(self) -> Row:
        return _restore(list(self._values), self._fields, self._row_kind.value)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"


_new = object.__new__


def row_of(values: list[Any] | tuple[Any, ...], fields: tuple[str, ...] | None) -> Row:
    """Return a row of these values, which it takes over unchecked; `fields` has as many names, or is None."""
    row = _new(Row)
    row._values = values
    row._fields = fields
    row._row_kind = _INSERT
    return row


def rows_of(records: Iterable[list[Any] | tuple[Any, ...]], fields: tuple[str, ...] | None) -> list[Row]:
    """Return rows of many records, like `row_of`; written out, because the call is a third of the cost."""
    rows: list[Row] = []
    append, new, cls, insert = rows.append, _new, Row, _INSERT
    for values in records:
        row = new(cls)
        row._values = values
        row._fields = fields
        row._row_kind = insert
        append(row)
    return rows


def _restore(values: list[Any] | tuple[Any, ...], fields: tuple[str, ...] | None, kind: int) -> Row:
    row = row_of(values, fields)
    row._row_kind = RowKind(kind)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
