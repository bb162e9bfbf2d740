"""Cost of looking at rows: batches through a RecordWriter without the tap and with nobody looking, and a peek.

Run as `python -m benchmarks.peek`. One thread emits a batch and polls it at the other end of a channel inside the
process, so that the cost of an edge is as small as it gets. The ways are run in many short turns; the lower tenth of a
batch's CPU time counts, since what else the machine does only adds to it. Of a peek, a look at a batch and a row that
is taken out of one are measured alone; the last column adds them up for a million rows a second, of which 20 are shown.
Exit code 1: that is more than a hundredth of a core.
"""

from __future__ import annotations

import statistics
import sys
import time

from benchmarks.network import CHANNEL, cases
from runtime.core.batch import RecordBatch
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import SlotId
from runtime.network.channel import InputChannel
from runtime.network.local import LocalNetwork
from runtime.network.partitioners import SingleChannelSelector
from runtime.network.record_writer import FLUSH_ALWAYS, RecordWriter
from runtime.operators.outputs import RecordWriterOutput
from runtime.task.peek_values import PeekedValues
from runtime.task.peeks import Allowance, Peek, RowSampler

TURN_NS = 5_000_000
TURNS = 40
BATCH_ROWS = (8_192, 1_024, 64)
INTERVAL_MS = 50.0
MAX_SHARE = 0.01


class _Untapped(RecordWriterOutput):
    """The output as it was before there were peeks."""

    def collect(self, batch: RecordBatch, tag: object = None) -> None:
        if (self.tag is None) if tag is None else False:
            if self.records_out is not None:
                self.records_out.inc(batch.num_rows)
            self.records += batch.num_rows
            if batch.marks:
                self.watermark = batch.marks[-1].watermark
            self._forward_batch(batch)


def edge(kind: type[RecordWriterOutput]) -> tuple[RecordWriterOutput, InputChannel]:
    """An output, and the other end of its channel."""
    network = LocalNetwork()
    out = network.environment(SlotId(0)).create_output_channel(CHANNEL, SlotId(1), None)
    into = network.environment(SlotId(1)).create_input_channel(CHANNEL, SlotId(0), None)
    return kind(RecordWriter(SingleChannelSelector(1), [out], FLUSH_ALWAYS, SYSTEM_CLOCK)), into


def batch_ns(output: RecordWriterOutput, into: InputChannel, batch: RecordBatch) -> float:
    """CPU time of a batch, in one turn."""
    count, began = 0, time.thread_time_ns()
    while (spent := time.thread_time_ns() - began) < TURN_NS:
        for _ in range(10):
            output.collect(batch)
            into.poll()
        count += 10
    return spent / count


def tap_ns(batch: RecordBatch, is_due: bool) -> float:
    """CPU time of a look at a batch, with or without a row that is taken out of it."""
    # all rows that are due are shown, however long they take
    peek = Peek(PeekedValues((), str), Allowance(share=1e9))
    tap = RowSampler(peek, 0, 1e-6 if is_due else 1e12, SYSTEM_CLOCK)
    tap._burst = 1
    tap.take(batch)
    spent = []
    for _ in range(TURNS):
        peek.left_bytes, peek.elements = 1 << 20, []
        began = time.thread_time_ns()
        for _ in range(20):
            tap.take(batch)
        spent.append((time.thread_time_ns() - began) / 20)
    return lowest(spent)


def lowest(values: list[float]) -> float:
    """Return the lower tenth."""
    return statistics.quantiles(values, n=10)[0]


def main() -> int:
    """Measure, print a table, and return the exit code."""
    most = 0.0
    print(f"{'rows':<10}{'a batch':>8}{'untapped':>14}{'closed':>9}{'a look':>10}{'a row':>11}{'open, of 1 M/s':>16}")
    for name, (_, whole) in cases().items():
        for rows in BATCH_ROWS:
            batch = whole.slice(0, rows)
            untapped, closed = edge(_Untapped), edge(RecordWriterOutput)
            spent: dict[str, list[float]] = {"untapped": [], "closed": []}
            for _ in range(TURNS):
                for way, ends in (("untapped", untapped), ("closed", closed)):
                    spent[way].append(batch_ns(*ends, batch))
            base, shut = lowest(spent["untapped"]), lowest(spent["closed"])
            look, row = tap_ns(batch, is_due=False), tap_ns(batch, is_due=True)
            share = (look * 1_000_000 / rows + row * 1_000 / INTERVAL_MS) / 1e9
            most = max(most, share)
            print(f"{name:<10}{rows:>8}{base:>11,.0f} ns{shut / base - 1:>+9.2%}{look:>7,.0f} ns", end="")
            print(f"{row:>8,.0f} ns{share:>16.3%}", flush=True)
    print(f"an open peek takes {most:.2%} at most, limit {MAX_SHARE:.0%}")
    return 0 if most <= MAX_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
