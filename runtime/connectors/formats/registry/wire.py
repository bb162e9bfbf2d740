"""Confluent's wire format: a zero byte, the schema's id in four bytes, and the message. Pure.

Source: Confluent, "Formats, serializers, and deserializers", wire format.
"""

from __future__ import annotations

import struct

MAGIC = 0
HEADER_BYTES = 5
_HEADER = struct.Struct(">BI")


def header(schema_id: int) -> bytes:
    """Return what stands before a message of a schema."""
    return _HEADER.pack(MAGIC, schema_id)


def schema_id_of(message: bytes) -> int:
    """Return the id of a message's schema.

    Raises:
        ValueError: it does not begin as the wire format says.
    """
    if len(message) < HEADER_BYTES:
        raise ValueError(f"not of Confluent's wire format: it has {len(message)} bytes, the header alone has 5")
    magic, schema_id = _HEADER.unpack_from(message)
    if magic != MAGIC:
        raise ValueError(f"not of Confluent's wire format: its first byte is {magic}, not 0")
    return int(schema_id)
