"""BarrierHandler: a task's reaction to barriers on its input channels. Pure: events in, frozen actions out.

One handler sees all channels of a task, of all inputs, by one index. Exactly-once handles checkpoints in order, and
none overtakes an older one. They are aligned (channels whose barrier has arrived are blocked until the barriers of the
others arrive) or unaligned (the first barrier is enough; elements before the others become channel state), and an
aligned one may become unaligned. While an unaligned one still records, the next one aligns. At-least-once only counts
barriers, of several checkpoints at a time. A channel that has ended counts as if its barrier had arrived.
Source: Flink, SingleCheckpointBarrierHandler and its states, CheckpointBarrierTracker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.core.checkpoint_options import Alignment
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class Block:
    """Take nothing more out of the channel; its data stays queued, and no credit is returned for it."""

    channel: int


@dataclass(frozen=True, slots=True)
class UnblockAll:
    """All channels may be read again."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Pass the barrier on and take the task's snapshot, now."""

    barrier: CheckpointBarrier
    """The barrier to pass on; its options say UNALIGNED if it overtakes what is queued."""
    alignment_ms: float
    """Since the first barrier."""
    recorded: Sequence[int] = ()
    """Channels whose barrier has not arrived: all elements before it are channel state."""


@dataclass(frozen=True, slots=True)
class TakeBarrier:
    """Take the checkpoint's barrier out of the channel's queue; the elements queued before it are channel state."""

    channel: int
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class EndRecording:
    """The channel's barrier or its end has arrived: no further elements of it are channel state."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelStateComplete:
    """No channel is recorded any more."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class DropChannelState:
    """Stop recording, and discard the recorded elements."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The task can no longer take part in the checkpoint: a newer one has begun."""

    checkpoint_id: CheckpointId
    newer: CheckpointId


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `on_timeout` once the checkpoint's barriers are so old."""

    checkpoint_id: CheckpointId
    born_ms: int
    """By the JobMaster's wall clock."""
    age_ms: int


BarrierAction = (
    Block
    | UnblockAll
    | TakeSnapshot
    | TakeBarrier
    | EndRecording
    | ChannelStateComplete
    | DropChannelState
    | GiveUp
    | SetTimer
)


@dataclass(slots=True)
class _Pending:
    """A checkpoint some of whose barriers have arrived."""

    barrier: CheckpointBarrier
    began_ms: float
    arrived: set[int] = field(default_factory=set)
    is_taken: bool = False
    """Whether the snapshot was taken before all barriers had arrived."""
    is_recording: bool = False
    is_blocking: bool = False
    has_timer: bool = False
    is_late: bool = False
    """Whether the time for alignment is up."""

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.barrier.checkpoint_id

    @property
    def is_unaligned(self) -> bool:
        return self.barrier.options.alignment is Alignment.UNALIGNED

    @property
    def is_counted(self) -> bool:
        """Return whether nothing waits for the checkpoint's barriers."""
        return self.barrier.options.alignment is Alignment.AT_LEAST_ONCE


class BarrierHandler:
    """Barriers of one task.

    Args:
        num_channels: of all inputs together.
        allows_unaligned: False if an input has broadcast or pointwise edges: all channels are then aligned, even if
            barriers are unaligned. (State in which a broadcast record has changed one subtask but not yet another could
            not be restored at another parallelism.)
    """

    def __init__(self, num_channels: int, allows_unaligned: bool = True) -> None:
        self._allows_unaligned = allows_unaligned
        self._ended = [False] * num_channels
        #: oldest first; exactly-once: one that records, one that aligns, or both; at-least-once: all that have begun
        self._pending: dict[CheckpointId, _Pending] = {}
        #: number of the last ended checkpoint; older ones have ended, too
        self._done = CheckpointId(0)
        #: newer ones that were aborted before any of their barriers arrived
        self._aborted: set[CheckpointId] = set()
        #: queued barriers that are not reached yet, by checkpoint and channel
        self._announced: dict[CheckpointId, dict[int, CheckpointBarrier]] = {}

    @property
    def pending_id(self) -> CheckpointId | None:
        """Return the oldest checkpoint that is being handled, if any."""
        return next(iter(self._pending), None)

    def on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: float) -> list[BarrierAction]:
        """Handle that a channel has been read up to its barrier. `now_ms` is monotonic."""
        self._forget_announcement(channel, barrier.checkpoint_id)
        if self._is_over(barrier.checkpoint_id):
            return []
        if barrier.options.alignment is Alignment.AT_LEAST_ONCE:
            pending = self._pending.setdefault(barrier.checkpoint_id, _Pending(barrier, now_ms))
            pending.arrived.add(channel)
            return self._count(now_ms)
        actions = self._begin(barrier, now_ms)
        pending = self._pending[barrier.checkpoint_id]
        pending.arrived.add(channel)
        if pending.is_taken:
            actions.append(EndRecording(channel))
        elif self._may_overtake(pending):
            actions += self._take_unaligned(pending, now_ms)
        else:
            pending.is_blocking = True
            actions.append(Block(channel))
        return actions + self._check(pending, now_ms)

    def on_announced(self, channel: int, barrier: CheckpointBarrier, now_ms: float) -> list[BarrierAction]:
        """Handle that a barrier is in a channel's queue, after elements that have not been read."""
        if not self._allows_unaligned or barrier.options.alignment is Alignment.AT_LEAST_ONCE:
            return []
        if self._is_over(barrier.checkpoint_id) or self._ended[channel]:
            return []
        self._announced.setdefault(barrier.checkpoint_id, {})[channel] = barrier
        return self._heed_announcements(now_ms)

    def on_channel_ended(self, channel: int, now_ms: float) -> list[BarrierAction]:
        """Handle that a channel has been read up to its end."""
        self._ended[channel] = True
        actions: list[BarrierAction] = []
        for pending in list(self._pending.values()):
            if not pending.is_counted and pending.checkpoint_id in self._pending:
                if pending.is_taken and channel not in pending.arrived:
                    actions.append(EndRecording(channel))
                actions += self._check(pending, now_ms)
        return actions + self._count(now_ms)

    def on_timeout(self, checkpoint_id: CheckpointId, now_ms: float) -> list[BarrierAction]:
        """Handle that the time of a SetTimer has come."""
        pending = self._pending.get(checkpoint_id)
        if pending is None or pending.is_taken:
            return []
        pending.is_late = True
        return self._go_on(now_ms)

    def on_aborted(self, checkpoint_id: CheckpointId, now_ms: float) -> list[BarrierAction]:
        """Drop an aborted checkpoint; later barriers of it are ignored."""
        if self._is_over(checkpoint_id):
            return []
        self._aborted.add(checkpoint_id)
        pending = self._pending.pop(checkpoint_id, None)
        self._announced.pop(checkpoint_id, None)
        if pending is None:
            return self._heed_announcements(now_ms)
        return self._abandon(pending) + self._go_on(now_ms)

    # --- exactly once -------------------------------------------------------------------------------------------------

    def _begin(self, barrier: CheckpointBarrier, now_ms: float) -> list[BarrierAction]:
        """Make the barrier's checkpoint a pending one; an older one that aligns can no longer complete."""
        known = self._pending.get(barrier.checkpoint_id)
        if known is not None:
            if barrier.options.alignment is Alignment.UNALIGNED and not known.is_unaligned:
                # a producer's alignment timeout has passed before ours
                known.barrier = barrier
            return []
        actions: list[BarrierAction] = []
        for older in [pending for pending in self._pending.values() if not pending.is_taken]:
            del self._pending[older.checkpoint_id]
            self._aborted.add(older.checkpoint_id)
            actions += [*self._abandon(older), GiveUp(older.checkpoint_id, barrier.checkpoint_id)]
        if not self._pending:
            self._end(CheckpointId(barrier.checkpoint_id - 1))
        self._pending[barrier.checkpoint_id] = _Pending(barrier, now_ms)
        return actions

    def _may_overtake(self, pending: _Pending) -> bool:
        """Return whether to take the snapshot without the missing barriers; only one checkpoint records at a time."""
        if not self._allows_unaligned or not (pending.is_unaligned or pending.is_late):
            return False
        return not any(other.is_taken for other in self._pending.values())

    def _go_on(self, now_ms: float) -> list[BarrierAction]:
        """Continue with the next checkpoint after one has ended, or after its alignment has timed out."""
        actions: list[BarrierAction] = []
        for pending in list(self._pending.values()):
            is_waiting = pending.checkpoint_id in self._pending and not (pending.is_counted or pending.is_taken)
            if is_waiting and self._may_overtake(pending):
                actions += self._take_unaligned(pending, now_ms) + self._check(pending, now_ms)
        return actions + self._heed_announcements(now_ms)

    def _abandon(self, pending: _Pending) -> list[BarrierAction]:
        if pending.is_taken:
            return [DropChannelState()]
        return [UnblockAll()] if pending.is_blocking else []

    def _take_unaligned(self, pending: _Pending, now_ms: float) -> list[BarrierAction]:
        actions: list[BarrierAction] = []
        if pending.is_blocking:
            pending.is_blocking = False
            actions.append(UnblockAll())
        pending.is_taken = True
        options = dataclasses.replace(pending.barrier.options, alignment=Alignment.UNALIGNED, aligned_timeout_ms=None)
        pending.barrier = dataclasses.replace(pending.barrier, options=options)
        missing = [c for c, ended in enumerate(self._ended) if not ended and c not in pending.arrived]
        pending.is_recording = bool(missing)
        actions.append(TakeSnapshot(pending.barrier, now_ms - pending.began_ms, tuple(missing)))
        for channel in sorted(self._announced.pop(pending.checkpoint_id, {})):
            actions += self._take_barrier(pending, channel)
        return actions

    def _take_barrier(self, pending: _Pending, channel: int) -> list[BarrierAction]:
        if channel in pending.arrived or self._ended[channel]:
            return []
        pending.arrived.add(channel)
        return [TakeBarrier(channel, pending.checkpoint_id), EndRecording(channel)]

    def _heed_announcements(self, now_ms: float) -> list[BarrierAction]:
        """Handle the announced barriers of the pending checkpoint, or begin the oldest announced one."""
        actions: list[BarrierAction] = []
        pending = next(iter(self._pending.values()), None)
        if pending is None:
            oldest = min(self._announced, default=None)
            if oldest is None:
                return []
            barriers = self._announced[oldest].values()
            barrier = next((b for b in barriers if b.options.alignment is Alignment.UNALIGNED), next(iter(barriers)))
            if barrier.options.alignment is Alignment.ALIGNED and barrier.options.aligned_timeout_ms is None:
                # it will be reached; newer ones that could overtake it wait, so that they do not abort a savepoint
                return []
            actions += self._begin(barrier, now_ms)
            pending = self._pending[oldest]
        announced = self._announced.get(pending.checkpoint_id)
        if not announced:
            return actions
        if pending.is_taken:
            del self._announced[pending.checkpoint_id]
            for channel in sorted(announced):
                actions += self._take_barrier(pending, channel)
            return actions + self._check(pending, now_ms)
        unaligned = next((b for b in announced.values() if b.options.alignment is Alignment.UNALIGNED), None)
        if unaligned is not None:
            pending.barrier = unaligned
        if self._may_overtake(pending):
            return actions + self._take_unaligned(pending, now_ms) + self._check(pending, now_ms)
        timeout_ms = pending.barrier.options.aligned_timeout_ms
        if timeout_ms is not None and not pending.has_timer:
            pending.has_timer = True
            actions.append(SetTimer(pending.checkpoint_id, pending.barrier.timestamp_ms, timeout_ms))
        return actions

    def _check(self, pending: _Pending, now_ms: float) -> list[BarrierAction]:
        if not self._has_all(pending):
            return self._timer_for(pending)
        actions: list[BarrierAction]
        if pending.is_taken:
            actions = [ChannelStateComplete(pending.checkpoint_id)] if pending.is_recording else []
        else:
            actions = [TakeSnapshot(pending.barrier, now_ms - pending.began_ms)]
            if pending.is_blocking:
                actions.append(UnblockAll())
        del self._pending[pending.checkpoint_id]
        self._end(pending.checkpoint_id)
        return actions + self._go_on(now_ms)

    def _timer_for(self, pending: _Pending) -> list[BarrierAction]:
        timeout_ms = pending.barrier.options.aligned_timeout_ms
        if timeout_ms is None or pending.has_timer or pending.is_taken or not self._allows_unaligned:
            return []
        pending.has_timer = True
        return [SetTimer(pending.checkpoint_id, pending.barrier.timestamp_ms, timeout_ms)]

    # --- at least once ------------------------------------------------------------------------------------------------

    def _count(self, now_ms: float) -> list[BarrierAction]:
        complete = [p for p in self._pending.values() if p.is_counted and self._has_all(p)]
        if not complete:
            return []
        # barriers arrive in order: of several that an end has completed, the last would be enough, but each is expected
        actions: list[BarrierAction] = []
        newest = max(pending.checkpoint_id for pending in complete)
        for pending in sorted(self._pending.values(), key=lambda p: p.checkpoint_id):
            if pending.checkpoint_id > newest:
                continue
            del self._pending[pending.checkpoint_id]
            if pending in complete:
                actions.append(TakeSnapshot(pending.barrier, now_ms - pending.began_ms))
            else:
                actions += [*self._abandon(pending), GiveUp(pending.checkpoint_id, newest)]
        self._end(newest)
        return actions

    # --- both ---------------------------------------------------------------------------------------------------------

    def _has_all(self, pending: _Pending) -> bool:
        return all(ended or c in pending.arrived for c, ended in enumerate(self._ended))

    def _is_over(self, checkpoint_id: CheckpointId) -> bool:
        return checkpoint_id <= self._done or checkpoint_id in self._aborted

    def _end(self, checkpoint_id: CheckpointId) -> None:
        """Mark this checkpoint and all older ones as ended."""
        self._done = max(self._done, checkpoint_id)
        self._aborted = {aborted for aborted in self._aborted if aborted > self._done}
        for announced in [known for known in self._announced if known <= self._done]:
            del self._announced[announced]

    def _forget_announcement(self, channel: int, checkpoint_id: CheckpointId) -> None:
        announced = self._announced.get(checkpoint_id)
        if announced is not None:
            announced.pop(channel, None)
            if not announced:
                del self._announced[checkpoint_id]
