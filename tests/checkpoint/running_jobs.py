"""Whole jobs on a MiniCluster that a test runs step by step, from snapshot to snapshot.

A `GatedSource` emits no more than the test has let through, so that a snapshot falls where the test wants it; a
`RunningJob` is stepped by the test's own thread. Time moves when nothing else can, see `JobClock`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from runtime.common import Configuration
from runtime.common.options import RECOVERY_CLAIM_MODE, RECOVERY_PATH
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import Mark, RecordBatch
from runtime.datastream import StreamExecutionEnvironment
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.operators.source import Boundedness, ReaderContext, ReadStatus, Source, SourceSplit, SplitReader
from runtime.testing import ManualClock, MiniCluster
from tests.job_runs import record_run

T = TypeVar("T")

START_MS = 1_767_225_600_000
QUIET_MS = 500.0
"""So much idle time, and everything that needs no more input has been done: sources poll every 20 ms, outputs flush
after 100 ms."""
TIMEOUT_S = 60.0
"""Real time that one wait may take."""

KEEP_CHECKPOINTS = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


class JobClock(ManualClock):
    """Knows how much time has passed because nothing could be done."""

    __slots__ = ("idle_ms",)

    def __init__(self) -> None:
        super().__init__(START_MS)
        self.idle_ms = 0.0

    def advance(self, ms: float) -> None:
        """Advance the clock as an idle MiniCluster does."""
        self.idle_ms += ms
        super().advance(ms)

    def spend(self, ms: float) -> None:
        """Let time pass for work: a function that calls it is slow, and no test waits for it."""
        super().advance(ms)


# --- a source under control -------------------------------------------------------------------------------------------


@dataclass
class _Gate:
    limit: int = 0
    ends: bool = False


#: by source; readers are copies, pickled on their way to a slot of this process
_GATES: dict[str, _Gate] = {}


class GatedSource(Source):
    """Emits of each split the records that the test has let through, with a watermark behind each batch.

    Args:
        splits: each (value, event time) with rising event times; None as event time = none.
        type_info: of the values.
        batch_rows: most records at a time.
        last_watermark: event time that a split tells behind its last record, if it is not that record's.
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    splits_at_once = 8

    def __init__(
        self,
        *splits: Sequence[tuple[Any, int]],
        type_info: TypeInformation | None = None,
        batch_rows: int = 16,
        last_watermark: int | None = None,
    ) -> None:
        self.splits = splits
        self._type_info = type_info
        self._batch_rows = batch_rows
        self._last_watermark = last_watermark
        self._gate_id = uuid.uuid4().hex
        _GATES[self._gate_id] = _Gate()

    def let_through(self, limit: int) -> None:
        """Records of each split, from its begin, that may be emitted."""
        _GATES[self._gate_id].limit = limit

    def end(self) -> None:
        """Let everything through, then end."""
        self.let_through(max(map(len, self.splits)))
        _GATES[self._gate_id].ends = True

    def emitted(self, limit: int | None = None) -> list[Any]:
        """Values of all splits up to a limit; None = all."""
        return [value for split in self.splits for value, _ in split[:limit]]

    def produced_type(self) -> TypeInformation | None:
        return self._type_info

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitQueue:
        ids = [str(index) for index in range(len(self.splits))] if restored is None else restored
        return SplitQueue([SourceSplit(split_id) for split_id in ids], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return _GatedReader(self, self.splits[int(split.split_id)], position or 0, context)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)

    @property
    def gate(self) -> _Gate:
        return _GATES[self._gate_id]

    def batch(self, rows: Sequence[tuple[Any, int]], is_last: bool) -> RecordBatch:
        """A batch of records and its watermark."""
        watermark = self._last_watermark if is_last and self._last_watermark is not None else rows[-1][1]
        marks = [Mark(len(rows), watermark)]
        return RecordBatch.of_values([value for value, _ in rows], [at for _, at in rows], marks, self._type_info)

    @property
    def batch_rows(self) -> int:
        return self._batch_rows


class _GatedReader(SplitReader):
    def __init__(
        self, source: GatedSource, rows: Sequence[tuple[Any, int]], position: int, context: ReaderContext
    ) -> None:
        self._source, self._rows, self._position, self._clock = source, rows, position, context.clock

    @property
    def position(self) -> Any:
        return self._position

    def next_read_ms(self) -> int | None:
        return self._clock.now_ms() + 20

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        gate, begin = self._source.gate, self._position
        end = min(gate.limit, len(self._rows), begin + min(max_rows, self._source.batch_rows))
        if begin < end:
            self._position = end
            return self._source.batch(self._rows[begin:end], end == len(self._rows))
        return ReadStatus.END_OF_SPLIT if gate.ends else ReadStatus.NOTHING_YET


# --- a job under control ----------------------------------------------------------------------------------------------


class RunningJob:
    """A job on a MiniCluster of its own, from its start to its end.

    Args:
        build: writes the program; or the graph of an earlier job, which is then the same job.
        clock: of the cluster; the same one in jobs that follow each other.
        parallelism: of operators that set none.
        options: of the job.
        restore: path of a snapshot to start from.
        claims: whether the snapshot becomes the job's.
    """

    def __init__(
        self,
        build: Callable[[StreamExecutionEnvironment], object] | JobGraph,
        clock: JobClock,
        parallelism: int = 1,
        options: Mapping[str, str] | None = None,
        restore: str | None = None,
        claims: bool = False,
    ) -> None:
        if isinstance(build, JobGraph):
            graph = build
        else:
            settings = {"execution.target": "mini-cluster", **(options or {})}
            if restore is not None:
                settings[RECOVERY_PATH.key] = restore
                settings[RECOVERY_CLAIM_MODE.key] = "CLAIM" if claims else "NO_CLAIM"
            env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
            env.set_parallelism(parallelism)
            build(env)
            graph = env.create_job_graph("test job")
        self.graph = graph
        self.clock = clock
        self.cluster = MiniCluster(graph, ClientOutputs(), clock)
        self.driver = self.cluster.driver
        record_run("mini-cluster")

    @property
    def state(self) -> JobState:
        return self.driver.status().state

    def failure(self) -> str:
        """Return the job's last failure."""
        return self.driver.status().exceptions[-1].cause.message

    def step_until(self, condition: Callable[[], bool], what: str) -> None:
        """Step until a condition holds.

        Raises:
            AssertionError: it does not for a long time, or the job has ended.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert not self.driver.ended.is_set(), f"{what}: the job has ended, {self._describe()}"
            assert time.monotonic() < deadline, f"{what}: not within {TIMEOUT_S} s, {self._describe()}"
            self.cluster.step()

    def step(self, times: int) -> None:
        """Turns of the cluster."""
        for _ in range(times):
            self.cluster.step()

    def start(self) -> RunningJob:
        """Step until the job runs."""
        self.step_until(lambda: self.state is JobState.RUNNING, "start")
        return self

    def settle(self) -> None:
        """Step until everything is done that can be done with the input that was let through."""
        until = self.clock.idle_ms + QUIET_MS
        self.step_until(lambda: self.clock.idle_ms >= until, "quiet")

    def result(self, future: Future[T]) -> T:
        """Step until a request has been answered."""
        deadline = time.monotonic() + TIMEOUT_S
        while not future.done():
            assert time.monotonic() < deadline, f"no answer within {TIMEOUT_S} s, {self._describe()}"
            self.cluster.step()
        return future.result()

    def answer(self, future: Future[RequestAnswered]) -> str:
        """Step until a savepoint or checkpoint that was asked for is there: its location."""
        location = self.result(future).location
        assert location is not None
        return location

    def cancel(self) -> None:
        """End the job by cancelling it."""
        self.cluster.cancel()
        self.run(JobState.CANCELED)

    def run(self, end: JobState = JobState.FINISHED) -> JobStatusSnapshot:
        """Step until the job has ended.

        Raises:
            AssertionError: not as expected.
        """
        self.run_to_any_end()
        assert self.state is end, self._describe()
        return self.driver.status()

    def run_to_any_end(self) -> None:
        """Step until the job has ended, however that is."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.driver.ended.is_set():
            assert time.monotonic() < deadline, f"the end: not within {TIMEOUT_S} s, {self._describe()}"
            self.cluster.step()

    def close(self) -> None:
        """End the job if it has not ended."""
        if not self.driver.ended.is_set():
            self.cluster.cancel()
            self.cluster.run()

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _describe(self) -> str:
        status = self.driver.status()
        causes = [entry.cause.message for entry in status.exceptions]
        return f"it is {status.state.name}, tasks {[(t.name, t.state.name) for t in status.tasks]}, failures {causes}"


def options_of(directory: Path, backend: str = "hashmap", **more: str) -> dict[str, str]:
    """Return the options of a job that checkpoints on request, into directories of the test, and keeps them."""
    return {
        "state.backend.type": backend,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (directory / "savepoints").as_uri(),
        **KEEP_CHECKPOINTS,
        **more,
    }


def checkpoints_in(directory: Path) -> list[Path]:
    """Completed checkpoints below a checkpoint directory, or below a job's directory in it, oldest first."""
    found = [path.parent for path in directory.rglob("chk-*/_metadata")]
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))
