"""TypeSerializer: how a namespace or window of the user's own becomes bytes. Source: PyFlink, common/serializer.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values to a stream of bytes and reads them back. Serializers of one class are equal."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Append a value."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read the next value."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The namespace of state that has none: no bytes at all."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        return b""
