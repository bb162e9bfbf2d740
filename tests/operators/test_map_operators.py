"""map, flat_map and filter: results, event times, marks, failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.errors import StateAccessError, UserFunctionError
from runtime.operators.functions import FilterFunction, FlatMapFunction, MapFunction, RuntimeContext
from runtime.operators.map_operators import FilterOperatorFactory, FlatMapOperatorFactory, MapOperatorFactory
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import OneInputHarness


class Doubling(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = int(runtime_context.get_job_parameter("factor", "2"))

    def map(self, value: int) -> int:
        return value * self.factor


class Repeating(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[int]:
        for _ in range(value):
            yield value


class Odd(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


def test_map_keeps_event_times_and_marks() -> None:
    with OneInputHarness(MapOperatorFactory(Doubling(), Types.INT()), job_parameters={"factor": "3"}) as harness:
        harness.process([1, 2, 3], [10, 20, 30], [Mark(2, 15)])
    assert harness.output == [(3, 10), (6, 20), Watermark(15), (9, 30)]
    assert harness.batches[0][0].type_info == Types.INT()


def test_results_are_made_to_fit_the_output_type() -> None:
    with OneInputHarness(MapOperatorFactory(lambda v: v, Types.BYTE())) as harness:
        harness.process([1, 100.0, True])
    assert [(value, type(value)) for value in harness.values] == [(1, int), (100, int), (1, int)]


def test_a_result_that_does_not_fit_the_output_type_is_named() -> None:
    with OneInputHarness(MapOperatorFactory(str, Types.INT())) as harness, pytest.raises(UserFunctionError) as caught:
        harness.process([1])
    assert "'1'" in str(caught.value)


def test_flat_map_repeats_event_times_and_moves_marks() -> None:
    with OneInputHarness(FlatMapOperatorFactory(Repeating())) as harness:
        harness.process([2, 0, 1], [10, 20, 30], [Mark(1, 5), Mark(2, 15)])
    assert harness.output == [(2, 10), (2, 10), Watermark(15), (1, 30)]


def test_flat_map_takes_none_for_no_results() -> None:
    with OneInputHarness(FlatMapOperatorFactory(lambda v: [v] if v else None)) as harness:
        harness.process([0, 1])
    assert harness.records == [(1, None)]


def test_filter_that_leaves_nothing_emits_the_last_watermark() -> None:
    with OneInputHarness(FilterOperatorFactory(Odd())) as harness:
        harness.process([2, 4], [1, 2], [Mark(1, 0), Mark(2, 1)])
    assert harness.output == [Watermark(1)]


def test_filter_that_keeps_everything_drops_the_keys_of_the_exchange_behind_it() -> None:
    with OneInputHarness(FilterOperatorFactory(lambda v: True)) as harness:
        harness.process_batch(RecordBatch.of_values([1], keys=["k"]))
    assert harness.batches[0][0].keys is None


@pytest.mark.parametrize("factory", [MapOperatorFactory, FlatMapOperatorFactory, FilterOperatorFactory])
def test_what_is_no_function_is_refused_when_the_program_is_built(factory: Any) -> None:
    with pytest.raises(TypeError, match="callable"):
        factory(17)
    with pytest.raises(TypeError, match="callable"):
        factory(Doubling)


def test_stop_iteration_out_of_a_function_does_not_end_the_batch_silently() -> None:
    def fails(value: int) -> int:
        if value == 2:
            raise StopIteration
        return value

    with OneInputHarness(MapOperatorFactory(fails)) as harness, pytest.raises(UserFunctionError, match="on record 2"):
        harness.process([1, 2, 3])


def test_keyed_state_without_a_key_is_refused_with_the_way_out() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("seen"))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(UserFunctionError, match="key_by") as caught:
        OneInputHarness(MapOperatorFactory(Stateful()))
    assert isinstance(caught.value.__cause__, StateAccessError)


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: str) -> tuple[str, int]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return value, count


def test_map_on_a_keyed_stream_has_keyed_state() -> None:
    with OneInputHarness(MapOperatorFactory(Counting(), key_selector=lambda v: v)) as harness:
        harness.process(["a", "b", "a"])
    assert harness.values == [("a", 1), ("b", 1), ("a", 2)]


@given(
    st.lists(st.integers(0, 4), max_size=12).flatmap(
        lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, len(rows))))
    )
)
def test_marks_are_where_the_batch_would_have_been_cut(case: tuple[list[int], set[int]]) -> None:
    rows, offsets = case
    marks = [Mark(offset, 100 + offset) for offset in sorted(offsets)]
    for factory in (MapOperatorFactory(lambda v: v), FlatMapOperatorFactory(Repeating()), FilterOperatorFactory(Odd())):
        with OneInputHarness(factory) as whole, OneInputHarness(factory) as cut:
            whole.process(rows, list(range(len(rows))), marks)
            start = 0
            for offset, watermark in [*marks, Mark(len(rows), 999)]:
                if start < offset:
                    cut.process(rows[start:offset], list(range(start, offset)))
                cut.process_watermark(watermark)
                start = offset
            whole.process_watermark(999)
        assert collapsed(whole.output) == collapsed(cut.output)


def collapsed(elements: list[Any]) -> list[Any]:
    """Keep only the last of several watermarks with nothing between them."""
    result: list[Any] = []
    for element in elements:
        if result and isinstance(element, Watermark) and isinstance(result[-1], Watermark):
            result.pop()
        result.append(element)
    return result
