"""OneInputHarness: one operator on its own, fed by a test, with its output in lists.

Everything around the operator is real but for the clock, which the test advances, and the network, which is not there.
The operator's factory is pickled and loaded again, as on its way to a slot. For tests of operators and user functions:

    harness = OneInputHarness(KeyedProcessOperatorFactory(MyFunction(), key_selector), key_selector)
    harness.process(["a", "b"], timestamps=[1, 2])
    harness.process_watermark(10)
    assert harness.values == [...]

Source: Flink, OneInputStreamOperatorTestHarness.
"""

from __future__ import annotations

import math
import pickle
import queue
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import cloudpickle

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MAX_WATERMARK, LatencyMarker, Watermark, WatermarkStatus
from runtime.core.ids import operator_id_of
from runtime.core.keys import encode_key
from runtime.metrics import MetricRegistry
from runtime.operators.functions import key_function
from runtime.operators.operator import OneInputOperator, OperatorContext, OperatorFactory, StreamOperator
from runtime.operators.output import Input, Output
from runtime.operators.output_tag import OutputTag
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import StateDescriptor
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import key_group_of, key_group_range, operator_index_for_key_group
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import KeyGroupSnapshot, OperatorSnapshot
from runtime.state.timer_slice import ENDLESS, TimerSlice
from runtime.testing.clock import ManualClock

__all__ = [
    "CreateHarness",
    "CreatedT",
    "HarnessT",
    "Mailbox",
    "ManualProcessingTimeService",
    "OneInputHarness",
    "OperatorHarness",
    "OperatorT",
    "OutputRecord",
    "RecordingOutput",
    "Stage",
    "StageOutput",
    "StageT",
    "assert_same_when_rescaled",
    "assert_survives_rescaling",
    "deal",
    "run_rescaling",
    "run_stages",
]

OperatorT = TypeVar("OperatorT", bound=StreamOperator)


class OutputRecord(NamedTuple):
    """A record that the operator emitted."""

    value: Any
    timestamp: int | None


class ManualProcessingTimeService:
    """Processing-time callbacks, run by `run_due` once the clock has been advanced."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._timers: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._next_id = 0

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], None]) -> Callable[[], None]:
        timer_id = self._next_id
        self._next_id += 1
        self._timers[timer_id] = (timestamp_ms, callback)

        def cancel() -> None:
            self._timers.pop(timer_id, None)

        return cancel

    @property
    def num_timers(self) -> int:
        """Return how many timers are pending."""
        return len(self._timers)

    def next_ms(self) -> int | None:
        """Return when the earliest timer is due."""
        return min((timestamp for timestamp, _ in self._timers.values()), default=None)

    def run_due(self) -> None:
        """Run every timer that is due, in time order, including those that become due meanwhile."""
        while (next_ms := self.next_ms()) is not None and next_ms <= self._clock.now_ms():
            timer_id = min(self._timers, key=lambda i: (self._timers[i][0], i))
            timestamp, callback = self._timers.pop(timer_id)
            callback(timestamp)


class RecordingOutput(Output):
    """Keeps what an operator emits: batches as they came, and records and watermarks in order."""

    def __init__(self) -> None:
        self.elements: list[OutputRecord | Watermark | WatermarkStatus | LatencyMarker] = []
        self.sides: dict[str, list[OutputRecord]] = {}
        self.batches: list[tuple[RecordBatch, OutputTag | None]] = []

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        self.batches.append((batch, tag))
        values = batch.values()
        timestamps: Sequence[int | None] = batch.timestamps() or [None] * len(values)
        records = list(map(OutputRecord, values, timestamps))
        if tag is not None:
            self.sides.setdefault(tag.tag_id, []).extend(records)
            return
        for start, stop, watermark in batch.segments():
            self.elements.extend(records[start:stop])
            if watermark is not None:
                self.elements.append(Watermark(watermark))

    def emit_watermark(self, watermark: Watermark) -> None:
        self.elements.append(watermark)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self.elements.append(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self.elements.append(marker)


class _NoClient:
    redact = staticmethod(str)

    def send(self, channel: str, payload: bytes) -> None:
        raise AssertionError(f"unexpected output to the client on {channel!r}")

    def is_available(self) -> bool:
        return True


class _NoCoordinator:
    def send_to_coordinator(self, event: object) -> None:
        raise AssertionError(f"unexpected event {event!r} for a coordinator")


class Mailbox:
    """Mail that other threads post for the operator; a test has it run."""

    def __init__(self) -> None:
        self._mails: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, mail: Callable[[], None]) -> None:
        """Take mail; any thread."""
        self._mails.put(mail)

    def run_next(self, timeout_seconds: float = 5.0) -> None:
        """Wait for the next mail, and run it.

        Raises:
            queue.Empty: there is none in time.
        """
        self._mails.get(timeout=timeout_seconds)()


class OperatorHarness(Generic[OperatorT]):
    """Runs one subtask of an operator. A context manager: leaving it closes the operator.

    Args:
        factory: of the operator.
        parallelism: of the operator.
        subtask: index of the subtask that is run, 0-based.
        max_parallelism: number of key groups.
        configuration: options of the job.
        clock: the test's clock; by default one that starts at 0.
        snapshot: to restore from.
        job_parameters: what `RuntimeContext.get_job_parameter` finds.
        timers_per_slice: how many timers fire at once, as in a task, whose slices take some 20 ms: `fire_on` fires the
            next ones, and all are fired before the next input. None = there is no bound.
    """

    def __init__(
        self,
        factory: OperatorFactory,
        parallelism: int = 1,
        subtask: int = 0,
        max_parallelism: int = 128,
        configuration: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
        snapshot: OperatorSnapshot | None = None,
        job_parameters: Mapping[str, str] | None = None,
        timers_per_slice: int | None = None,
    ) -> None:
        self.clock = ManualClock() if clock is None else clock
        self.processing_time = ManualProcessingTimeService(self.clock)
        self.metrics = MetricRegistry(self.clock)
        self.mailbox = Mailbox()
        self._output = RecordingOutput()
        self._closed = False
        self._timer_slice = ENDLESS
        if timers_per_slice is not None:
            self._timer_slice = TimerSlice(self.clock, math.inf, timers_per_slice)
        #: what lies behind a mark at which a slice was over, and the input that it is for
        self._rest: tuple[Input, RecordBatch] | None = None
        key_groups = key_group_range(max_parallelism, parallelism, subtask)

        def create_keyed_backend() -> KeyedStateBackend:
            return HashMapKeyedStateBackend(key_groups, max_parallelism, self.clock)

        name = type(factory).__name__.removesuffix("OperatorFactory")
        operator: OperatorT = pickle.loads(cloudpickle.dumps(factory)).create()
        self.operator = operator
        context = OperatorContext(
            operator_id=operator_id_of(name),
            operator_name=name,
            task_name=name,
            subtask_index=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            attempt=0,
            configuration=Configuration.from_dict(dict(configuration or {})),
            clock=self.clock,
            processing_time=self.processing_time,
            metrics=self.metrics.root(),
            client=_NoClient(),
            events=_NoCoordinator(),
            create_keyed_backend=create_keyed_backend,
            job_parameters=dict(job_parameters or {}),
            timer_slice=self._timer_slice,
            mailbox=self.mailbox.post,
        )
        operator.setup(context, self._output)
        try:
            operator.initialize_state(snapshot)
            operator.open()
            self.processing_time.run_due()
        except BaseException:
            self.close()
            raise

    @property
    def is_firing(self) -> bool:
        """Return whether timers, or records behind the watermark that has made them due, are left of a slice."""
        return self._rest is not None or self.operator.is_firing()

    @property
    def unread(self) -> RecordBatch | None:
        """Return the records that a snapshot taken now does not cover, as they lie behind timers that have not fired.

        Put them into the harness that is restored from it.
        """
        return None if self._rest is None else self._rest[1]

    def fire_on(self) -> None:
        """Fire the next slice of timers, or process what lies behind them."""
        self._timer_slice.begin()
        if self.operator.is_firing():
            self.operator.fire_on()
        elif self._rest is not None:
            (face, batch), self._rest = self._rest, None
            self._process_batch(face, batch)

    def fire_all(self) -> None:
        """Fire slices until nothing is left."""
        while self.is_firing:
            self.fire_on()

    def _begin(self) -> None:
        """Prepare for an input."""
        self.fire_all()
        self._timer_slice.begin()

    def _process_batch(self, face: Input, batch: RecordBatch) -> None:
        face.process_batch(batch)
        rest = self.operator.take_rest()
        if rest is not None:
            self._rest = face, rest

    def advance_processing_time(self, ms: int) -> None:
        """Let `ms` milliseconds of wall-clock time pass, stopping wherever a timer is due."""
        end_ms = self.clock.now_ms() + ms
        while (next_ms := self.processing_time.next_ms()) is not None and next_ms <= end_ms:
            self.clock.advance(max(next_ms - self.clock.now_ms(), 0))
            self._begin()
            self.processing_time.run_due()
        self.clock.advance(end_ms - self.clock.now_ms())

    def run_mails_until(self, condition: Callable[[], bool]) -> None:
        """Run mail as it comes until the condition holds.

        Raises:
            queue.Empty: no mail came for 5 s.
        """
        while not condition():
            self.mailbox.run_next()

    def end_input(self) -> None:
        """End all inputs as bounded streams end."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for what is pending, with the clock standing still, then finish the operator."""
        self.fire_all()
        self.run_mails_until(lambda: not self.operator.has_pending())
        self.operator.finish()

    def snapshot(self) -> OperatorSnapshot:
        """Return the operator's state, to restore another harness from."""
        return self.operator.snapshot_state()

    def num_event_time_timers(self) -> int:
        """Return how many event-time timers are pending, of all keys."""
        return sum(len(timers) for group in self._key_groups() for timers in group.event_timers.values())

    def num_processing_time_timers(self) -> int:
        """Return how many processing-time timers of functions and windows are pending, of all keys."""
        return sum(len(timers) for group in self._key_groups() for timers in group.processing_timers.values())

    def num_keyed_state_entries(self) -> int:
        """Return how many values keyed state holds: one for each state and key that has one, and for each window.

        It is counted in a snapshot, as the timers are: functions are asked for theirs as by a checkpoint.
        """
        return sum(len(entries) for group in self._key_groups() for entries in group.states.values())

    def keyed_state(self, descriptor: StateDescriptor, key: Any) -> Any:
        """Return the state of that descriptor for one key, to look at or change; valid until the next call or record.

        Raises:
            StateTypeError: the operator's state of that name is of another kind.
            TypeError: the operator has no keyed state.
        """
        backend: KeyedStateBackend | None = getattr(self.operator, "backend", None)
        if backend is None:
            raise TypeError(f"{type(self.operator).__name__} has no keyed state")
        backend.set_current_key(key)
        return backend.get_state(descriptor)

    def _key_groups(self) -> Iterable[KeyGroupSnapshot]:
        # of a snapshot: what every operator and backend tell alike, also what they had not yet written to state
        keyed = self.snapshot().keyed
        return () if keyed is None else keyed.groups.values()

    def close(self) -> None:
        """Close the operator; idempotent."""
        if not self._closed:
            self._closed = True
            self.operator.close()

    @property
    def output(self) -> list[OutputRecord | Watermark | WatermarkStatus | LatencyMarker]:
        """Return records, watermarks and status of the main output so far, in order."""
        return self._output.elements

    @property
    def records(self) -> list[OutputRecord]:
        """Return the records of the main output so far."""
        return [element for element in self._output.elements if isinstance(element, OutputRecord)]

    @property
    def values(self) -> list[Any]:
        """Return the values of the main output so far."""
        return [record.value for record in self.records]

    @property
    def watermarks(self) -> list[int]:
        """Return the watermarks emitted so far, marks included."""
        return [element.timestamp for element in self._output.elements if isinstance(element, Watermark)]

    @property
    def batches(self) -> list[tuple[RecordBatch, OutputTag | None]]:
        """Return the batches as they were emitted, with the tag of their side output."""
        return self._output.batches

    def side_output(self, tag: OutputTag) -> list[OutputRecord]:
        """Return the records of a side output so far."""
        return self._output.sides.get(tag.tag_id, [])

    def counter(self, name: str) -> int:
        """Return the value of one of the operator's metrics; 0 if it does not exist."""
        value = self.metrics.snapshot().get(name, 0)
        assert isinstance(value, int)
        return value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class OneInputHarness(OperatorHarness[OneInputOperator]):
    """Runs one subtask of a one-input operator.

    Args:
        factory: of the operator.
        key_selector: a KeySelector or callable, if the input is keyed: keys then come with the batches, as behind an
            exchange. ColumnKeys bring none: the operator finds them in the columns.
        parallelism, subtask, max_parallelism, configuration, clock, snapshot, job_parameters, timers_per_slice: see
            OperatorHarness.
        input_type: type of the records; None = Python objects.
    """

    def __init__(
        self,
        factory: OperatorFactory,
        key_selector: Any = None,
        parallelism: int = 1,
        subtask: int = 0,
        max_parallelism: int = 128,
        configuration: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
        snapshot: OperatorSnapshot | None = None,
        input_type: TypeInformation | None = None,
        job_parameters: Mapping[str, str] | None = None,
        timers_per_slice: int | None = None,
    ) -> None:
        self._input_type = input_type
        brings_keys = key_selector is not None and not isinstance(key_selector, ColumnKeys)
        self._key_of = key_function(key_selector) if brings_keys else None
        super().__init__(
            factory,
            parallelism,
            subtask,
            max_parallelism,
            configuration,
            clock,
            snapshot,
            job_parameters,
            timers_per_slice,
        )

    def process(
        self, values: Iterable[Any], timestamps: Sequence[int] | None = None, marks: Sequence[Mark] = ()
    ) -> None:
        """Feed one batch of records; `timestamps` (ms) has one for each, or is None if there is no event time."""
        rows = list(values)
        self.process_batch(
            RecordBatch.of_values(rows, None if timestamps is None else list(timestamps), marks, self._input_type)
        )

    def process_batch(self, batch: RecordBatch) -> None:
        """Feed a batch as it is; its keys are set if the input is keyed."""
        if self._key_of is not None:
            batch.keys = list(map(self._key_of, batch.values()))
        self._begin()
        self._process_batch(self.operator, batch)

    def process_watermark(self, timestamp: int) -> None:
        """Let event time reach `timestamp`, ms."""
        self._begin()
        self.operator.process_watermark(Watermark(timestamp))

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        """Tell the operator that its input is idle, or active again."""
        self._begin()
        self.operator.process_watermark_status(status)

    def end_input(self) -> None:
        """End the input as a bounded stream ends: last watermark, end_input, what is pending, finish."""
        self.process_watermark(MAX_WATERMARK)
        self.fire_all()
        self.operator.end_input(0)
        self.finish()


@dataclass(frozen=True)
class Stage:
    """Input of one stretch of a run: records, then a watermark."""

    values: Sequence[Any]
    timestamps: Sequence[int] | None = None
    watermark: int | None = None


StageOutput = tuple[Counter[str], dict[str, Counter[str]]]
StageT = TypeVar("StageT")
HarnessT = TypeVar("HarnessT", bound=OperatorHarness[Any])
CreatedT = TypeVar("CreatedT", bound=OperatorHarness[Any], covariant=True)


def run_stages(
    factory: OperatorFactory,
    stages: Sequence[Stage],
    parallelisms: Sequence[int],
    key_selector: Any = None,
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    input_type: TypeInformation | None = None,
) -> list[StageOutput]:
    """Run an operator through `stages`, with a snapshot and a restore wherever the parallelism is given anew.

    Args:
        factory: of the operator.
        stages: the input; after the last of them the input ends.
        parallelisms: for each stage; 0 = continue without a restore.
        key_selector: if the input is keyed; otherwise records are distributed round-robin.
        max_parallelism: number of key groups.
        configuration: options of the job.
        input_type: type of the records; None = Python objects.

    Returns:
        For each stage how often each record came out of it, in the main output and by side output; records are given
        as repr of (value, timestamp). The order is left out: it is not defined across subtasks.
    """
    key_of = None if key_selector is None else key_function(key_selector)

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        return OneInputHarness(
            factory, key_selector, parallelism, subtask, max_parallelism, configuration, clock, snapshot, input_type
        )

    def feed(harnesses: Sequence[OneInputHarness], stage: Stage) -> None:
        for harness, part in zip(harnesses, deal(stage, len(harnesses), key_of, max_parallelism), strict=True):
            harness.process(part.values, part.timestamps)
            if part.watermark is not None:
                harness.process_watermark(part.watermark)

    return run_rescaling(stages, parallelisms, max_parallelism, create, feed)


class CreateHarness(Protocol[CreatedT]):
    """Makes the harness of one subtask."""

    def __call__(
        self, parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> CreatedT: ...


def run_rescaling(
    stages: Sequence[StageT],
    parallelisms: Sequence[int],
    max_parallelism: int,
    create: CreateHarness[HarnessT],
    feed: Callable[[Sequence[HarnessT], StageT], None],
) -> list[StageOutput]:
    """Run stages like `run_stages`, for any kind of operator and stage.

    Args:
        stages: see there, with `parallelisms` and `max_parallelism`.
        create: makes a subtask's harness.
        feed: puts a stage's input into all subtasks.
    """
    outputs: list[StageOutput] = []
    harnesses: list[HarnessT] = []
    clock = ManualClock()
    try:
        for number, (stage, parallelism) in enumerate(zip(stages, parallelisms, strict=True)):
            if parallelism:
                old = [harness.snapshot() for harness in harnesses]
                snapshots: list[OperatorSnapshot | None] = [None] * parallelism
                if old:
                    snapshots = [*redistribute(old, parallelism, max_parallelism)]
                for harness in harnesses:
                    harness.close()
                harnesses = [create(parallelism, i, clock, snapshots[i]) for i in range(parallelism)]
            feed(harnesses, stage)
            if number == len(stages) - 1:
                for harness in harnesses:
                    harness.end_input()
            outputs.append(_drain(harnesses))
    finally:
        for harness in harnesses:
            harness.close()
    return outputs


def assert_survives_rescaling(
    factory: OperatorFactory,
    stages: Sequence[Stage],
    key_selector: Any = None,
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    input_type: TypeInformation | None = None,
) -> None:
    """Check that an operator does the same if it is stopped and restored at parallelism 2, then 1, between stages.

    Args:
        factory: of the operator.
        stages: at least 3; later ones continue at parallelism 1.
        key_selector: if the input is keyed.
        max_parallelism: number of key groups.
        configuration: options of the job.
        input_type: type of the records; None = Python objects.

    Raises:
        AssertionError: a stage's output is not that of an uninterrupted run.
    """
    assert_same_when_rescaled(
        len(stages),
        lambda parallelisms: run_stages(
            factory, stages, parallelisms, key_selector, max_parallelism, configuration, input_type
        ),
    )


def assert_same_when_rescaled(num_stages: int, run: Callable[[Sequence[int]], list[StageOutput]]) -> None:
    """Check that `run(parallelisms)` gives the same at 1 -> 2 -> 1 as without interruption.

    Raises:
        AssertionError: a stage's output differs.
    """
    assert num_stages >= 3, "rescaling 1 -> 2 -> 1 takes at least three stages"
    goes_on = [0] * (num_stages - 1)
    expected = run([1, *goes_on])
    rescaled = [1, 2, 1, *goes_on[2:]]
    for number, (want, got) in enumerate(zip(expected, run(rescaled), strict=True)):
        assert got == want, f"stage {number} of {rescaled}: expected {want}, got {got}"


def deal(stage: Stage, parallelism: int, key_of: Callable[[Any], Any] | None, max_parallelism: int) -> list[Stage]:
    """Return a stage's part of each subtask: by key if there are keys, else in turn; the watermark goes to all."""
    parts: list[list[int]] = [[] for _ in range(parallelism)]
    for row, value in enumerate(stage.values):
        if key_of is None:
            subtask = row % parallelism
        else:
            group = key_group_of(encode_key(key_of(value)), max_parallelism)
            subtask = operator_index_for_key_group(max_parallelism, parallelism, group)
        parts[subtask].append(row)
    return [
        Stage(
            [stage.values[row] for row in rows],
            None if stage.timestamps is None else [stage.timestamps[row] for row in rows],
            stage.watermark,
        )
        for rows in parts
    ]


def _drain(harnesses: Sequence[OperatorHarness[Any]]) -> StageOutput:
    main: Counter[str] = Counter()
    sides: dict[str, Counter[str]] = {}
    for harness in harnesses:
        main.update(repr(tuple(record)) for record in harness.records)
        for tag_id, records in harness._output.sides.items():
            sides.setdefault(tag_id, Counter()).update(repr(tuple(record)) for record in records)
        harness._output.elements.clear()
        harness._output.sides.clear()
    return main, sides
