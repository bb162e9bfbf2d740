"""map, flat_map, filter, union, reduce and its siblings, on a MiniCluster at parallelism 1 and 3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from runtime.common import ConfigurationError, Row, Types
from runtime.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from runtime.datastream.data_stream import DataStreamError
from runtime.datastream.state import ValueStateDescriptor
from runtime.execution.errors import JobExecutionError
from tests.datastream.running import at_each_parallelism, environment, sorted_values_of, values_of

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("a", 3), ("b", 5), ("a", 1), ("b", 5), ("a", 2)]


class AddSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: int) -> tuple[int, int]:
        return value, self.subtasks


class UpTo(FlatMapFunction):
    def flat_map(self, value: int) -> Iterator[int]:
        yield from range(value)


class Even(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Concat(ReduceFunction):
    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        return value1[0], value1[1] * 10 + value2[1]


class CountPerKey(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: tuple[str, int]) -> tuple[str, int]:
        seen = (self.count.value() or 0) + 1
        self.count.update(seen)
        return value[0], seen


class FirstOfKey(FilterFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value: tuple[str, int]) -> bool:
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class EarlierOfKey(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def flat_map(self, value: tuple[str, int]) -> Iterable[tuple[str, int, int]]:
        last = self.last.value()
        self.last.update(value[1])
        return [] if last is None else [(value[0], last, value[1])]


@at_each_parallelism
def test_functions_and_callables_transform_records(parallelism: int) -> None:
    numbers = environment(parallelism).from_collection([0, 1, 2, 3], Types.INT())
    assert sorted_values_of(numbers.map(lambda value: value + 1, Types.INT())) == [1, 2, 3, 4]
    assert sorted_values_of(numbers.map(AddSubtask())) == [(value, parallelism) for value in range(4)]
    assert sorted_values_of(numbers.flat_map(UpTo(), Types.INT())) == [0, 0, 0, 1, 1, 2]
    assert sorted_values_of(numbers.flat_map(lambda value: [value] if value else None)) == [1, 2, 3]
    assert sorted_values_of(numbers.filter(Even())) == [0, 2]
    assert sorted_values_of(numbers.filter(lambda value: value > 1)) == [2, 3]


@at_each_parallelism
def test_union_delivers_every_record_of_all_streams(parallelism: int) -> None:
    env = environment(parallelism)
    one, two = env.from_collection([1, 2], Types.INT()), env.from_collection([3], Types.INT())
    both = one.union(two, one.map(lambda value: value * 10, Types.INT()))
    assert sorted_values_of(both.map(lambda value: value, Types.INT())) == [1, 2, 3, 10, 20]


def test_union_refuses_another_type_and_another_environment() -> None:
    env = environment()
    numbers = env.from_collection([1], Types.INT())
    with pytest.raises(DataStreamError, match=r"union: the types differ"):
        numbers.union(env.from_collection(["a"], Types.STRING()))
    with pytest.raises(DataStreamError, match="different environments"):
        numbers.union(environment().from_collection([1], Types.INT()))


@at_each_parallelism
def test_running_aggregates_per_key(parallelism: int) -> None:
    keyed = environment(parallelism).from_collection(PAIRS, PAIR).key_by(First(), Types.STRING())
    assert sorted_values_of(keyed.sum(1)) == [("a", 3), ("a", 4), ("a", 6), ("b", 5), ("b", 10)]
    assert sorted_values_of(keyed.min(1)) == [("a", 1), ("a", 1), ("a", 3), ("b", 5), ("b", 5)]
    assert sorted_values_of(keyed.max(1)) == [("a", 3), ("a", 3), ("a", 3), ("b", 5), ("b", 5)]
    assert sorted_values_of(keyed.min_by(1)) == [("a", 1), ("a", 1), ("a", 3), ("b", 5), ("b", 5)]
    assert sorted_values_of(keyed.max_by(1)) == [("a", 3), ("a", 3), ("a", 3), ("b", 5), ("b", 5)]
    assert sorted_values_of(keyed.reduce(Concat())) == [("a", 3), ("a", 31), ("a", 312), ("b", 5), ("b", 55)]
    reduced = keyed.reduce(lambda one, two: (one[0], max(one[1], two[1])))
    assert sorted_values_of(reduced) == [("a", 3), ("a", 3), ("a", 3), ("b", 5), ("b", 5)]


@at_each_parallelism
def test_min_keeps_the_other_fields_of_the_first_record_and_min_by_takes_the_whole_record(parallelism: int) -> None:
    named = Types.ROW_NAMED(["origin", "delay", "carrier"], [Types.STRING(), Types.INT(), Types.STRING()])
    rows = [Row("JFK", 5, "AA"), Row("JFK", 2, "DL"), Row("JFK", 9, "UA")]
    keyed = environment(parallelism).from_collection(rows, named).key_by(lambda row: row.origin)
    assert [tuple(row) for row in values_of(keyed.min("delay"))][-1] == ("JFK", 2, "AA")
    assert [tuple(row) for row in values_of(keyed.min_by("delay"))][-1] == ("JFK", 2, "DL")
    assert [tuple(row) for row in values_of(keyed.max_by("delay"))][-1] == ("JFK", 9, "UA")
    assert [tuple(row) for row in values_of(keyed.sum("delay"))][-1] == ("JFK", 16, "AA")


@at_each_parallelism
def test_functions_on_a_keyed_stream_may_use_keyed_state(parallelism: int) -> None:
    keyed = environment(parallelism).from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0])
    assert sorted_values_of(keyed.map(CountPerKey())) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    assert sorted_values_of(keyed.filter(FirstOfKey())) == [("a", 3), ("b", 5)]
    assert sorted_values_of(keyed.flat_map(EarlierOfKey())) == [("a", 1, 2), ("a", 3, 1), ("b", 5, 5)]


def test_key_by_can_be_chosen_anew() -> None:
    keyed = environment(3).from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0])
    counted = keyed.key_by(lambda pair: pair[1] % 2).map(lambda pair: pair[1] % 2)
    assert Counter(values_of(counted)) == {1: 4, 0: 1}


@pytest.mark.parametrize(
    "key",
    [None, True, 7, 2**70, 1.5, "text", b"bytes", (1, "a", None), Row(1, "a")],
    ids=lambda key: type(key).__name__,
)
def test_values_of_these_types_can_be_keys(key: Any) -> None:
    keyed = environment(3).from_collection([key] * 4).key_by(lambda value: value)
    assert values_of(keyed.map(CountAll()))[-1] == 4


class CountAll(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> int:
        seen = int(self.count.value() or 0) + 1
        self.count.update(seen)
        return seen


def test_a_key_type_converts_keys() -> None:
    keyed = environment(3).from_collection([1, 1.0, 2]).key_by(lambda value: value, Types.SHORT())
    assert sorted_values_of(keyed.map(CountAll())) == [1, 1, 2]


def test_without_conversion_keys_of_different_types_are_different() -> None:
    keyed = environment(3).from_collection([1, 1.0, True]).key_by(lambda value: value)
    assert sorted_values_of(keyed.map(CountAll())) == [1, 1, 1]


@pytest.mark.parametrize("wrong", [3, "field", None])
def test_what_is_no_function_is_refused_at_once(wrong: Any) -> None:
    numbers = environment().from_collection([1])
    for transform in (numbers.map, numbers.flat_map, numbers.filter, numbers.key_by, numbers.process):
        with pytest.raises(TypeError):
            transform(wrong)
    with pytest.raises(TypeError, match="MapFunction"):
        numbers.map(AddSubtask)  # type: ignore[arg-type]  # the class, not an object of it


@pytest.mark.parametrize("object_reuse", ["true", "false"])
def test_object_reuse_decides_whether_a_chained_function_can_change_its_neighbours_records(object_reuse: str) -> None:
    env = environment(1, {"pipeline.object-reuse": object_reuse})
    lists = env.from_collection([[1], [2]])
    changed = lists.map(_append_zero)
    kept = lists.map(lambda value: list(value))
    collected = sorted_values_of(changed.union(kept).map(lambda value: value))
    # with reuse, the branch that runs second sees what the first one did to the common record
    assert collected == ([[1, 0], [1, 0], [2, 0], [2, 0]] if object_reuse == "true" else [[1], [1, 0], [2], [2, 0]])


def _append_zero(value: list[int]) -> list[int]:
    value.append(0)
    return value


def test_an_output_type_converts_and_refuses_what_it_cannot_hold() -> None:
    numbers = environment().from_collection([1, 43878])
    with pytest.raises(JobExecutionError, match=r"OverflowError: 43878 .* does not fit SHORT"):
        values_of(numbers.map(lambda value: value, Types.SHORT()))
    assert values_of(numbers.map(lambda value: value + 0.1, Types.FLOAT()))[0] == pytest.approx(1.1, abs=1e-6)
    rows = numbers.map(lambda value: (value, str(value)), Types.ROW_NAMED(["n", "text"], [Types.INT(), Types.STRING()]))
    assert [(row.n, row["text"]) for row in values_of(rows)] == [(1, "1"), (43878, "43878")]


def test_the_records_of_a_keyed_stream_are_collected_with_their_keys() -> None:
    numbers = environment(1).from_collection([3, 1, 2], Types.INT())
    odd = numbers.key_by(lambda value: value % 2, Types.INT())
    assert values_of(odd) == [Row(f0=1, f1=3), Row(f0=1, f1=1), Row(f0=0, f1=2)]
    assert odd.execute_and_collect(limit=1) == [Row(f0=1, f1=3)]
    untyped = environment(1).from_collection([("a", 1)]).key_by(lambda pair: pair[0])
    assert values_of(untyped) == [Row(f0="a", f1=("a", 1))]


def test_floats_are_collected_with_the_fewest_digits_wherever_they_are() -> None:
    numbers = environment(1).from_collection([1], Types.INT())
    row_type = Types.ROW([Types.FLOAT(), Types.MAP(Types.STRING(), Types.LIST(Types.FLOAT()))])
    assert values_of(numbers.map(lambda _: (1.1, {"a": [3e38]}), row_type)) == [Row(f0=1.1, f1={"a": [3e38]})]


def test_records_keep_their_order_through_a_chain_and_through_a_keyed_exchange() -> None:
    numbers = environment(3).from_collection(list(range(20_000)), Types.INT())
    keyed = numbers.map(lambda value: value, Types.INT()).set_parallelism(1).key_by(lambda value: value % 7)
    seen: dict[int, list[int]] = {}
    for value in values_of(keyed.map(lambda value: value, Types.INT())):
        seen.setdefault(value % 7, []).append(value)
    assert sum(map(len, seen.values())) == 20_000
    assert all(values == sorted(values) for values in seen.values())


@pytest.mark.parametrize("max_parallelism", [0, 32_769, 40_000])
def test_a_max_parallelism_that_cannot_be_is_refused_at_once(max_parallelism: int) -> None:
    env = environment()
    with pytest.raises(DataStreamError, match="max parallelism must be"):
        env.from_collection([1]).map(str).set_max_parallelism(max_parallelism)
    with pytest.raises(ConfigurationError, match="at most 32768"):
        env.set_max_parallelism(max_parallelism)
