"""ClosedCodec: values of a closed list of dataclasses as msgpack, and back, without running anything that bytes name.

Whoever reads a peer that it does not trust reads with this: only the listed classes come out, each field checked
against its annotation, and no byte chooses what is imported or called. A class is the array of its fields; a message is
the index of its class among the listed ones, and that array. Fields annotated `object` (metrics) hold None, bool,
numbers, text, bytes, lists and mappings; what else a writer finds there it sends as text. Compiled once per class from
its annotations. Pure; any thread.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, Generic, NewType, TypeVar, get_args, get_origin, get_type_hints

import msgpack
import numpy as np

T = TypeVar("T")

_BIG_INT: Final = 1
"""Extension type of whole numbers beyond 64 bits: two's complement, big-endian."""
MAX_BIG_INT_BYTES: Final = 1024
"""Longest such number; a longer one is text."""

Encoder = Callable[[Any], Any]
Decoder = Callable[[Any], Any]


class WireError(Exception):
    """Bytes that are not of this codec, or a value that does not fit it."""


class ClosedCodec(Generic[T]):
    """Encodes and decodes lists of messages.

    Args:
        classes: frozen dataclasses, in an order that never changes within one version of a protocol.
    """

    def __init__(self, classes: Sequence[type[T]]) -> None:
        self._encoders = {of: (index, _compiled(of)[0]) for index, of in enumerate(classes)}
        self._decoders = [_compiled(of)[1] for of in classes]

    def encode(self, messages: Sequence[T]) -> bytes:
        """Return messages for the wire.

        Raises:
            WireError: one is of no listed class, or holds a value that its annotation does not allow.
        """
        try:
            wire = [(index, encoder(m)) for m in messages for index, encoder in (self._encoders[type(m)],)]
        except (KeyError, TypeError, AttributeError) as error:
            raise WireError(f"cannot be sent: {type(error).__name__}: {error}") from error
        try:
            return _packed(wire)
        except (OverflowError, TypeError, ValueError):
            # metrics of users hold whatever a gauge returns
            return _packed(_plain(wire, 0))

    def decode(self, data: bytes | memoryview) -> list[T]:
        """Return the messages that were encoded.

        Raises:
            WireError: they were not, or not by this codec.
        """
        try:
            wire = msgpack.unpackb(
                data, strict_map_key=False, unicode_errors="surrogatepass", ext_hook=_extension, timestamp=0
            )
            return [self._decoders[_index(index)](value) for index, value in wire]
        except WireError:
            raise
        except Exception as error:
            # a class may check its own fields; none of it is the reader's failure
            raise WireError(f"not a message: {type(error).__name__}: {error}") from error


def _packed(wire: object) -> bytes:
    packed: bytes = msgpack.packb(wire, unicode_errors="surrogatepass", default=_fallback)
    return packed


def _index(value: object) -> int:
    if type(value) is not int or value < 0:
        raise WireError("not the index of a message")
    return value


def _fallback(value: object) -> object:
    """Return what stands for a value that msgpack does not know."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return list(value) if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str) else str(value)


def _plain(value: object, depth: int) -> object:
    """Return a value without anything that msgpack refuses: the slow way, for the few that need it."""
    if isinstance(value, bool | float | str | bytes | None):
        return value
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return value
        size = (value.bit_length() + 8) // 8
        return msgpack.ExtType(_BIG_INT, value.to_bytes(size, signed=True)) if size <= MAX_BIG_INT_BYTES else "∞"
    if depth > 64:
        return "…"
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return _plain(_fallback(value), depth + 1)


def _key(key: object) -> object:
    return key if isinstance(key, bool | float | str | bytes | None) else _plain(key, 64)


def _extension(code: int, data: bytes) -> int:
    if code != _BIG_INT or len(data) > MAX_BIG_INT_BYTES:
        raise WireError(f"unknown extension {code}")
    return int.from_bytes(data, signed=True)


# --- compiling --------------------------------------------------------------------------------------------------------

_classes: dict[type, tuple[Encoder, Decoder]] = {}


def _same(value: Any) -> Any:
    return value


def _scalar(kind: type, also: tuple[type, ...] = ()) -> tuple[Encoder, Decoder]:
    def decode(value: Any) -> Any:
        if type(value) is not kind and type(value) not in also:
            raise WireError(f"{type(value).__name__} where {kind.__name__} belongs")
        return value

    return _same, decode


def _compiled(hint: Any) -> tuple[Encoder, Decoder]:
    """Return how values of an annotation go onto the wire and come back.

    Raises:
        TypeError: the type is not allowed in a message.
    """
    if isinstance(hint, NewType):
        return _compiled(hint.__supertype__)
    origin, args = get_origin(hint), get_args(hint)
    if hint is object:
        return _same, _same
    if hint in (str, bytes, bool, int):
        return _scalar(hint)
    if hint is float:
        return _scalar(float, (int,))
    if origin in (types.UnionType, typing.Union):
        return _optional(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*args)
    if origin is not None and (issubclass(origin, Sequence | frozenset)):
        if origin is tuple and args[1:] != (...,):
            return _row([_compiled(arg) for arg in args])
        return _items(frozenset if origin is frozenset else tuple, args[0])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return (lambda value: value.name), (lambda name: hint[name])
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint)
    raise TypeError(f"{hint!r} cannot be sent")


def _optional(args: tuple[Any, ...]) -> tuple[Encoder, Decoder]:
    kinds = [arg for arg in args if arg is not type(None)]
    if len(kinds) != 1 or len(args) != 2:
        raise TypeError(f"a receiver could not tell which of {args} a value is")
    encode, decode = _compiled(kinds[0])
    if encode is _same:
        return _same, lambda value: None if value is None else decode(value)
    return (
        lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


def _mapping(key: Any, item: Any) -> tuple[Encoder, Decoder]:
    encode_key, decode_key = _compiled(key)
    encode, decode = _compiled(item)
    if encode_key is _same and encode is _same:

        def encode_all(value: Any) -> Any:
            return value if type(value) is dict else dict(value)
    else:

        def encode_all(value: Any) -> Any:
            return [(encode_key(k), encode(v)) for k, v in value.items()]

    def decode_all(value: Any) -> Any:
        pairs = value.items() if type(value) is dict else value
        return {decode_key(k): decode(v) for k, v in pairs}

    def decode_objects(value: Any) -> Any:
        if type(value) is not dict or not all(type(k) is str for k in value):
            raise WireError("not a mapping of names")
        return value

    return encode_all, decode_objects if (key, item) == (str, object) else decode_all


def _items(kind: Callable[[Any], Any], item: Any) -> tuple[Encoder, Decoder]:
    encode, decode = _compiled(item)

    def encode_all(value: Any) -> Any:
        return list(value) if encode is _same else [encode(v) for v in value]

    def decode_all(value: Any) -> Any:
        if type(value) is not list:
            raise WireError(f"{type(value).__name__} where a list belongs")
        return kind(map(decode, value))

    return encode_all, decode_all


def _row(parts: Sequence[tuple[Encoder, Decoder]]) -> tuple[Encoder, Decoder]:
    def encode(value: Any) -> Any:
        return [part(v) for (part, _), v in zip(parts, value, strict=True)]

    def decode(value: Any) -> Any:
        return tuple(part(v) for (_, part), v in zip(parts, value, strict=True))

    return encode, decode


def _dataclass(of: type) -> tuple[Encoder, Decoder]:
    if of not in _classes:
        hints = get_type_hints(of)
        names = [field.name for field in fields(of)]
        compiled = [_compiled(hints[name]) for name in names]
        decoders = [decode for _, decode in compiled]
        encoders = [(name, encode) for name, (encode, _) in zip(names, compiled, strict=True)]

        def encode_fields(value: Any) -> Any:
            if type(value) is not of:
                raise TypeError(f"{type(value).__name__} where {of.__name__} belongs")
            return [encode(getattr(value, name)) for name, encode in encoders]

        def decode_fields(value: Any) -> Any:
            if type(value) is not list or len(value) != len(decoders):
                raise WireError(f"not a {of.__name__}")
            return of(*[decode(v) for decode, v in zip(decoders, value, strict=True)])

        _classes[of] = encode_fields, decode_fields
    return _classes[of]
