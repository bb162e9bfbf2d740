"""FlightData, as Flight's clients write and read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.network.flight_data import FlightDataError, flight_data_of, message_in


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 300_000])
def test_what_is_written_is_read(length: int) -> None:
    message = bytes(range(256)) * (length // 256 + 1)
    assert message_in(flight_data_of(message[:length])) == message[:length]


def test_other_fields_are_passed_over() -> None:
    other = b"\x0a\x02hi" + b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x15" + bytes(4) + b"\xc2\x3e\x01x"
    assert message_in(other) is None
    assert message_in(other + flight_data_of(b"message") + other) == b"message"


@pytest.mark.parametrize(
    "data", [b"\x1a", b"\x1a\x05abc", b"\x1b", b"\x80" * 11, b"\x11" + bytes(7), b"\x1a" + b"\xff" * 10]
)
def test_what_is_malformed_is_refused(data: bytes) -> None:
    with pytest.raises(FlightDataError):
        message_in(data)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = message_in(data)
    except FlightDataError:
        return
    assert found is None or len(found) < len(data)
