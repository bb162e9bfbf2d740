"""TwoInputHarness: one operator with two inputs on its own, and runs of it through rescaling.

As `runtime.testing.harness`, with records and watermarks for either input:

    with TwoInputHarness(CoProcessOperatorFactory(MyFunction())) as harness:
        harness.process1(["a"], timestamps=[1])
        harness.process2([2], timestamps=[1])
        harness.process_both_watermarks(10)
        assert harness.values == [...]

Source: Flink, TwoInputStreamOperatorTestHarness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from runtime.operators.functions import key_function
from runtime.operators.operator import OperatorFactory
from runtime.operators.two_input import TwoInputOperator
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.harness import (
    OperatorHarness,
    Stage,
    StageOutput,
    assert_same_when_rescaled,
    deal,
    run_rescaling,
)

__all__ = [
    "InputTypes",
    "KeySelectors",
    "TwoInputHarness",
    "TwoInputStage",
    "assert_two_inputs_survive_rescaling",
    "run_two_input_stages",
]

KeySelectors = tuple[Any, Any]
"""Key selectors of both inputs; None = that input is not keyed."""
InputTypes = tuple[TypeInformation | None, TypeInformation | None]
"""Types of the records of both inputs; None = Python objects."""


class TwoInputHarness(OperatorHarness[TwoInputOperator]):
    """Runs one subtask of a two-input operator.

    Args:
        factory: of the operator.
        key_selectors: of the inputs that are keyed: keys then come with the batches, as behind an exchange. ColumnKeys
            bring none: the operator finds them in the columns.
        parallelism, subtask, max_parallelism, configuration, clock, snapshot, job_parameters, timers_per_slice: see
            OperatorHarness.
        input_types: types of the records of both inputs; None = Python objects.
    """

    def __init__(
        self,
        factory: OperatorFactory,
        key_selectors: KeySelectors = (None, None),
        parallelism: int = 1,
        subtask: int = 0,
        max_parallelism: int = 128,
        configuration: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
        snapshot: OperatorSnapshot | None = None,
        job_parameters: Mapping[str, str] | None = None,
        input_types: InputTypes = (None, None),
        timers_per_slice: int | None = None,
    ) -> None:
        self._keys_of = [
            None if selector is None or isinstance(selector, ColumnKeys) else key_function(selector)
            for selector in key_selectors
        ]
        self._input_types = input_types
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

    def process1(
        self, values: Iterable[Any], timestamps: Sequence[int] | None = None, marks: Sequence[Mark] = ()
    ) -> None:
        """Feed one batch to the first input; `timestamps` (ms) has one for each record, or is None."""
        self._process(0, values, timestamps, marks)

    def process2(
        self, values: Iterable[Any], timestamps: Sequence[int] | None = None, marks: Sequence[Mark] = ()
    ) -> None:
        """Feed one batch to the second input."""
        self._process(1, values, timestamps, marks)

    def process_watermark1(self, timestamp: int) -> None:
        """Let event time of the first input reach `timestamp`, ms."""
        self._begin()
        self.operator.inputs[0].process_watermark(Watermark(timestamp))

    def process_watermark2(self, timestamp: int) -> None:
        """Let event time of the second input reach `timestamp`, ms."""
        self._begin()
        self.operator.inputs[1].process_watermark(Watermark(timestamp))

    def process_both_watermarks(self, timestamp: int) -> None:
        """Let event time of both inputs reach `timestamp`, ms."""
        self.process_watermark1(timestamp)
        self.process_watermark2(timestamp)

    def process_status1(self, status: WatermarkStatus) -> None:
        """Tell the operator that its first input is idle, or active again."""
        self._begin()
        self.operator.inputs[0].process_watermark_status(status)

    def process_status2(self, status: WatermarkStatus) -> None:
        """Tell the operator that its second input is idle, or active again."""
        self._begin()
        self.operator.inputs[1].process_watermark_status(status)

    def end_input(self) -> None:
        """End both inputs as bounded streams end: last watermark, end_input, what is pending, finish."""
        for index, face in enumerate(self.operator.inputs):
            self._begin()
            face.process_watermark(Watermark(MAX_WATERMARK))
            self.fire_all()
            self.operator.end_input(index)
        self.finish()

    def _process(
        self, index: int, values: Iterable[Any], timestamps: Sequence[int] | None, marks: Sequence[Mark]
    ) -> None:
        rows = list(values)
        times = None if timestamps is None else list(timestamps)
        batch = RecordBatch.of_values(rows, times, marks, self._input_types[index])
        key_of = self._keys_of[index]
        if key_of is not None:
            batch.keys = list(map(key_of, rows))
        self._begin()
        self._process_batch(self.operator.inputs[index], batch)


@dataclass(frozen=True)
class TwoInputStage:
    """Input of one stretch of a run: that of the second input comes first, as rules and versions usually do."""

    first: Stage
    second: Stage


def run_two_input_stages(
    factory: OperatorFactory,
    stages: Sequence[TwoInputStage],
    parallelisms: Sequence[int],
    key_selectors: KeySelectors = (None, None),
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    broadcast_second: bool = False,
    input_types: InputTypes = (None, None),
) -> list[StageOutput]:
    """Run stages like `run_stages`, for an operator with two inputs.

    Args:
        factory: of the operator.
        stages: the input; after the last of them both inputs end.
        parallelisms: for each stage; 0 = continue without a restore.
        key_selectors: of the inputs that are keyed; records of the others are distributed round-robin.
        max_parallelism: number of key groups.
        configuration: options of the job.
        broadcast_second: whether every subtask gets all records of the second input.
        input_types: types of the records of both inputs; None = Python objects.
    """
    keys_of = [None if selector is None else key_function(selector) for selector in key_selectors]

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> TwoInputHarness:
        return TwoInputHarness(
            factory,
            key_selectors,
            parallelism,
            subtask,
            max_parallelism,
            configuration,
            clock,
            snapshot,
            input_types=input_types,
        )

    def feed(harnesses: Sequence[TwoInputHarness], stage: TwoInputStage) -> None:
        firsts = deal(stage.first, len(harnesses), keys_of[0], max_parallelism)
        seconds = deal(stage.second, len(harnesses), keys_of[1], max_parallelism)
        if broadcast_second:
            seconds = [stage.second] * len(harnesses)
        for harness, first, second in zip(harnesses, firsts, seconds, strict=True):
            harness.process2(second.values, second.timestamps)
            harness.process1(first.values, first.timestamps)
            if first.watermark is not None:
                harness.process_watermark1(first.watermark)
            if second.watermark is not None:
                harness.process_watermark2(second.watermark)

    return run_rescaling(stages, parallelisms, max_parallelism, create, feed)


def assert_two_inputs_survive_rescaling(
    factory: OperatorFactory,
    stages: Sequence[TwoInputStage],
    key_selectors: KeySelectors = (None, None),
    max_parallelism: int = 128,
    configuration: Mapping[str, str] | None = None,
    broadcast_second: bool = False,
    input_types: InputTypes = (None, None),
) -> None:
    """Check that an operator does the same if it is stopped and restored at parallelism 2, then 1, between stages.

    Arguments as for `run_two_input_stages`; at least 3 stages.

    Raises:
        AssertionError: a stage's output is not that of an uninterrupted run.
    """
    assert_same_when_rescaled(
        len(stages),
        lambda parallelisms: run_two_input_stages(
            factory, stages, parallelisms, key_selectors, max_parallelism, configuration, broadcast_second, input_types
        ),
    )
