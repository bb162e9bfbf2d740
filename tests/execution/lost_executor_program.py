"""A job that holds still in the middle of its work until an executor is gone; counts to files.

    python -m tests.execution.lost_executor_program batch|micro-batch DIRECTORY

It makes `held` in the directory when it stands still, and goes on when there is `lost`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runtime.common import Configuration, Encoder, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.state import ValueStateDescriptor
from tests.support.waiting import wait_until

NUMBERS, KEYS = 400, 5
_HOLDS_AT = 50
"""By then some batches are complete."""


class Count(KeyedProcessFunction):
    """Emits each record with its number among those of its key, from 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        nth = (self._count.value() or 0) + 1
        self._count.update(nth)
        yield value % KEYS, nth


class Hold(MapFunction):
    """Stands still when a key has come so far, as long as all executors live."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def map(self, value: tuple[int, int]) -> str:
        key, nth = value
        if nth >= _HOLDS_AT and not (self._directory / "lost").exists():
            (self._directory / "held").touch()
            wait_until((self._directory / "lost").exists, 240, "the loss of an executor")
        return f"{key}:{nth}"


def build(env: StreamExecutionEnvironment, directory: Path) -> None:
    """Add the job: three stages."""
    numbers = env.from_source(NumberSequenceSource(0, NUMBERS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
    counted = numbers.key_by(lambda n: n % KEYS, Types.LONG()).process(Count(), pairs)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    counted.rebalance().map(Hold(directory), Types.STRING()).sink_to(sink)


def main() -> None:
    mode, directory = sys.argv[1], Path(sys.argv[2])
    settings = {
        "execution.target": "spark",
        "spark.master": "local-cluster[2,1,1024]",
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    if mode == "batch":
        settings["execution.runtime-mode"] = "batch"
    else:
        settings["execution.mode"] = "micro-batch"
        settings["execution.micro-batch.max-rows"] = "80"
        settings["execution.checkpointing.interval"] = "100 ms"
        settings["execution.checkpointing.dir"] = (directory / "checkpoints").as_uri()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    build(env, directory)
    env.execute(mode)
    print("done", flush=True)


if __name__ == "__main__":
    main()
