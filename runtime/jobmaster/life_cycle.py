"""JobMasterMachine: the life of one job. Events in, actions out; no thread, socket, clock or Spark.

One attempt goes: request slots → all registered → Deploy → all tasks INITIALIZING → Start → all RUNNING → all FINISHED
→ (with checkpoints: a last one) → CommitFinished → all committed → ReleaseSlot → all left. Any failure or cancellation
turns into the teardown: cancel tasks → release slots → kill what did not leave; then the next attempt begins, or the
job has ended. There is at most one attempt at a time.

The machine decides what follows from an event. Its parts: JobHistory (the state and the failures of the job),
AttemptPlan (which attempt is next), AttemptPhases (how it comes up and goes down), AttemptRun (its slots and tasks),
SlotWatch (what slots say and how they end), Failover (what a failure leads to), RegionRestarts (regions that restart
alone while the attempt stays STARTED), Adoption (slots that come over from an earlier JobMaster), JobCheckpoints
(snapshots) and JobOperations (what the job was asked to do). Decisions of the last two are followed after each event.
Times are monotonic milliseconds.
Source: Flink, JobMaster, DefaultScheduler, states of the AdaptiveScheduler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from random import Random

from runtime.checkpoint.assignment import Assignment, StateAssignmentError
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.messages import RequestDone
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import JobMasterAction
from runtime.jobmaster.adoption import Adoption
from runtime.jobmaster.attempt_phases import AttemptPhases
from runtime.jobmaster.attempt_plan import AttemptPlan
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.decisions import (
    CancelJob,
    CommitJob,
    Decision,
    FailAttempt,
    RedeployJob,
    RestorePointKnown,
)
from runtime.jobmaster.events import (
    CancelRequested,
    CheckpointRequested,
    JobMasterEvent,
    ParallelismOffered,
    RecoveryDelayed,
    RescaleRequested,
    SavepointLeft,
    SavepointRequested,
    SlotLost,
    SlotMessageReceived,
    StageEnded,
    StorageAnswered,
    Submitted,
    Tick,
)
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.failover import Failover
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.job_history import JobHistory
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.operations import JobOperations
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import PHASE_STATES, RUNNING, TEARDOWN, IllegalTransitionError, Phase
from runtime.jobmaster.placement import PlacedRegion
from runtime.jobmaster.regions import RegionOwner, RegionRestarts
from runtime.jobmaster.restart_strategy import RestartStrategy, create_restart_strategy
from runtime.jobmaster.slot_watch import SlotWatch, SlotWatchOwner
from runtime.jobmaster.status import Failure, JobStatusSnapshot
from runtime.jobmaster.waiting import Standing, waiting_for
from runtime.task.messages import FailureInfo, JobMasterMessage, ResyncSources, TaskState

FIRST_ATTEMPT = Attempt(0)


class JobMasterMachine:
    """The life of one job.

    The driver calls `handle` with every event and performs the returned actions in order; it sends a Tick when
    `next_deadline_ms` has come, after it has handed in the messages that came before.

    Args:
        graph: the job.
        options: timeouts; None = as the job's configuration says.
        restart_strategy: None = as the job's configuration says, with jitter seeded by the job's id.
        first_attempt: number of the first attempt; those of an earlier machine of the job were lower.
        coordinator: of the job's checkpoints; None = there is no directory for them, only savepoints can be taken.
        max_slots: how many slots there can be at most, where that is known.
        placement: where the job runs under an earlier JobMaster; empty: nowhere. Then `graph` has its parallelisms,
            and the attempt before `first_attempt` is its latest.
        was_suspended: whether that JobMaster ended as planned: if nothing can be adopted, that is no failure.
        has_run: whether the job ran under an earlier JobMaster: it is no failure of the job that this one has no slots
            for it yet.

    Raises:
        ConfigurationError: an option of the job cannot be read.
    """

    def __init__(
        self,
        graph: JobGraph,
        options: JobMasterOptions | None = None,
        restart_strategy: RestartStrategy | None = None,
        first_attempt: Attempt = FIRST_ATTEMPT,
        coordinator: CheckpointCoordinator | None = None,
        max_slots: int | None = None,
        placement: Sequence[PlacedRegion] = (),
        was_suspended: bool = False,
        has_run: bool = False,
    ) -> None:
        configuration = Configuration.from_dict(graph.configuration)
        if coordinator is None:
            settings = CheckpointSettings.from_configuration(configuration)
            coordinator = CheckpointCoordinator(settings, graph.job_id, None)
        if restart_strategy is None:
            restart_strategy = create_restart_strategy(configuration, Random(graph.job_id).random)
        self.options = options if options is not None else JobMasterOptions.from_configuration(configuration)
        self._plan = AttemptPlan(graph, first_attempt, is_planned=has_run)
        self._sources = frozenset(v.vertex_id for v in graph.vertices if not graph.in_edges(v.vertex_id))
        self._submitted = False
        self._was_suspended = was_suspended
        #: why it is not known yet what the job restores
        self._waiting_for = ""
        #: what the current attempt restores; None = it starts empty
        self._assignment: Assignment | None = None
        self._has_begun = False
        #: whether every task of the attempt has finished
        self._has_ended = False
        self._cancel_after_commit = False
        self._journal = journal = Journal()
        self._history = JobHistory(journal)
        self._decisions: deque[Decision] = deque()
        decide = self._decisions.append
        self._checkpoints = JobCheckpoints(
            coordinator, self._send_checkpoint_message, self._on_snapshot_done, decide, journal
        )
        self._operations = JobOperations(self._checkpoints, max_slots, decide, journal)
        self._failover = Failover(
            restart_strategy, self.options.restarts_regions, self._checkpoints, self._operations, journal
        )
        #: the current attempt, or the last one; without a number before the first
        self._run = AttemptRun(graph, self.attempt, journal)
        self._phases = AttemptPhases(self._run, self.options, journal)
        region_owner = RegionOwner(self._begin_region, lambda region: self._deploy((region,)), self._fail)
        self._regions = RegionRestarts(self._run, self.options, region_owner, journal)
        self._adoption = Adoption(placement, journal)
        watch_owner = SlotWatchOwner(
            self._fail,
            self._advance,
            self._adoption.report,
            lambda: self._is_working,
            self._operations.batch_due,
            self._operations.stop_due,
        )
        self._watch = SlotWatch(self._run, self._regions, self._checkpoints, self.options, watch_owner, journal)

    @property
    def graph(self) -> JobGraph:
        """Return the job with its parallelisms."""
        return self._plan.graph

    @property
    def state(self) -> JobState:
        """Return the state of the job."""
        return self._history.state

    @property
    def attempt(self) -> Attempt:
        """Return the newest attempt."""
        return self._plan.attempt

    @property
    def phase(self) -> Phase:
        """Return the phase of the current attempt."""
        return self._run.phase

    # --- what the driver calls ----------------------------------------------------------------------------------------

    def handle(self, event: JobMasterEvent, now_ms: float, wall_ms: int | None = None) -> list[JobMasterAction]:
        """Handle an event; returns what is to be done, in order.

        Args:
            event: anything but a second Submitted.
            now_ms: monotonic; a time before that of the last event counts as that one's.
            wall_ms: since the epoch, for what people see; None = the same as `now_ms`.

        Raises:
            IllegalTransitionError: the driver broke the protocol; the message tells the job's recent story.
        """
        actions = self._journal.begin(now_ms, wall_ms)
        if not isinstance(event, Tick | SlotMessageReceived | Submitted | ParallelismOffered):
            self._journal.tell(f"{event}")
        self._on_event(event)
        while self._decisions:
            self._follow(self._decisions.popleft())
        return actions

    def break_off(self, cause: FailureInfo, now_ms: float) -> None:
        """Make a job that has not ended FAILED at once, in any state, because the driver cannot continue.

        Nothing is decided any more, and `handle` is not to be called again.

        Args:
            cause: why.
            now_ms: monotonic.
        """
        if self._history.break_off(self.attempt, cause, now_ms):
            self._phases.break_off()
            self._regions.clear()

    def next_deadline_ms(self) -> float | None:
        """Return when the next Tick is due; None = not before another event."""
        deadlines = (
            self._run.deadline_ms,
            self._checkpoints.next_deadline_ms(),
            self._operations.next_deadline_ms(),
            self._regions.next_deadline_ms(),
            self._watch.next_deadline_ms(),
        )
        return min((d for d in deadlines if d is not None), default=None)

    def status(self, storage: str = "") -> JobStatusSnapshot:
        """Return a snapshot of the job's status.

        Args:
            storage: what the storage of checkpoints has not done yet, and why; empty: all.
        """
        tasks = self._run.task_snapshots() if self._has_begun else ()
        slots = self._run.slot_snapshots() if self._has_begun else ()
        stalls = self._run.stalls() if self.phase is not Phase.IDLE else ()
        checkpoints = self._checkpoints.statistics()
        standing = Standing(
            state=self.state,
            phase=self.phase,
            tasks=tasks,
            slots=slots,
            checkpoints=checkpoints,
            sources=self._sources,
            wall_ms=self._journal.wall_ms,
            recovery=self._waiting_for,
            storage=storage,
            is_undecided=self._checkpoints.is_undecided,
            stalls=stalls,
        )
        return JobStatusSnapshot(
            job_id=self.graph.job_id,
            name=self.graph.name,
            state=self.state,
            attempt=self.attempt,
            restarts=self._plan.restarts,
            tasks=tasks,
            slots=slots,
            exceptions=self._history.failures,
            state_since_ms=self._history.since_ms,
            state_changes=self._history.changes,
            refused_messages=self._watch.refused_messages,
            checkpoints=checkpoints,
            parallelism={v.vertex_id: v.parallelism for v in self.graph.vertices},
            restored_from=self._checkpoints.report,
            waiting_for=waiting_for(standing),
            failures=self._history.num_failures,
            next_attempt_ms=self._next_attempt_ms,
            stalls=stalls,
            last_rescale_ms=self._operations.last_rescale_ms,
            rescale_costs_ms=self._operations.rescale_costs_ms,
            leaves_checkpoints=self._history.is_broken or self._checkpoints.are_left_alone,
            stops_with=None if self._checkpoints.stopped_by is None else self._checkpoints.stopped_by.location,
        )

    def statistics_record(self) -> StatisticsRecord:
        """Return the counts of checkpoints with which a later JobMaster of the job goes on."""
        return self._checkpoints.statistics_record()

    def story(self) -> tuple[str, ...]:
        """Return what happened lately, oldest first, without heartbeats and client output."""
        return self._journal.story()

    def check_invariants(self) -> None:
        """Raise IllegalTransitionError if the machine contradicts itself."""

        def require(holds: bool, what: str) -> None:
            if not holds:
                raise IllegalTransitionError(f"invariant broken: {what}", self._journal.story())

        require(self.state in PHASE_STATES[self.phase], f"{self.state} in phase {self.phase}")
        require(not self._decisions, "a decision was not followed")
        self._checkpoints.check_invariants()
        self._operations.check_invariants()
        self._phases.check_invariants()
        require(not self.state.is_terminal or self._run.deadline_ms is None, "a deadline after the end")
        if self.phase is Phase.IDLE:
            waits = self._run.deadline_ms is not None
            require(waits == (self.state is JobState.RESTARTING), "restart without a time")
            return
        self._regions.check_invariants()
        require(self.phase is Phase.STARTED or not self._regions, "a region restarts beside the job")
        require(self.state is JobState.RESTARTING or not self._regions, "the job does not say that a region restarts")
        if self.phase in (Phase.DEPLOYING, Phase.STARTED, Phase.COMMITTING):
            up = [slot for slot in self._run.execution.slots if self._regions.is_up(slot)]
            require(self._run.slots.all_live(up), f"a slot is not live in phase {self.phase}")

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_event(self, event: JobMasterEvent) -> None:
        match event:
            case Tick():
                self._on_tick()
            case SlotMessageReceived(message, slot):
                self._watch.on_message(message, slot)
            case SlotLost():
                self._watch.on_lost(event)
            case StageEnded():
                self._watch.on_stage_ended(event)
            case StorageAnswered(answer):
                self._checkpoints.stored(answer)
            case RecoveryDelayed(cause):
                self._waiting_for = cause
            case Submitted():
                self._on_submitted(event)
            case CancelRequested():
                self._on_cancel()
            case SavepointRequested():
                self._operations.request_savepoint(event)
            case SavepointLeft():
                self._operations.take_over(event)
            case CheckpointRequested():
                self._operations.request_checkpoint(event)
            case RescaleRequested():
                self._operations.request_rescale(event, self.graph, self.state)
            case ParallelismOffered():
                self._on_offered(event)

    def _on_submitted(self, event: Submitted) -> None:
        if self._submitted:
            raise IllegalTransitionError("the job was submitted twice", self._journal.story())
        self._journal.tell("Submitted")
        self._submitted = True
        self._waiting_for = ""
        if self.state is not JobState.CREATED:
            return
        can_adopt = event.outcome is None and event.refusal is None and not event.is_newest_damaged
        if not can_adopt:
            self._abandon_placement()
        if event.outcome is not None:
            self._end_as_before(JobState(event.outcome.value))
            return
        if event.refusal is not None:
            self._refuse_start(event.refusal)
            return
        self._checkpoints.recover(event.retained, event.initial)
        if self._adoption.is_possible:
            self._reconcile()
        else:
            self._start_attempt()

    def _on_offered(self, event: ParallelismOffered) -> None:
        """Note the parallelisms of the next attempt; it comes at once if slots have not come."""
        offered = self._plan.offer(event.parallelism)
        if offered is None:
            return
        if self.phase is Phase.REQUESTING and not self._run.slots.live():
            self._journal.tell("the slots there are suffice for other parallelisms")
            self._phases.withdraw()
            self._plan.redeploy(offered, self._journal.now_ms)
            self._start_attempt()
        elif self.phase is Phase.STARTED and self._regions.is_waiting_for_slots:
            self._redeploy(offered, "there are slots for other parallelisms")

    def _on_cancel(self) -> None:
        match self.phase, self.state:
            case _, state if state.is_terminal or state is JobState.CANCELLING:
                pass
            case Phase.IDLE, _:
                if not self._submitted:
                    # nobody else ends what the job has left: it is over before that could come over
                    self._abandon_placement()
                self._phases.wait_until(None)
                self._set_state(JobState.CANCELLING)
                self._set_state(JobState.CANCELED)
            case Phase.COMMITTING, _:
                # some output may be visible already: let the rest follow, but not for ever
                self._cancel_after_commit = True
                self._phases.wait_longer(self.options.teardown_timeout_ms)
            case _, JobState.FAILING | JobState.RESTARTING if self._run.is_torn_down:
                self._set_state(JobState.CANCELLING)
            case Phase.LEAVING, _:
                pass  # all is committed: the job has finished
            case _:
                self._set_state(JobState.CANCELLING)
                self._tear_down()

    def _on_tick(self) -> None:
        self._watch.expire(self.next_deadline_ms())
        if self._phases.is_due:
            self._on_deadline()
        if self.phase is Phase.STARTED:
            self._regions.expire()
            self._advance()
        self._checkpoints.tick()
        self._operations.tick()
        self._watch.request_heartbeats()

    def _on_deadline(self) -> None:
        self._journal.tell(f"deadline of {self.phase.name}")
        match self.phase:
            case Phase.IDLE:
                self._start_attempt()
            case Phase.RECONCILING:
                self._conclude_adoption()
            case Phase.REQUESTING if self._is_waiting_as_planned or self._is_waiting_for_damage:
                self._phases.wait_longer(self.options.slot_request_timeout_ms)
            case Phase.REQUESTING | Phase.DEPLOYING:
                self._fail(FailureInfo(self._phases.describe_late()))
            case Phase.COMMITTING:
                self._set_state(JobState.CANCELLING)
                self._tear_down()
            case Phase.CANCELLING_TASKS | Phase.LEAVING:
                self._phases.give_up_late()
                self._advance()

    # --- decisions ----------------------------------------------------------------------------------------------------

    @property
    def _is_waiting_as_planned(self) -> bool:
        """Return whether the job gave its slots up as it was told, its state is saved, and nobody has granted others.

        That is not a failure, and the restart strategy is not asked, however long it takes.
        """
        is_granted = bool(self._run.slots.live())
        return self._plan.follows_plan and not is_granted and not self._operations.awaits_other_parallelism

    @property
    def _is_waiting_for_damage(self) -> bool:
        """Return whether all that is missing is the record that a checkpoint is damaged: no failure of the attempt."""
        return self._checkpoints.is_forgetting and self._run.slots.all_live()

    def _on_snapshot_done(self, done: RequestDone) -> None:
        self._operations.done(done)

    def _follow(self, decision: Decision) -> None:
        is_up = self.phase is Phase.STARTED and self.state is JobState.RUNNING
        match decision:
            case RestorePointKnown():
                self._operations.restore_point_known()
                self._advance()
            case FailAttempt(failure) if self.phase not in (*TEARDOWN, Phase.IDLE):
                self._fail(failure)
            case CommitJob() if is_up:
                self._phases.commit()
            case CancelJob() if is_up:
                self._on_cancel()
            case RedeployJob(graph, cause) if is_up:
                self._redeploy(graph or self.graph, cause)

    def _redeploy(self, graph: JobGraph, cause: str) -> None:
        self._journal.tell(f"the job is redeployed: {cause}")
        self._plan.redeploy(graph, self._journal.now_ms)
        if self.state is not JobState.RESTARTING:
            self._set_state(JobState.RESTARTING)
        self._tear_down(cause)

    # --- an attempt of an earlier JobMaster ---------------------------------------------------------------------------

    def _abandon_placement(self) -> None:
        self._adoption.abandon(AttemptRun(self.graph, self.attempt, self._journal))

    def _reconcile(self) -> None:
        """Ask the slots of an earlier JobMaster to come over."""
        if not self._assign():
            return
        self._make_run()
        self._set_state(JobState.RECONCILING)
        self._phases.reconcile()
        self._checkpoints.expect_adoption()
        self._adoption.begin(self._run)
        self._advance()

    def _conclude_adoption(self) -> None:
        """Go on with the regions that have come over, and restart the others."""
        failures = self._adoption.conclude(self._checkpoints.newest, self._checkpoints.stopped_by)
        if not self._failover.can_restart_alone(failures, self._run):
            self._restart_after_lost_leader(next(iter(failures.values())))
            return
        self._phases.adopted()
        self._checkpoints.adopted(self._adoption.pending, self._adoption.last_seen)
        if self._adoption.is_committing:
            self._operations.commit_adopted()
        adopted = [slot for region in self._run.regions if region.index not in failures for slot in region.slots]
        self._run.send(adopted, ResyncSources())
        for index, cause in failures.items():
            if self.state is JobState.RECONCILING:
                self._set_state(JobState.RESTARTING, cause)
            entry = self._history.failed(self.attempt, cause)
            self._restart_region(self._run.regions[index], entry, self._journal.now_ms)
        self._advance()

    def _restart_after_lost_leader(self, cause: FailureInfo) -> None:
        if self._was_suspended or self._checkpoints.stopped_by is not None:
            self._redeploy(self.graph, cause.message)
            return
        self._plan.follow(self._failover.after_lost_leader(cause))
        self._history.failed(self.attempt, cause)
        self._set_state(JobState.FAILING, cause)
        self._tear_down(cause.message)

    # --- an attempt's way up ------------------------------------------------------------------------------------------

    def _start_attempt(self) -> None:
        self._phases.wait_until(None)
        if self._checkpoints.is_fenced:
            self._refuse_start("another JobMaster has taken over")
            return
        is_restart = self.state is JobState.RESTARTING
        self._plan.begin(is_restart)
        if not is_restart:
            self._history.begin(self.attempt)
        if not self._assign():
            return
        self._make_run()
        self._phases.request(self.attempt)

    def _make_run(self) -> None:
        self._run = AttemptRun(self.graph, self.attempt, self._journal)
        self._phases.watch(self._run)
        self._regions.watch(self._run)
        self._watch.watch(self._run)
        self._has_begun, self._has_ended = True, False

    def _assign(self) -> bool:
        """Decide what the attempt restores, as far as that can be known; False: the job cannot be restored."""
        try:
            self._assignment = self._checkpoints.assign(self.graph)
        except StateAssignmentError as error:
            self._refuse_start(str(error))
            return False
        if self._assignment is not None:
            self._plan.graph = self._assignment.graph
        return True

    def _end_as_before(self, state: JobState) -> None:
        """End the job as an earlier JobMaster, which knows more of it, has ended it already."""
        failure = None
        if state is JobState.FAILED:
            failure = FailureInfo("the job had failed under an earlier JobMaster", is_fatal=True)
            self._history.failed(self.attempt, failure)
        self._set_state(state, failure)

    def _refuse_start(self, cause: str) -> None:
        """Fail a job that cannot begin and never will."""
        failure = FailureInfo(cause, is_fatal=True)
        self._history.failed(self.attempt, failure)
        self._set_state(JobState.FAILING, failure)
        if self.phase is Phase.IDLE:
            self._set_state(JobState.FAILED, failure)
        else:
            self._plan.restart_at_ms = None
            self._tear_down(cause)

    def _deploy(self, regions: Sequence[Region]) -> bool:
        """Deploy regions, from the newest checkpoint; False: which one that is is not decided yet, or the job ends."""
        if self._checkpoints.is_undecided or not self._assign():
            return False
        self._checkpoints.deployed(self._assignment)
        self._run.record_placement(regions)
        stopped_by = self._checkpoints.stopped_by
        stop = None if stopped_by is None else stopped_by.checkpoint_id
        self._run.deploy([slot for region in regions for slot in region.slots], self._assignment, stop)
        return True

    def _advance(self) -> None:
        """Take every step that slots and tasks allow."""
        if self.phase is Phase.RECONCILING and self._adoption.is_over:
            self._conclude_adoption()
            return
        if self.phase is Phase.STARTED:
            self._regions.advance()
        if self.phase is Phase.REQUESTING and self._run.slots.all_live() and self._deploy(self._run.regions):
            self._phases.deploying()
        if self._phases.advance():
            self._on_attempt_ended()
        elif self.phase is Phase.STARTED and not self._regions:
            self._on_started()

    def _on_started(self) -> None:
        """Note that all tasks run, and that all have finished, once each."""
        execution = self._run.execution
        if self.state is not JobState.RUNNING and execution.all_in(RUNNING):
            self._set_state(JobState.RUNNING)
            coordinator_slots = execution.coordinator_slots.values()
            self._operations.attempt_running()
            self._checkpoints.attempt_running(
                self.attempt, self._run.attempts, self.graph, coordinator_slots, self._run.oldest_epoch
            )
            for task in self._run.tasks.values():
                if task.state is TaskState.FINISHED:
                    self._checkpoints.task_finished(task.task)
        if not self._has_ended and execution.all_in((TaskState.FINISHED,)):
            self._has_ended = True
            if self._operations.all_finished():
                self._phases.commit()

    # --- an attempt's way down ----------------------------------------------------------------------------------------

    def _fail(self, cause: FailureInfo, slot: SlotId | None = None, is_symptom: bool = False) -> None:
        """Begin the teardown of the job, or of one region; note the failure if that is under way.

        Args:
            cause: what broke.
            slot: where; None = not in one slot.
            is_symptom: whether the cause may be another slot's.
        """
        if self._run.is_torn_down:
            # ends that the teardown itself brings about say nothing
            if self.state is JobState.FAILING and self.phase is Phase.CANCELLING_TASKS:
                self._history.failed_also(cause, is_symptom)
            return
        if slot is not None and self._regions.is_going_down(slot):
            failure = self._regions.failure(slot)
            if failure is not None:
                self._history.failed_also(cause, is_symptom, failure)
            return
        if slot is not None and self.phase is Phase.RECONCILING:
            self._adoption.failed(slot, cause)
            return
        decision = self._failover.decide(cause, slot, self._run, self._regions, self._is_working)
        self._plan.follow(decision)
        attempt = self.attempt if slot is None else self._run.attempt_of(slot)
        entry = self._history.failed(attempt, decision.cause, is_symptom)
        if decision.region is not None and decision.restart_at_ms is not None:
            self._restart_region(decision.region, entry, decision.restart_at_ms)
        elif self._cancel_after_commit:
            self._set_state(JobState.CANCELLING)
            self._tear_down(decision.cause.message)
        else:
            self._set_state(JobState.FAILING, decision.cause)
            self._tear_down(decision.cause.message)

    def _tear_down(self, cause: str = "the job was cancelled") -> None:
        self._give_up_attempt(cause)
        self._regions.clear()
        # a failed job goes on the sooner; one that is cancelled leaves its tasks the time to end by themselves
        is_cancelled = self.state is JobState.CANCELLING
        options = self.options
        self._phases.cancel(options.cancellation_timeout_ms if is_cancelled else options.teardown_timeout_ms)
        self._advance()

    def _on_attempt_ended(self) -> None:
        if self.state is JobState.RUNNING:
            self._set_state(JobState.FINISHED)
        elif self.state is JobState.CANCELLING:
            self._set_state(JobState.CANCELED)
        elif self.state is JobState.RESTARTING:
            self._start_attempt()
        elif self._plan.restart_at_ms is None:
            self._set_state(JobState.FAILED, self._history.latest_failure)
        else:
            self._set_state(JobState.RESTARTING, self._history.latest_failure)
            self._phases.wait_until(self._plan.restart_at_ms)
            if self._plan.restart_at_ms <= self._journal.now_ms:
                self._start_attempt()

    # --- regions that are restarted alone ----------------------------------------------------------------------------

    def _restart_region(self, region: Region, failure: Failure, restart_at_ms: float) -> None:
        cause = failure.cause
        self._journal.tell(f"region {region.index} is restarted alone: {cause.message}")
        self._regions.begin(region, failure, restart_at_ms)
        if self.state is JobState.RUNNING:
            self._set_state(JobState.RESTARTING, cause)
            self._checkpoints.interrupted(cause.message)
            self._operations.interrupted(cause.message)
        self._regions.advance()

    def _begin_region(self) -> Attempt | None:
        self._plan.begin_region()
        return self.attempt if self._assign() else None

    # --- small things -------------------------------------------------------------------------------------------------

    @property
    def _next_attempt_ms(self) -> float | None:
        """Return when an attempt that waits for its time is due: after a failure, until it begins."""
        if self.state is JobState.FAILING or (self.state is JobState.RESTARTING and self.phase is Phase.IDLE):
            return self._plan.restart_at_ms
        return self._regions.next_attempt_ms()

    @property
    def _is_working(self) -> bool:
        """Return whether the job runs, in part at least."""
        return self.state is JobState.RUNNING or bool(self._regions)

    def _set_state(self, state: JobState, cause: FailureInfo | None = None) -> None:
        self._history.enter(state, self.attempt, cause)
        if state.is_terminal:
            self._end_job()

    def _give_up_attempt(self, cause: str) -> None:
        """Take no more snapshots of the attempt, and do nothing of what was decided for it: that has come too late."""
        self._checkpoints.attempt_ended(cause)
        self._operations.attempt_ended(cause)
        self._decisions.clear()

    def _end_job(self) -> None:
        self._checkpoints.attempt_ended(f"the job is {self.state.value}")
        self._operations.job_ended(self.state)
        self._decisions.clear()
        self._checkpoints.job_ended(self.state)

    def _send_checkpoint_message(self, slots: Iterable[SlotId] | None, message: JobMasterMessage) -> None:
        if slots is None:
            slots = [slot for slot in self._run.slots.live() if self._regions.is_up(slot)]
        self._run.send(slots, message)
