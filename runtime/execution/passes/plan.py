"""PassPlan: everything that the tasks of one pass are told, so that they can run in any process. Frozen; pure.

The plan is made where the JobMaster's messages arrive; whoever runs a task of it answers with a TaskOutcome.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.batch_trace import SplitPosition
from runtime.checkpoint.handles import CheckpointMetrics, TaskRestore, TaskStateHandle
from runtime.common.configuration import Configuration
from runtime.common.secrets import SecretName
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, OperatorId, SlotId, TaskId
from runtime.operators.source_coordinator import AssignSplit, NoMoreSplits, NoSplitNow
from runtime.task.messages import FailureInfo, TaskDeployment

SplitShare = Sequence[AssignSplit | NoSplitNow | NoMoreSplits]
"""Answers to a reader's requests for splits, in turn; the last one is repeated."""


class PassKind(enum.Enum):
    """The way in which a pass treats the job's input."""

    DATA = "data"
    IDLE = "idle"
    """Reads nothing and fires no timers, for a checkpoint that is no batch."""
    SNAPSHOT = "snapshot"
    """Reads nothing and fires no timers, for a savepoint."""
    DRAIN = "drain"
    BOUNDED = "bounded"
    """Reads everything, for a batch: the tasks end, and no snapshot is taken behind them."""

    @classmethod
    def of(cls, options: CheckpointOptions) -> PassKind:
        """Return the kind of the pass that ends with such a snapshot."""
        if options.after is AfterSnapshot.DRAIN:
            return cls.DRAIN
        return cls.SNAPSHOT if options.is_savepoint else cls.DATA

    @property
    def fires_timers(self) -> bool:
        """Return whether timers of processing time that are due fire."""
        return self in (PassKind.DATA, PassKind.DRAIN, PassKind.BOUNDED)


class PassFailedError(Exception):
    """A task has failed in a pass.

    Attributes:
        task: which one; None: something that belongs to no task.
        info: for the JobMaster.
    """

    def __init__(self, task: TaskId | None, info: FailureInfo) -> None:
        super().__init__(info.message)
        self.task = task
        self.info = info


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts that all tasks of a job's attempt share."""

    job_id: str
    attempt: Attempt
    configuration: Configuration
    job_parameters: Mapping[str, str]
    state_compression: str
    secrets: Mapping[SecretName, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PassPlan:
    """One pass through a job."""

    facts: JobFacts
    number: int
    """Unique within the attempt: the id of the snapshot behind the pass. Of a batch, whose tasks may be run again, each
    run of a task has another one."""
    now_ms: int
    """Wall-clock time of the whole pass."""
    barrier: CheckpointBarrier
    kind: PassKind
    max_rows: int
    """Number of records that each subtask of a source reads at most."""
    deployments: Sequence[TaskDeployment]
    """All tasks, producers before consumers; `restores` says what they begin with, not their own `restore`."""
    restores: Mapping[TaskId, TaskRestore]
    """State before the pass; tasks without begin empty."""
    shares: Mapping[tuple[OperatorId, int], SplitShare]
    """By source operator and subtask."""
    slots: Mapping[TaskId, SlotId]
    """Where the JobMaster has put the tasks; for its messages."""

    def levels(self) -> list[list[TaskDeployment]]:
        """Return the tasks by how many edges they are behind a source: those of one level need not wait for another."""
        level: dict[str, int] = {}
        levels: list[list[TaskDeployment]] = []
        for deployment in self.deployments:
            found = 1 + max((level[edge.source] for edge in deployment.in_edges), default=-1)
            level[deployment.vertex.vertex_id] = found
            if found == len(levels):
                levels.append([])
            levels[found].append(deployment)
        return levels


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task's part of a pass."""

    task: TaskId
    state: TaskStateHandle
    checkpoint: CheckpointMetrics
    metrics: Mapping[str, object]
    """Of the task, since the pass began."""
    is_finished: bool
    """Whether the task has ended its output."""
    has_caught_up: bool
    """Whether a source had nothing more to give; True for other tasks."""
    splits: Sequence[int] = ()
    """Numbers of the splits that its source was given."""
    positions: Sequence[SplitPosition] = ()
    """Of a source, how far it has read the splits that it goes on with, at most MAX_POSITIONS."""
    next_due_ms: int | None = None
    """Wall-clock time from which on it has something to do though no record comes; None: never."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Says that a task has failed: its part of the pass has no outcome."""

    task: TaskId | None
    info: FailureInfo


@dataclass(frozen=True, slots=True)
class TaskPrinted:
    """Output of a task for the program that has started the job."""

    task: TaskId
    channel: str
    payload: bytes
