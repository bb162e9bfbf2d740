"""StreamOperator: the life of an operator inside its task, and the services that it gets there.

Life cycle, all on the task's thread: `setup` → `initialize_state` → `open` → processing … → `finish` (end of input) →
`close`; `close` also follows a failure and must release everything without emitting anything.
Source: Flink, StreamOperator and AbstractStreamOperator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.core.elements import LatencyMarker, Watermark, WatermarkStatus
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.metrics import MetricGroup
from runtime.operators.input_order import InputOrder
from runtime.operators.output import Input, Output
from runtime.state.backend import KeyedStateBackend
from runtime.state.key_groups import KeyGroupRange, key_group_range
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.timer_slice import ENDLESS, TimerSlice


class ProcessingTimeService(Protocol):
    """Calls back on the task's thread, between slices of records."""

    def now_ms(self) -> int: ...

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call `callback(timestamp_ms)` at or after that wall-clock time; returns a function that cancels it."""


class ClientChannel(Protocol):
    """Channel from an operator back to the program that started the job (written by `print` and `collect`)."""

    def send(self, channel: str, payload: bytes) -> None:
        """Queue bytes for the client: `channel` is "stdout" or "collect:<id>". Order is kept per subtask."""

    @property
    def redact(self) -> Callable[[str], str]:
        """Return what takes out of lines for "stdout" what nobody may see: everybody may read that log."""

    def is_available(self) -> bool:
        """Return False while the client has not taken enough of what was sent; the task then waits."""


class OperatorEventGateway(Protocol):
    """Messages between an operator's coordinator (in its subtask 0's slot) and its subtasks; ordered, never lost
    within one attempt."""

    def send_to_coordinator(self, event: object) -> None: ...


class LateSampler(Protocol):
    """Keeps samples of the records that one operator has dropped as late."""

    def dropped(self, num_records: int) -> bool:
        """Count records that were dropped; returns whether one of them is wanted."""

    def take(self, value: Any, type_info: TypeInformation | None, timestamp: int, watermark: int) -> None:
        """Take one of them; never fails."""


def no_mailbox(mail: Callable[[], None]) -> None:
    """Stand in for a mailbox where an operator has none.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"there is no mailbox for {mail!r}")


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """An operator's information about itself, and the services it may use. One per operator and subtask."""

    operator_id: OperatorId
    operator_name: str
    task_name: str
    subtask_index: int
    """0-based."""
    parallelism: int
    max_parallelism: int
    attempt: int
    configuration: Configuration
    clock: Clock
    processing_time: ProcessingTimeService
    metrics: MetricGroup
    client: ClientChannel
    events: OperatorEventGateway
    create_keyed_backend: Callable[[], KeyedStateBackend]
    """Makes the configured keyed state backend for this subtask's key groups; call at most once."""
    job_parameters: dict[str, str]
    timer_slice: TimerSlice = ENDLESS
    """Says how long timers may fire before others have their turn; endless for all but the head of a chain."""
    mailbox: Callable[[Callable[[], None]], None] = no_mailbox
    """Runs an action on the task's thread, between slices of records, in the order of posting; any thread may post.
    Mail that is posted while the task is not running yet waits until it is; what comes after its end is dropped."""
    job_id: str = ""
    pass_number: int = 0
    """Number of the batch that this instance is made for, unique within the attempt; 0 = it lives as long as that."""
    late_sampler: LateSampler | None = None
    """Keeps samples of the records that the operator drops as late; None: nobody wants any."""

    @property
    def key_groups(self) -> KeyGroupRange:
        """Return the key groups whose records come to this subtask if its input is keyed."""
        return key_group_range(self.max_parallelism, self.parallelism, self.subtask_index)


class StreamOperator(ABC):
    """An operator of a chain. A new instance serves each subtask; operators travel to their slot as factories."""

    context: OperatorContext
    output: Output
    #: whether `commit_finished` may have something to do: such an operator stays open until the whole job has finished
    commits_at_the_end = False
    #: whether it calls user code once for each record
    calls_by_record = False
    #: whether a slice may cost it much however few records it has: a search of buffers, a call of user code by frame
    costs_by_slice = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Hand the operator its surroundings. Nothing may be emitted yet."""
        self.context = context
        self.output = output

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Load the state of a snapshot, or start empty. Operators with state extend this."""

    def open(self) -> None:
        """Prepare for the first record: open user functions, register processing-time timers."""

    @property
    @abstractmethod
    def inputs(self) -> Sequence[Input]:
        """Return the operator's inputs in order; empty for a source."""

    def input_order(self, input_index: int) -> InputOrder:
        """Return the order in which the operator is given the records of an input in a batch."""
        return InputOrder.AS_THEY_COME

    def keys_of_input(self, input_index: int, batch: RecordBatch) -> list[Any]:
        """Return the keys of records of an input that is given BY_KEY.

        Raises:
            UserFunctionError: the key selector failed; it names the record.
        """
        raise NotImplementedError

    def is_available(self) -> bool:
        """Return whether the operator can take another slice now without blocking; the task waits while it is False."""
        return True

    def has_pending(self) -> bool:
        """Return whether results are still to come for records that were taken; `finish` is not called while they are.

        Whatever ends the waiting must come as mail or as a processing-time timer.
        """
        return False

    def awaits_mail(self) -> bool:
        """Return whether another thread is at work for the operator and will post mail.

        A clock that otherwise jumps to the next deadline then goes at the pace of real time.
        """
        return False

    def is_firing(self) -> bool:
        """Return whether timers, or results of windows, are left of a slice that is over.

        Nothing may be put in while they are, and the watermark that has made them due has not been passed on. A
        snapshot holds what is left; a restored operator fires it before it is given anything.
        """
        return False

    def fire_on(self) -> None:
        """Fire another slice of what is left."""

    def take_rest(self) -> RecordBatch | None:
        """Return the part of the last batch that lies behind a mark at which a slice was over; the caller keeps it.

        To be put in when the operator does not fire any more.
        """
        return None

    def next_due_ms(self) -> int | None:
        """Return the wall-clock time from which on a micro-batch has something to do here though no record comes; None
        = never.

        Asked behind the snapshot of a batch. What has passed by then is due with the next one.
        """
        return None

    def num_fired_timers(self) -> int:
        """Return how many timers of user functions and windows have fired so far."""
        return 0

    def end_input(self, input_index: int) -> None:
        """Note that no more records will come on that input; its MAX_WATERMARK, if any, has come already. May emit."""

    def finish(self) -> None:
        """Finish after the end of all inputs. Last chance to emit; pending processing-time timers are dropped."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: CheckpointId) -> None:
        """Emit, as a last chance before a barrier is passed on, what then need not be in the snapshot.

        Called first to last in a chain, before any of its operators is asked for its state. Must be quick.
        """

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        """Return the operator's state between two slices of records. Everything that was emitted lies before it."""
        return OperatorSnapshot()

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint that this operator took part in is complete; sinks commit what they prepared up to it.

        There is no notification for every checkpoint: a later one includes those before it.
        """

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        """Note that a checkpoint that this operator may have taken part in was given up."""

    def notify_savepoints_failed(self, savepoints: Sequence[tuple[Attempt, CheckpointId]]) -> None:
        """Note that savepoints of earlier attempts have failed: nobody relies on them.

        Args:
            savepoints: attempt that took part, and checkpoint id, of each.
        """

    def interrupt(self) -> None:
        """Have a call that waits for another system end soon, with an error: the task is cancelled. Any thread; the
        operator may be closed already.
        """

    def commit_finished(self) -> None:
        """Make visible what is still pending, after every task of the job has finished. Idempotent."""

    def job_finished(self) -> None:
        """Note that every operator has done so: the job goes back to no checkpoint. Followed by `close`."""

    def close(self) -> None:
        """Release everything; called exactly once, also after a failure; emits nothing."""


class OneInputOperator(StreamOperator, Input):
    """A StreamOperator that is its own only input."""

    @property
    def inputs(self) -> Sequence[Input]:
        return (self,)

    @abstractmethod
    def process_batch(self, batch: RecordBatch) -> None: ...

    def process_watermark(self, watermark: Watermark) -> None:
        self.output.emit_watermark(watermark)

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        self.output.emit_watermark_status(status)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        self.output.emit_latency_marker(marker)


class OperatorFactory(Protocol):
    """Makes an operator on the slot; the factory, with the user's functions in it, is shipped to the slots."""

    def create(self) -> StreamOperator: ...

    @property
    def output_type(self) -> TypeInformation | None: ...
