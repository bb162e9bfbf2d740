"""CheckpointStatistics: counts, latest checkpoints, a short history, and summaries of a job's checkpoints.

The tracker belongs to the coordinator; it returns frozen values with everything that Flink's REST routes report.
Timestamps are wall-clock ms since the epoch, durations ms, sizes bytes.
Source: Flink, CheckpointStatsTracker, CompletedCheckpointStatsSummary.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runtime.checkpoint.batch_trace import MAX_BATCHES, BatchTrace
from runtime.checkpoint.handles import CheckpointMetrics
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.trace import MAX_CAUSE_CHARS, TRACES, CheckpointTrace, SubtaskTrace, slowest
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId, VertexId

SUMMARY_WINDOW = 1_000
"""Number of completed checkpoints for quantiles; minimum, maximum and average cover all."""


RECORDED_WINDOW = 100
"""Number of them that a record keeps: quantiles that a later JobMaster shows cover these and its own."""


class CheckpointStatus(enum.Enum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SubtaskCheckpoint:
    """An acknowledged part of one subtask."""

    index: int
    ack_timestamp_ms: int
    end_to_end_ms: int
    """From the trigger to the acknowledgement."""
    metrics: CheckpointMetrics


@dataclass(frozen=True, slots=True)
class VertexCheckpoint:
    """The part of one vertex."""

    vertex_id: VertexId
    parallelism: int
    subtasks: Mapping[int, SubtaskCheckpoint]
    """By index; only subtasks that have acknowledged."""

    @property
    def latest_ack_timestamp_ms(self) -> int:
        """Return the time of the latest acknowledgement; -1 = none yet."""
        return max((s.ack_timestamp_ms for s in self.subtasks.values()), default=-1)

    def total(self, name: str) -> int:
        """Return the sum of a field of CheckpointMetrics over the subtasks, such as "state_bytes"."""
        return sum(getattr(s.metrics, name) for s in self.subtasks.values())


@dataclass(frozen=True, slots=True)
class CheckpointStats:
    """Statistics of a checkpoint or savepoint."""

    checkpoint_id: CheckpointId
    status: CheckpointStatus
    trigger_timestamp_ms: int
    options: CheckpointOptions
    vertices: Mapping[VertexId, VertexCheckpoint]
    is_discarded: bool = False
    """COMPLETED: whether its files have been deleted since."""
    metadata_bytes: int = 0
    failure_timestamp_ms: int | None = None
    failure_message: str | None = None
    completion_timestamp_ms: int | None = None
    """When it was recorded; None: it has not completed."""

    @property
    def num_subtasks(self) -> int:
        return sum(v.parallelism for v in self.vertices.values())

    @property
    def num_acknowledged(self) -> int:
        return sum(len(v.subtasks) for v in self.vertices.values())

    @property
    def latest_ack_timestamp_ms(self) -> int:
        """Return the time of the latest acknowledgement; -1 = none yet."""
        return max((v.latest_ack_timestamp_ms for v in self.vertices.values()), default=-1)

    @property
    def end_to_end_ms(self) -> int:
        """Return the time from the trigger to the last acknowledgement, or to the failure."""
        end_ms = self.latest_ack_timestamp_ms if self.failure_timestamp_ms is None else self.failure_timestamp_ms
        return max(0, end_ms - self.trigger_timestamp_ms)

    @property
    def external_path(self) -> str:
        """Return the URI of its directory."""
        return self.options.directory

    @property
    def checkpoint_type(self) -> str:
        """Return CHECKPOINT | UNALIGNED_CHECKPOINT | SAVEPOINT | SYNC_SAVEPOINT, as Flink names them."""
        if self.options.is_savepoint:
            return "SAVEPOINT" if self.options.after is AfterSnapshot.GO_ON else "SYNC_SAVEPOINT"
        is_unaligned = self.options.alignment is Alignment.UNALIGNED or any(
            s.metrics.is_unaligned for v in self.vertices.values() for s in v.subtasks.values()
        )
        return "UNALIGNED_CHECKPOINT" if is_unaligned else "CHECKPOINT"

    def total(self, name: str) -> int:
        """Return the sum of a field of CheckpointMetrics over all subtasks."""
        return sum(v.total(name) for v in self.vertices.values())

    def trace(self) -> CheckpointTrace:
        """Return what is kept of it for longer than itself."""
        acknowledged = (
            SubtaskTrace.of(TaskId(v.vertex_id, s.index), s.end_to_end_ms, s.metrics)
            for v in self.vertices.values()
            for s in v.subtasks.values()
        )
        missing = (
            TaskId(v.vertex_id, i) for v in self.vertices.values() for i in range(v.parallelism) if i not in v.subtasks
        )
        return CheckpointTrace(
            self.checkpoint_id,
            self.checkpoint_type,
            self.trigger_timestamp_ms,
            self.latest_ack_timestamp_ms,
            self.num_subtasks,
            self.num_acknowledged,
            slowest(acknowledged, missing),
            self.completion_timestamp_ms,
            self.failure_timestamp_ms,
            (self.failure_message or "")[:MAX_CAUSE_CHARS],
        )


@dataclass(frozen=True, slots=True)
class RestoredStats:
    """The snapshot from which an attempt was restored."""

    checkpoint_id: CheckpointId
    restore_timestamp_ms: int
    is_savepoint: bool
    external_path: str


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    restored: int = 0
    """Number of restores of the job."""
    total: int = 0
    """All triggered checkpoints."""
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """Distribution of one quantity."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = float("nan")
    p90: float = float("nan")
    p95: float = float("nan")
    p99: float = float("nan")
    p999: float = float("nan")

    @classmethod
    def of(cls, values: Iterable[float], window: Sequence[float] | None = None) -> Summary:
        """Summarise values; quantiles cover `window` if only a part is kept."""
        ordered = sorted(values)
        if not ordered:
            return cls()
        return cls._with_quantiles(
            int(ordered[0]), int(ordered[-1]), int(sum(ordered) / len(ordered)), ordered if window is None else window
        )

    @classmethod
    def _with_quantiles(cls, least: int, most: int, average: int, values: Sequence[float]) -> Summary:
        ordered = sorted(values)
        quantiles = (ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.9, 0.95, 0.99, 0.999))
        return cls(least, most, average, *(float(q) for q in quantiles))


SUMMARISED = ("checkpointed_size", "state_size", "end_to_end_duration", "processed_data", "persisted_data")
"""Quantities summarised over completed checkpoints, by Flink's REST names."""


@dataclass(frozen=True, slots=True)
class CheckpointsSnapshot:
    """All statistics of a job's checkpoints; a part of JobStatusSnapshot."""

    settings: CheckpointSettings
    counts: CheckpointCounts = field(default_factory=CheckpointCounts)
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    """By name of SUMMARISED."""
    history: Sequence[CheckpointStats] = ()
    """Newest first, at most as many as `web.checkpoints.history`."""
    latest_completed: CheckpointStats | None = None
    """The latest checkpoint that is not a savepoint."""
    latest_failed: CheckpointStats | None = None
    failures_since_ms: int | None = None
    """When the latest row of failed checkpoints began, those with no completed one between them, epoch ms; None: none
    has failed."""
    failures_in_a_row: int = 0
    """Number of checkpoints in that row; savepoints do not count."""
    latest_savepoint: CheckpointStats | None = None
    latest_restored: RestoredStats | None = None
    refused: int = 0
    """Acknowledgements and declines that arrived after their checkpoint had ended."""
    traces: Sequence[CheckpointTrace] = ()
    """Newest first, at most TRACES."""

    def find(self, checkpoint_id: int) -> CheckpointStats | None:
        """Return the checkpoint of that number, while it is in the history."""
        latest = (self.latest_completed, self.latest_failed, self.latest_savepoint)
        found = (c for c in (*self.history, *latest) if c is not None and c.checkpoint_id == checkpoint_id)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class RecordedDistribution:
    """Recorded distribution of one quantity."""

    count: int
    min: float
    max: float
    sum: float
    recent: Sequence[float]
    """Of the newest checkpoints, at most RECORDED_WINDOW, oldest first."""


@dataclass(frozen=True, slots=True)
class StatisticsRecord:
    """Statistics that a later JobMaster of the job continues from."""

    restored: int
    completed: int
    failed: int
    distributions: Mapping[str, RecordedDistribution]
    """By name of SUMMARISED."""
    savepoints: int = 0
    """Number of those, completed or failed, that were savepoints; earlier releases did not count them."""

    @property
    def ended(self) -> int:
        """Return the number of checkpoints that it covers; grows with the time."""
        return self.completed + self.failed

    @property
    def own(self) -> int:
        """Return how many of those may have written into the job's directory: savepoints have directories elsewhere."""
        return self.ended - self.savepoints


class _Distribution:
    """Distribution of one quantity over all completed checkpoints."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=SUMMARY_WINDOW)
        self._min = self._max = self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        self._min = value if not self._count else min(self._min, value)
        self._max = max(self._max, value)
        self._sum += value
        self._count += 1
        self._recent.append(value)

    def record(self, *further: float) -> RecordedDistribution:
        """Return what is to be recorded once further values have been added."""
        values = [*further, *((self._min, self._max) if self._count else ())]
        recent = [*self._recent, *further][-RECORDED_WINDOW:]
        return RecordedDistribution(
            self._count + len(further),
            min(values, default=0.0),
            max(values, default=0.0),
            self._sum + sum(further),
            tuple(recent),
        )

    def restore(self, record: RecordedDistribution) -> None:
        self._count, self._sum = record.count, record.sum
        self._min, self._max = record.min, record.max
        self._recent.extend(record.recent)

    def summary(self) -> Summary:
        if not self._count:
            return Summary()
        average = int(self._sum / self._count)
        return Summary._with_quantiles(int(self._min), int(self._max), average, tuple(self._recent))


class _Tracked:
    """A checkpoint in progress."""

    def __init__(self, stats: CheckpointStats) -> None:
        self.stats = stats
        self.subtasks: dict[VertexId, dict[int, SubtaskCheckpoint]] = {v: {} for v in stats.vertices}

    def frozen(self) -> CheckpointStats:
        vertices = {
            vertex_id: replace(vertex, subtasks=dict(self.subtasks[vertex_id]))
            for vertex_id, vertex in self.stats.vertices.items()
        }
        return replace(self.stats, vertices=vertices)


class CheckpointStatistics:
    """Tracks statistics; belongs to the coordinator."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self._settings = settings
        self._tracked: dict[CheckpointId, _Tracked] = {}
        #: newest last; includes checkpoints in progress, by id
        self._history: deque[CheckpointStats] = deque(maxlen=settings.history_size)
        #: newest last; None: it is in progress
        self._traces: dict[CheckpointId, CheckpointTrace | None] = {}
        self._distributions = {name: _Distribution() for name in SUMMARISED}
        self._summaries: dict[str, Summary] = {}
        self._restored = self._total = self._completed = self._failed = self._savepoints = 0
        self._latest_completed: CheckpointStats | None = None
        self._latest_failed: CheckpointStats | None = None
        self._failures_since_ms: int | None = None
        self._failures_in_a_row = 0
        self._is_row_over = True
        self._latest_savepoint: CheckpointStats | None = None
        self._latest_restored: RestoredStats | None = None
        self.refused = 0

    def triggered(
        self, checkpoint_id: CheckpointId, wall_ms: int, options: CheckpointOptions, parallelism: Mapping[VertexId, int]
    ) -> None:
        """Note that a checkpoint has begun."""
        vertices = {vertex_id: VertexCheckpoint(vertex_id, count, {}) for vertex_id, count in parallelism.items()}
        stats = CheckpointStats(checkpoint_id, CheckpointStatus.IN_PROGRESS, wall_ms, options, vertices)
        self._tracked[checkpoint_id] = _Tracked(stats)
        self._history.append(stats)
        self._traces[checkpoint_id] = None
        if len(self._traces) > TRACES:
            del self._traces[next(iter(self._traces))]
        self._total += 1

    def acknowledged(self, checkpoint_id: CheckpointId, task: TaskId, metrics: CheckpointMetrics, wall_ms: int) -> None:
        """Note that a task has acknowledged."""
        tracked = self._tracked[checkpoint_id]
        end_to_end_ms = max(0, wall_ms - tracked.stats.trigger_timestamp_ms)
        part = SubtaskCheckpoint(task.subtask_index, wall_ms, end_to_end_ms, metrics)
        tracked.subtasks[task.vertex_id][task.subtask_index] = part

    def completed(self, checkpoint_id: CheckpointId, metadata_bytes: int, wall_ms: int) -> None:
        """Note that the checkpoint is complete: its metadata is written, and it is recorded."""
        stats = replace(
            self._tracked.pop(checkpoint_id).frozen(),
            status=CheckpointStatus.COMPLETED,
            metadata_bytes=metadata_bytes,
            completion_timestamp_ms=wall_ms,
        )
        self._replace(stats)
        self._keep_trace(stats)
        self._completed += 1
        self._savepoints += stats.options.is_savepoint
        if stats.options.is_savepoint:
            self._latest_savepoint = stats
        else:
            self._latest_completed = stats
            self._is_row_over = True
        for name, value in zip(SUMMARISED, _quantities(stats), strict=True):
            self._distributions[name].add(value)
        self._summarise()

    def failed(self, checkpoint_id: CheckpointId, cause: str, wall_ms: int) -> None:
        """Note that the checkpoint was aborted."""
        stats = replace(
            self._tracked.pop(checkpoint_id).frozen(),
            status=CheckpointStatus.FAILED,
            failure_timestamp_ms=wall_ms,
            failure_message=cause,
        )
        self._replace(stats)
        self._keep_trace(stats)
        self._failed += 1
        self._savepoints += stats.options.is_savepoint
        self._latest_failed = stats
        if not stats.options.is_savepoint:
            if self._is_row_over:
                self._failures_since_ms, self._failures_in_a_row, self._is_row_over = wall_ms, 0, False
            self._failures_in_a_row += 1

    def batch_completed(self, checkpoint_id: CheckpointId, batch: BatchTrace) -> None:
        """Note what the batch that ends with a checkpoint has done; in place of what was noted of the same region."""
        trace = self._traces.get(checkpoint_id)
        if trace is None:
            return
        batches = {each.region: each for each in trace.batches}
        if batch.region in batches or len(batches) < MAX_BATCHES:
            batches[batch.region] = batch.bounded()
        self._traces[checkpoint_id] = replace(trace, batches=tuple(batches.values()))

    def given_up(self, *, is_savepoint: bool) -> None:
        """Note that a checkpoint has failed which an earlier JobMaster had begun."""
        self._total += 1
        self._failed += 1
        self._savepoints += is_savepoint

    def record(self, completing: Collection[CheckpointId] = ()) -> StatisticsRecord:
        """Return what is to be recorded.

        Args:
            completing: checkpoints in progress that count as completed, since they are recorded together with it.
        """
        completed = [self._tracked[checkpoint_id].frozen() for checkpoint_id in completing]
        further = [_quantities(stats) for stats in completed]
        savepoints = self._savepoints + sum(stats.options.is_savepoint for stats in completed)
        distributions = {
            name: self._distributions[name].record(*(values[i] for values in further))
            for i, name in enumerate(SUMMARISED)
        }
        return StatisticsRecord(self._restored, self._completed + len(further), self._failed, distributions, savepoints)

    def restore(self, record: StatisticsRecord) -> None:
        """Go on from what an earlier JobMaster has recorded; once, before anything else."""
        self._restored, self._completed, self._failed = record.restored, record.completed, record.failed
        self._total, self._savepoints = record.ended, record.savepoints
        for name, recorded in record.distributions.items():
            if name in self._distributions:
                self._distributions[name].restore(recorded)
        self._summarise()

    def discarded(self, checkpoint_id: CheckpointId) -> None:
        """Note that its files are deleted."""
        for stats in (*self._history, self._latest_completed, self._latest_savepoint):
            if stats is not None and stats.checkpoint_id == checkpoint_id and not stats.is_discarded:
                self._replace(replace(stats, is_discarded=True))

    def restored(self, checkpoint_id: CheckpointId, wall_ms: int, is_savepoint: bool, external_path: str) -> None:
        """Note that an attempt was restored from it."""
        self._restored += 1
        self._latest_restored = RestoredStats(checkpoint_id, wall_ms, is_savepoint, external_path)

    def snapshot(self) -> CheckpointsSnapshot:
        """Return all statistics as they are now."""
        counts = CheckpointCounts(self._restored, self._total, len(self._tracked), self._completed, self._failed)
        history = [
            self._tracked[stats.checkpoint_id].frozen() if stats.checkpoint_id in self._tracked else stats
            for stats in reversed(self._history)
        ]
        return CheckpointsSnapshot(
            settings=self._settings,
            counts=counts,
            summaries=self._summaries,
            history=tuple(history),
            latest_completed=self._latest_completed,
            latest_failed=self._latest_failed,
            failures_since_ms=self._failures_since_ms,
            failures_in_a_row=self._failures_in_a_row,
            latest_savepoint=self._latest_savepoint,
            latest_restored=self._latest_restored,
            refused=self.refused,
            traces=tuple(
                self._tracked[checkpoint_id].frozen().trace() if trace is None else trace
                for checkpoint_id, trace in reversed(self._traces.items())
            ),
        )

    def _keep_trace(self, stats: CheckpointStats) -> None:
        if stats.checkpoint_id in self._traces:
            self._traces[stats.checkpoint_id] = stats.trace()

    def _summarise(self) -> None:
        if self._completed:
            self._summaries = {name: distribution.summary() for name, distribution in self._distributions.items()}

    def _replace(self, stats: CheckpointStats) -> None:
        for index, known in enumerate(self._history):
            if known.checkpoint_id == stats.checkpoint_id:
                self._history[index] = stats
        if self._latest_completed is not None and self._latest_completed.checkpoint_id == stats.checkpoint_id:
            self._latest_completed = stats
        if self._latest_savepoint is not None and self._latest_savepoint.checkpoint_id == stats.checkpoint_id:
            self._latest_savepoint = stats


def _quantities(stats: CheckpointStats) -> tuple[int, ...]:
    """Return the quantities of SUMMARISED."""
    return (
        stats.total("checkpointed_bytes"),
        stats.total("state_bytes"),
        stats.end_to_end_ms,
        stats.total("processed_bytes"),
        stats.total("persisted_bytes"),
    )
