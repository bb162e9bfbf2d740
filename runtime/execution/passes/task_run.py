"""TaskRun: one task of a pass, from its state before the batch to its snapshot behind it.

The task is the landed one, with a host of its own in place of a slot: its clock stands still at the pass's time, its
uploads are written at once, its channels give and take frames. Work is done in generators that yield between slices,
so that a loop can look at other things in between. One thread.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
import shutil
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from runtime.checkpoint.handles import CheckpointMetrics, OperatorSubtaskState, TaskRestore, TaskStateHandle
from runtime.checkpoint.state_files import (
    DEFAULT_RETRIES,
    TaskStateReader,
    TaskStateWriter,
    default_file_system,
)
from runtime.common.secrets import SecretName, providing
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId, OperatorId, TaskId
from runtime.execution.passes.channels import PassNetwork, TakeFrame
from runtime.execution.passes.plan import PassKind, PassPlan, SplitShare
from runtime.network.channel import ChannelId, NetworkEnvironment
from runtime.operators.operator import ClientChannel
from runtime.operators.source_coordinator import AssignSplit, NoSplitNow, RequestSplit
from runtime.task.jobmaster_time import JobMasterTime
from runtime.task.messages import TaskDeployment, TaskState
from runtime.task.processing_time import TimerQueue
from runtime.task.task import Task
from runtime.task.uploads import InlineUploads, Uploads


class PassClock:
    """A wall clock that stands still at the pass's time; durations are real.

    Args:
        now_ms: the pass's time.
        clock: measures durations.
    """

    def __init__(self, now_ms: int, clock: Clock) -> None:
        self._now_ms = now_ms
        self._clock = clock

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()


class FrozenClock:
    """A clock that stands still but for `pass_by`: what is due in a pass is due at its beginning."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = float(now_ms)

    def pass_by(self, elapsed_ms: float) -> None:
        """Let time go on, while a task waits for what another thread does for it."""
        self._now_ms += elapsed_ms

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic_ms(self) -> float:
        return self._now_ms


class Turn(enum.Enum):
    """The answer of a task of a pass between two slices of its work."""

    WORKED = "worked"
    WAITS = "waits"
    """Nothing can be done before another thread, or the client, has: the caller looks at other things, or waits."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A task's part of a snapshot, which is stored."""

    task: TaskId
    state: TaskStateHandle
    metrics: CheckpointMetrics


class PassHost:
    """The services that a task of a pass has in place of a slot's. Implements SlotServices.

    Args:
        plan: of the pass.
        clock: measures durations.
        client: of the task's slot.
        take: is given the frames that the task emits.
        share: the splits that the task may read.
        directory: local; the task makes one of its own in it.
    """

    keeps_finished_open = True
    only_ends = False

    def __init__(
        self,
        plan: PassPlan,
        clock: Clock,
        client: ClientChannel,
        take: TakeFrame,
        share: SplitShare,
        directory: Path,
    ) -> None:
        facts = plan.facts
        self.job_id = facts.job_id
        self.attempt = facts.attempt
        self.configuration = facts.configuration
        self.job_parameters = dict(facts.job_parameters)
        self.state_compression = facts.state_compression
        self.pass_number = plan.number
        self._frozen = None if plan.kind is PassKind.BOUNDED else FrozenClock(plan.now_ms)
        self.clock: Clock = clock if self._frozen is None else PassClock(plan.now_ms, clock)
        self.timers = TimerQueue(self._frozen or clock)
        #: nothing: in a pass, barriers wait for nobody
        self.jobmaster_time = JobMasterTime(self.clock)
        self.uploads: Uploads = InlineUploads()
        self.inputs = PassNetwork(facts.attempt, take)
        self.network: NetworkEnvironment = self.inputs
        self.posted: deque[Callable[[], None]] = deque()
        self.acknowledged: Acknowledgement | None = None
        self.failure: Exception | None = None
        self.fires_timers = plan.kind.fires_timers
        #: set when there is something to do; by any thread
        self.woken = threading.Event()
        #: takes the coordinator's answers
        self.answer: Callable[[OperatorId, object], None] = lambda _, __: None
        #: numbers of the splits that the task was given
        self.given: list[int] = []
        self._client = client
        self._share = deque(share)
        self._files = default_file_system()
        self._directory = directory / f"pass-{plan.number}-{uuid.uuid4().hex[:8]}"

    def pass_by(self, elapsed_ms: float) -> None:
        """Let time go on for timers, if it stands still."""
        if self._frozen is not None:
            self._frozen.pass_by(elapsed_ms)
        self.fires_timers = True

    @property
    def client(self) -> ClientChannel:
        return self._client

    def row_values(self) -> None:
        """Nobody looks into a pass."""

    def state_writer(self, options: CheckpointOptions, checkpoint_id: CheckpointId, task: str) -> TaskStateWriter:
        return TaskStateWriter(self._files, options, checkpoint_id, task, DEFAULT_RETRIES)

    def state_reader(self, location: str | None) -> TaskStateReader:
        return TaskStateReader(self._files, DEFAULT_RETRIES, location)

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None:
        self.acknowledged = Acknowledgement(task, state, metrics)

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None:
        # the batch is in the snapshot or nowhere: there is no going on without it
        self.failure = self.failure or error

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)
        self.wake()

    def working_directory(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory

    def send_to_coordinator(self, operator_id: OperatorId, subtask_index: int, payload: bytes) -> None:
        """Answer a request for a split out of the task's share; other events are for tasks that run all the time."""
        if not isinstance(pickle.loads(payload), RequestSplit):
            return
        answer = self._share.popleft() if len(self._share) > 1 else self._share[0] if self._share else NoSplitNow()
        if isinstance(answer, AssignSplit):
            self.given.append(answer.number)
        self.posted.append(lambda: self.answer(operator_id, answer))

    def task_failed(self, task: Task, error: Exception) -> None:
        self.failure = self.failure or error

    def wake(self) -> None:
        """Note that there is something to do; any thread."""
        self.woken.set()

    def close(self) -> None:
        """Delete local files."""
        shutil.rmtree(self._directory, ignore_errors=True)


class TaskRun:
    """One task of a pass.

    Args:
        deployment: of the task; what it restores in place of its own `restore`.
        restore: state before the batch; None = empty.
        host: its services.
        secrets: values by name, which its functions may ask for while they are loaded.

    Raises:
        Exception: whatever an operator raised when it was made, restored or opened.
    """

    def __init__(
        self, deployment: TaskDeployment, restore: TaskRestore | None, host: PassHost, secrets: Mapping[SecretName, str]
    ) -> None:
        self.host = host
        self._is_closed = False
        host.answer = lambda operator_id, event: self.task.handle_event(operator_id, event)
        with providing(secrets):
            self.task = Task(dataclasses.replace(deployment, restore=restore), host)
            try:
                self.task.initialize()
            except BaseException:
                self.close(after_failure=True)
                raise
        self.task.state = TaskState.RUNNING
        #: whether the source had nothing more to give when it was last asked
        self.has_caught_up = False

    @property
    def is_finished(self) -> bool:
        """Return whether the task has ended its output."""
        return self.task.state is TaskState.FINISHED

    def read(self, max_rows: int) -> Iterator[Turn]:
        """Have the source emit at most so many records, or what it has.

        Raises:
            Exception: an operator failed.
        """
        task = self.task
        yield from self._settle()
        before = task.num_records_read
        # what is ending is ended with the snapshot, which waits for calls that are under way
        while not (self.is_finished or task.is_ending):
            left = max_rows - (task.num_records_read - before)
            if left <= 0:
                return
            if task.is_source_waiting and not self.host.posted:
                if not task.ask_source_again():
                    self.has_caught_up = True
                    return
                yield from self._pause()
            self._run_posted()
            task.slice_size.rows = min(task.slice_size.rows, left)
            task.step()
            self._check()
            if task.chain.is_available():
                yield Turn.WORKED
            else:
                yield from self._wait(lambda: not task.chain.is_available())
        self.has_caught_up = True

    def take(self, frames: Iterable[tuple[ChannelId, bytes | pa.Buffer]]) -> Iterator[Turn]:
        """Process what producers have emitted.

        Raises:
            Exception: an operator failed.
        """
        yield from self._settle()
        for channel_id, frame in frames:
            element = self.host.inputs.inputs[channel_id].decode(frame)
            if isinstance(element, CheckpointBarrier):
                yield from self._wait(self._has_pending)
            self.host.inputs.inputs[channel_id].push(element)
            yield from self._settle()

    def read_all(self) -> Iterator[Turn]:
        """Have the source emit all that it has, and end.

        Raises:
            Exception: an operator failed.
        """
        while not (self.is_finished or self.task.is_ending):
            yield from self.read(sys.maxsize)
            yield from self._wait(lambda: self.task.is_source_waiting and not self.host.posted)

    def end(self) -> Iterator[Turn]:
        """Go on until the task has ended its output, once all of its input was given.

        Raises:
            Exception: an operator failed, or the input has not ended.
        """
        yield from self._wait(lambda: not self.is_finished and (self.task.is_ending or self._has_pending()))
        if not self.is_finished:
            raise RuntimeError(f"task {self.task.name} has been given all of its input, and has not ended")

    def prepared(self) -> TaskStateHandle:
        """Return what the sinks of a task that has ended have prepared; it is committed when all tasks have ended."""
        operators = {
            chained.operator_id: OperatorSubtaskState(operator_states=operator.snapshot_state().operator_states)
            for operator, chained in self.task.chained_operators
            if operator.commits_at_the_end
        }
        return TaskStateHandle(operators, is_finished=True)

    def announce(self, barrier: CheckpointBarrier) -> None:
        """Let a task that ends before its barriers come take its snapshot then; not for sources.

        Raises:
            Exception: an operator cannot.
        """
        self.task.trigger_checkpoint(in_pass(barrier))

    def snapshot(self, barrier: CheckpointBarrier) -> Iterator[Turn]:
        """Take the snapshot behind the batch, which is `host.acknowledged` then; a source emits the barrier first.

        Raises:
            Exception: an operator cannot, or a barrier has not come.
        """
        # calls that are under way would not outlive the task: their results come before the barrier
        yield from self._wait(self._has_pending)
        self.task.trigger_checkpoint(in_pass(barrier))
        yield from self._settle()
        yield from self._wait(lambda: self.host.acknowledged is None and self._has_pending())
        if self.host.acknowledged is None:
            raise RuntimeError(f"task {self.task.name} has not taken part in the snapshot after batch {barrier!r}")

    def commit_restored(self) -> None:
        """Have sinks commit what was restored, and nothing else.

        Raises:
            Exception: a sink cannot.
        """
        self.task.run_mail()
        self._check()

    def close(self, after_failure: bool) -> None:
        """Release everything; idempotent.

        Raises:
            Exception: an operator failed to close, unless `after_failure`.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if hasattr(self, "task"):
                self.task.close(after_failure)
        finally:
            self.host.close()

    def _settle(self) -> Iterator[Turn]:
        """Go on until nothing is left to do with what is there."""
        while True:
            if self._work():
                yield Turn.WORKED
            elif self._is_held_up():
                yield from self._pause()
            else:
                return

    def _wait(self, while_true: Callable[[], bool]) -> Iterator[Turn]:
        """Go on, and wait for other threads, as long as something is so."""
        while while_true():
            if self._work():
                yield Turn.WORKED
            else:
                yield from self._pause()

    def _pause(self) -> Iterator[Turn]:
        """Let others work, and time go on for who has limited how long they may take."""
        started_ms = self.host.clock.monotonic_ms()
        yield Turn.WAITS
        self.host.pass_by(self.host.clock.monotonic_ms() - started_ms)

    def _has_pending(self) -> bool:
        running = self.task.state is TaskState.RUNNING
        return running and any(operator.has_pending() for operator in self.task.chain.operators)

    def _is_held_up(self) -> bool:
        """Return whether there is input that the operators, or the client, have no room for."""
        task = self.task
        if task.state is not TaskState.RUNNING or task.is_suspended or task.is_source:
            return False
        waiting = any(channel.has_data() for channel in self.host.inputs.inputs.values())
        return waiting and not task.chain.is_available()

    def _work(self) -> bool:
        """Do what can be done now; returns whether that was anything."""
        task, timers = self.task, self.host.timers
        worked = self._run_posted()
        while self.host.fires_timers and (due := timers.pop_due()) is not None:
            due[1](due[0])
            worked = True
        if task.checkpoints.is_active:
            worked = task.advance_checkpoints() or worked
        # a source is asked in `read` only, but its operators' mail is theirs
        runs = task.state is TaskState.RUNNING and not task.is_suspended
        if runs and task.is_source and not task.is_ending:
            worked = task.run_mail() or worked
        elif runs and task.has_work():
            worked = task.step() or worked
        self._check()
        return worked

    def _run_posted(self) -> bool:
        ran = bool(self.host.posted)
        while self.host.posted:
            self.host.posted.popleft()()
        return ran

    def _check(self) -> None:
        if self.host.failure is not None:
            raise self.host.failure


def in_pass(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """Return the barrier as it goes through a pass: nothing overtakes, and nothing is emitted behind it."""
    options = barrier.options
    after = AfterSnapshot.SUSPEND if options.after is AfterSnapshot.GO_ON else options.after
    options = dataclasses.replace(options, alignment=Alignment.ALIGNED, aligned_timeout_ms=None, after=after)
    return dataclasses.replace(barrier, options=options)
