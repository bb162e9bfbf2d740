"""A link in a chain of jobs that restore each other's savepoints: it runs in a process of its own and kills itself.

`python -m tests.connectors.chain_program SINK DIRECTORY PARALLELISM RESTORE STEP...` prints the savepoint that it has
taken. Steps: a number (records of each split to let through), checkpoint, savepoint, prepare (a savepoint that nobody
restores), rescale=N, kill, end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.common import Row, Types, WatermarkStrategy
from runtime.connectors import BucketAssigner, FileSink
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee, Sink
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob, options_of

ROW = Types.ROW_NAMED(["id", "part"], [Types.LONG(), Types.LONG()])
TOTAL = 80


def as_row(number: int) -> Row:
    return Row(id=number, part=number % 3)


def numbers_source() -> GatedSource:
    """Forty numbers in each of two splits."""
    return GatedSource(*[[(n, n) for n in range(start, start + 40)] for start in (0, 40)], type_info=Types.LONG())


def write_to(env: StreamExecutionEnvironment, source: GatedSource, sink: Sink) -> None:
    """The program: all numbers into a sink."""
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    stream.map(as_row, ROW).rebalance().sink_to(sink).uid("sink")


def sink_of(name: str) -> Sink:
    """A sink by its directory, or by the URL of a database."""
    if "://" in name:
        return PostgresSink(name, "numbers", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    return FileSink.for_ndjson(name).with_bucket_assigner(BucketAssigner.by_field("part")).build()


def run(sink: Sink, directory: Path, parallelism: int, restore: str | None, steps: Sequence[str]) -> None:
    """Do what the steps say."""
    source = numbers_source()
    options = options_of(directory, **{"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms"})
    build = lambda env: write_to(env, source, sink)  # noqa: E731
    with RunningJob(build, JobClock(), parallelism, options, restore, claims=True).start() as job:
        for step in steps:
            name, _, argument = step.partition("=")
            match name:
                case "checkpoint":
                    job.answer(job.driver.trigger_checkpoint())
                case "savepoint":
                    print(job.answer(job.driver.trigger_savepoint()), flush=True)
                case "prepare":
                    job.answer(job.driver.trigger_savepoint())
                case "rescale":
                    job.result(job.driver.rescale({v.vertex_id: int(argument) for v in job.graph.vertices}))
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "end":
                    source.end()
                    job.run()
                case _:
                    source.let_through(int(name))
            if name != "end":
                job.settle()


if __name__ == "__main__":
    target, place, number, path, *what = sys.argv[1:]
    run(sink_of(target), Path(place), int(number), path or None, what)
