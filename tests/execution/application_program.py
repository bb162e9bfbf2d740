"""An application that is started again by the same command until it has finished: counts to files, and to PostgreSQL.

    python -m tests.execution.application_program DIRECTORY ID [--target spark] [--kill-at POINT:PASS]

Prints one line of JSON for each thing that happens. With `--kill-at` the process is killed, as by kill -9, when it
passes a point for the PASSth time, but only once for each DIRECTORY. SIGUSR1 stops it with a savepoint, SIGUSR2
cancels it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.checkpoint.application_log import ApplicationLog
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.common import Configuration, Row, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, FileSink
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import JobClient, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.state import ValueStateDescriptor
from runtime.execution.errors import ExecutionError

KEYS = 7
ROW = Types.ROW_NAMED(["key", "nth"], [Types.LONG(), Types.LONG()])

#: where to kill: class, method, and whether when it has returned
POINTS: dict[str, tuple[type, str, bool]] = {
    "before the application's entry": (ApplicationLog, "append", False),
    "after the application's entry": (ApplicationLog, "append", True),
    "before the metadata": (SnapshotFiles, "write_metadata", False),
    "before the checkpoint is recorded": (FileCompletedStore, "complete", False),
    "after the checkpoint is recorded": (FileCompletedStore, "complete", True),
    "before the end is recorded": (FileCompletedStore, "end", False),
    "after the end is recorded": (FileCompletedStore, "end", True),
}


class Count(KeyedProcessFunction):
    """Emits each record with its number among those of its key, from 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        nth = (self._count.value() or 0) + 1
        self._count.update(nth)
        yield Row(key=value % KEYS, nth=nth)


def main() -> int:
    options = _options()
    _arm(options)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    env = StreamExecutionEnvironment.get_execution_environment(_configuration(options))
    numbers = DataGeneratorSource(int, options.count, options.rate, Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = stream.key_by(lambda n: n % KEYS, Types.LONG()).process(Count(), ROW).uid(options.uid)
    counted.sink_to(FileSink.for_ndjson(options.directory / "out").build()).uid("files")
    if options.postgres:
        table = PostgresSink(options.postgres, "counted", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
        counted.sink_to(table).uid("table")
    try:
        if options.wait:
            env.execute("counting")
            _tell(ended="FINISHED")
            return 0
        client = env.execute_async("counting")
        _tell(job=str(client.get_job_id()), pid=os.getpid())
        _serve(client, options)
        client.get_job_execution_result().result()
        _tell(ended=client.get_status().state.value, attempt=client.get_status().attempt)
    except ExecutionError as error:
        _tell(error=str(error), kind=type(error).__name__)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("id")
    parser.add_argument("--target", default="mini-cluster")
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=1_000)
    parser.add_argument("--uid", default="count")
    parser.add_argument("--postgres", default="")
    parser.add_argument("--kill-at", default="")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("-D", dest="options", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def _configuration(options: argparse.Namespace) -> Configuration:
    given = dict(option.split("=", 1) for option in options.options)
    return Configuration.from_dict(
        {
            "execution.target": options.target,
            "high-availability.cluster-id": options.id,
            "execution.checkpointing.dir": str(options.directory / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(options.directory / "savepoints"),
            "execution.checkpointing.interval": "100 ms",
            "state.backend.type": options.backend,
            "parallelism.default": "2",
            **given,
        }
    )


def _serve(client: JobClient, options: argparse.Namespace) -> None:
    """Have signals stop and cancel the job."""

    def stop() -> None:
        _tell(savepoint=client.stop_with_savepoint(False).result())

    def on_thread(action: Callable[[], Any]) -> Callable[..., None]:
        return lambda *_: threading.Thread(target=action).start()

    signal.signal(signal.SIGUSR1, on_thread(stop))
    signal.signal(signal.SIGUSR2, on_thread(client.cancel))


def _arm(options: argparse.Namespace) -> None:
    if not options.kill_at:
        return
    name, _, number = options.kill_at.partition(":")
    owner, method, is_after = POINTS[name]
    original, passes, done = getattr(owner, method), [0], options.directory / "killed"

    def passed() -> None:
        passes[0] += 1
        if passes[0] == int(number) and not done.exists():
            done.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def armed(*args: Any, **kwargs: Any) -> Any:
        if not is_after:
            passed()
        result = original(*args, **kwargs)
        if is_after:
            passed()
        return result

    setattr(owner, method, armed)


def _tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
