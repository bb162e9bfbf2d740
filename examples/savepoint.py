"""Savepoint: a job is stopped behind one, looked into, and goes on from it changed, with more subtasks.

Operators are found in a savepoint by their uid, and state by its name: so the second program may have another step,
other chains and another parallelism, and counts on where the first one stopped.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.job_client import JobClient
from runtime.datastream.state import ValueStateDescriptor

COLORS = ("red", "green", "blue")


class Count(KeyedProcessFunction):
    """Says so whenever there are fifty more of a color."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[str, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 50 == 0:
            yield value, count


def environment(parallelism: int, savepoint: str | None = None) -> StreamExecutionEnvironment:
    """An environment for a job that begins anew, or goes on from a savepoint."""
    options = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    return env.set_parallelism(parallelism)


def count_colors(env: StreamExecutionEnvironment, shouts: bool) -> None:
    """Three hundred colors in four seconds, counted."""
    source = DataGeneratorSource(lambda n: COLORS[n % 3], 300, 75.0, Types.STRING())
    colors = env.from_source(source, WatermarkStrategy.no_watermarks(), "colors").uid("colors")
    counted = colors.key_by(lambda color: color, key_type=Types.STRING()).process(Count()).uid("counter")
    if shouts:
        counted = counted.map(lambda pair: (pair[0].upper(), pair[1])).uid("shout")
    counted.map(lambda pair: f"{pair[0].lower()} {pair[1]}").uid("lines").print().uid("print")


def records_in(client: JobClient) -> int:
    """Records that tasks have taken in so far."""
    counts = [task.metrics.get("numRecordsIn") for task in client.get_status().tasks]
    return sum(count for count in counts if isinstance(count, int))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        env = environment(parallelism=1)
        count_colors(env, shouts=False)
        client = env.execute_async("before")
        while records_in(client) < 30:
            time.sleep(0.05)
        savepoint = client.stop_with_savepoint(False, directory).result()
        print(f"the first job is {client.get_job_status().result().name}")

        reader = SavepointReader.read(savepoint)
        for state in reader.states("counter"):
            counts = reader.keyed_state("counter", state.name)
            print(f"{state.kind} state {state.name!r} of {', '.join(sorted(counts['key'].to_list()))}")

        env = environment(2, savepoint)
        count_colors(env, shouts=True)
        env.execute("after")


if __name__ == "__main__":
    main()
