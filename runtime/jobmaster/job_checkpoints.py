"""JobCheckpoints: the checkpoints, savepoints and stops of one job, on behalf of its JobMasterMachine.

It stands between the machine and the CheckpointCoordinator: messages of slots become the coordinator's events, its
actions become messages to slots and work for the storage. What the machine itself is to do comes as decisions, which it
takes after each event. Pure, as the machine is; used by nobody else.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from runtime.checkpoint.assignment import Assignment, RestoreReport, assign_state
from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.messages import (
    Acknowledged,
    AttemptEnded,
    AttemptInterrupted,
    AttemptRunning,
    CoordinatorAction,
    CoordinatorEvent,
    CoordinatorsAnswered,
    DamageFound,
    Declined,
    DeleteFiles,
    FailJob,
    ForgetCheckpoints,
    JobEnded,
    NotifyAborted,
    NotifyComplete,
    NotStored,
    RecordEnd,
    ReleaseSources,
    RequestDone,
    SnapshotSources,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
    TaskFinished,
    TimePassed,
    TriggerRequested,
    TriggerTasks,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.ids import Attempt, CheckpointId, SlotId, TaskId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import JobMasterAction, RequestAnswered
from runtime.jobmaster.events import AfterSavepoint, CheckpointRequested, SavepointRequested
from runtime.jobmaster.job_state import JobState
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    FailureInfo,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEvent,
    SnapshotCoordinators,
    TriggerCheckpoint,
)

FINAL_RETRY_MS = 1_000
"""Wait before a final checkpoint that failed is tried again. It holds up the end of the job; much shorter, and a
storage that is away for a moment uses up the failures that are tolerated."""

CheckpointMessage = AcknowledgeCheckpoint | DeclineCheckpoint | CoordinatorsSnapshotted


# --- decisions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailAttempt:
    """The job has failed."""

    failure: FailureInfo


@dataclass(frozen=True, slots=True)
class CommitJob:
    """All tasks have finished and nothing of what they did can be lost any more: commit and end."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """The savepoint that the job was to be cancelled with is complete."""


@dataclass(frozen=True, slots=True)
class RedeployJob:
    """Tear the attempt down and go on from the newest checkpoint, on purpose."""

    graph: JobGraph | None
    """None: the same one."""
    cause: str


@dataclass(frozen=True, slots=True)
class RestorePointKnown:
    """The newest checkpoint is known."""


Decision = FailAttempt | CommitJob | CancelJob | RedeployJob | RestorePointKnown


# --- requests ---------------------------------------------------------------------------------------------------------


class _Purpose(enum.Enum):
    SNAPSHOT = "savepoint or checkpoint"
    CANCEL = "cancel with a savepoint"
    STOP = "stop with a savepoint"
    FINAL = "checkpoint at the end of the job"
    RESCALE = "checkpoint to rescale from"


#: request id of snapshots that nobody outside has asked for
_FINAL = "final"


@dataclass(slots=True)
class _Rescale:
    request_id: str
    graph: JobGraph
    previous: JobGraph
    not_before_ms: float
    is_triggered: bool = False


class JobCheckpoints:
    """The checkpoints of one job.

    Args:
        coordinator: decides about checkpoints.
        send: sends a message to some slots, None = all live ones.
        act: has the driver do something.
        tell: adds to the machine's story.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        send: Callable[[Iterable[SlotId] | None, JobMasterMessage], None],
        act: Callable[[JobMasterAction], None],
        tell: Callable[[str], None],
    ) -> None:
        self.decisions: deque[Decision] = deque()
        self._coordinator = coordinator
        self._settings = coordinator.settings
        self._send = send
        self._act = act
        self._tell = tell
        self._now_ms = 0.0
        self._wall_ms = 0
        self._purposes: dict[str, _Purpose] = {}
        #: events of source coordinators to readers, until the barrier is on its way; None: none are held back
        self._held: list[OperatorEvent] | None = None
        self._release: Callable[[OperatorEvent], None] | None = None
        #: a stop whose savepoint is complete: request id, location, checkpoint
        self._stopping: tuple[str, str, CheckpointId] | None = None
        #: why the attempt is over; None while all its tasks run or have finished
        self._over: str | None = "the job did not run"
        #: the latest attempt that all tasks have run in
        self._attempt: Attempt | None = None
        self._all_finished = False
        self._final_is_complete = False
        self._retry_final_at_ms: float | None = None
        self._rescale: _Rescale | None = None
        self._last_rescale_ms = float("-inf")
        #: what the current attempt was restored from; None: it started empty
        self._restored: CompletedCheckpoint | None = None
        self.report: RestoreReport | None = None
        self._is_recovered = self._has_deployed = False
        #: whether the job has ended without restoring what it had
        self.are_left_alone = False

    def at(self, now_ms: float, wall_ms: int) -> None:
        """Set the time, before each event of the machine."""
        self._now_ms, self._wall_ms = now_ms, wall_ms

    def next_deadline_ms(self) -> float | None:
        """Return when `tick` has something to do."""
        deadlines = [self._coordinator.next_deadline_ms(), self._retry_final_at_ms]
        if self._rescale is not None and not self._rescale.is_triggered:
            deadlines.append(self._rescale.not_before_ms)
        return min((d for d in deadlines if d is not None), default=None)

    def tick(self) -> None:
        """Act on the time that has passed."""
        self._handle(TimePassed())
        if self._retry_final_at_ms is not None and self._now_ms >= self._retry_final_at_ms:
            self._retry_final_at_ms = None
            self._take_final()
        self._begin_rescale()

    def statistics(self) -> CheckpointsSnapshot:
        """Return the statistics of the job's checkpoints."""
        return self._coordinator.statistics()

    def check_invariants(self) -> None:
        """Raise AssertionError if something contradicts itself."""
        self._coordinator.check_invariants()

    # --- restoring ----------------------------------------------------------------------------------------------------

    def recover(self, retained: Sequence[CompletedCheckpoint], initial: CompletedCheckpoint | None) -> None:
        """Take in the checkpoints that can be restored; once, before the first attempt."""
        self._is_recovered = True
        self._coordinator.recover(retained, initial)

    @property
    def is_undecided(self) -> bool:
        """Return whether the storage still has to say which checkpoint is the newest; RestorePointKnown follows."""
        return self._coordinator.is_storing

    def assign(self, graph: JobGraph) -> Assignment | None:
        """Return what the next attempt restores; None = it starts empty.

        Raises:
            StateAssignmentError: the newest checkpoint does not fit the job.
        """
        point = self._coordinator.restore_point()
        if point is None:
            return None
        restore = self._settings.restore
        ignore = restore is not None and restore.ignore_unclaimed_state
        return assign_state(point.metadata, graph, ignore_unclaimed_state=ignore)

    def deployed(self, assignment: Assignment | None) -> None:
        """Note that an attempt was told to restore that."""
        self._has_deployed = True
        self._restored = self._coordinator.restore_point()
        if assignment is not None:
            self.report = assignment.report
            self._coordinator.note_restored(self._wall_ms)
            self._tell(f"restored from checkpoint {assignment.report.checkpoint_id}, {assignment.report.location}")

    def take_damage(self, failure: FailureInfo) -> bool | None:
        """Check whether a failure comes from a damaged checkpoint, which is then never used again.

        Returns:
            Whether there is an older one to go on from; None: the failure is of another kind.
        """
        if not failure.is_damaged_snapshot or self._restored is None:
            return None
        damaged, self._restored = self._restored, None
        self._tell(f"checkpoint {damaged.checkpoint_id} is damaged: {failure.message}")
        self._handle(DamageFound(damaged.checkpoint_id, failure.message))
        return self._coordinator.restore_point() is not None

    # --- the attempt --------------------------------------------------------------------------------------------------

    def attempt_running(
        self, attempt: Attempt, oldest: Attempt, graph: JobGraph, coordinator_slots: Iterable[SlotId]
    ) -> None:
        """Note that all tasks run, or have finished.

        Args:
            attempt: number of the attempt; of the latest one, if regions have been restarted.
            oldest: of the regions' attempts.
            graph: with its parallelisms.
            coordinator_slots: slots that host source coordinators.
        """
        self._attempt = attempt
        self._over = None
        rescale, self._rescale = self._rescale, None
        if rescale is not None and rescale.is_triggered:
            self._last_rescale_ms = self._now_ms
            self._act(RequestAnswered(rescale.request_id))
        else:
            self._rescale = rescale
        self._handle(AttemptRunning(attempt, graph, frozenset(coordinator_slots), oldest))

    def task_finished(self, task: TaskId) -> None:
        """Note that a task of the running attempt has ended its output."""
        self._handle(TaskFinished(task))

    def all_finished(self) -> bool:
        """Note that every task has finished. Return whether the job can commit at once; else CommitJob follows."""
        self._all_finished = True
        if _Purpose.STOP in self._purposes.values():
            return False
        if self._stopping is not None or not self._takes_final:
            return True
        self._take_final()
        return False

    @property
    def _takes_final(self) -> bool:
        return self._settings.is_enabled and self._settings.after_tasks_finish

    @property
    def may_commit_again(self) -> bool:
        """Return whether an attempt that fails while it commits can be repeated: what it commits is in a checkpoint."""
        return self._final_is_complete or self._stopping is not None

    @property
    def may_be_interrupted(self) -> bool:
        """Return whether the job is not about to stop, end or change its parallelism, which need the whole job."""
        is_rescaling = self._rescale is not None and self._rescale.is_triggered
        is_ending = self._all_finished or self._stopping is not None
        plain = all(purpose is _Purpose.SNAPSHOT for purpose in self._purposes.values())
        return plain and not is_rescaling and not is_ending

    def interrupted(self, cause: str) -> None:
        """Note that some regions are being restarted while the others continue; `attempt_running` follows."""
        self._over = cause
        self._handle(AttemptInterrupted(cause))
        if self._rescale is not None:
            self._answer_rescale(cause)

    def attempt_ended(self, cause: str) -> None:
        """Note that the attempt is being torn down."""
        self._held = None
        self._restored = None
        self._over = cause
        self._all_finished = self._final_is_complete = False
        self._retry_final_at_ms = None
        self._handle(AttemptEnded(cause))
        if self._stopping is not None:
            request_id, location, _ = self._stopping
            self._stopping = None
            self._act(RequestAnswered(request_id, error=_in_vain(location, "did not stop", cause)))
        if self._rescale is not None and not self._rescale.is_triggered:
            self._answer_rescale(cause)
        # what was decided for this attempt has come too late
        self.decisions.clear()

    def job_ended(self, state: JobState) -> None:
        """Note that nothing of the job runs any more."""
        if self._stopping is not None and state is JobState.FINISHED:
            request_id, location, checkpoint_id = self._stopping
            self._stopping = None
            self._act(RequestAnswered(request_id, location, checkpoint_id))
        self.attempt_ended(f"the job is {state.value}")
        if self._rescale is not None:
            self._answer_rescale(f"the job is {state.value}")
        self.are_left_alone = not (self._has_deployed if state is JobState.FAILED else self._is_recovered)
        if self.are_left_alone:
            # what kept the job from restoring says nothing about its state
            return
        self._handle(JobEnded(JobOutcome(state.value)))

    # --- messages -----------------------------------------------------------------------------------------------------

    def message(self, message: CheckpointMessage, is_current: bool) -> None:
        """Handle a slot's message about a checkpoint, whatever its attempt.

        Args:
            message: what it says.
            is_current: whether its attempt is the one that its region is of.
        """
        # regions that were not restarted are of an older attempt than the job, and take part all the same
        attempt = self._attempt if is_current and self._attempt is not None else message.attempt
        match message:
            case AcknowledgeCheckpoint(_, _, task, checkpoint_id, state, metrics):
                self._handle(Acknowledged(attempt, task, checkpoint_id, state, metrics))
            case DeclineCheckpoint(_, _, _, checkpoint_id, cause, counts):
                self._tell(f"checkpoint {checkpoint_id} declined: {cause.message}")
                self._handle(Declined(attempt, checkpoint_id, cause.message, counts))
            case CoordinatorsSnapshotted(slot, _, checkpoint_id, states):
                self._handle(CoordinatorsAnswered(slot, attempt, checkpoint_id, states))

    def stored(self, answer: Stored | NotStored) -> None:
        """Handle the storage's answer."""
        was_undecided = self.is_undecided
        self._handle(answer)
        if was_undecided and not self.is_undecided:
            self.decisions.append(RestorePointKnown())

    def hold(self, event: OperatorEvent, release: Callable[[OperatorEvent], None]) -> bool:
        """Keep what a source coordinator sends to a reader if a snapshot of the coordinators is being taken.

        Args:
            event: to be delivered.
            release: delivers it later.

        Returns:
            Whether it is kept.
        """
        if self._held is None or event.target_subtask is None or event.source_subtask is not None:
            return False
        self._held.append(event)
        self._release = release
        return True

    # --- requests -----------------------------------------------------------------------------------------------------

    def request_savepoint(self, request: SavepointRequested) -> None:
        """Begin a savepoint; answered by RequestAnswered."""
        purpose, after = _Purpose.STOP, AfterSnapshot.GO_ON
        match request.after:
            case AfterSavepoint.GO_ON:
                purpose = _Purpose.SNAPSHOT
            case AfterSavepoint.CANCEL:
                purpose = _Purpose.CANCEL
            case AfterSavepoint.SUSPEND:
                after = AfterSnapshot.SUSPEND
            case AfterSavepoint.DRAIN:
                after = AfterSnapshot.DRAIN
        if purpose is not _Purpose.SNAPSHOT and self._all_finished:
            self._act(RequestAnswered(request.request_id, error="all tasks of the job have finished"))
            return
        trigger = TriggerRequested(
            request.request_id,
            request.kind,
            is_savepoint=True,
            target_directory=request.target_directory,
            after=after,
            is_last=purpose is not _Purpose.SNAPSHOT,
        )
        self._request(trigger, purpose)

    def request_checkpoint(self, request: CheckpointRequested) -> None:
        """Begin a checkpoint; answered by RequestAnswered."""
        self._request(TriggerRequested(request.request_id, request.kind), _Purpose.SNAPSHOT)

    def request_rescale(self, request_id: str, graph: JobGraph, previous: JobGraph) -> None:
        """Take a checkpoint, once the last rescaling is long enough ago, then RedeployJob; answered when it runs."""
        if self._rescale is not None:
            self._act(RequestAnswered(request_id, error="the job is being rescaled already"))
            return
        if self._all_finished:
            self._act(RequestAnswered(request_id, error="all tasks of the job have finished"))
            return
        not_before_ms = max(self._now_ms, self._last_rescale_ms + self._settings.rescale_cooldown_ms)
        self._rescale = _Rescale(request_id, graph, previous, not_before_ms)
        self._begin_rescale()

    def give_up_rescale(self, cause: str) -> JobGraph | None:
        """Return the graph to go back to if the attempt with the new parallelism did not come up, else None."""
        rescale = self._rescale
        if rescale is None or not rescale.is_triggered:
            return None
        self._answer_rescale(f"the job could not be started with the new parallelism and goes back: {cause}")
        return rescale.previous

    def _begin_rescale(self) -> None:
        rescale = self._rescale
        if rescale is not None and not rescale.is_triggered and self._now_ms >= rescale.not_before_ms:
            rescale.is_triggered = True
            self._request(TriggerRequested(rescale.request_id, is_last=True), _Purpose.RESCALE)

    def _answer_rescale(self, error: str) -> None:
        rescale, self._rescale = self._rescale, None
        assert rescale is not None
        self._purposes.pop(rescale.request_id, None)
        self._act(RequestAnswered(rescale.request_id, error=error))

    def _take_final(self) -> None:
        self._request(TriggerRequested(_FINAL, is_last=True, counts_as_failure=True), _Purpose.FINAL)

    def _request(self, trigger: TriggerRequested, purpose: _Purpose) -> None:
        self._purposes[trigger.request_id] = purpose
        self._handle(trigger)

    def _on_done(self, done: RequestDone) -> None:
        purpose = self._purposes.pop(done.request_id, None)
        match purpose:
            case None:
                pass  # it was answered when the job gave up waiting for it
            case _Purpose.FINAL:
                self._on_final_done(done)
            case _Purpose.RESCALE:
                self._on_rescale_done(done)
            case _Purpose.STOP | _Purpose.CANCEL if done.location is not None and self._over is not None:
                # another attempt may have gone on from it, or past it
                what = "did not stop" if purpose is _Purpose.STOP else "was not cancelled"
                self._act(RequestAnswered(done.request_id, error=_in_vain(done.location, what, self._over)))
            case _Purpose.STOP if done.location is not None and done.checkpoint_id is not None:
                self._stopping = (done.request_id, done.location, done.checkpoint_id)
                if self._all_finished:
                    self.decisions.append(CommitJob())
            case _:
                self._act(RequestAnswered(done.request_id, done.location, done.checkpoint_id, done.error))
                if purpose is _Purpose.CANCEL and done.error is None:
                    self.decisions.append(CancelJob())
                if purpose is _Purpose.STOP and done.has_drained:
                    self._on_drain_failed(done)
                elif purpose is _Purpose.STOP and self._all_finished:
                    if self._takes_final:
                        self._retry_final_at_ms = self._now_ms
                    else:
                        self.decisions.append(CommitJob())

    def _on_final_done(self, done: RequestDone) -> None:
        if done.error is None and self._over is None:
            self._final_is_complete = True
            self.decisions.append(CommitJob())
        elif self._all_finished:
            self._retry_final_at_ms = self._now_ms + FINAL_RETRY_MS

    def _on_rescale_done(self, done: RequestDone) -> None:
        rescale = self._rescale
        assert rescale is not None
        if done.error is None and self._over is not None:
            self._answer_rescale(f"the job ended its attempt before it could be rescaled: {self._over}")
        elif done.error is None:
            self.decisions.append(RedeployJob(rescale.graph, "the job is rescaled"))
        else:
            self._answer_rescale(f"no checkpoint could be taken to rescale from: {done.error}")

    def _on_drain_failed(self, done: RequestDone) -> None:
        """Note that sources have ended their input, and only another attempt brings them back."""
        cause = f"the savepoint to stop with failed: {done.error}"
        if self._coordinator.restore_point() is not None:
            self.decisions.append(RedeployJob(None, cause))
        else:
            self.decisions.append(FailAttempt(FailureInfo(cause)))

    # --- actions ------------------------------------------------------------------------------------------------------

    def _handle(self, event: CoordinatorEvent) -> None:
        for action in self._coordinator.handle(event, self._now_ms, self._wall_ms):
            self._perform(action)

    def _perform(self, action: CoordinatorAction) -> None:
        match action:
            case SnapshotSources(checkpoint_id, slots):
                self._held = []
                self._send(sorted(slots), SnapshotCoordinators(checkpoint_id))
            case TriggerTasks(checkpoint_id, timestamp_ms, options):
                self._send(None, TriggerCheckpoint(checkpoint_id, timestamp_ms, options))
                self._let_go()
            case ReleaseSources():
                self._let_go()
            case NotifyComplete(checkpoint_id):
                self._tell(f"checkpoint {checkpoint_id} is complete")
                self._send(None, NotifyCheckpointComplete(checkpoint_id))
            case NotifyAborted(checkpoint_id):
                self._tell(f"checkpoint {checkpoint_id} was given up")
                self._send(None, NotifyCheckpointAborted(checkpoint_id))
            case StoreCheckpoint() | RecordEnd() | ForgetCheckpoints() | DeleteFiles() | SweepOrphans():
                self._act(action)
            case FailJob(cause, is_fatal):
                self.decisions.append(FailAttempt(FailureInfo(cause, is_fatal=is_fatal)))
            case RequestDone():
                self._on_done(action)

    def _let_go(self) -> None:
        held, self._held = self._held or (), None
        for event in held:
            assert self._release is not None
            self._release(event)


def _in_vain(location: str, what: str, cause: str) -> str:
    return f"the savepoint {location} is complete, but the job {what} after it: {cause}"
