"""A batch that shuffles some megabytes once it is told to, and prints its failures; counts to files.

    python -m tests.chaos.shuffling_program DIRECTORY

Spark shuffles in `shuffles` of the directory. Records come when there is `full`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.common import Configuration, Encoder, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink
from tests.support.waiting import wait_until

_NUMBERS, _KEYS = 40_000, 5
EXPECTED = [f"{key}: {_NUMBERS // _KEYS}" for key in range(_KEYS)]
_TIMEOUT_S = 240


def main() -> None:
    directory = Path(sys.argv[1])
    settings = {
        "execution.target": "spark",
        "execution.runtime-mode": "batch",
        "spark.local.dir": str(directory / "shuffles"),
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }

    def wide(n: int) -> tuple[int, int, str]:
        if n % 1_000 == 0:
            wait_until((directory / "full").exists, _TIMEOUT_S, "a full disk")
        return n % _KEYS, 1, f"{n:0200}"

    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = NumberSequenceSource(0, _NUMBERS - 1)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(
        wide, Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])
    )
    counts = rows.key_by(lambda row: row[0], Types.LONG()).sum(1)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    counts.map(lambda row: f"{row[0]}: {row[1]}", Types.STRING()).sink_to(sink)
    client = env.execute_async("shuffling")
    print("started", flush=True)
    wait_until(
        lambda: bool(client.get_status().exceptions) or client.get_status().state.is_terminal, _TIMEOUT_S, "a failure"
    )
    print(*(entry.cause.message for entry in client.get_status().exceptions), flush=True)
    client.get_job_execution_result().result(_TIMEOUT_S)


if __name__ == "__main__":
    main()
