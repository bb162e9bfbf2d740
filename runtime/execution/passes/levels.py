"""Levels of a pass: what one partition of a Spark stage runs, and the rows that go from one level to the next.

A level is the tasks that are equally far behind the sources. What they emit becomes rows; a shuffle brings each to the
partition of its consumer, which sorts them. Rows for later levels, and reports for the driver, are handed on. A task
that fails does not fail its partition: its report goes down all levels, which then run nothing, so that the driver
learns in words what has happened. In a Spark worker; knows nothing of Spark, which sees pairs of Python objects and
bytes.
"""

from __future__ import annotations

import itertools
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.closed_codec import ClosedCodec
from runtime.core.ids import TaskId
from runtime.execution.passes.arrived_frames import ArrivedFrames
from runtime.execution.passes.frame_files import FiledFrame, FrameFile
from runtime.execution.passes.plan import JobFacts, PassFailedError, PassPlan, TaskFailed, TaskOutcome, TaskPrinted
from runtime.execution.passes.task_pass import FrameOrder, TaskPass
from runtime.execution.passes.task_run import Turn
from runtime.network.channel import ChannelId
from runtime.task.client_output import LineRedirect
from runtime.task.messages import TaskDeployment
from runtime.task.python_files import import_files as import_job_files
from runtime.task.slot_redaction import redaction_of
from runtime.task.working_directory import WorkingDirectory

Report = TaskOutcome | TaskFailed | TaskPrinted
REPORTS: Final[ClosedCodec[Report]] = ClosedCodec((TaskOutcome, TaskFailed, TaskPrinted))

FRAME, REPORT, FAILURE, FILED = range(4)
"""Kinds of rows. FAILURE has a report, too; FILED says where a frame lies."""


class Place(NamedTuple):
    """The place of a row: its partition, who reads it there, and what it is sorted by."""

    consumer: int
    """The partition of the next level."""
    level: int
    vertex: int
    is_late: bool
    sequence: int
    edge: int
    producer: int

    @property
    def order(self) -> tuple[int, ...]:
        """Return what the frames of a vertex are sorted by: `FrameOrder`."""
        return self[3:]


Row = tuple[Place, tuple[int, bytes]]
"""Kind and payload behind their place."""
FLUSH_BYTES: Final = 8 << 20
"""Rows that leave a task together. More: memory; less: Spark's cost for each batch of rows."""
FILE_BYTES: Final = 32 << 10
"""Length of frames from which on they go through files, where all workers are on one machine. More: Spark packs, copies
and moves them through its JVM. Less: small batches would write files."""
_BEFORE_ALL, _BEHIND_ALL = -1, 1 << 20
"""Levels of failures and of reports."""
_POLL_S: Final = 0.01
"""Time after which a task that waits looks at its timers, too."""


@dataclass(frozen=True, slots=True)
class Level:
    """The orders for the partitions of one stage."""

    plan: PassPlan
    """With the tasks of the level only."""
    number: int
    vertices: Mapping[str, tuple[int, int]]
    """Level and number of every vertex of the job, in topological order."""
    next_partitions: int
    """Partitions of the next level; 0: there is none."""
    filed_in: Path | None = None
    """A directory that all workers share, for large frames; None: there is none. Whoever runs the pass deletes it."""


def levels_of(plan: PassPlan) -> list[Level]:
    """Return the levels of a pass, those of the sources first."""
    levels = plan.levels()
    partitions = [partitions_of(level) for level in levels]
    vertices: dict[str, tuple[int, int]] = {}
    for number, level in enumerate(levels):
        for deployment in level:
            vertices.setdefault(deployment.vertex.vertex_id, (number, len(vertices)))
    return [
        Level(_with_tasks(plan, level), number, vertices, partitions[number + 1] if number + 1 < len(levels) else 0)
        for number, level in enumerate(levels)
    ]


def partitions_of(deployments: Sequence[TaskDeployment]) -> int:
    """Return the number of partitions in which a level runs."""
    return max(deployment.vertex.parallelism for deployment in deployments)


def _with_tasks(plan: PassPlan, deployments: Sequence[TaskDeployment]) -> PassPlan:
    tasks = {deployment.task for deployment in deployments}
    heads = {(d.vertex.head.operator_id, d.task.subtask_index) for d in deployments}
    return replace(
        plan,
        deployments=deployments,
        restores={task: restore for task, restore in plan.restores.items() if task in tasks},
        shares={source: share for source, share in plan.shares.items() if source in heads},
        slots={task: slot for task, slot in plan.slots.items() if task in tasks},
    )


def import_files(facts: JobFacts) -> None:
    """Let functions be imported from the files that the job was given."""
    import_job_files(facts.configuration)


class Rows:
    """Rows that leave a partition; any thread."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._lock = threading.Lock()
        self.num_bytes = 0

    def add(self, place: Place, kind: int, payload: bytes) -> None:
        """Add a row."""
        with self._lock:
            self._rows.append((place, (kind, payload)))
            self.num_bytes += len(payload)

    def take(self) -> list[Row]:
        """Remove and return all rows."""
        with self._lock:
            rows, self._rows = self._rows, []
            self.num_bytes = 0
        return rows


class LevelRun:
    """One partition of a level.

    Args:
        level: what to run.
        partition: number of the partition; it runs the subtasks of that number.
    """

    def __init__(self, level: Level, partition: int) -> None:
        self._level = level
        self._plan = level.plan
        self._partition = partition
        self._order = FrameOrder([edge for d in self._plan.deployments for edge in d.out_edges])
        self._rows = Rows()
        #: of the tasks that have ended
        self.outcomes: list[Report] = []
        self._has_failed = False
        facts = self._plan.facts
        import_files(facts)
        name = f"{facts.job_id[:8]}-{facts.attempt}-pass-{self._plan.number}"
        self._directory = WorkingDirectory(facts.configuration, name, partition)
        self._arrived = ArrivedFrames(self._directory.path, level.filed_in)
        # what is run again writes to another file
        file_name = f"{level.number}-{partition}-{uuid.uuid4().hex[:12]}"
        self._file = None if level.filed_in is None else FrameFile(partial(Path, level.filed_in), file_name)

    def run(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Run the partition's tasks, and yield what they emit.

        Args:
            rows: those of the partition, in any order.
        """
        try:
            # what is for others is handed on at once: it is neither sorted here nor kept
            yield from self._receive(rows)
            for deployment in self._plan.deployments:
                if self._has_failed:
                    break
                if deployment.task.subtask_index == self._partition:
                    vertex = self._level.vertices[deployment.vertex.vertex_id][1]
                    yield from self._run_task(deployment, self._arrived.take(vertex))
        finally:
            self._arrived.close()
            if self._file is not None:
                self._file.close()
            self._directory.close()
        yield from self._rows.take()

    def _receive(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Keep the frames for the partition's tasks, and yield the rows for later levels and for the driver."""
        for row in rows:
            place, (kind, payload) = row
            if kind == FAILURE:
                self._relay_failure(payload)
            elif place.level > self._level.number:
                yield row
            elif not self._has_failed:
                channel = ChannelId(place.edge, place.producer, self._partition)
                if kind == FILED:
                    self._arrived.add_filed(place.vertex, place.order, channel, FiledFrame.from_bytes(payload))
                else:
                    self._arrived.add(place.vertex, place.order, channel, payload)

    def _run_task(self, deployment: TaskDeployment, frames: Iterable[tuple[ChannelId, bytes]]) -> Iterator[Row]:
        reports = Reports(self._rows, self._level.vertices[deployment.vertex.vertex_id][1], deployment, self._plan)
        with reports.taking_prints():
            try:
                task = TaskPass(self._plan, deployment, SYSTEM_CLOCK, reports, self._take_frame, self._directory.path())
                for turn in task.process(frames):
                    if turn is Turn.WAITS:
                        task.run.host.woken.wait(_POLL_S)
                        task.run.host.woken.clear()
                    if self._rows.num_bytes >= FLUSH_BYTES:
                        yield from self._rows.take()
                outcome = task.outcome
                task.guarded(partial(task.run.close, after_failure=False))
            except PassFailedError as failed:
                self._fail(TaskFailed(failed.task, failed.info))
            else:
                reports.add(outcome)
                self.outcomes.append(outcome)

    def _fail(self, failed: TaskFailed) -> None:
        self._has_failed = True
        payload = REPORTS.encode([failed])
        for partition in range(max(1, self._level.next_partitions)):
            self._rows.add(Place(partition, _BEFORE_ALL, 0, False, 0, 0, 0), FAILURE, payload)

    def _relay_failure(self, payload: bytes) -> None:
        self._has_failed = True
        # every partition of this level has one, and every partition of the next one needs one
        for partition in range(max(1, self._level.next_partitions)) if self._partition == 0 else ():
            self._rows.add(Place(partition, _BEFORE_ALL, 0, False, 0, 0, 0), FAILURE, payload)

    def _take_frame(self, channel_id: ChannelId, frame: bytes) -> None:
        target, (is_late, sequence, edge, producer) = self._order.of(channel_id)
        level, vertex = self._level.vertices[target.vertex_id]
        place = Place(channel_id.consumer, level, vertex, is_late, sequence, edge, producer)
        if self._file is not None and len(frame) >= FILE_BYTES:
            self._rows.add(place, FILED, self._file.add(frame).to_bytes())
        else:
            self._rows.add(place, FRAME, frame)


class Reports:
    """The reports of one task to the driver. Implements ClientChannel and LineChannel; any thread.

    Args:
        rows: of the partition.
        vertex: number of the task's vertex.
        deployment: of the task.
        plan: of the pass.
    """

    def __init__(self, rows: Rows, vertex: int, deployment: TaskDeployment, plan: PassPlan) -> None:
        self._rows = rows
        self._vertex = vertex
        self._task: TaskId = deployment.task
        self._sequence = itertools.count()
        self.redact: Callable[[str], str] = redaction_of(plan.facts.secrets)

    def add(self, report: Report) -> None:
        """Send a report to the driver."""
        index = self._task.subtask_index
        payload = REPORTS.encode([report])
        place = Place(0, _BEHIND_ALL, self._vertex, True, next(self._sequence), 0, index)
        self._rows.add(place, REPORT, payload)

    def send(self, channel: str, payload: bytes) -> None:
        self.add(TaskPrinted(self._task, channel, payload))

    def is_available(self) -> bool:
        return True

    @contextmanager
    def taking_prints(self) -> Iterator[None]:
        """Send the client what functions of the task print."""
        stdout, out = sys.stdout, LineRedirect(self, "stdout")
        sys.stdout = out
        try:
            yield
        finally:
            out.finish()
            sys.stdout = stdout


def commit(plan: PassPlan, task: int, is_over: bool) -> Iterator[Row]:
    """Have one task commit what it restores, and nothing else; yields its reports.

    Args:
        plan: of the pass; with the tasks that have something to commit.
        task: number of the task.
        is_over: whether the job has finished, and what older attempts have left is swept.
    """
    import_files(plan.facts)
    deployment = plan.deployments[task]
    directory = WorkingDirectory(plan.facts.configuration, f"{plan.facts.job_id[:8]}-commit", task)
    rows = Rows()
    reports = Reports(rows, 0, deployment, plan)
    try:
        with reports.taking_prints():
            run = TaskPass(plan, deployment, SYSTEM_CLOCK, reports, _nobody, directory.path())
            run.guarded(run.run.commit_restored)
            if is_over:
                run.guarded(run.run.task.chain.job_finished)
            run.guarded(partial(run.run.close, after_failure=False))
    except PassFailedError as failed:
        reports.add(TaskFailed(failed.task, failed.info))
    finally:
        directory.close()
    yield from rows.take()


def _nobody(_: ChannelId, __: bytes) -> None:
    raise AssertionError("a task that only commits has emitted something")


def reports_of(rows: Iterable[Row]) -> list[bytes]:
    """Return the payloads of what a pass has told the driver, those of one task in order."""
    told = sorted(rows, key=lambda row: (row[0].vertex, row[0].producer, row[0].sequence))
    return [payload for _, (_, payload) in told]
