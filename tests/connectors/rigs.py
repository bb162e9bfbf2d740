"""Rigs for tests of sources and sinks: all subtasks and the coordinator in one loop, a client in memory."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.elements import Watermark
from runtime.core.ids import CheckpointId, operator_id_of
from runtime.metrics import MetricGroup, MetricRegistry
from runtime.operators.operator import OperatorContext, no_mailbox
from runtime.operators.sink import Sink
from runtime.operators.sink_operator import SinkOperatorFactory
from runtime.operators.source import ReaderContext, ReadStatus, Source
from runtime.operators.source_coordinator import COORDINATOR_STATE, SourceCoordinator
from runtime.operators.source_operator import EmitStatus, SourceOperator, SourceOperatorFactory
from runtime.operators.watermark_alignment import AlignmentGroup
from runtime.state.backend import KeyedStateBackend
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot, SnapshotRequest
from runtime.testing.clock import ManualClock
from runtime.testing.harness import ManualProcessingTimeService, RecordingOutput
from tests.support.waiting import wait_until


@dataclass
class MemoryClient:
    """A client that keeps what it is sent."""

    sent: list[tuple[str, bytes]] = field(default_factory=list)
    available: bool = True

    redact = staticmethod(str)

    def send(self, channel: str, payload: bytes) -> None:
        self.sent.append((channel, payload))

    def is_available(self) -> bool:
        return self.available


def no_backend() -> KeyedStateBackend:
    raise AssertionError("sources and sinks have no keyed state")


def operator_context(
    subtask: int,
    parallelism: int,
    events: Any,
    clock: ManualClock,
    timers: ManualProcessingTimeService,
    client: MemoryClient,
    configuration: Mapping[str, str],
    attempt: int = 0,
    metrics: MetricRegistry | None = None,
    job_id: str = "job",
) -> OperatorContext:
    return OperatorContext(
        operator_id=operator_id_of("test"),
        operator_name="test",
        task_name="test",
        subtask_index=subtask,
        parallelism=parallelism,
        max_parallelism=128,
        attempt=attempt,
        configuration=Configuration.from_dict(dict(configuration)),
        clock=clock,
        processing_time=timers,
        metrics=(MetricRegistry() if metrics is None else metrics).root(),
        client=client,
        events=events,
        create_keyed_backend=no_backend,
        job_parameters={},
        job_id=job_id,
    )


class _Events:
    def __init__(self, inbox: deque[tuple[int, bytes]], subtask: int) -> None:
        self._inbox = inbox
        self._subtask = subtask

    def send_to_coordinator(self, event: object) -> None:
        self._inbox.append((self._subtask, pickle.dumps(event)))


class SourceRig:
    """A source at some parallelism: its coordinator and operators, stepped in turn. All that travels is pickled."""

    def __init__(
        self,
        source: Source,
        parallelism: int = 1,
        strategy: WatermarkStrategy | None = None,
        snapshots: Sequence[OperatorSnapshot] = (),
        clock: ManualClock | None = None,
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.timers = ManualProcessingTimeService(self.clock)
        restored: Sequence[OperatorSnapshot | None] = [None] * parallelism
        if snapshots:
            restored = redistribute(snapshots, parallelism, 128)
        alignment = None if strategy is None else strategy.alignment
        group = None if alignment is None else AlignmentGroup(alignment, operator_id_of("test"))
        self.coordinator = SourceCoordinator(pickle.loads(pickle.dumps(source)), parallelism, restored[0], group)
        self._requests: deque[tuple[int, bytes]] = deque()
        self._answers: deque[tuple[int, bytes]] = deque()
        self.operators: list[SourceOperator] = []
        self.outputs: list[RecordingOutput] = []
        self.ended: set[int] = set()
        self.metrics = MetricRegistry()
        strategy = WatermarkStrategy.no_watermarks() if strategy is None else strategy
        for subtask in range(parallelism):
            operator = pickle.loads(pickle.dumps(SourceOperatorFactory(source, strategy, "numbers"))).create()
            output = RecordingOutput()
            events = _Events(self._requests, subtask)
            options = configuration or {}
            context = operator_context(
                subtask, parallelism, events, self.clock, self.timers, MemoryClient(), options, metrics=self.metrics
            )
            operator.setup(context, output)
            operator.initialize_state(restored[subtask])
            operator.open()
            self.operators.append(operator)
            self.outputs.append(output)

    def deliver(self) -> None:
        """Let every event that is under way arrive."""
        while self._requests or self._answers:
            self.deliver_requests()
            if self._answers:
                subtask, payload = self._answers.popleft()
                self.operators[subtask].handle_event(pickle.loads(payload))

    def deliver_requests(self) -> None:
        """Let the readers' events arrive and keep the answers under way."""
        while self._requests:
            subtask, payload = self._requests.popleft()
            self.coordinator.handle_event(
                subtask, pickle.loads(payload), lambda to, event: self._answers.append((to, pickle.dumps(event)))
            )

    def step(self, max_rows: int, subtasks: Sequence[int] | None = None) -> bool:
        """Call `emit_next` once for each subtask, then deliver the events; returns whether all have ended."""
        if self.coordinator.discovery_delay_ms() is not None:
            self.coordinator.discover()
        for subtask in range(len(self.operators)) if subtasks is None else subtasks:
            if subtask not in self.ended and self.operators[subtask].emit_next(max_rows) is EmitStatus.END_OF_INPUT:
                self.ended.add(subtask)
        self.deliver()
        return len(self.ended) == len(self.operators)

    def run(self, max_rows: int = 1000) -> SourceRig:
        """Until the end of bounded input; time passes while there is nothing to do."""
        try:
            for _ in range(100_000):
                if self.step(max_rows):
                    return self
                waits = [at for at in (op.next_wakeup_ms() for op in self.operators) if at is not None]
                if waits and len(waits) == len(self.operators) - len(self.ended):
                    self.clock.advance(max(0, min(waits) - self.clock.now_ms()))
                    self.timers.run_due()
            raise AssertionError("the source does not end")
        finally:
            self.close()

    def run_until(self, condition: Callable[[], bool], what: str, max_rows: int = 1000) -> None:
        """For sources with threads of their own: step, in real time, with the manual clock ten times as fast."""

        def is_reached() -> bool:
            self.clock.advance(200)
            self.step(max_rows)
            return condition()

        wait_until(is_reached, 10, what)

    def run_to_end(self, max_rows: int = 1000) -> SourceRig:
        """Run to the end, like `run`, for sources with threads of their own."""
        try:
            self.run_until(lambda: len(self.ended) == len(self.operators), "the end of the source", max_rows)
        finally:
            self.close()
        return self

    @property
    def dead_letters(self) -> list[Any]:
        """All rows of the side output for bad records, subtask by subtask."""
        batches = [batch for output in self.outputs for batch, tag in output.batches if tag is not None]
        return [value for batch in batches for value in batch.values()]

    def snapshot(self, checkpoint_id: int = 0) -> list[OperatorSnapshot]:
        """Take a snapshot as a checkpoint does: the coordinator first."""
        coordinator = self.coordinator.snapshot()
        request = SnapshotRequest(SnapshotKind.CANONICAL, CheckpointId(checkpoint_id))
        snapshots = [operator.snapshot_state(request) for operator in self.operators]
        states = {**snapshots[0].operator_states, COORDINATOR_STATE: coordinator}
        return [replace(snapshots[0], operator_states=states), *snapshots[1:]]

    def close(self) -> None:
        for operator in self.operators:
            operator.close()
        self.coordinator.close()

    @property
    def values(self) -> list[Any]:
        """All records, subtask by subtask."""
        batches = [batch for output in self.outputs for batch, tag in output.batches if tag is None]
        return [value for batch in batches for value in batch.values()]

    def watermarks(self, subtask: int = 0) -> list[int]:
        return [e.timestamp for e in self.outputs[subtask].elements if isinstance(e, Watermark)]


def run_with_rescaling(source: Source, max_rows: int, strategy: WatermarkStrategy | None = None) -> list[Any]:
    """All records of a source that is interrupted and restored at parallelism 1 → 2 → 1."""
    records: list[Any] = []
    snapshots: Sequence[OperatorSnapshot] = ()
    for parallelism, steps in ((1, 3), (2, 3), (1, None)):
        rig = SourceRig(source, parallelism, strategy, snapshots)
        if steps is None:
            rig.run(max_rows)
        else:
            for _ in range(steps):
                rig.step(max_rows)
            # leaves a request under way if a split has just ended
            for operator in rig.operators:
                operator.emit_next(max_rows)
            snapshots = rig.snapshot()
            rig.close()
        records += rig.values
    return records


def read_split(source: Source, split: Any, position: Any = None, max_rows: int = 10**9) -> list[Any]:
    """The records of one split from a position on."""
    reader = source.create_reader(split, position, reader_context())
    values: list[Any] = []
    while isinstance(result := reader.read(max_rows), RecordBatch):
        values += result.values()
    assert result is ReadStatus.END_OF_SPLIT
    reader.close()
    return values


def reader_context(clock: ManualClock | None = None, parallelism: int = 1) -> ReaderContext:
    return ReaderContext(0, parallelism, Configuration(), clock or ManualClock(), MetricGroup())


def splits_of(source: Source, parallelism: int = 1) -> list[Any]:
    enumerator = source.create_enumerator(parallelism, None)
    splits = []
    while not hasattr(split := enumerator.next_split(0), "name"):
        splits.append(split)
    return splits


class SinkRig:
    """A subtask of a sink."""

    def __init__(
        self,
        sink: Sink,
        input_type: TypeInformation | None = None,
        subtask: int = 0,
        parallelism: int = 1,
        snapshot: OperatorSnapshot | None = None,
        attempt: int = 0,
        clock: ManualClock | None = None,
        job_id: str = "job",
        configuration: Mapping[str, str] | None = None,
        mailbox: Callable[[Callable[[], None]], None] = no_mailbox,
    ) -> None:
        self.clock = clock or ManualClock()
        self.timers = ManualProcessingTimeService(self.clock)
        self.client = MemoryClient()
        self.type = input_type
        self.output = RecordingOutput()
        self.operator = pickle.loads(cloudpickle.dumps(SinkOperatorFactory(sink, input_type))).create()
        self.metrics = MetricRegistry()
        context = operator_context(
            subtask,
            parallelism,
            None,
            self.clock,
            self.timers,
            self.client,
            configuration or {},
            attempt,
            self.metrics,
            job_id,
        )
        context = replace(context, mailbox=mailbox)
        self.operator.setup(context, self.output)
        self.operator.initialize_state(snapshot)
        try:
            self.operator.open()
        except BaseException:
            self.operator.close()
            raise

    def write(self, *values: Any) -> None:
        self.operator.process_batch(RecordBatch.of_values(list(values), type_info=self.type))

    def snapshot(self, checkpoint_id: int, is_last: bool = False, is_savepoint: bool = False) -> OperatorSnapshot:
        """Take a snapshot as a checkpoint does."""
        request = SnapshotRequest(SnapshotKind.CANONICAL, CheckpointId(checkpoint_id), is_last, is_savepoint)
        snapshot: OperatorSnapshot = self.operator.snapshot_state(request)
        return snapshot

    def complete(self, checkpoint_id: int) -> None:
        self.operator.notify_checkpoint_complete(CheckpointId(checkpoint_id))

    def finish(self, commit: bool = True) -> None:
        self.operator.finish()
        if commit:
            self.operator.commit_finished()
            self.operator.job_finished()
        self.operator.close()
