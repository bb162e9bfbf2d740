"""Pieces: what goes in comes out, whole messages pass between the pieces of another."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.network import pieces
from runtime.network.control_stream import Outbox
from runtime.network.pieces import PieceAssembler, PieceError, pieces_of


def encoded(messages: Sequence[str]) -> bytes:
    return json.dumps(list(messages)).encode()


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 16)


def received(assembler: PieceAssembler, data: bytes | bytearray) -> bytes | None:
    message = assembler.add(pa.py_buffer(data))
    return None if message is None else message.to_pybytes()


@given(st.lists(st.binary(max_size=100)))
def test_messages_come_out_as_they_went_in(messages: list[bytes]) -> None:
    assembler = PieceAssembler()
    arrived = [received(assembler, piece) for message in messages for piece in pieces_of(message)]
    assert [message for message in arrived if message is not None] == messages


def test_large_message_is_cut_and_takes_no_more_than_its_bytes_and_the_heads() -> None:
    sent = list(pieces_of(bytes(160)))
    assert len(sent) == 10 and sum(map(len, sent)) == 160 + 10 * 24


def test_assembled_message_lies_where_frames_expect_it() -> None:
    assembler = PieceAssembler()
    *_, message = [assembler.add(pa.py_buffer(piece)) for piece in pieces_of(bytes(100))]
    assert message is not None and message.address % 8 == 4


def test_whole_messages_pass_between_the_pieces_of_another() -> None:
    assembler = PieceAssembler()
    first, second = pieces_of(b"x" * 20)
    assert [received(assembler, data) for data in (first, b"heartbeat", second)] == [None, b"heartbeat", b"x" * 20]


@pytest.mark.parametrize("order", [[1], [0, 0], [0, 2], [0, 1, 1]])
def test_piece_out_of_turn_is_refused(order: list[int]) -> None:
    sent = list(pieces_of(bytes(40)))
    assembler = PieceAssembler()
    with pytest.raises(PieceError):
        for index in order:
            assembler.add(pa.py_buffer(sent[index]))


def test_heartbeats_overtake_the_rest_of_a_large_message() -> None:
    outbox, assembler = Outbox(encoded), PieceAssembler()
    arrived: list[object] = []

    def write(data: bytes | bytearray) -> None:
        message = assembler.add(pa.py_buffer(data))
        if message is not None:
            arrived.extend(json.loads(message.to_pybytes()))
        elif not arrived:
            outbox.put("heartbeat", may_overtake=True)
            outbox.put("next")
            outbox.close()

    outbox.put("x" * 100)
    outbox.write_all(write)
    assert arrived[0] == "heartbeat" and arrived[-2:] == ["x" * 100, "next"]


@pytest.mark.parametrize("claimed", [101, 2**40, 2**64 - 1])
def test_nothing_is_allocated_for_a_message_that_is_too_long(claimed: int) -> None:
    first = next(iter(pieces_of(bytes(40))))
    head = struct.Struct("<HxxxxxxQQ")
    with pytest.raises(PieceError, match="more than 100"):
        PieceAssembler(100).add(pa.py_buffer(head.pack(0x7D50, claimed, 0) + bytes(first[24:])))
