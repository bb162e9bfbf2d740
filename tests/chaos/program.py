"""The program of a chaos run: the self-proving job on Spark, in application mode, in a process of its own.

`python -m tests.chaos.program CONFIG` runs it; CONFIG is a JSON file (`ProgramConfig`). It keeps writing how it stands
into a file, and takes commands on its standard input, a line each: `stop DIRECTORY`, `cancel`, `rescale N`.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, FileSink, RollingPolicy
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.execution.application import JobHandle
from runtime.jobmaster.slot_registry import SlotStatus
from tests.chaos.fault_points import FaultPoints, FaultySink
from tests.chaos.stream import COUNTED, OUT, RAW, RULES, Check, Ledger, ProvingSource, Tally, key_of

MAX_PARALLELISM = 32
STATUS_INTERVAL_S = 0.04
RULES_PER_SECOND = 10.0


@dataclass(frozen=True)
class ProgramConfig:
    """What a program is told; paths are absolute."""

    directory: str
    """Of the run: checkpoints/, out/, points/, taps/, status.json."""
    parallelism: int = 2
    rows_per_second: float = 60.0
    """Of each of the sources."""
    postgres_url: str = ""
    """Empty: the file sink only."""
    separate_slots: bool = False
    """Whether sources, keyed operators and sinks are in processes of their own."""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> FaultPoints:
        return FaultPoints(f"{self.directory}/points", f"{self.directory}/checkpoints", f"{self.directory}/program.pid")

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> ProgramConfig:
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True)
class ProgramStatus:
    """How the job of a program stands, as it is written to status.json."""

    pid: int = 0
    job_id: str = ""
    state: str = ""
    attempt: int = -1
    restarts: int = 0
    workers: tuple[int, ...] = ()
    """Pids of the live slots."""
    completed: int = 0
    """Checkpoints of this program that were completed."""
    failed: int = 0
    newest: int = -1
    """Id of the newest completed checkpoint of this program."""
    refused: int = 0
    """Messages of older attempts that were not accepted."""
    errors: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """To commands, in the order in which they were answered."""
    parallelism: int = 0


def build(config: ProgramConfig) -> StreamExecutionEnvironment:
    """The job: source → check → ledger by key → tally by source, with broadcast rules → files, and PostgreSQL."""
    options = {
        "execution.target": "spark",
        "spark.master": "local[12,1]",
        "parallelism.default": str(config.parallelism),
        "pipeline.max-parallelism": str(MAX_PARALLELISM),
        "execution.checkpointing.dir": f"file://{config.directory}/checkpoints",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.timeout": "20 s",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.externalized-checkpoint-retention": "retain_on_cancellation",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "io.tmp.dirs": f"{config.directory}/tmp",
        **config.options,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    points = config.points
    source = ProvingSource(config.rows_per_second)
    raw = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source").uid("source")
    checked = raw.map(Check(points), RAW).uid("check").name("check")
    keyed = checked.key_by(lambda r: key_of(r[0], r[1])).process(Ledger(points), COUNTED).uid("ledger").name("ledger")
    if config.separate_slots:
        keyed = keyed.slot_sharing_group("keyed")
    rules = env.from_source(
        DataGeneratorSource(lambda index: index, None, RULES_PER_SECOND, Types.LONG()),
        WatermarkStrategy.no_watermarks(),
        "rules",
    ).uid("rules")
    by_source = keyed.key_by(lambda r: r[0]).connect(rules.broadcast(RULES))
    tally = by_source.process(Tally(points, f"{config.directory}/taps"), OUT).uid("tally").name("tally")
    if config.separate_slots:
        tally = tally.slot_sharing_group("sinks")
    rolling = RollingPolicy.on_checkpoint_rolling_policy()
    files = FileSink.for_ndjson(f"{config.directory}/out").with_rolling_policy(rolling).build()
    tally.sink_to(FaultySink(files, points)).uid("files").name("files")
    if config.postgres_url:
        table = PostgresSink(config.postgres_url, "out", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
        tally.sink_to(FaultySink(table, points)).uid("table").name("table")
    return env


class _Program:
    def __init__(self, config: ProgramConfig) -> None:
        self._directory = Path(config.directory)
        self._answers: list[str] = []
        self._answered = threading.Lock()
        (self._directory / "program.pid").write_text(str(os.getpid()))
        self._handle: JobHandle = build(config).execute_async("chaos").handle

    def run(self) -> int:
        """Until the job has ended; the exit code."""
        while not self._handle.result.done():
            self._write_status()
            if select.select([sys.stdin], [], [], STATUS_INTERVAL_S)[0]:
                self._command(sys.stdin.readline().split())
        self._write_status()
        error = self._handle.result.exception()
        if error is not None:
            print(error, file=sys.stderr)
        return 0 if error is None else 1

    def _command(self, words: list[str]) -> None:
        match words:
            case ["stop", directory]:
                self._answer("stop", self._handle.stop_with_savepoint(directory))
            case ["cancel"]:
                self._handle.cancel()
            case ["rescale", parallelism]:
                vertices = self._handle.status().parallelism
                self._answer("rescale", self._handle.rescale(dict.fromkeys(vertices, int(parallelism))))
            case []:
                # whoever started this program is gone
                self._handle.cancel()
            case _:
                raise ValueError(f"unknown command {words}")

    def _answer(self, command: str, future: Future[Any]) -> None:
        def note(done: Future[Any]) -> None:
            error = done.exception()
            with self._answered:
                self._answers.append(
                    f"{command} failed: {error}" if error is not None else f"{command} {done.result()}"
                )

        future.add_done_callback(note)

    def _write_status(self) -> None:
        status = self._handle.status()
        newest = status.checkpoints.latest_completed
        with self._answered:
            answers = tuple(self._answers)
        document = ProgramStatus(
            pid=os.getpid(),
            job_id=status.job_id,
            state=status.state.value,
            attempt=int(status.attempt),
            restarts=status.restarts,
            workers=tuple(s.pid for s in status.slots if s.pid is not None and s.status is SlotStatus.LIVE),
            completed=status.checkpoints.counts.completed,
            failed=status.checkpoints.counts.failed,
            newest=-1 if newest is None else int(newest.checkpoint_id),
            refused=status.refused_messages,
            errors=tuple(e.cause.message[:300] for e in status.exceptions[-3:]),
            answers=answers,
            parallelism=max(status.parallelism.values(), default=0),
        )
        path = self._directory / "status.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(document)))
        draft.replace(path)


if __name__ == "__main__":
    sys.exit(_Program(ProgramConfig.read(Path(sys.argv[1]))).run())
