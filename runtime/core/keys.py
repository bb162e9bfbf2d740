"""The canonical, type-tagged encoding of keys, and the hash that key groups are computed from.

The bytes are the same on every machine and in every version: they name the key in snapshots and decide its key group,
so no tag or layout here may ever change (tests pin them). Equal encodings mean the same type and an equal value: 1, 1.0
and True are three keys, -0.0 and 0.0 are one, all NaNs are one. The encoding is prefix-free; it does not keep order.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from runtime.common.time import Instant
from runtime.common.types import Row, RowKind, row_of

__all__ = ["KeyDecodingError", "KeyEncodingError", "decode_key", "encode_key", "key_end", "key_hash", "mix_hashes"]


class KeyEncodingError(TypeError):
    """A key has no canonical encoding.

    Attributes:
        key: the key, or the part of it that was refused.
        reason: why, and what to use instead.
    """

    def __init__(self, key: Any, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key!r:.100} ({type(self.key).__name__}) cannot be a key: {self.reason}"


class KeyDecodingError(ValueError):
    """Bytes are not the encoding of a key."""


_NONE: Final = 0x00
_FALSE: Final = 0x01
_TRUE: Final = 0x02
_INT64: Final = 0x03
_BIG_INT: Final = 0x04
_FLOAT: Final = 0x05
_STR: Final = 0x06
_BYTES: Final = 0x07
_DECIMAL: Final = 0x08
_DATE: Final = 0x09
_TIME: Final = 0x0A
_DATETIME: Final = 0x0B
_DATETIME_UTC: Final = 0x0C
_TIMEDELTA: Final = 0x0D
_INSTANT: Final = 0x0E
_TUPLE: Final = 0x10
_LIST: Final = 0x11
_ROW: Final = 0x12
_ROW_NAMED: Final = 0x13

_tag_q = struct.Struct(">Bq").pack
_tag_d = struct.Struct(">Bd").pack
_read_q = struct.Struct(">q").unpack_from
_read_d = struct.Struct(">d").unpack_from
_read_u32 = struct.Struct(">I").unpack_from
_LONG_LENGTH: Final = 0xFF
_NAN_BYTES: Final = bytes((_FLOAT,)) + b"\x7f\xf8\x00\x00\x00\x00\x00\x00"
_ONE_BYTE: Final = [bytes((n,)) for n in range(256)]
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def encode_key(key: Any) -> bytes:
    """Return the canonical bytes of a key.

    Args:
        key: None, bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, Instant, or a tuple, list or
            Row of these.

    Raises:
        KeyEncodingError: the key, or a part of it, is of another kind.
    """
    encoder = _ENCODERS.get(key.__class__)
    if encoder is None:
        raise KeyEncodingError(key, _why_refused(key))
    return encoder(key)


def decode_key(encoded: bytes) -> Any:
    """Return the key of an encoding: equal to the one that was encoded, of the same type.

    A datetime with a zone comes back in UTC (the same instant), a Decimal without trailing zeros.

    Raises:
        KeyDecodingError: the bytes are not the encoding of one key.
    """
    try:
        key, end = _decode(encoded, 0)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, ArithmeticError) as error:
        raise KeyDecodingError(f"not an encoded key: {encoded[:40].hex()}: {error}") from None
    if end != len(encoded):
        raise KeyDecodingError(f"{len(encoded) - end} bytes too many after an encoded key: {encoded[:40].hex()}")
    return key


def key_end(data: bytes, start: int) -> int:
    """Return where the encoded key that begins at `start` ends in `data`: encodings may follow each other.

    Raises:
        KeyDecodingError: there is no encoding of a key.
    """
    try:
        return _decode(data, start)[1]
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, ArithmeticError) as error:
        raise KeyDecodingError(f"not an encoded key: {data[start : start + 40].hex()}: {error}") from None


def key_hash(encoded: bytes) -> int:
    """Return the hash of an encoded key, uint32: its CRC-32, mixed (CRC-32 is linear: similar keys would fall
    together).

    Source of the mixing: MurmurHash3, fmix32.
    """
    h = zlib.crc32(encoded)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return h ^ (h >> 16)


def mix_hashes(crc: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the hashes of encoded keys whose CRC-32s are known; agrees with `key_hash`.

    Args:
        crc: shape (n,), uint32.

    Returns:
        Shape (n,), uint32.
    """
    h = crc.astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


def _length(n: int) -> bytes:
    return _ONE_BYTE[n] if n < _LONG_LENGTH else b"\xff" + n.to_bytes(4, "big")


def _int(key: int) -> bytes:
    # eight bytes for almost every int: a column of them is encoded and hashed without looking at each
    if -0x8000000000000000 <= key <= 0x7FFFFFFFFFFFFFFF:
        return _tag_q(_INT64, key)
    size = (key.bit_length() + 8) >> 3
    return b"\x04" + _length(size) + key.to_bytes(size, "big", signed=True)


def _float(key: float) -> bytes:
    return _tag_d(_FLOAT, key + 0.0) if key == key else _NAN_BYTES  # + 0.0 turns -0.0 into 0.0


def _str(key: str) -> bytes:
    data = key.encode("utf-8", "surrogatepass")
    n = len(data)
    return b"\x06" + (_ONE_BYTE[n] if n < _LONG_LENGTH else _length(n)) + data


def _bytes(key: bytes) -> bytes:
    return b"\x07" + _length(len(key)) + key


def _decimal(key: decimal.Decimal) -> bytes:
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        if key.is_snan():
            raise KeyEncodingError(key, "a signalling NaN equals nothing and cannot be compared")
        text = "NaN" if key.is_nan() else str(key)
    elif not any(digits):
        text = "0"
    else:
        # not Decimal.normalize(): it rounds to the precision of the thread's context
        significant = "".join(map(str, digits)).lstrip("0")
        stripped = significant.rstrip("0")
        text = f"{'-' if sign else ''}{stripped}E{exponent + len(significant) - len(stripped)}"
    return b"\x08" + _length(len(text)) + text.encode()


def _date(key: datetime.date) -> bytes:
    return b"\x09" + key.toordinal().to_bytes(4, "big")


def _time(key: datetime.time) -> bytes:
    if key.tzinfo is not None:
        raise KeyEncodingError(key, "a time of day with a zone is not one point of the day; use one without a zone")
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    return _tag_q(_TIME, seconds * 1_000_000 + key.microsecond)


def _datetime(key: datetime.datetime) -> bytes:
    if key.utcoffset() is None:
        return _tag_q(_DATETIME, (key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    return _tag_q(_DATETIME_UTC, (key - _EPOCH_UTC) // _MICROSECOND)


def _timedelta(key: datetime.timedelta) -> bytes:
    microseconds = key // _MICROSECOND
    return b"\x0d" + microseconds.to_bytes(9, "big", signed=True)


def _instant(key: Instant) -> bytes:
    return _tag_q(_INSTANT, key.seconds) + key.nanos.to_bytes(4, "big")


def _tuple(key: tuple[Any, ...]) -> bytes:
    return b"\x10" + _length(len(key)) + b"".join([encode_key(item) for item in key])


def _list(key: list[Any]) -> bytes:
    return b"\x11" + _length(len(key)) + b"".join([encode_key(item) for item in key])


def _row(key: Row) -> bytes:
    kind = _ONE_BYTE[key._row_kind.value]
    values = _length(len(key._values)) + b"".join([encode_key(item) for item in key._values])
    if key._fields is None:
        return b"\x12" + kind + values
    return b"\x13" + kind + values + _tuple(key._fields)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"\x00",
    bool: lambda key: b"\x02" if key else b"\x01",
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    decimal.Decimal: _decimal,
    datetime.date: _date,
    datetime.time: _time,
    datetime.datetime: _datetime,
    datetime.timedelta: _timedelta,
    Instant: _instant,
    tuple: _tuple,
    list: _list,
    Row: _row,
}


def _why_refused(key: Any) -> str:
    if isinstance(key, dict):
        return "a dict has no order of its own; use a tuple of its items, sorted"
    if isinstance(key, (set, frozenset)):
        return "a set has no order of its own; use a sorted tuple"
    if isinstance(key, (bytearray, memoryview)):
        return "it can change; use bytes"
    if isinstance(key, enum.Enum):
        return "only its class knows its members; use its name or value"
    if isinstance(key, np.generic):
        return "it is numpy's; use .item()"
    if isinstance(key, tuple(_ENCODERS)):
        return f"it is of a subclass; use a plain {next(c for c in _ENCODERS if isinstance(key, c)).__name__}"
    return "its type has no canonical encoding; use str, int, bytes, or a tuple or Row of such values"


def _decode_length(data: bytes, pos: int) -> tuple[int, int]:
    n = data[pos]
    return (n, pos + 1) if n < _LONG_LENGTH else (_read_u32(data, pos + 1)[0], pos + 5)


def _decode_data(data: bytes, pos: int) -> tuple[bytes, int]:
    n, pos = _decode_length(data, pos)
    if pos + n > len(data):
        raise IndexError("cut off")
    return data[pos : pos + n], pos + n


def _decode_items(data: bytes, pos: int) -> tuple[list[Any], int]:
    n, pos = _decode_length(data, pos)
    items = []
    for _ in range(n):
        item, pos = _decode(data, pos)
        items.append(item)
    return items, pos


def _decode_row(data: bytes, pos: int, named: bool) -> tuple[Row, int]:
    if data[pos] > 3:
        raise IndexError("no such row kind")
    kind = RowKind(data[pos])
    values, pos = _decode_items(data, pos + 1)
    names: tuple[str, ...] | None = None
    if named:
        names, pos = _decode(data, pos)
    row = row_of(values, names)
    row.set_row_kind(kind)
    return row, pos


def _decode(data: bytes, pos: int) -> tuple[Any, int]:
    tag = data[pos]
    pos += 1
    if tag == _STR:
        text, pos = _decode_data(data, pos)
        return text.decode("utf-8", "surrogatepass"), pos
    if tag == _INT64:
        return _read_q(data, pos)[0], pos + 8
    if tag == _TUPLE:
        items, pos = _decode_items(data, pos)
        return tuple(items), pos
    if tag <= _TRUE:
        return (None, False, True)[tag], pos
    if tag == _BIG_INT:
        digits, pos = _decode_data(data, pos)
        return int.from_bytes(digits, "big", signed=True), pos
    if tag == _FLOAT:
        return _read_d(data, pos)[0], pos + 8
    if tag == _BYTES:
        return _decode_data(data, pos)
    if tag == _DECIMAL:
        text, pos = _decode_data(data, pos)
        return decimal.Decimal(text.decode()), pos
    if tag == _DATE:
        return datetime.date.fromordinal(_read_u32(data, pos)[0]), pos + 4
    if tag == _TIME:
        return (_EPOCH + _read_q(data, pos)[0] * _MICROSECOND).time(), pos + 8
    if tag == _DATETIME:
        return _EPOCH + _read_q(data, pos)[0] * _MICROSECOND, pos + 8
    if tag == _DATETIME_UTC:
        return _EPOCH_UTC + _read_q(data, pos)[0] * _MICROSECOND, pos + 8
    if tag == _TIMEDELTA:
        return int.from_bytes(data[pos : pos + 9], "big", signed=True) * _MICROSECOND, pos + 9
    if tag == _INSTANT:
        return Instant(_read_q(data, pos)[0], _read_u32(data, pos + 8)[0]), pos + 12
    if tag == _LIST:
        return _decode_items(data, pos)
    if tag in (_ROW, _ROW_NAMED):
        return _decode_row(data, pos, tag == _ROW_NAMED)
    raise IndexError(f"no such tag: {tag}")
