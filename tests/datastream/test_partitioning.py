"""Distribution of records: partitioners, parallelism, and copies where a stream forks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.datastream import DataStream, MapFunction, Partitioner, ProcessFunction, RuntimeContext
from tests.datastream.running import environment, sorted_values_of, values_of

COUNT = 600


class WithSubtask(MapFunction):
    """(subtask, record)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[int, Any]:
        return self.subtask, value


class ByLastDigit(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


def numbers(parallelism: int) -> DataStream:
    env = environment(parallelism)
    return env.from_source(NumberSequenceSource(1, COUNT), WatermarkStrategy.no_watermarks(), "numbers")


def shares(stream: DataStream, parallelism: int = 3) -> Counter[int]:
    """Return the number of records that each subtask of the next operator gets."""
    received = values_of(stream.map(WithSubtask()).set_parallelism(parallelism))
    return Counter(subtask for subtask, _ in received)


def test_rebalance_and_rescale_deal_out_evenly() -> None:
    assert shares(numbers(1).rebalance()) == {0: 200, 1: 200, 2: 200}
    assert sorted(shares(numbers(2).rebalance(), 3).values()) == [200, 200, 200]
    assert shares(numbers(1).rescale()) == {0: 200, 1: 200, 2: 200}
    # rescale from 2 to 4: each producer has two consumers of its own
    assert shares(numbers(2).rescale(), 4) == {0: 150, 1: 150, 2: 150, 3: 150}


def test_different_parallelisms_are_rebalanced_and_equal_ones_forwarded() -> None:
    assert shares(numbers(1)) == {0: 200, 1: 200, 2: 200}
    assert shares(numbers(3)) == {0: 200, 1: 200, 2: 200}
    forwarded = numbers(3).map(WithSubtask()).forward().map(WithSubtask())
    assert all(outer == inner for outer, (inner, _) in values_of(forwarded))


def test_shuffle_gives_every_subtask_some() -> None:
    received = shares(numbers(1).shuffle())
    assert sum(received.values()) == COUNT
    assert min(received[subtask] for subtask in range(3)) > 100


def test_broadcast_gives_every_subtask_all_and_global_gives_all_to_the_first() -> None:
    assert shares(numbers(2).broadcast()) == {0: COUNT, 1: COUNT, 2: COUNT}
    assert shares(numbers(2).global_()) == {0: COUNT}


@pytest.mark.parametrize("partitioner", [ByLastDigit(), lambda key, subtasks: key % subtasks], ids=["class", "lambda"])
def test_a_custom_partitioner_decides_by_the_key(partitioner: Any) -> None:
    dealt = numbers(2).partition_custom(partitioner, lambda value: value % 10)
    received = values_of(dealt.map(WithSubtask()).set_parallelism(3))
    assert len(received) == COUNT
    assert all(subtask == value % 10 % 3 for subtask, value in received)


def test_key_by_brings_equal_keys_together_and_uses_all_subtasks() -> None:
    received = values_of(numbers(2).key_by(lambda value: value % 50).map(WithSubtask()).set_parallelism(3))
    subtasks: dict[int, set[int]] = {}
    for subtask, value in received:
        subtasks.setdefault(value % 50, set()).add(subtask)
    assert all(len(found) == 1 for found in subtasks.values())
    assert set.union(*subtasks.values()) == {0, 1, 2}


def test_a_union_may_mix_partitionings() -> None:
    env = environment(3)
    one = env.from_collection([1, 2, 3], Types.INT())
    mixed = one.broadcast().union(one.global_())
    assert Counter(values_of(mixed.map(lambda value: value))) == {1: 4, 2: 4, 3: 4}


# --- forks ------------------------------------------------------------------------------------------------------------


def append_zero(value: list[int]) -> list[int]:
    value.append(0)
    return value


class AppendSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: list[int]) -> list[int]:
        value.append(self.subtask)
        return value


class BothWays(ProcessFunction):
    def process_element(self, value: list[int], ctx: ProcessFunction.Context) -> Iterator[list[int]]:
        yield value


@pytest.mark.parametrize("chained", [True, False])
def test_branches_of_a_stream_do_not_see_each_others_changes(chained: bool) -> None:
    env = environment(1)
    if not chained:
        env.disable_operator_chaining()
    lists = env.from_collection([[1]])
    branches = [lists.map(append_zero), lists.process(BothWays()).map(append_zero), lists.map(append_zero)]
    assert values_of(branches[0].union(*branches[1:]).map(lambda value: value)) == [[1, 0]] * 3


def test_subtasks_that_are_sent_the_same_records_do_not_see_each_others_changes() -> None:
    lists = environment(3).from_collection([[9]])
    assert sorted_values_of(lists.broadcast().map(AppendSubtask())) == [[9, 0], [9, 1], [9, 2]]
