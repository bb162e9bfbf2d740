"""TaskCheckpoints: a task's part in checkpoints, from the first barrier to the acknowledgement.

What barriers mean is decided by a BarrierHandler; here its actions are done. A snapshot is taken between two slices and
handed to OngoingSnapshots, which store it; ChannelRecording has what an unaligned one holds of the inputs. Each
checkpoint is acknowledged or declined once. Loop's thread only, but for what says otherwise.
Source: Flink, SubtaskCheckpointCoordinatorImpl.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from runtime.checkpoint.barrier_handler import (
    BarrierAction,
    BarrierHandler,
    Block,
    ChannelStateComplete,
    DropChannelState,
    EndRecording,
    GiveUp,
    SetTimer,
    TakeBarrier,
    TakeSnapshot,
    UnblockAll,
)
from runtime.checkpoint.channel_state import ChannelPart
from runtime.checkpoint.handles import CheckpointMetrics
from runtime.common.typeinfo import TypeInformation
from runtime.core.checkpoint_options import AfterSnapshot, Alignment
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, CheckpointId, TaskId
from runtime.core.serializers import SerializationError
from runtime.graph.job_graph import JobVertex
from runtime.network.frames import FrameError
from runtime.network.record_writer import RecordWriter
from runtime.state.snapshot import SnapshotRequest
from runtime.task.channel_recording import ChannelRecording, GateChannel
from runtime.task.input_gate import InputGate
from runtime.task.jobmaster_time import JobMasterTime
from runtime.task.ongoing_snapshots import OngoingSnapshot, OngoingSnapshots, SnapshotServices
from runtime.task.operator_chain import OperatorChain
from runtime.task.processing_time import TimerQueue
from runtime.task.task_input import Unread


class CheckpointServices(SnapshotServices, Protocol):
    """Services of the slot that a task needs to take part in checkpoints."""

    attempt: Attempt
    timers: TimerQueue
    jobmaster_time: JobMasterTime


class CheckpointGivenUp(Exception):
    """Says why a task does not take part in a checkpoint although nothing has failed."""

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """An edge that the task writes to."""

    writer: RecordWriter
    allows_unaligned: bool


class TaskCheckpoints:
    """The checkpoints of one task. Implements GateListener.

    Args:
        task, name: of the task.
        vertex: what it runs.
        services: its slot.
        allows_unaligned: whether all its inputs let barriers overtake.
        run: executes an action as part of the task, failing it if it raises.
        unread: what the task is in the middle of.
    """

    def __init__(
        self,
        task: TaskId,
        name: str,
        vertex: JobVertex,
        services: CheckpointServices,
        allows_unaligned: bool,
        run: Callable[[Callable[[], None]], None],
        unread: Callable[[], Unread | None],
    ) -> None:
        self._task = task
        self._name = name
        self._services = services
        self._clock = services.clock
        self._allows_unaligned = allows_unaligned
        self._run = run
        self._unread = unread
        self._handler = BarrierHandler(0, allows_unaligned)
        self._gates: Sequence[InputGate] = ()
        self._channels: Sequence[GateChannel] = ()
        self._outputs: Sequence[TaskOutput] = ()
        #: barriers that have come into a channel's queue; any thread appends
        self._announced: deque[tuple[int, CheckpointBarrier]] = deque()
        #: checkpoints that the JobMaster has announced; no barrier was acted on yet
        self._triggered: list[CheckpointBarrier] = []
        self._snapshots = OngoingSnapshots(task, name, vertex, services)
        #: newest that was acted on; older ones are over
        self._newest = CheckpointId(0)
        #: by pending checkpoint: ms from the barrier's birth to its arrival, and bytes taken in until then
        self._begun: dict[CheckpointId, tuple[float, int]] = {}
        self._recording = ChannelRecording((), {}, services.attempt, unread)
        #: the snapshot behind which the task emits nothing until it is complete or given up
        self.suspended_by: CheckpointId | None = None
        self.alignment_ms = 0.0
        self.start_delay_ms = 0.0

    def connect(
        self,
        chain: OperatorChain,
        gates: Sequence[InputGate],
        record_types: dict[int, TypeInformation | None],
        outputs: Sequence[TaskOutput],
    ) -> None:
        """Hand over what the task consists of; before anything else.

        Args:
            chain: its operators.
            gates: its inputs; their channels are numbered through.
            record_types: by edge, of the inputs.
            outputs: its edges.
        """
        self._chain = chain
        self._gates = gates
        self._outputs = outputs
        self._channels = [GateChannel(gate, i, channel) for gate in gates for i, channel in enumerate(gate.channels)]
        self._recording = ChannelRecording(self._channels, record_types, self._services.attempt, self._unread)
        self._handler = BarrierHandler(len(self._channels), self._allows_unaligned)
        if self._allows_unaligned:
            for index, (_, _, channel) in enumerate(self._channels):
                channel.set_barrier_listener(partial(self._announce, index))

    # --- what the loop asks -------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Return whether `advance` may have something to do."""
        return bool(self._announced or self._snapshots)

    def has_work(self) -> bool:
        """Return whether `advance` has something to do now."""
        return bool(self._announced) or self._snapshots.is_gathering

    @property
    def is_uploading(self) -> bool:
        """Return whether another thread is at work."""
        return self._snapshots.is_uploading

    @property
    def has_triggered(self) -> bool:
        """Return whether the task's end has checkpoints to acknowledge."""
        return bool(self._triggered)

    def advance(self) -> bool:
        """Act on announced barriers, and continue snapshots under way; between two slices.

        Raises:
            Exception: the task cannot take its snapshot, and must be failed.
        """
        worked = False
        while self._announced:
            worked = True
            channel, barrier = self._announced.popleft()
            self._handle(barrier, self._handler.on_announced(channel, barrier, self._clock.monotonic_ms()))
        return self._snapshots.advance() or worked

    def metrics(self) -> dict[str, object]:
        """Return the metrics of the latest checkpoint, ns as Flink's."""
        return {
            "checkpointAlignmentTime": int(self.alignment_ms * 1_000_000),
            "checkpointStartDelayNanos": int(self.start_delay_ms * 1_000_000),
        }

    # --- what the JobMaster says --------------------------------------------------------------------------------------

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Remember a checkpoint that was begun: if the task ends before its barriers come it is acknowledged then.

        That a job is drained is passed on with the data, before the end of it: the JobMaster's word may come to the
        next task's slot when that task has ended already, and has not kept its state.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id <= self._newest or any(known.checkpoint_id == checkpoint_id for known in self._triggered):
            return
        self._triggered.append(barrier)
        if barrier.options.after is AfterSnapshot.DRAIN:
            self._chain.show_to_taps(barrier)
            for output in self._outputs:
                output.writer.broadcast(barrier)

    def is_over(self, checkpoint_id: CheckpointId) -> bool:
        """Return whether the task has acted on this checkpoint, or on a newer one."""
        return checkpoint_id <= self._newest

    def take(self, barrier: CheckpointBarrier) -> None:
        """Pass a source's barrier on and take the snapshot.

        Raises:
            Exception: an operator cannot; the task must be failed.
        """
        self._begin(barrier)
        self._take(TakeSnapshot(barrier, 0.0))

    def take_final(self, barrier: CheckpointBarrier) -> None:
        """Take the state of a task that has ended its output: no barrier goes out.

        Raises:
            Exception: an operator cannot.
        """
        self._begin(barrier)
        self._snapshot(barrier, 0.0, is_finished=True)

    def on_end(self) -> None:
        """Acknowledge, at the end of the task's output, what was triggered and not acted on.

        Raises:
            Exception: an operator cannot tell its state.
        """
        triggered, self._triggered = self._triggered, []
        for barrier in triggered:
            self.take_final(barrier)

    def on_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Act on a checkpoint that the JobMaster has given up.

        Raises:
            StorageHangsError: uploads do not end.
        """
        self._triggered = [barrier for barrier in self._triggered if barrier.checkpoint_id != checkpoint_id]
        uploads = self._snapshots.drop(checkpoint_id)
        self._perform(self._handler.on_aborted(checkpoint_id, self._clock.monotonic_ms()))
        if self.suspended_by == checkpoint_id:
            self.suspended_by = None
        for upload in uploads:
            self._services.uploads.abandon(upload)

    def on_complete(self, checkpoint_id: CheckpointId) -> None:
        """Act on a completed checkpoint: older ones can no longer complete."""
        self._triggered = [barrier for barrier in self._triggered if barrier.checkpoint_id > checkpoint_id]

    def close(self) -> None:
        """Give up what is under way, without answering."""
        self._snapshots.drop_all()
        self._triggered = []
        self._announced.clear()

    # --- what the channels say ----------------------------------------------------------------------------------------

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Act on a channel that has been read up to its barrier.

        Raises:
            Exception: the task cannot take its snapshot, and must be failed.
        """
        if barrier.options.after is AfterSnapshot.DRAIN:
            # the snapshot is taken at the end, which follows
            self.trigger(barrier)
        else:
            self._handle(barrier, self._handler.on_barrier(channel, barrier, self._clock.monotonic_ms()))

    def on_channel_ended(self, channel: int) -> None:
        """Act on a channel that has been read up to its end.

        Raises:
            Exception: as `on_barrier`.
        """
        self._perform(self._handler.on_channel_ended(channel, self._clock.monotonic_ms()))

    def _announce(self, channel: int, barrier: CheckpointBarrier) -> None:
        # any thread
        if (
            barrier.options.alignment is not Alignment.AT_LEAST_ONCE
            and barrier.options.after is not AfterSnapshot.DRAIN
        ):
            self._announced.append((channel, barrier))

    def _handle(self, barrier: CheckpointBarrier, actions: Sequence[BarrierAction]) -> None:
        if actions:
            self._begin(barrier)
        self._perform(actions)

    def _begin(self, barrier: CheckpointBarrier) -> None:
        """Note when a checkpoint has reached the task, and how much the task had taken in by then."""
        if barrier.checkpoint_id > self._newest and barrier.checkpoint_id not in self._begun:
            self.start_delay_ms = float(self._services.jobmaster_time.age_ms(barrier.timestamp_ms))
            self._begun[barrier.checkpoint_id] = (self.start_delay_ms, self._taken_bytes())

    def _taken_bytes(self) -> int:
        statistics = (channel.statistics() for _, _, channel in self._channels)
        return sum(s.bytes - s.queued_bytes for s in statistics)

    # --- what the handler decides -------------------------------------------------------------------------------------

    def _perform(self, actions: Sequence[BarrierAction]) -> None:
        for action in actions:
            match action:
                case Block(channel):
                    gate, in_gate, _ = self._channels[channel]
                    gate.block(in_gate)
                case UnblockAll():
                    for gate in self._gates:
                        gate.unblock_all()
                case TakeSnapshot():
                    self._take(action)
                case TakeBarrier(channel, checkpoint_id):
                    self._channels[channel].channel.take_barrier(checkpoint_id)
                case EndRecording(channel):
                    self._recording.end(channel)
                case ChannelStateComplete(checkpoint_id):
                    self._channel_state_complete(checkpoint_id)
                case DropChannelState():
                    self._recording.drop()
                case GiveUp(checkpoint_id, newer):
                    self._give_up(checkpoint_id, f"checkpoint {newer} has begun before all its barriers had come")
                case SetTimer(checkpoint_id, born_ms, age_ms):
                    self._call_at_age(born_ms, age_ms, partial(self._on_timeout, checkpoint_id))

    def _call_at_age(self, born_ms: int, age_ms: int, callback: Callable[[], None]) -> None:
        """Have the loop call back once what was born then, by the JobMaster's clock, is so old."""
        left_ms = age_ms - self._services.jobmaster_time.age_ms(born_ms)
        self._services.timers.register_timer(self._clock.now_ms() + left_ms, lambda _: callback())

    def _on_timeout(self, checkpoint_id: CheckpointId) -> None:
        self._run(lambda: self._perform(self._handler.on_timeout(checkpoint_id, self._clock.monotonic_ms())))

    def _give_up(self, checkpoint_id: CheckpointId, why: str) -> None:
        self._triggered = [barrier for barrier in self._triggered if barrier.checkpoint_id != checkpoint_id]
        self._begun.pop(checkpoint_id, None)
        error = CheckpointGivenUp(f"task {self._name} has given up checkpoint {checkpoint_id}: {why}")
        self._services.decline(self._task, checkpoint_id, error, counts_as_failure=False)

    # --- the synchronous part -----------------------------------------------------------------------------------------

    def _take(self, action: TakeSnapshot) -> None:
        barrier = action.barrier
        self._recording.start(action.recorded)
        self._chain.prepare_snapshot(barrier.checkpoint_id)
        parts = self._pass_on(barrier)
        ongoing = self._snapshot(barrier, action.alignment_ms, is_finished=False)
        if ongoing is None:
            self._recording.drop()
            return
        ongoing.parts = parts
        ongoing.is_recording = bool(action.recorded)
        self._await_outputs(ongoing)
        if barrier.options.after is AfterSnapshot.SUSPEND:
            self.suspended_by = barrier.checkpoint_id
        self._snapshots.upload_if_ready(ongoing)

    def _pass_on(self, barrier: CheckpointBarrier) -> list[ChannelPart]:
        self._chain.show_to_taps(barrier)
        parts: list[ChannelPart] = []
        for output in self._outputs:
            if barrier.options.alignment is Alignment.UNALIGNED and output.allows_unaligned:
                overtaken = output.writer.broadcast_overtaking(barrier)
                parts += [ChannelPart(channel.channel_id, frames, is_output=True) for channel, frames in overtaken]
            else:
                output.writer.broadcast(barrier)
        return parts

    def _snapshot(self, barrier: CheckpointBarrier, alignment_ms: float, is_finished: bool) -> OngoingSnapshot | None:
        """Take the operators' state; None if some of it has no form in which it could be stored."""
        checkpoint_id = barrier.checkpoint_id
        for older in [t.checkpoint_id for t in self._triggered if t.checkpoint_id < checkpoint_id]:
            self._give_up(older, f"checkpoint {checkpoint_id} has overtaken it")
        self._triggered = [t for t in self._triggered if t.checkpoint_id > checkpoint_id]
        self._newest = max(self._newest, checkpoint_id)
        delay_ms, taken_before = self._begun.pop(checkpoint_id, (self.start_delay_ms, self._taken_bytes()))
        self._begun = {known: value for known, value in self._begun.items() if known > checkpoint_id}
        self.alignment_ms = alignment_ms
        started_ms = self._clock.monotonic_ms()
        try:
            options = barrier.options
            is_last = options.after is not AfterSnapshot.GO_ON
            request = SnapshotRequest(options.kind, checkpoint_id, is_last, options.is_savepoint)
            snapshots = self._chain.snapshot(request)
        except SerializationError as error:
            # the state is as it was, so only this checkpoint has failed; after any other error that is not sure
            self._services.decline(self._task, checkpoint_id, error)
            return None
        ended_ms = self._clock.monotonic_ms()
        metrics = CheckpointMetrics(
            sync_ms=ended_ms - started_ms,
            alignment_ms=alignment_ms,
            start_delay_ms=delay_ms,
            processed_bytes=max(0, self._taken_bytes() - taken_before),
            is_unaligned=barrier.options.alignment is Alignment.UNALIGNED,
        )
        gathering = [snapshot.pending for snapshot in snapshots.values() if snapshot.pending is not None]
        ongoing = OngoingSnapshot(barrier, snapshots, metrics, ended_ms, is_finished, gathering)
        self._snapshots.add(ongoing)
        if is_finished:
            self._snapshots.upload_if_ready(ongoing)
        return ongoing

    # --- channel state ------------------------------------------------------------------------------------------------

    def _channel_state_complete(self, checkpoint_id: CheckpointId) -> None:
        try:
            recorded = self._recording.take()
        except FrameError as error:
            self._snapshots.fail(checkpoint_id, error)
        else:
            self._snapshots.add_recorded(checkpoint_id, recorded)

    def _await_outputs(self, ongoing: OngoingSnapshot) -> None:
        """Let an aligned barrier that is stuck in an output overtake once its time has come."""
        barrier = ongoing.barrier
        timeout_ms = barrier.options.aligned_timeout_ms
        if timeout_ms is None or barrier.options.alignment is not Alignment.ALIGNED:
            return
        channels = [c for output in self._outputs if output.allows_unaligned for c in output.writer.channels]
        ongoing.holding = [channel for channel in channels if channel.holds_barrier(ongoing.checkpoint_id)]
        if ongoing.holding:
            self._call_at_age(barrier.timestamp_ms, timeout_ms, lambda: self._run(lambda: self._expedite(ongoing)))

    def _expedite(self, ongoing: OngoingSnapshot) -> None:
        options = dataclasses.replace(ongoing.barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
        barrier = dataclasses.replace(ongoing.barrier, options=options)
        holding, ongoing.holding = ongoing.holding, []
        for channel in holding:
            frames = channel.expedite(barrier)
            if frames:
                ongoing.parts.append(ChannelPart(channel.channel_id, frames, is_output=True))
                ongoing.metrics = dataclasses.replace(ongoing.metrics, is_unaligned=True)
        self._snapshots.upload_if_ready(ongoing)
