"""Whoever reaches the ports of JobMaster and slots may send what he likes: neither takes more memory for it.

The JobMaster's takes none of slots either, whose code is users': they know the token of their attempt.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from runtime.core.ids import Attempt, SlotId
from runtime.network.control_stream import Hello
from runtime.network.data_stream import DataHello
from runtime.network.opening import HELLO_HEADER
from tests.support.memory import peak_bytes

FLOODED = Path(__file__).parent / "flooded_servers.py"
ROOT = FLOODED.parent.parent.parent
CALLS, AT_ONCE = 200, 16
BODY = bytes(8 << 20)
ALLOWED_BYTES = 96 << 20
"""Of 1.6 GB that are sent: what is on its way in 16 calls at once, and what gRPC keeps for its threads."""
FEW_BYTES = 48 << 20
"""A frame of a slot and what gRPC reads ahead, for 16 calls at once, are 5 MiB; the rest is for its threads."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is in /proc")


@dataclass(frozen=True, slots=True)
class Flooded:
    """A running process with both servers."""

    pid: int
    control: str
    data: str


@pytest.fixture
def flooded() -> Iterator[Flooded]:
    with subprocess.Popen(
        (sys.executable, str(FLOODED)),
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        control, data = process.stdout.readline().split()
        yield Flooded(process.pid, control, data)
        process.kill()


@contextmanager
def calling(
    address: str, header: bytes, command: bytes = b""
) -> Iterator[tuple[flight.FlightStreamWriter, flight.FlightStreamReader]]:
    client = flight.FlightClient(address)
    options = flight.FlightCallOptions(headers=[(HELLO_HEADER.encode(), header)], timeout=60)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command), options)
    try:
        yield writer, reader
    finally:
        with suppress(flight.FlightError, OSError):
            writer.close()
        client.close()


def send_body(address: str, header: bytes) -> None:
    """Send a body to a server that should not want it, and take its refusal."""
    with suppress(flight.FlightError), calling(address, header) as (writer, reader):
        writer.write_metadata(BODY)
        reader.read_chunk()


@pytest.mark.parametrize("server", ["control", "data"])
def test_a_flood_of_strangers_takes_no_memory(flooded: Flooded, server: str) -> None:
    if server == "control":
        address, header = flooded.control, Hello.new(SlotId(1), Attempt(4)).encode("a guess")
    else:
        address = flooded.data
        header = DataHello.new(SlotId(1), SlotId(0), Attempt(4), 1 << 20).encode("a guess")
    send_body(address, header)
    before = peak_bytes(flooded.pid)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda _: send_body(address, header), range(CALLS)):
            pass
    assert peak_bytes(flooded.pid) - before < ALLOWED_BYTES


def long_descriptor(address: str) -> None:
    """Open a stream as a slot may, with a first message that is long."""
    header = Hello.new(SlotId(1), Attempt(4)).encode("secret")
    with suppress(flight.FlightError, pa.ArrowException), calling(address, header, BODY) as (_, reader):
        reader.read_chunk()
        reader.read_chunk()


def long_answer(address: str) -> None:
    """Open a stream as a slot may, and answer the challenge at length."""
    header = Hello.new(SlotId(1), Attempt(4)).encode("secret")
    with suppress(flight.FlightError, pa.ArrowException), calling(address, header) as (writer, reader):
        reader.read_chunk()
        writer.write_metadata(BODY)
        reader.read_chunk()


def no_stream(address: str) -> None:
    """Call what is no stream, with a long body; any stranger can."""
    client = flight.FlightClient(address)
    with suppress(flight.FlightError, pa.ArrowException):
        list(client.do_action(flight.Action("x", BODY), flight.FlightCallOptions(timeout=60)))
    client.close()


@pytest.mark.parametrize("send", [long_descriptor, long_answer, no_stream])
def test_nobody_has_the_jobmaster_hold_long_messages(flooded: Flooded, send: Callable[[str], None]) -> None:
    send(flooded.control)
    before = peak_bytes(flooded.pid)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda _: send(flooded.control), range(CALLS)):
            pass
    taken = peak_bytes(flooded.pid) - before
    assert taken < FEW_BYTES
