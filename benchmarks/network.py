"""Rows and bytes per second from one process to another over Flight channels, and inside one process.

Run as `python -m benchmarks.network`. The producer writes the same batch again and again through a RecordWriter, the
consumer polls and counts; both wait on their listener, as a slot's loop does. Batches are 8,192 rows.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import Row
from runtime.core.batch import DEFAULT_BATCH_ROWS, RecordBatch
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.elements import EndOfInput
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import ChannelId, InputChannel, NetworkEnvironment, OutputChannel
from runtime.network.flight import FlightNetworkEnvironment
from runtime.network.local import LocalNetwork
from runtime.network.partitioners import SingleChannelSelector
from runtime.network.record_writer import RecordWriter

CHANNEL = ChannelId(1, 0, 0)
ROW_TYPE = Types.ROW_NAMED(["auction", "price", "channel"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])
SWITCH_INTERVAL_SECONDS = 0.0005
"""As in a slot: with the default of 5 ms the transport's threads wait for the loop."""


def cases() -> dict[str, tuple[TypeInformation | None, RecordBatch]]:
    """Case → (record type, one batch)."""
    numbers = range(DEFAULT_BATCH_ROWS)
    rows = [Row(auction=n, price=n / 7, channel=f"channel-{n % 100}") for n in numbers]
    columns = RecordBatch.of_values(rows, list(numbers), type_info=ROW_TYPE)
    return {
        "columns": (ROW_TYPE, RecordBatch.of_arrow(columns.arrow(), ROW_TYPE, columns.timestamps_array())),
        "rows": (ROW_TYPE, RecordBatch.of_values(rows, list(numbers), type_info=ROW_TYPE)),
        "tuples": (None, RecordBatch.of_values([(n, n / 7, f"channel-{n % 100}") for n in numbers], list(numbers))),
        "longs": (None, RecordBatch.of_values(list(numbers))),
    }


def produce(environment: NetworkEnvironment, out: OutputChannel, batch: RecordBatch, batches: int) -> None:
    """Write `batches` times, then the end."""
    changed = threading.Event()
    environment.set_listener(changed.set)
    writer = RecordWriter(SingleChannelSelector(1), [out], 100, SYSTEM_CLOCK)
    for _ in range(batches):
        while not writer.is_available():
            changed.wait(1.0)
            changed.clear()
        writer.emit(batch)
    writer.broadcast(EndOfInput())


def consume(environment: NetworkEnvironment, into: InputChannel) -> Iterator[int]:
    """Row counts of the batches until the end."""
    changed = threading.Event()
    environment.set_listener(changed.set)
    while True:
        element = into.poll()
        if element is None:
            if failures := environment.poll_failures():
                raise RuntimeError(failures[0].cause)
            changed.wait(1.0)
            changed.clear()
        elif isinstance(element, RecordBatch):
            yield element.num_rows
        elif isinstance(element, EndOfInput):
            return


def _producer_process(pipe: Connection, case: str, batches: int) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    record_type, batch = cases()[case]
    environment = FlightNetworkEnvironment(SlotId(0), Attempt(0), "benchmark", "127.0.0.1")
    out = environment.create_output_channel(CHANNEL, SlotId(1), record_type)
    pipe.send(environment.address)
    environment.connect({SlotId(1): pipe.recv()})
    produce(environment, out, batch, batches)
    pipe.recv()
    environment.close()


def over_flight(case: str, batches: int) -> tuple[float, int, int]:
    """Seconds, rows, bytes of one case between two processes."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_producer_process, args=(theirs, case, batches))
    process.start()
    environment = FlightNetworkEnvironment(SlotId(1), Attempt(0), "benchmark", "127.0.0.1")
    into = environment.create_input_channel(CHANNEL, SlotId(0), cases()[case][0])
    address = pipe.recv()
    pipe.send(environment.address)
    environment.connect({SlotId(0): address})
    counts = consume(environment, into)
    rows, started = next(counts), time.perf_counter()
    rows += sum(counts)
    seconds = time.perf_counter() - started
    pipe.send(None)
    process.join()
    environment.close()
    return seconds, rows, into.statistics().bytes


def in_process(case: str, batches: int) -> tuple[float, int, int]:
    """Seconds, rows, estimated bytes of one case between two threads."""
    network = LocalNetwork()
    producer, consumer = network.environment(SlotId(0)), network.environment(SlotId(1))
    out = producer.create_output_channel(CHANNEL, SlotId(1), None)
    into = consumer.create_input_channel(CHANNEL, SlotId(0), None)
    thread = threading.Thread(target=produce, args=(producer, out, cases()[case][1], batches))
    started = time.perf_counter()
    thread.start()
    rows = sum(consume(consumer, into))
    thread.join()
    return time.perf_counter() - started, rows, into.statistics().bytes


def main(batches: int = 2000) -> None:
    """Print one line per case and transport."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    transports: dict[str, Callable[[str, int], tuple[float, int, int]]] = {"flight": over_flight, "local": in_process}
    for name, transport in transports.items():
        for case in cases():
            seconds, rows, size = transport(case, batches)
            print(f"{name:8}{case:10}{rows / seconds / 1e6:8.2f} M rows/s {size / seconds / 1e6:8.0f} MB/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
