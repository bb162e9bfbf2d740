"""Snapshot → restore at 1 → 2 → 1 → continue, for the operators that have no such test in their own file."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common.time import Duration
from runtime.common.typeinfo import Types
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.operators.functions import FilterFunction, FlatMapFunction, MapFunction, ProcessFunction, RuntimeContext
from runtime.operators.map_operators import FilterOperatorFactory, FlatMapOperatorFactory, MapOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.process_operators import ProcessOperatorFactory
from runtime.operators.watermarks import TimestampsAndWatermarksOperatorFactory
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling

STAGES = [Stage([(f"k{i % 6}", i % 4) for i in range(n, n + 14)], list(range(n, n + 14)), n) for n in (0, 14, 28, 42)]


def key_of(value: tuple[str, int]) -> str:
    return value[0]


class Numbering(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: tuple[str, int]) -> tuple[str, int]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return value[0], count


class Remembering(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def flat_map(self, value: tuple[str, int]) -> list[Any]:
        self.seen.add(value[1])
        return [(value[0], *self.seen.get())]


class Distinct(FilterFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def filter(self, value: tuple[str, int]) -> bool:
        is_new = not self.seen.contains(value[1])
        self.seen.put(value[1], True)
        return is_new


class Passing(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> list[Any]:
        return [(value, ctx.timestamp(), ctx.timer_service().current_watermark())]


@pytest.mark.parametrize(
    "factory",
    [
        MapOperatorFactory(Numbering(), key_selector=key_of),
        FlatMapOperatorFactory(Remembering(), key_selector=key_of),
        FilterOperatorFactory(Distinct(), key_selector=key_of),
    ],
)
def test_keyed_functions(factory: OperatorFactory) -> None:
    assert_survives_rescaling(factory, STAGES, key_of)


@pytest.mark.parametrize(
    "factory",
    [
        MapOperatorFactory(key_of),
        ProcessOperatorFactory(Passing()),
        TimestampsAndWatermarksOperatorFactory(
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
                lambda value, timestamp: timestamp + 1
            )
        ),
    ],
)
def test_functions_without_keys(factory: OperatorFactory) -> None:
    assert_survives_rescaling(factory, STAGES, configuration={"pipeline.auto-watermark-interval": "0 ms"})


def test_an_operator_that_forgets_is_found_out() -> None:
    class Forgetful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = 0

        def map(self, value: Any) -> int:
            self.count += 1
            return self.count

    with pytest.raises(AssertionError, match="stage 1"):
        assert_survives_rescaling(MapOperatorFactory(Forgetful()), STAGES)


def test_the_harness_runs_a_copy_of_the_function_and_closes_it() -> None:
    function = Numbering()
    with OneInputHarness(MapOperatorFactory(function, key_selector=key_of), key_of) as harness:
        harness.process([("a", 1)])
    harness.close()
    assert not hasattr(function, "count")
    assert harness.values == [("a", 1)]


def test_the_runtime_context_tells_the_function_where_it_runs() -> None:
    class Telling(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.told = (
                runtime_context.get_task_name(),
                runtime_context.get_number_of_parallel_subtasks(),
                runtime_context.get_max_number_of_parallel_subtasks(),
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_attempt_number(),
                runtime_context.get_task_name_with_subtasks(),
                runtime_context.get_job_parameter("a", "0"),
                runtime_context.get_job_parameter("b", "0"),
            )
            self.counter = runtime_context.get_metrics_group().counter("mapped")

        def map(self, value: Any) -> Any:
            self.counter.inc()
            return self.told

    factory = MapOperatorFactory(Telling())
    with OneInputHarness(factory, parallelism=3, subtask=1, max_parallelism=9, job_parameters={"a": "1"}) as harness:
        harness.process(["x"])
        assert harness.counter("mapped") == 1
    assert harness.values == [("Map", 3, 9, 1, 0, "Map (2/3)#0", "1", "0")]
