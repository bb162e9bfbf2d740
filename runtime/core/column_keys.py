"""ColumnKeys: a key selector that names fields, and the hashes of the keys of a whole batch at once.

The hashes are those of the canonical encoding (`runtime.core.keys`), computed without making it: CRC-32 is linear, so
the checksum of a key is put together from checksums of its fields, which numpy looks up for numbers and a dictionary
holds for everything else. Pure; any thread may call it.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from runtime.core.arrow import from_arrow
from runtime.core.keys import encode_key, mix_hashes

Crc = npt.NDArray[np.uint32]
_ONES = 0xFFFFFFFF
_INT_TAG = encode_key(0)[:1]
_FLOAT_TAG = encode_key(0.0)[:1]
_NULL = encode_key(None)
_NAN = encode_key(float("nan"))
_INTEGERS = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})
_FLOATS = frozenset({BasicType.FLOAT, BasicType.DOUBLE})


class ColumnKeys:
    """Selects fields of rows or tuples as the key: the value of one field, or a tuple of the values of several.

    Args:
        names: of the fields, in the order that the key has them; not empty.
        record_type: type of the records.

    Raises:
        ValueError: no field is named, or one twice, or one that the records do not have.
        TypeError: the records have no fields.
    """

    def __init__(self, names: Sequence[str], record_type: TypeInformation | None) -> None:
        if not isinstance(record_type, (RowTypeInfo, TupleTypeInfo)):
            raise TypeError(f"keys by column need records with named fields, as Types.ROW_NAMED has, not {record_type}")
        if isinstance(record_type, RowTypeInfo):
            known: Sequence[str] = record_type.field_names
        else:
            known = [f"f{i}" for i in range(len(record_type.field_types))]
        if not names:
            raise ValueError("a key needs at least one column")
        for name in names:
            if name not in known:
                raise ValueError(f"there is no column {name!r} to key by; the records have {', '.join(known)}")
        if len(set(names)) < len(names):
            raise ValueError(f"a key has each column once, not {', '.join(names)}")
        self.names = tuple(names)
        self.positions = tuple(known.index(name) for name in names)
        self.types = tuple(record_type.field_types[position] for position in self.positions)

    @property
    def key_type(self) -> TypeInformation:
        """Return the type of the keys."""
        return self.types[0] if len(self.types) == 1 else Types.TUPLE(list(self.types))

    def __call__(self, value: Any) -> Any:
        """Return the key of one record."""
        if len(self.positions) == 1:
            return value[self.positions[0]]
        return tuple([value[position] for position in self.positions])

    def hashes(self, columns: pa.RecordBatch) -> Crc:
        """Return the hash of each row's key; equals `key_hash(encode_key(key))`.

        Args:
            columns: a batch of the record type, or at least its fields, found by name.

        Returns:
            Shape (num_rows,), uint32.

        Raises:
            KeyEncodingError: a field has no canonical encoding.
        """
        count = len(self.names)
        start = zlib.crc32(b"\x10" + bytes([count])) if count > 1 else 0
        register: Crc = np.full(columns.num_rows, start ^ _ONES, dtype=np.uint32)
        for name, type_info in zip(self.names, self.types, strict=True):
            checksums, lengths = _field(columns.column(columns.schema.get_field_index(name)), type_info)
            register = _behind(register, lengths) ^ checksums
        return mix_hashes(register ^ np.uint32(_ONES))

    def __repr__(self) -> str:
        return f"ColumnKeys({', '.join(self.names)})"


# --- checksums of fields ----------------------------------------------------------------------------------------------
# A "register" is CRC-32's state without its final inversion; starting from 0 it is linear in the bytes that follow.


def _field(column: pa.Array, type_info: TypeInformation) -> tuple[Crc, npt.NDArray[np.int64] | int]:
    """Return the registers that each field's encoding leaves after a 0, and the lengths of the encodings."""
    kind = type_info.basic_type if isinstance(type_info, BasicTypeInfo) else None
    if kind in _INTEGERS:
        numbers = column.cast(pa.int64())
        bits = (numbers.fill_null(0) if column.null_count else numbers).to_numpy(zero_copy_only=False).view(np.uint64)
        return _with_nulls(_eight_bytes(bits, _INT_TAG), 9, column)
    if kind in _FLOATS:
        reals = column.cast(pa.float64())
        # + 0.0 turns -0.0 into 0.0, as the encoding has it
        values = (reals.fill_null(0.0) if column.null_count else reals).to_numpy(zero_copy_only=False) + 0.0
        registers = _eight_bytes(values.view(np.uint64), _FLOAT_TAG)
        return _with_nulls(np.where(np.isnan(values), np.uint32(_register(_NAN)), registers), 9, column)
    return _by_dictionary(column, type_info)


def _by_dictionary(column: pa.Array, type_info: TypeInformation) -> tuple[Crc, npt.NDArray[np.int64]]:
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_binary_view(column.type):
        column = column.cast(pa.binary())
    if not pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    indices = None
    if pa.types.is_dictionary(column.type):
        indices = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        column = column.dictionary
    encodings = [encode_key(value) for (value,) in _values(column, type_info)]
    if indices is not None:
        encodings.append(_NULL)
    registers = np.array([_register(encoding) for encoding in encodings], dtype=np.uint32)
    lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    return (registers, lengths) if indices is None else (registers[indices], lengths[indices])


def _values(column: pa.Array, type_info: TypeInformation) -> list[tuple[Any]]:
    return from_arrow(pa.RecordBatch.from_arrays([column], ["f0"]), Types.TUPLE([type_info]))


def _with_nulls(registers: Crc, length: int, column: pa.Array) -> tuple[Crc, npt.NDArray[np.int64] | int]:
    if not column.null_count:
        return registers, length
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    lengths = np.where(nulls, len(_NULL), length).astype(np.int64)
    return np.where(nulls, np.uint32(_register(_NULL)), registers).astype(np.uint32), lengths


def _register(data: bytes, start: int = 0) -> int:
    return zlib.crc32(data, start ^ _ONES) ^ _ONES


@functools.cache
def _byte_tables() -> npt.NDArray[np.uint32]:
    """Return a table of shape (8, 256): what byte b at place p of eight leaves after a 0."""
    return np.array(
        [[_register(bytes([b]) + bytes(7 - place)) for b in range(256)] for place in range(8)], dtype=np.uint32
    )


def _eight_bytes(bits: npt.NDArray[np.uint64], tag: bytes) -> Crc:
    """Return the registers of `tag` and eight big-endian bytes."""
    tables = _byte_tables()
    registers = np.full(len(bits), _register(tag + bytes(8)), dtype=np.uint32)
    largest = int(bits.max(initial=0))
    for place in range(8):
        shift = 8 * (7 - place)
        # a zero leaves nothing behind a 0: most numbers begin with several
        if largest >> shift:
            # shifted, not viewed as bytes: their order would depend on the machine
            registers ^= tables[place][(bits >> np.uint64(shift)).astype(np.uint8)]
    return registers


@functools.lru_cache(maxsize=1024)
def _zero_tables(length: int) -> npt.NDArray[np.uint32]:
    """Return a table of shape (4, 256): what `length` zero bytes make of a register, by its bytes, lowest first."""
    zeros = bytes(length)
    return np.array([[_register(zeros, b << (8 * place)) for b in range(256)] for place in range(4)], dtype=np.uint32)


def _behind(registers: Crc, lengths: npt.NDArray[np.int64] | int) -> Crc:
    """Return the registers after as many zero bytes."""
    if isinstance(lengths, int):
        tables = _zero_tables(lengths)
        moved: Crc = tables[0][registers.astype(np.uint8)]
        for place in range(1, 4):
            moved = moved ^ tables[place][(registers >> np.uint32(8 * place)).astype(np.uint8)]
        return moved
    moved = np.empty_like(registers)
    for length in np.unique(lengths).tolist():
        rows = lengths == length
        moved[rows] = _behind(registers[rows], length)
    return moved
