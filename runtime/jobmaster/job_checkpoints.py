"""JobCheckpoints: the snapshots of one job, and what its attempts are restored from, on behalf of its machine. Pure.

It stands between the machine and the CheckpointCoordinator: messages of slots become the coordinator's events, its
actions become messages to slots and work for the storage. Why a snapshot was asked for, and what follows from it, is
the business of JobOperations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from runtime.checkpoint.assignment import Assignment, RestoreReport, assign_state
from runtime.checkpoint.batch_trace import BatchTrace
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
    ForgetDamaged,
    Forgotten,
    JobEnded,
    NotifyAborted,
    NotifyComplete,
    NotStored,
    RecordEnd,
    ReleaseSources,
    RequestDone,
    SavepointsFailed,
    SlotsAdopted,
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
from runtime.checkpoint.statistics import CheckpointsSnapshot, StatisticsRecord
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, SlotId, TaskId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.decisions import Decision, FailAttempt, RestorePointKnown
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.journal import Journal
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    FailureInfo,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifySavepointsFailed,
    OperatorEvent,
    SnapshotCoordinators,
    TriggerCheckpoint,
)

CheckpointMessage = AcknowledgeCheckpoint | DeclineCheckpoint | CoordinatorsSnapshotted


class JobCheckpoints:
    """The checkpoints of one job.

    Args:
        coordinator: decides about checkpoints.
        send: sends a message to some slots, None = all live ones.
        done: takes how a snapshot that was asked for has ended.
        decide: leaves a decision to the machine.
        journal: of the machine.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        send: Callable[[Iterable[SlotId] | None, JobMasterMessage], None],
        done: Callable[[RequestDone], None],
        decide: Callable[[Decision], None],
        journal: Journal,
    ) -> None:
        self.settings = coordinator.settings
        self._coordinator = coordinator
        self._send = send
        self._done = done
        self._decide = decide
        self._journal = journal
        #: events of source coordinators to readers, until the barrier is on its way; None: none are held back
        self._held: list[OperatorEvent] | None = None
        self._release: Callable[[OperatorEvent], None] | None = None
        #: the latest attempt that all tasks have run in
        self._attempt: Attempt | None = None
        #: acknowledgements that slots repeat before it is known how their checkpoints ended; None: none are expected
        self._early: list[AcknowledgeCheckpoint] | None = None
        #: what the current attempt was restored from; None: it started empty
        self._restored: CompletedCheckpoint | None = None
        self.report: RestoreReport | None = None
        self._is_recovered = self._has_deployed = False
        #: whether the job has ended without restoring what it had
        self.are_left_alone = False

    def next_deadline_ms(self) -> float | None:
        """Return when `tick` has something to do."""
        return self._coordinator.next_deadline_ms()

    def tick(self) -> None:
        """Act on the time that has passed."""
        self._handle(TimePassed())

    def batch_completed(self, checkpoint_id: CheckpointId, batch: BatchTrace) -> None:
        """Note what the batch that ends with a checkpoint has done."""
        self._coordinator.batch_completed(checkpoint_id, batch)

    def statistics(self) -> CheckpointsSnapshot:
        """Return the statistics of the job's checkpoints."""
        return self._coordinator.statistics()

    def statistics_record(self) -> StatisticsRecord:
        """Return what a later JobMaster needs to go on with them."""
        return self._coordinator.statistics_record()

    def check_invariants(self) -> None:
        """Raise AssertionError if something contradicts itself."""
        self._coordinator.check_invariants()

    # --- restoring ----------------------------------------------------------------------------------------------------

    def recover(self, retained: Sequence[CompletedCheckpoint], initial: CompletedCheckpoint | None) -> None:
        """Take in the checkpoints that can be restored; once, before the first attempt."""
        self._is_recovered = True
        self._coordinator.recover(retained, initial)

    @property
    def newest(self) -> CompletedCheckpoint | None:
        """Return the newest completed checkpoint; None: there is none."""
        return self._coordinator.restore_point()

    @property
    def stopped_by(self) -> CompletedCheckpoint | None:
        """Return the recorded savepoint that the job stops with; None: there is none."""
        return self._coordinator.stopped_by

    @property
    def can_restore(self) -> bool:
        """Return whether there is a checkpoint to go on from."""
        return self._coordinator.restore_point() is not None

    @property
    def is_undecided(self) -> bool:
        """Return whether the storage still has to say which checkpoint is the newest; RestorePointKnown follows."""
        return self._coordinator.is_undecided

    @property
    def is_forgetting(self) -> bool:
        """Return whether the storage still has to say that a damaged checkpoint is forgotten."""
        return self._coordinator.is_forgetting

    @property
    def is_damage_recorded(self) -> bool:
        """Return whether no damaged checkpoint can be found by a JobMaster that takes over."""
        return self._coordinator.is_damage_recorded

    @property
    def is_fenced(self) -> bool:
        """Return whether another JobMaster has taken over."""
        return self._coordinator.is_fenced

    def assign(self, graph: JobGraph) -> Assignment | None:
        """Return what the next attempt restores; None = it starts empty.

        Raises:
            StateAssignmentError: the newest checkpoint does not fit the job.
        """
        point = self._coordinator.restore_point()
        if point is None:
            return None
        return assign_state(point.metadata, graph, ignore_unclaimed_state=self.settings.ignores_unclaimed_state)

    def deployed(self, assignment: Assignment | None) -> None:
        """Note that an attempt was told to restore that."""
        self._has_deployed = True
        self._restored = self._coordinator.restore_point()
        if assignment is not None:
            self.report = assignment.report
            self._coordinator.note_restored(self._journal.wall_ms)
            report = assignment.report
            self._journal.tell(f"restored from checkpoint {report.checkpoint_id}, {report.location}")

    def take_damage(self, failure: FailureInfo) -> bool | None:
        """Check whether a failure comes from a damaged checkpoint, which is then never used again.

        Returns:
            Whether there is an older one to go on from; None: the failure is of another kind.
        """
        if not failure.is_damaged_snapshot or self._restored is None:
            return None
        damaged, self._restored = self._restored, None
        self._journal.tell(f"checkpoint {damaged.checkpoint_id} is damaged: {failure.message}")
        self._handle(DamageFound(damaged.checkpoint_id, failure.message))
        return self.can_restore

    # --- the attempt --------------------------------------------------------------------------------------------------

    def expect_adoption(self) -> None:
        """Keep what slots repeat about earlier checkpoints until `adopted`."""
        self._early = []

    def adopted(self, pending: Mapping[CheckpointId, CheckpointOptions], last_seen: CheckpointId) -> None:
        """Tell the adopted slots how the checkpoints ended that they do not know of, before any new one begins.

        Args:
            pending: those checkpoints.
            last_seen: the highest id that any slot has heard of.
        """
        self._has_deployed = True
        early, self._early = self._early or [], None
        self._handle(SlotsAdopted(pending, last_seen))
        for message in early:
            self.message(message, is_current=True)

    def attempt_running(
        self,
        attempt: Attempt,
        attempts: frozenset[Attempt],
        graph: JobGraph,
        coordinator_slots: Iterable[SlotId],
        oldest_epoch: int | None = None,
    ) -> None:
        """Note that all tasks run, or have finished.

        Args:
            attempt: number of the attempt; of the latest one, if regions have been restarted.
            attempts: that the regions belong to.
            graph: with its parallelisms.
            coordinator_slots: slots that host source coordinators.
            oldest_epoch: of the leaders that have deployed adopted regions; None: none are adopted.
        """
        self._attempt = attempt
        self._handle(AttemptRunning(attempt, graph, frozenset(coordinator_slots), attempts, oldest_epoch))

    def task_finished(self, task: TaskId) -> None:
        """Note that a task of the running attempt has ended its output."""
        self._handle(TaskFinished(task))

    def interrupted(self, cause: str) -> None:
        """Note that some regions are being restarted while the others continue; `attempt_running` follows."""
        self._handle(AttemptInterrupted(cause))

    def attempt_ended(self, cause: str) -> None:
        """Note that the attempt is being torn down."""
        self._held = self._early = None
        self._restored = None
        self._handle(AttemptEnded(cause))

    def job_ended(self, state: JobState) -> None:
        """Note that nothing of the job runs any more, after `attempt_ended`."""
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
            case AcknowledgeCheckpoint() if self._early is not None:
                self._early.append(message)
            case AcknowledgeCheckpoint(_, _, task, checkpoint_id, state, metrics):
                self._handle(Acknowledged(attempt, task, checkpoint_id, state, metrics))
            case DeclineCheckpoint(_, _, _, checkpoint_id, cause, counts):
                self._journal.tell(f"checkpoint {checkpoint_id} declined: {cause.message}")
                self._handle(Declined(attempt, checkpoint_id, cause.message, counts))
            case CoordinatorsSnapshotted(slot, _, checkpoint_id, states):
                self._handle(CoordinatorsAnswered(slot, attempt, checkpoint_id, states))

    def stored(self, answer: Stored | NotStored | Forgotten) -> None:
        """Handle the storage's answer."""
        was_undecided = self.is_undecided
        self._handle(answer)
        if was_undecided and not self.is_undecided:
            self._decide(RestorePointKnown())

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

    def trigger(self, request: TriggerRequested) -> None:
        """Take a snapshot that was asked for; its RequestDone goes to `done`."""
        self._handle(request)

    # --- actions ------------------------------------------------------------------------------------------------------

    def _handle(self, event: CoordinatorEvent) -> None:
        for action in self._coordinator.handle(event, self._journal.now_ms, self._journal.wall_ms):
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
                self._journal.tell(f"checkpoint {checkpoint_id} is complete")
                if self.settings.is_micro_batch:
                    # the next batch restores this one: if it cannot, the next attempt cannot either, and says so
                    self._restored = None
                self._send(None, NotifyCheckpointComplete(checkpoint_id))
            case NotifyAborted(checkpoint_id):
                self._journal.tell(f"checkpoint {checkpoint_id} was aborted")
                self._send(None, NotifyCheckpointAborted(checkpoint_id))
            case SavepointsFailed(savepoints):
                self._send(None, NotifySavepointsFailed(savepoints))
            case (
                StoreCheckpoint() | RecordEnd() | ForgetCheckpoints() | ForgetDamaged() | DeleteFiles() | SweepOrphans()
            ):
                self._journal.act(action)
            case FailJob(cause, is_fatal):
                self._decide(FailAttempt(FailureInfo(cause, is_fatal=is_fatal)))
            case RequestDone():
                self._done(action)

    def _let_go(self) -> None:
        held, self._held = self._held or (), None
        for event in held:
            assert self._release is not None
            self._release(event)
