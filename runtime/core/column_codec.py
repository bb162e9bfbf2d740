"""Column codecs: a list of values of one type to bytes and back. The layout is part of every snapshot.

A column is a flag byte (0: no nulls; 1: a byte per value follows, 1 where it is null) and then its values that are not
null, little-endian: numbers as an array, texts and bytes as uint32 lengths and the concatenation, lists and maps as
lengths and the columns of their flattened items, rows as their kinds and one column per field. Records must be in the
form that the type's coercer gives; what is not raises TypeError, ValueError, AttributeError or OverflowError.
"""

from __future__ import annotations

import array
import datetime
import decimal
import itertools
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    _SequenceTypeInfo,
)
from runtime.common.types import RowKind, rows_of

_BIG_ENDIAN: Final = sys.byteorder == "big"
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)


class ColumnCodec(ABC):
    """Writes and reads columns of one type, nulls included."""

    __slots__ = ()

    def write(self, values: Sequence[Any], out: bytearray) -> None:
        """Append a column."""
        start = len(out)
        out.append(0)
        try:
            self._write(values, out)
        except (TypeError, AttributeError):
            # None fits no array and no method: it is looked for only when something did not fit
            nulls = bytes([value is None for value in values])
            if 1 not in nulls:
                raise
            del out[start:]
            out.append(1)
            out += nulls
            self._write([value for value in values if value is not None], out)

    def read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        """Read a column of `n` values at `pos`; returns it and the position after it."""
        flag = data[pos]
        pos += 1
        if flag == 0:
            return self._read(data, pos, n)
        if flag != 1:
            raise ValueError(f"no column begins with {flag}")
        nulls = data[pos : pos + n]
        if len(nulls) != n:
            raise ValueError("cut off")
        present, pos = self._read(data, pos + n, n - sum(nulls))
        values = iter(present)
        return [None if null else next(values) for null in nulls], pos

    @abstractmethod
    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        """Append values; raises TypeError or AttributeError if one is None."""

    @abstractmethod
    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]: ...


def _write_array(code: str, values: Sequence[Any], out: bytearray) -> None:
    numbers = array.array(code, values)
    if _BIG_ENDIAN:
        numbers.byteswap()
    out += numbers.tobytes()


def _read_array(code: str, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
    numbers = array.array(code)
    end = pos + n * numbers.itemsize
    if end > len(data):
        raise ValueError("cut off")
    numbers.frombytes(data[pos:end])
    if _BIG_ENDIAN:
        numbers.byteswap()
    return numbers.tolist(), end


class _NumberCodec(ColumnCodec):
    """Numbers of fixed size; `code` is that of the array module."""

    __slots__ = ("_code",)

    def __init__(self, code: str) -> None:
        self._code = code

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        _write_array(self._code, values, out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        return _read_array(self._code, data, pos, n)


class _MappedCodec(ColumnCodec):
    """Codec of values that are kept as something else."""

    __slots__ = ("_from_stored", "_stored", "_to_stored")

    def __init__(self, stored: ColumnCodec, to_stored: Callable[[Any], Any], from_stored: Callable[[Any], Any]) -> None:
        self._stored = stored
        self._to_stored = to_stored
        self._from_stored = from_stored

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        to_stored = self._to_stored
        self._stored._write([to_stored(value) for value in values], out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        stored, pos = self._stored._read(data, pos, n)
        from_stored = self._from_stored
        return [from_stored(value) for value in stored], pos


class _BooleanCodec(ColumnCodec):
    __slots__ = ()

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        out += bytes(values)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        if pos + n > len(data):
            raise ValueError("cut off")
        return [byte == 1 for byte in data[pos : pos + n]], pos + n


class _StringCodec(ColumnCodec):
    """Lengths in characters and the texts' UTF-8 in one piece: one call encodes them all."""

    __slots__ = ()

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        joined = "".join(values).encode("utf-8", "surrogatepass")
        _write_array("I", [*map(len, values), len(joined)], out)
        out += joined

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        (*lengths, size), pos = _read_array("I", data, pos, n + 1)
        if pos + size > len(data):
            raise ValueError("cut off")
        joined = data[pos : pos + size].decode("utf-8", "surrogatepass")
        ends = list(itertools.accumulate(lengths, initial=0))
        if ends[-1] != len(joined):
            raise ValueError("lengths do not add up")
        return [joined[start:end] for start, end in itertools.pairwise(ends)], pos + size


class _BytesCodec(ColumnCodec):
    __slots__ = ()

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        joined = b"".join(values)
        _write_array("I", [len(value) for value in values], out)
        out += joined

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        lengths, pos = _read_array("I", data, pos, n)
        ends = list(itertools.accumulate(lengths, initial=pos))
        if ends[-1] > len(data):
            raise ValueError("cut off")
        return [data[start:end] for start, end in itertools.pairwise(ends)], ends[-1]


class _ListCodec(ColumnCodec):
    __slots__ = ("_element",)

    def __init__(self, element: ColumnCodec) -> None:
        self._element = element

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        _write_array("I", [len(value) for value in values], out)
        self._element.write([item for value in values for item in value], out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        lengths, pos = _read_array("I", data, pos, n)
        ends = list(itertools.accumulate(lengths, initial=0))
        items, pos = self._element.read(data, pos, ends[-1])
        return [items[start:end] for start, end in itertools.pairwise(ends)], pos


class _MapCodec(ColumnCodec):
    __slots__ = ("_item", "_key")

    def __init__(self, key: ColumnCodec, item: ColumnCodec) -> None:
        self._key = key
        self._item = item

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        _write_array("I", [len(value) for value in values], out)
        self._key.write([key for value in values for key in value], out)
        self._item.write([item for value in values for item in value.values()], out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        lengths, pos = _read_array("I", data, pos, n)
        ends = list(itertools.accumulate(lengths, initial=0))
        keys, pos = self._key.read(data, pos, ends[-1])
        items, pos = self._item.read(data, pos, ends[-1])
        pairs = list(zip(keys, items, strict=True))
        return [dict(pairs[start:end]) for start, end in itertools.pairwise(ends)], pos


class _TupleCodec(ColumnCodec):
    """Tuples, and what else has their fields in order: one column per field."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Sequence[ColumnCodec]) -> None:
        self._fields = fields

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        if not values:
            columns: list[Sequence[Any]] = [()] * len(self._fields)
        else:
            columns = list(zip(*values, strict=True))
        if len(columns) != len(self._fields):
            raise ValueError(f"{len(columns)} values for {len(self._fields)} fields")
        for codec, column in zip(self._fields, columns, strict=True):
            codec.write(column, out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        columns: list[list[Any]] = []
        for codec in self._fields:
            column, pos = codec.read(data, pos, n)
            columns.append(column)
        return (list(zip(*columns, strict=True)) if columns else [()] * n), pos


class _RowCodec(ColumnCodec):
    """Rows: a byte 0 if all are INSERT, else 1 and a byte per row; then as tuples."""

    __slots__ = ("_names", "_records")

    def __init__(self, names: tuple[str, ...], fields: Sequence[ColumnCodec]) -> None:
        self._names = names
        self._records = _TupleCodec(fields)

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        kinds = {row._row_kind for row in values}
        if kinds <= {RowKind.INSERT}:
            out.append(0)
        else:
            out.append(1)
            out += bytes([row._row_kind.value for row in values])
        self._records._write([row._values for row in values], out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        if data[pos] == 0:
            records, pos = self._records._read(data, pos + 1, n)
            return list(rows_of(records, self._names)), pos
        kinds = data[pos + 1 : pos + 1 + n]
        records, pos = self._records._read(data, pos + 1 + n, n)
        rows = rows_of(records, self._names)
        for row, kind in zip(rows, kinds, strict=True):
            row.set_row_kind(RowKind(kind))
        return list(rows), pos


class _InstantCodec(ColumnCodec):
    __slots__ = ()

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        _write_array("q", [value.seconds for value in values], out)
        _write_array("I", [value.nanos for value in values], out)

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        seconds, pos = _read_array("q", data, pos, n)
        nanos, pos = _read_array("I", data, pos, n)
        return list(map(Instant, seconds, nanos)), pos


class _PickledCodec(ColumnCodec):
    """A pickled field of a typed record: its type's name says "pickle". The list is pickled as a whole, nulls too."""

    __slots__ = ()

    def _write(self, values: Sequence[Any], out: bytearray) -> None:
        data = pickle.dumps(list(values), 5)
        _write_array("I", [len(data)], out)
        out += data

    def _read(self, data: bytes, pos: int, n: int) -> tuple[list[Any], int]:
        (size,), pos = _read_array("I", data, pos, 1)
        values: list[Any] = pickle.loads(data[pos : pos + size])
        return values, pos + size


def _big_int_bytes(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 8) >> 3, "little", signed=True)


def _big_int_of(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decimal_text(value: decimal.Decimal) -> str:
    if not isinstance(value, decimal.Decimal):
        raise TypeError(f"{value!r:.100} is not a Decimal")
    return str(value)


def _micros_of_day(value: datetime.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _time_of_micros(micros: int) -> datetime.time:
    return (_EPOCH + micros * _MICROSECOND).time()


def _micros_of_timestamp(value: datetime.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _timestamp_of_micros(micros: int) -> datetime.datetime:
    return _EPOCH + micros * _MICROSECOND


_BASIC: dict[BasicType, ColumnCodec] = {
    BasicType.STRING: _StringCodec(),
    BasicType.CHAR: _StringCodec(),
    BasicType.BOOLEAN: _BooleanCodec(),
    BasicType.BYTE: _NumberCodec("b"),
    BasicType.SHORT: _NumberCodec("h"),
    BasicType.INT: _NumberCodec("i"),
    BasicType.LONG: _NumberCodec("q"),
    BasicType.FLOAT: _NumberCodec("f"),
    BasicType.DOUBLE: _NumberCodec("d"),
    BasicType.BIG_INT: _MappedCodec(_BytesCodec(), _big_int_bytes, _big_int_of),
    BasicType.BIG_DEC: _MappedCodec(_StringCodec(), _decimal_text, decimal.Decimal),
    BasicType.INSTANT: _InstantCodec(),
}
_OTHERS: dict[type[TypeInformation], ColumnCodec] = {
    DateTypeInfo: _MappedCodec(_NumberCodec("i"), datetime.date.toordinal, datetime.date.fromordinal),
    TimeTypeInfo: _MappedCodec(_NumberCodec("q"), _micros_of_day, _time_of_micros),
    TimestampTypeInfo: _MappedCodec(_NumberCodec("q"), _micros_of_timestamp, _timestamp_of_micros),
    PickledBytesTypeInfo: _PickledCodec(),
}


def codec_for(type_info: TypeInformation) -> ColumnCodec:
    """Return the codec of a type."""
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC[type_info.basic_type]
    if type(type_info) in _OTHERS:
        return _OTHERS[type(type_info)]
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return _BytesCodec()
    if isinstance(type_info, _SequenceTypeInfo):
        return _ListCodec(codec_for(type_info.element_type))
    if isinstance(type_info, MapTypeInfo):
        return _MapCodec(codec_for(type_info.key_type), codec_for(type_info.value_type))
    if isinstance(type_info, RowTypeInfo):
        return _RowCodec(type_info.field_names, [codec_for(t) for t in type_info.field_types])
    if isinstance(type_info, TupleTypeInfo):
        return _TupleCodec([codec_for(t) for t in type_info.field_types])
    raise TypeError(f"no codec for values of type {type_info!r}")
