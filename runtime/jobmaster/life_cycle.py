"""JobMasterMachine: the life of one job. Events in, actions out; no thread, socket, clock or Spark.

One attempt goes: request slots → all registered → Deploy → all tasks INITIALIZING → Start → all RUNNING → all FINISHED
→ (with checkpoints: a last one) → CommitFinished → all committed → ReleaseSlot → all left. Any failure or cancellation
turns into the teardown: cancel tasks → release slots → kill what did not leave; then the restart strategy decides.
There is at most one attempt at a time, and what an older one says is refused and counted. A region that fails alone is
restarted by RegionRestarts, while the machine stays in STARTED. Checkpoints are the business of JobCheckpoints, whose
decisions are taken after each event. Times are monotonic milliseconds.
Source: Flink, JobMaster, DefaultScheduler, states of the AdaptiveScheduler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from runtime.checkpoint.assignment import Assignment, StateAssignmentError
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.settings import CheckpointSettings
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import (
    DeliverClientOutput,
    JobMasterAction,
    JobStateChanged,
    RefuseSlot,
    RequestAnswered,
)
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.events import (
    CancelRequested,
    CheckpointRequested,
    JobMasterEvent,
    RecoveryDelayed,
    RescaleRequested,
    SavepointRequested,
    SlotLost,
    SlotMessageReceived,
    StageEnded,
    StorageAnswered,
    Submitted,
    Tick,
)
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.failover import decide_restart
from runtime.jobmaster.job_checkpoints import (
    CancelJob,
    CommitJob,
    Decision,
    FailAttempt,
    JobCheckpoints,
    RedeployJob,
    RestorePointKnown,
)
from runtime.jobmaster.job_state import TRANSITIONS, JobState
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import DEPLOYED, PHASE_STATES, RUNNING, TEARDOWN, IllegalTransitionError, Phase
from runtime.jobmaster.regions import RegionOwner, RegionRestarts
from runtime.jobmaster.rescaling import RescaleError, rescaled
from runtime.jobmaster.restart_strategy import RestartStrategy, create_restart_strategy
from runtime.jobmaster.slot_registry import SlotRegistry
from runtime.jobmaster.status import ExceptionHistory, JobStatusSnapshot
from runtime.jobmaster.waiting import Standing, waiting_for
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    ClientOutput,
    CommitFinished,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    FailureInfo,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    OperatorEvent,
    RegisterSlot,
    SlotCommitted,
    SlotFailed,
    SlotLeaving,
    SlotMessage,
    TaskState,
    TaskStateChanged,
)

FIRST_ATTEMPT = Attempt(0)
STORY_LENGTH = 200
"""Entries of the story that are kept: the deployment and the end of a job of some 50 tasks."""


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
    ) -> None:
        configuration = Configuration.from_dict(graph.configuration)
        if coordinator is None:
            settings = CheckpointSettings.from_configuration(configuration)
            coordinator = CheckpointCoordinator(settings, graph.job_id, None)
        if restart_strategy is None:
            restart_strategy = create_restart_strategy(configuration, Random(graph.job_id).random)
        self.graph = graph
        self.options = options if options is not None else JobMasterOptions.from_configuration(configuration)
        self.state = JobState.CREATED
        self.phase = Phase.IDLE
        self.attempt = Attempt(first_attempt - 1)
        self.restarts = 0
        self.refused_messages = 0
        self._now_ms = 0.0
        self._wall_ms = 0
        self._sources = frozenset(v.vertex_id for v in graph.vertices if not graph.in_edges(v.vertex_id))
        self._actions: list[JobMasterAction] = []
        self._story: deque[str] = deque(maxlen=STORY_LENGTH)
        self._restart_strategy = restart_strategy
        self._max_slots = max_slots
        self._checkpoints = JobCheckpoints(coordinator, self._send_checkpoint_message, self._act, self._tell)
        #: what the current attempt restores; None = it starts empty
        self._assignment: Assignment | None = None
        #: whether the next attempt is no consequence of a failure
        self._is_planned = False
        self._exceptions = ExceptionHistory()
        self._submitted = self._is_broken = False
        #: why it is not known yet what the job restores
        self._waiting_for = ""
        #: the current attempt, or the last one; without a number before the first
        self._run = AttemptRun(graph, self.attempt, self._act, self._tell)
        self._regions = self._watch_regions()
        self._has_begun = False
        #: whether every task of the attempt has finished
        self._has_ended = False
        self._cancel_after_commit = False
        #: when the current phase, or the wait for a restart, is over at the latest
        self._deadline_ms: float | None = None
        self._next_heartbeat_ms = 0.0
        self._heartbeat_sequence = 0
        #: earliest time of the next attempt; None = there will be none
        self._restart_at_ms: float | None = None
        self._state_since_ms: dict[JobState, float] = {}

    # --- what the driver calls ----------------------------------------------------------------------------------------

    def handle(self, event: JobMasterEvent, now_ms: float, wall_ms: int | None = None) -> list[JobMasterAction]:
        """Take an event; what is to be done, in order.

        Args:
            event: anything but a second Submitted.
            now_ms: monotonic; a time before that of the last event counts as that one's.
            wall_ms: since the epoch, for what people see; None = the same as `now_ms`.

        Raises:
            IllegalTransitionError: the driver broke the protocol; the message tells the job's recent story.
        """
        self._now_ms = max(self._now_ms, now_ms)
        self._actions = []
        self._run.at(self._now_ms)
        self._wall_ms = int(now_ms) if wall_ms is None else wall_ms
        self._checkpoints.at(self._now_ms, self._wall_ms)
        match event:
            case Tick():
                self._on_tick()
            case SlotMessageReceived(message, slot):
                self._on_message(message, slot)
            case SlotLost(slot, attempt, cause):
                self._tell(f"{event}")
                if self._is_current(attempt, slot) and slot in self._run.slots and not self._run.slots.is_gone(slot):
                    self._lose(slot, cause)
            case StageEnded():
                self._tell(f"{event}")
                self._on_stage_ended(event)
            case CancelRequested():
                self._tell("CancelRequested")
                self._on_cancel()
            case StorageAnswered(answer):
                self._tell(f"{answer}")
                self._checkpoints.stored(answer)
            case SavepointRequested():
                self._tell(f"{event}")
                self._checkpoints.request_savepoint(event)
            case CheckpointRequested():
                self._tell(f"{event}")
                self._checkpoints.request_checkpoint(event)
            case RescaleRequested():
                self._tell(f"{event}")
                self._on_rescale(event)
            case RecoveryDelayed(cause):
                self._tell(f"{event}")
                self._waiting_for = cause
            case Submitted():
                self._tell("Submitted")
                self._on_submitted(event)
        while self._checkpoints.decisions:
            self._follow(self._checkpoints.decisions.popleft())
        return self._actions

    def break_off(self, cause: FailureInfo, now_ms: float) -> None:
        """Make a job that has not ended FAILED at once, in any state, because the driver cannot continue.

        Nothing is decided any more, and `handle` is not to be called again.

        Args:
            cause: why.
            now_ms: monotonic.
        """
        self._tell(f"broken off: {cause.message}")
        self._exceptions.add(self.attempt, now_ms, cause, is_symptom=False)
        self._is_broken = True
        if self.state.is_terminal:
            return
        for slot in self._run.execution.slots:
            self._run.give_up(slot, TaskState.CANCELED)
        self._regions.clear()
        self.state, self.phase, self._deadline_ms = JobState.FAILED, Phase.IDLE, None
        self._state_since_ms[JobState.FAILED] = now_ms

    def next_deadline_ms(self) -> float | None:
        """Return when the next Tick is due; None = not before another event."""
        deadlines = [self._deadline_ms, self._checkpoints.next_deadline_ms(), self._regions.next_deadline_ms()]
        if self.phase is not Phase.IDLE and self._slots.live():
            deadlines.append(self._next_heartbeat_ms)
            if self._judges_silence:
                deadlines.append(self._slots.next_silence_ms(self.options.heartbeat_timeout_ms))
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
            wall_ms=self._wall_ms,
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
            restarts=self.restarts,
            tasks=tasks,
            slots=slots,
            exceptions=self._exceptions.entries(),
            state_since_ms=dict(self._state_since_ms),
            refused_messages=self.refused_messages,
            checkpoints=checkpoints,
            parallelism={v.vertex_id: v.parallelism for v in self.graph.vertices},
            restored_from=self._checkpoints.report,
            waiting_for=waiting_for(standing),
            failures=self._exceptions.count,
            next_attempt_ms=self._next_attempt_ms,
            stalls=stalls,
            leaves_checkpoints=self._is_broken or self._checkpoints.are_left_alone,
        )

    def story(self) -> tuple[str, ...]:
        """Return what happened lately, oldest first, without heartbeats and client output."""
        return tuple(self._story)

    def check_invariants(self) -> None:
        """Raise IllegalTransitionError if the machine contradicts itself."""

        def require(holds: bool, what: str) -> None:
            if not holds:
                raise IllegalTransitionError(f"invariant broken: {what}", self._story)

        require(self.state in PHASE_STATES[self.phase], f"{self.state} in phase {self.phase}")
        require(not self._checkpoints.decisions, "a decision was not followed")
        self._checkpoints.check_invariants()
        require(not self.state.is_terminal or self._deadline_ms is None, "a deadline after the end")
        if self.phase is Phase.IDLE:
            require((self._deadline_ms is not None) == (self.state is JobState.RESTARTING), "restart without a time")
            require(not self._slots.live(), "live slots without an attempt")
            return
        self._regions.check_invariants()
        require(self.phase is Phase.STARTED or not self._regions, "a region restarts beside the job")
        require(self.state is JobState.RESTARTING or not self._regions, "the job does not say that a region restarts")
        if self.phase in (Phase.DEPLOYING, Phase.STARTED, Phase.COMMITTING):
            up = [slot for slot in self._run.execution.slots if self._regions.is_up(slot)]
            require(self._slots.all_live(up), f"a slot is not live in phase {self.phase}")
        if self.phase is Phase.COMMITTING:
            require(self._run.execution.all_in((TaskState.FINISHED,)), "commit before the end")
            require(len(self._run.committed) < len(self._slots), "all have committed")
        if self.phase in TEARDOWN:
            require(self._deadline_ms is not None, "teardown without a deadline")
        if self.phase is Phase.LEAVING:
            require(bool(self._slots.live()), "nobody is left to leave")

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_submitted(self, event: Submitted) -> None:
        if self._submitted:
            raise IllegalTransitionError("the job was submitted twice", self._story)
        self._submitted = True
        self._waiting_for = ""
        if self.state is not JobState.CREATED:
            return
        if event.outcome is not None:
            self._end_as_before(JobState(event.outcome.value))
            return
        if event.refusal is not None:
            self._refuse_start(event.refusal)
            return
        self._checkpoints.recover(event.retained, event.initial)
        self._start_attempt()

    def _on_cancel(self) -> None:
        match self.phase, self.state:
            case _, state if state.is_terminal or state is JobState.CANCELLING:
                pass
            case Phase.IDLE, _:
                self._deadline_ms = None
                self._set_state(JobState.CANCELLING)
                self._set_state(JobState.CANCELED)
            case Phase.COMMITTING, _:
                # some output may be visible already: let the rest follow, but not for ever
                self._cancel_after_commit = True
                self._deadline_ms = self._now_ms + self.options.teardown_timeout_ms
            case phase, JobState.FAILING | JobState.RESTARTING if phase in TEARDOWN:
                self._set_state(JobState.CANCELLING)
            case Phase.LEAVING, _:
                pass  # all is committed: the job has finished
            case _:
                self._set_state(JobState.CANCELLING)
                self._tear_down()

    def _on_stage_ended(self, event: StageEnded) -> None:
        if not 0 <= event.region < len(self._run.regions):
            return
        slots = self._run.regions[event.region].slots
        if not self._is_current(event.attempt, slots[0]):
            return
        stranded = [s for s in slots if not self._slots.is_gone(s)]
        was_expected = self._is_going_down(slots[0])
        for slot in stranded:
            # a stage that returned has no process left; one that failed may have (Spark reaps them seconds later)
            self._give_up(slot, left=event.error is None)
        if stranded and (event.error is not None or not was_expected):
            why = event.error or "it returned although its slots were in use"
            failure = FailureInfo(f"the stage of region {event.region} ended: {why}", slot=stranded[0])
            self._fail(failure, slot=stranded[0])
        self._advance()

    def _on_tick(self) -> None:
        due_ms = self.next_deadline_ms()
        if due_ms is not None and self._now_ms - due_ms > self.options.heartbeat_interval_ms:
            # this process itself was stopped: it was not listening, and cannot tell who was silent
            self._tell(f"tick is late by {self._now_ms - due_ms:.0f} ms; leases start again")
            self._slots.renew_all(self._now_ms)
        if self._judges_silence:
            for slot in self._slots.silent(self._now_ms, self.options.heartbeat_timeout_ms):
                self._lose(slot, f"no heartbeat for {self.options.heartbeat_timeout_ms / 1000:g} s")
        if self._deadline_ms is not None and self._now_ms >= self._deadline_ms:
            self._on_deadline()
        if self.phase is Phase.STARTED:
            self._regions.expire(self._now_ms)
            self._advance()
        self._checkpoints.tick()
        if self.phase is not Phase.IDLE and self._now_ms >= self._next_heartbeat_ms:
            self._next_heartbeat_ms = self._now_ms + self.options.heartbeat_interval_ms
            self._heartbeat_sequence += 1
            self._run.send(self._slots.live(), HeartbeatRequest(self._heartbeat_sequence))

    def _on_deadline(self) -> None:
        self._tell(f"deadline of {self.phase.name}")
        match self.phase:
            case Phase.IDLE:
                self._start_attempt()
            case Phase.REQUESTING if self._slots.all_live():
                self._fail(FailureInfo("the storage did not say whether the newest checkpoint is complete"))
            case Phase.REQUESTING:
                timeout_ms = self.options.slot_request_timeout_ms
                self._fail(FailureInfo(self._run.describe_missing(self._run.execution.slots, timeout_ms)))
            case Phase.DEPLOYING:
                self._fail(FailureInfo(self._run.describe_late(self._run.execution.slots)))
            case Phase.COMMITTING:
                self._set_state(JobState.CANCELLING)
                self._tear_down()
            case Phase.CANCELLING_TASKS:
                self._run.give_up_hanging(self._run.execution.slots)
                self._advance_teardown()
            case Phase.LEAVING:
                for slot in self._slots.live():
                    self._give_up(slot)
                self._advance_teardown()

    # --- messages of slots --------------------------------------------------------------------------------------------

    def _on_message(self, message: SlotMessage, stream_slot: SlotId | None) -> None:
        if isinstance(message, OperatorEvent):
            sender = stream_slot
        else:
            sender = message.slot
        if isinstance(message, AcknowledgeCheckpoint | DeclineCheckpoint | CoordinatorsSnapshotted):
            # of whatever attempt: files of those that come too late are to be deleted
            is_current = self._is_current(message.attempt, sender)
            self._checkpoints.message(message, is_current)
            if is_current:
                return
        if not self._is_current(message.attempt, sender):
            self._refuse(message, f"attempt {message.attempt} is over")
            return
        if isinstance(message, RegisterSlot):
            self._on_register(message)
            return
        if sender is not None and not self._slots.is_live(sender):
            self._refuse(message, f"slot {sender} is not live")
            return
        match message:
            case Heartbeat():
                self._run.heartbeat(message, self._now_ms)
                is_working = self._is_working and self._regions.is_up(message.slot)
                if is_working and 0 < self.options.stall_timeout_ms <= message.stalled_ms:
                    # the process answers, but nothing in it will get anywhere, and no checkpoint completes
                    self._lose(message.slot, f"user code has not returned for {message.stalled_ms / 1000:.0f} s")
            case ClientOutput(slot, attempt, channel, payload):
                self._actions.append(DeliverClientOutput(slot, attempt, channel, payload))
            case OperatorEvent():
                if not self._checkpoints.hold(message, self._deliver):
                    self._deliver(message)
            case TaskStateChanged():
                self._on_task_state(message)
            case SlotFailed(failure=failure):
                self._tell(f"slot {message.slot} failed: {failure.message}")
                self._fail(failure, is_symptom=failure.task is None, slot=message.slot)
            case SlotCommitted():
                self._on_committed(message)
            case SlotLeaving():
                self._tell(f"slot {message.slot} left")
                was_expected = self._is_going_down(message.slot)
                self._give_up(message.slot, left=True)
                if not was_expected:
                    failure = FailureInfo(f"slot {message.slot} left although it was in use", slot=message.slot)
                    self._fail(failure, slot=message.slot)
                self._advance()

    def _deliver(self, event: OperatorEvent) -> None:
        target = self._run.execution.operator_slot(event.operator_id, event.target_subtask)
        if target is None or not self._slots.is_live(target):
            self._refuse(event, f"no live slot hosts subtask {event.target_subtask} of operator {event.operator_id}")
        else:
            self._run.send((target,), DeliverOperatorEvent(event))

    def _on_register(self, message: RegisterSlot) -> None:
        slot = message.slot
        if not self._slots.register(slot, message.pid, message.host, message.data_address, self._now_ms):
            self._refuse(message, f"slot {slot} is unknown, registered already, or given up")
            return
        self._tell(f"slot {slot} registered: pid {message.pid} on {message.host}")
        if self._is_going_down(slot):
            self._run.release((slot,))
        elif self.phase is Phase.STARTED:
            self._advance()
        elif self._slots.all_live():
            self._deploy()

    def _on_task_state(self, message: TaskStateChanged) -> None:
        task = self._run.tasks.get(message.task)
        if task is None or task.slot != message.slot:
            self._refuse(message, f"slot {message.slot} does not host {message.task}")
            return
        if not self._run.execution.transition(message.task, message.state):
            self._refuse(message, f"{task.name} cannot go from {task.state.name} to {message.state.name}")
            return
        self._tell(f"{task.name}: {message.state.name}")
        if message.metrics:
            task.metrics = message.metrics
        if message.state is TaskState.FAILED:
            failure = message.failure or FailureInfo(f"{task.name} failed", task=task.task, task_name=task.name)
            task.failure = failure
            self._fail(failure, slot=task.slot)
        elif message.state is TaskState.FINISHED and self.state is JobState.RUNNING:
            self._checkpoints.task_finished(task.task)
        elif message.state in (TaskState.CANCELING, TaskState.CANCELED) and not self._is_going_down(task.slot):
            failure = FailureInfo(f"{task.name} was cancelled by nobody", task=task.task, task_name=task.name)
            self._fail(failure, slot=task.slot)
        self._advance()

    def _on_committed(self, message: SlotCommitted) -> None:
        if self.phase is not Phase.COMMITTING:
            self._refuse(message, "nothing was to be committed")
            return
        self._tell(f"slot {message.slot} committed")
        self._run.committed.add(message.slot)
        if len(self._run.committed) == len(self._slots):
            self._release(is_over=True)

    # --- what checkpoints bring about ---------------------------------------------------------------------------------

    def _follow(self, decision: Decision) -> None:
        is_up = self.phase is Phase.STARTED and self.state is JobState.RUNNING
        match decision:
            case RestorePointKnown():
                self._deploy()
                self._advance()
            case FailAttempt(failure) if self.phase not in (*TEARDOWN, Phase.IDLE):
                self._fail(failure)
            case CommitJob() if is_up:
                self._commit()
            case CancelJob() if is_up:
                self._on_cancel()
            case RedeployJob(graph, cause) if is_up:
                self._redeploy(graph or self.graph, cause)

    def _on_rescale(self, event: RescaleRequested) -> None:
        try:
            if self.phase is not Phase.STARTED or self.state is not JobState.RUNNING:
                raise RescaleError(f"the job is {self.state.value}; only a running one can be rescaled")
            graph = rescaled(self.graph, event.parallelism, self._max_slots)
        except RescaleError as refusal:
            self._act(RequestAnswered(event.request_id, error=str(refusal)))
            return
        if graph == self.graph:
            self._act(RequestAnswered(event.request_id))
        else:
            self._checkpoints.request_rescale(event.request_id, graph, self.graph)

    def _redeploy(self, graph: JobGraph, cause: str) -> None:
        self._tell(f"the job is redeployed: {cause}")
        self.graph = graph
        self._restart_at_ms = self._now_ms
        self._is_planned = True
        self._set_state(JobState.RESTARTING)
        self._tear_down(cause)

    # --- an attempt's way up ------------------------------------------------------------------------------------------

    def _start_attempt(self) -> None:
        self.attempt = Attempt(self.attempt + 1)
        self._deadline_ms = self._restart_at_ms = None
        if self.state is JobState.RESTARTING:
            self.restarts += not self._is_planned
        else:
            self._state_since_ms[JobState.CREATED] = self._now_ms
        self._is_planned = False
        if not self._assign():
            return
        self._run = AttemptRun(self.graph, self.attempt, self._act, self._tell)
        self._run.at(self._now_ms)
        self._regions = self._watch_regions()
        self._has_begun, self._has_ended = True, False
        self._next_heartbeat_ms = self._now_ms + self.options.heartbeat_interval_ms
        self._enter(Phase.REQUESTING, self.options.slot_request_timeout_ms)
        self._run.request(self.attempt, self._run.regions)

    def _assign(self) -> bool:
        """Decide what the attempt restores, as far as that can be known; False: the job cannot be restored."""
        try:
            self._assignment = self._checkpoints.assign(self.graph)
        except StateAssignmentError as error:
            self._refuse_start(str(error))
            return False
        if self._assignment is not None:
            self.graph = self._assignment.graph
        return True

    def _end_as_before(self, state: JobState) -> None:
        """End the job as an earlier JobMaster, which knows more of it, has ended it already."""
        failure = None
        if state is JobState.FAILED:
            failure = FailureInfo("the job had failed under an earlier JobMaster", is_fatal=True)
            self._exceptions.add(self.attempt, self._now_ms, failure, is_symptom=False)
        self._set_state(state, failure)

    def _refuse_start(self, cause: str) -> None:
        """Fail a job that cannot begin and never will."""
        failure = FailureInfo(cause, is_fatal=True)
        self._exceptions.add(self.attempt, self._now_ms, failure, is_symptom=False)
        self._set_state(JobState.FAILING, failure)
        if self.phase is Phase.IDLE:
            self._set_state(JobState.FAILED, failure)
        else:
            self._restart_at_ms = None
            self._tear_down(cause)

    def _deploy(self) -> None:
        """Deploy if all slots are there and the state to restore is known; else this is called again."""
        if self.phase is not Phase.REQUESTING or not self._slots.all_live() or self._checkpoints.is_undecided:
            return
        if not self._assign():
            return
        self._checkpoints.deployed(self._assignment)
        # until the tasks are made, slots import user code and cannot answer: this deadline stands for heartbeats
        self._enter(Phase.DEPLOYING, self.options.slot_request_timeout_ms)
        self._run.deploy(self._run.execution.slots, self._assignment)

    def _advance(self) -> None:
        """Take every step that slots and tasks allow."""
        if self.phase is Phase.STARTED:
            self._regions.advance(self._now_ms)
        self._advance_start()
        self._advance_teardown()

    def _advance_start(self) -> None:
        """Take every step up that the tasks' states allow, as far as the commit."""
        execution = self._run.execution
        if self.phase is Phase.DEPLOYING and execution.all_in(DEPLOYED):
            self._enter(Phase.STARTED, None)
            self._run.start(execution.slots, self._now_ms)
        if self.phase is not Phase.STARTED or self._regions:
            return
        if self.state is not JobState.RUNNING and execution.all_in(RUNNING):
            self._set_state(JobState.RUNNING)
            coordinator_slots = execution.coordinator_slots.values()
            self._checkpoints.attempt_running(self.attempt, self._run.oldest, self.graph, coordinator_slots)
            for task in self._run.tasks.values():
                if task.state is TaskState.FINISHED:
                    self._checkpoints.task_finished(task.task)
        if not self._has_ended and execution.all_in((TaskState.FINISHED,)):
            self._has_ended = True
            if self._checkpoints.all_finished():
                self._commit()

    def _commit(self) -> None:
        self._enter(Phase.COMMITTING, None)
        self._run.send(self._slots.live(), CommitFinished())

    # --- an attempt's way down ----------------------------------------------------------------------------------------

    def _lose(self, slot: SlotId, cause: str) -> None:
        entry = self._slots.entry(slot)
        where = f" (pid {entry.pid} on {entry.host})" if entry.pid is not None else " (never registered)"
        tasks = ", ".join(t.name for t in self._run.execution.tasks_in(slot)[:3])
        self._give_up(slot)
        self._fail(FailureInfo(f"slot {slot}{where} was lost: {cause}; it ran {tasks}", slot=slot), slot=slot)
        self._advance()

    def _give_up(self, slot: SlotId, left: bool = False) -> None:
        """Expect nothing more from a slot; its unfinished tasks end with it."""
        self._run.give_up(slot, TaskState.CANCELED if self._is_going_down(slot) else TaskState.FAILED, left)

    def _fail(self, cause: FailureInfo, is_symptom: bool = False, slot: SlotId | None = None) -> None:
        """Begin the teardown after a failure, or note the failure if the teardown is under way.

        Args:
            cause: what broke.
            is_symptom: whether the cause may be another slot's.
            slot: where; None = not in one slot.
        """
        if self.phase in TEARDOWN:
            # ends that the teardown itself brings about say nothing
            if self.state is JobState.FAILING and self.phase is Phase.CANCELLING_TASKS:
                self._exceptions.add_suppressed(cause, is_symptom)
            return
        if slot is not None and self._is_going_down(slot):
            failure = self._regions.failure(slot)
            if failure is not None:
                self._exceptions.add_suppressed(cause, is_symptom, failure)
            return
        if cause.is_damaged_snapshot and not self._is_restoring(slot):
            # a slot that has restored has read all of it: the broken file is a copy on that machine
            cause = replace(cause, is_damaged_snapshot=False)
        goes_alone = slot is not None and self._may_fail_alone(cause)
        decision = decide_restart(cause, self.phase, self._now_ms, self._checkpoints, self._restart_strategy)
        cause, self._restart_at_ms, self._is_planned = decision.cause, decision.restart_at_ms, decision.is_planned
        self.graph = decision.graph or self.graph
        attempt = self.attempt if slot is None else self._run.attempt_of(slot)
        entry = self._exceptions.add(attempt, self._now_ms, cause, is_symptom)
        if slot is not None and goes_alone and self._restart_at_ms is not None:
            region = self._run.execution.region_of(slot)
            self._tell(f"region {region.index} is restarted alone: {cause.message}")
            self._regions.begin(region, entry, self._restart_at_ms, self._now_ms)
            if self.state is JobState.RUNNING:
                self._set_state(JobState.RESTARTING, cause)
                self._checkpoints.interrupted(cause.message)
            self._regions.advance(self._now_ms)
            return
        if self._cancel_after_commit:
            self._set_state(JobState.CANCELLING)
        else:
            self._set_state(JobState.FAILING, cause)
        self._tear_down(cause.message)

    def _may_fail_alone(self, cause: FailureInfo) -> bool:
        """Return whether only the region that has failed is restarted."""
        # what later checkpoints build on would be missing in the one before the damaged one
        is_of_job = cause.is_fatal or cause.is_damaged_snapshot
        can_restart = self.options.restarts_regions and len(self._run.regions) > 1 and self._is_working
        return can_restart and self.phase is Phase.STARTED and not is_of_job and self._checkpoints.may_be_interrupted

    def _tear_down(self, cause: str = "the job was cancelled") -> None:
        self._checkpoints.attempt_ended(cause)
        self._regions.clear()
        # a failed job goes on the sooner; one that is cancelled leaves its tasks the time to end by themselves
        is_cancelled = self.state is JobState.CANCELLING
        options = self.options
        self._enter(
            Phase.CANCELLING_TASKS, options.cancellation_timeout_ms if is_cancelled else options.teardown_timeout_ms
        )
        self._run.cancel(self._run.execution.slots)
        self._advance_teardown()

    def _advance_teardown(self) -> None:
        """Take every step down that tasks and slots allow."""
        if self.phase is Phase.CANCELLING_TASKS and self._run.have_stopped(self._run.execution.slots):
            self._release()
        elif self.phase is Phase.LEAVING and not self._slots.live():
            self._end_attempt()

    def _release(self, is_over: bool = False) -> None:
        self._enter(Phase.LEAVING, self.options.teardown_timeout_ms)
        self._run.release(self._run.execution.slots, is_over)
        self._advance_teardown()

    def _end_attempt(self) -> None:
        self._run.end()
        self._enter(Phase.IDLE, None)
        if self.state is JobState.RUNNING:
            self._set_state(JobState.FINISHED)
        elif self.state is JobState.CANCELLING:
            self._set_state(JobState.CANCELED)
        elif self.state is JobState.RESTARTING:
            self._start_attempt()
        elif self._restart_at_ms is None:
            self._set_state(JobState.FAILED, self._exceptions.latest)
        else:
            self._set_state(JobState.RESTARTING, self._exceptions.latest)
            self._deadline_ms = self._restart_at_ms
            if self._restart_at_ms <= self._now_ms:
                self._start_attempt()

    # --- regions that are restarted alone ----------------------------------------------------------------------------

    def _watch_regions(self) -> RegionRestarts:
        owner = RegionOwner(self._begin_region, self._deploy_region, self._fail_region)
        return RegionRestarts(self._run, self.options, owner, self._tell)

    def _begin_region(self) -> Attempt | None:
        self.attempt = Attempt(self.attempt + 1)
        self.restarts += 1
        return self.attempt if self._assign() else None

    def _deploy_region(self, region: Region) -> bool:
        if self._checkpoints.is_undecided or not self._assign():
            return False
        self._checkpoints.deployed(self._assignment)
        self._run.deploy(region.slots, self._assignment)
        return True

    def _fail_region(self, region: Region, cause: FailureInfo) -> None:
        self._fail(cause, slot=region.slots[0])

    # --- small things -------------------------------------------------------------------------------------------------

    @property
    def _slots(self) -> SlotRegistry:
        return self._run.slots

    @property
    def _judges_silence(self) -> bool:
        return self.phase in (Phase.REQUESTING, Phase.STARTED, Phase.COMMITTING, Phase.CANCELLING_TASKS)

    @property
    def _next_attempt_ms(self) -> float | None:
        """Return when an attempt that waits for its time is due: after a failure, until it begins."""
        if self.state is JobState.FAILING or (self.state is JobState.RESTARTING and self.phase is Phase.IDLE):
            return self._restart_at_ms
        return self._regions.next_attempt_ms()

    @property
    def _is_working(self) -> bool:
        """Return whether the job runs, in part at least."""
        return self.state is JobState.RUNNING or bool(self._regions)

    def _is_restoring(self, slot: SlotId | None) -> bool:
        """Return whether tasks are being made and restored, in the slot's region at least."""
        return self.phase is Phase.DEPLOYING or (slot is not None and self._regions.is_deploying(slot))

    def _is_going_down(self, slot: SlotId) -> bool:
        """Return whether a slot is expected to leave, with the whole job or with its region."""
        return self.phase in TEARDOWN or self._regions.is_going_down(slot)

    def _is_current(self, attempt: Attempt, slot: SlotId | None) -> bool:
        return self.phase is not Phase.IDLE and self._run.is_current(attempt, slot)

    def _enter(self, phase: Phase, timeout_ms: float | None) -> None:
        self._tell(f"attempt {self.attempt}: {self.phase.name} → {phase.name}")
        self.phase = phase
        self._deadline_ms = None if timeout_ms is None else self._now_ms + timeout_ms

    def _set_state(self, state: JobState, cause: FailureInfo | None = None) -> None:
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a job cannot go from {self.state.name} to {state.name}", self._story)
        self._tell(f"job {self.state.name} → {state.name}" + (f": {cause.message}" if cause else ""))
        self.state = state
        self._state_since_ms[state] = self._now_ms
        self._actions.append(JobStateChanged(state, self.attempt, cause))
        if state.is_terminal:
            self._checkpoints.job_ended(state)

    def _act(self, action: JobMasterAction) -> None:
        self._actions.append(action)

    def _send_checkpoint_message(self, slots: Iterable[SlotId] | None, message: JobMasterMessage) -> None:
        if slots is None:
            slots = [slot for slot in self._slots.live() if self._regions.is_up(slot)]
        self._run.send(slots, message)

    def _refuse(self, message: SlotMessage, why: str) -> None:
        self.refused_messages += 1
        self._tell(f"refused {type(message).__name__}: {why}")
        if isinstance(message, RegisterSlot):
            self._actions.append(RefuseSlot(message.slot, message.attempt, why))

    def _tell(self, what: str) -> None:
        self._story.append(f"{self._now_ms:.0f}: {what}")
