"""FlightData as bytes: how a message of a control stream looks to Flight's clients, for a server that is not Flight's.

Flight puts each message of a DoExchange into a Protocol Buffers message whose field 3, `app_metadata`, carries ours;
of its other fields a control stream uses none, and they are passed over. Pure: no thread.

Source: Arrow's Flight.proto.
"""

from __future__ import annotations

from typing import Final

EXCHANGE_METHOD: Final = "/arrow.flight.protocol.FlightService/DoExchange"
_APP_METADATA: Final = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES: Final = 10


class FlightDataError(ValueError):
    """Bytes that are no FlightData."""


def flight_data_of(message: bytes | bytearray) -> bytes:
    """Return the FlightData that carries a message."""
    length = len(message)
    head = bytearray((_APP_METADATA << 3 | _BYTES,))
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return b"".join((head, message))


def message_in(data: bytes) -> memoryview | None:
    """Return the message that a FlightData carries, as a view of it; None: it carries none.

    Raises:
        FlightDataError: it is malformed.
    """
    view, position, found = memoryview(data), 0, None
    while position < len(view):
        tag, position = _varint(view, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(view, position)
            continue
        length = 8 if kind == _FIXED64 else 4
        if kind == _BYTES:
            length, position = _varint(view, position)
        elif kind not in (_FIXED64, _FIXED32):
            raise FlightDataError(f"a field of kind {kind}")
        end = position + length
        if end > len(view):
            raise FlightDataError(f"a field of {length} bytes where {len(view) - position} are left")
        if tag == (_APP_METADATA << 3 | _BYTES):
            found = view[position:end]
        position = end
    return found


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return the number at a position, and where what follows it begins."""
    number = 0
    for index in range(_MAX_VARINT_BYTES):
        if position >= len(view):
            raise FlightDataError("it ends within a number")
        byte = view[position]
        position += 1
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, position
    raise FlightDataError("a number of too many bytes")
