"""The five works over bids and the running count per auction in Bytewax; needs an interpreter with bytewax.

One process a slot, each a worker that reads a range of the file's bytes. Bytewax's operators are called with single
Python objects but where its API hands out lists. Windows close when the input ends: its event clock goes by the
system's, and ranges that are read side by side would be late for one another.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators.windowing import EventClock, SlidingWindower, TumblingWindower, fold_window
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition
from bytewax.testing import cluster_main

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZE, SLIDE = timedelta(seconds=10), timedelta(seconds=2)
#: lines handed on at a time
LINES = 1_000
#: set for the processes beside the first one
WORKER, ADDRESSES = "BENCH_BYTEWAX_WORKER", "BENCH_BYTEWAX_ADDRESSES"


class LineRange(StatefulSourcePartition[bytes, int]):
    """The lines that start in [start, stop) of a file."""

    #: when this process read first: until then workers look for each other, a second at a time
    began = 0.0

    def __init__(self, path: str, start: int, stop: int) -> None:
        self.file = Path(path).open("rb", buffering=1 << 20)  # noqa: SIM115 - closed by close()
        if start:
            self.file.seek(start - 1)
            self.file.readline()
        self.stop = stop

    def next_batch(self) -> list[bytes]:
        LineRange.began = LineRange.began or time.monotonic()
        if self.file.tell() >= self.stop:
            raise StopIteration
        lines = []
        position = self.file.tell()
        for line in islice(iter(self.file.readline, b""), LINES):
            lines.append(line)
            position += len(line)
            if position >= self.stop:
                break
        return lines

    def snapshot(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


class Lines(FixedPartitionedSource[bytes, int]):
    """A file in as many ranges as there are slots."""

    def __init__(self, path: str, slots: int) -> None:
        self.path, self.slots, self.size = path, slots, Path(path).stat().st_size

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self.slots)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> LineRange:
        part = int(for_part)
        return LineRange(self.path, self.size * part // self.slots, self.size * (part + 1) // self.slots)


class Nowhere(StatefulSinkPartition[Any, None]):
    """Throws away what it gets."""

    def write_batch(self, values: list[Any]) -> None:
        pass

    def snapshot(self) -> None:
        return None


class JsonLines(Nowhere):
    """A file of JSON values."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8")

    def write_batch(self, values: list[Any]) -> None:
        self.file.writelines(json.dumps(value) + "\n" for value in values)

    def close(self) -> None:
        self.file.close()


class Results(FixedPartitionedSink[Any, None]):
    """One part per slot; drops the keys of arriving items."""

    def __init__(self, sink: str, slots: int) -> None:
        self.sink, self.slots = sink, slots

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self.slots)]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Nowhere:
        return Nowhere() if self.sink == "-" else JsonLines(Path(self.sink) / f"part-{for_part}.json")


def filtered(bids: Stream[dict[str, Any]]) -> Stream[Any]:
    return op.filter("filter", bids, lambda bid: bid["price"] > 50_000 and bid["channel"] == "apple")


def projected(bids: Stream[dict[str, Any]]) -> Stream[Any]:
    def project(bid: dict[str, Any]) -> dict[str, Any]:
        return {"auction": bid["auction"], "bidder": bid["bidder"], "euros": bid["price"] * 0.908, "ts": bid["ts"]}

    return op.map("project", bids, project)


def windowed(bids: Stream[dict[str, Any]], windower: TumblingWindower | SlidingWindower) -> Stream[Any]:
    def event_time(bid: dict[str, Any]) -> datetime:
        return EPOCH + timedelta(milliseconds=bid["ts"])

    def add(window: tuple[int, int], bid: dict[str, Any]) -> tuple[int, int]:
        return window[0] + 1, max(window[1], bid["price"])

    def merge(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], max(one[1], other[1])

    def row(item: tuple[str, tuple[int, tuple[int, int]]]) -> dict[str, int]:
        auction, (window, (count, top)) = item
        slide = windower.offset if isinstance(windower, SlidingWindower) else windower.length
        start = window * slide // timedelta(milliseconds=1)
        return {"auction": int(auction), "bids": count, "top": top, "start": start}

    keyed = op.key_on("auction", bids, lambda bid: str(bid["auction"]))
    clock = EventClock(event_time, wait_for_system_duration=timedelta(days=10_000))
    # a fold that begins below any price
    windows = fold_window("windows", keyed, clock, windower, lambda: (0, -1), add, merge, ordered=False)
    return op.map("row", windows.down, row)


def counted(bids: Stream[dict[str, Any]]) -> Stream[Any]:
    def count(so_far: int | None, _: dict[str, Any]) -> tuple[int, int]:
        new = (so_far or 0) + 1
        return new, new

    keyed = op.key_on("auction", bids, lambda bid: str(bid["auction"]))
    return op.map("count", op.stateful_map("counts", keyed, count), lambda item: item[1])


WORKS = {
    "pass-through": lambda bids: bids,
    "filter": filtered,
    "projection": projected,
    "tumbling": lambda bids: windowed(bids, TumblingWindower(length=SIZE, align_to=EPOCH)),
    "sliding": lambda bids: windowed(bids, SlidingWindower(length=SIZE, offset=SLIDE, align_to=EPOCH)),
    "state": counted,
}


def dataflow(work: str, path: str, sink: str, slots: int) -> Dataflow:
    def parse(lines: list[bytes]) -> Iterable[Any]:
        return map(json.loads, lines)

    def keyed(values: list[Any]) -> Iterable[tuple[str, Any]]:
        return ((own, value) for value in values)

    own = os.environ.get(WORKER, "0")
    flow = Dataflow("bids")
    bids = op.flat_map_batch("parse", op.input("lines", flow, Lines(path, slots)), parse)
    op.output("results", op.flat_map_batch("keyed", WORKS[work](bids), keyed), Results(sink, slots))
    return flow


def main(work: str, path: str, sink: str, slots: str) -> None:
    flow = dataflow(work, path, sink, int(slots))
    if WORKER in os.environ:
        cluster_main(flow, os.environ[ADDRESSES].split(";"), int(os.environ[WORKER]))
        return
    addresses = free_addresses(int(slots))
    others = []
    for worker in range(1, int(slots)):
        environment = os.environ | {WORKER: str(worker), ADDRESSES: ";".join(addresses)}
        others.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    cluster_main(flow, addresses if others else [], 0)
    seconds = time.monotonic() - LineRange.began
    if any(other.wait() for other in others):
        sys.exit("a worker failed")
    print(json.dumps({"seconds": seconds}))


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


if __name__ == "__main__":
    main(*sys.argv[1:])
