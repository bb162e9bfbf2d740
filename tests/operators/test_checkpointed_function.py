"""CheckpointedFunction: list, union list and broadcast state of functions of every kind, at any parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common.typeinfo import Types
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from runtime.operators.co_operators import CoProcessOperatorFactory
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import FlatMapFunction, KeyedProcessFunction, MapFunction, ProcessFunction
from runtime.operators.map_operators import FlatMapOperatorFactory, MapOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.process_operators import KeyedProcessOperatorFactory, ProcessOperatorFactory
from runtime.operators.two_input_functions import CoFlatMapFunction
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.harness import OneInputHarness
from runtime.testing.two_input_harness import TwoInputHarness

ITEMS = ListStateDescriptor("items", Types.LONG())
ALL_COUNTS = ListStateDescriptor("counts", Types.LONG())
SETTINGS = MapStateDescriptor("settings", Types.STRING(), Types.LONG())


class Buffer(CheckpointedFunction):
    """Keeps what it is given in a plain list between snapshots; counts are united, settings are broadcast."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.items_state: Any = store.get_list_state(ITEMS)
        self.counts_state: Any = store.get_union_list_state(ALL_COUNTS)
        self.settings: Any = store.get_broadcast_state(SETTINGS)
        self.restored = context.is_restored()
        self.items: list[int] = list(self.items_state.get())
        self.counts: list[int] = list(self.counts_state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.items_state.update(self.items)
        self.counts_state.update([len(self.items)])
        self.settings.put("seen", 1)

    def add(self, value: int) -> list[Any]:
        if value >= 0:
            self.items.append(value)
            return []
        return [(self.restored, sorted(self.items), sorted(self.counts), self.settings.get("seen"))]


class MapBuffer(MapFunction, Buffer):
    def map(self, value: int) -> Any:
        return (self.add(value) or [None])[0]


class FlatMapBuffer(FlatMapFunction, Buffer):
    def flat_map(self, value: int) -> list[Any]:
        return self.add(value)


class ProcessBuffer(ProcessFunction, Buffer):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> list[Any]:
        return self.add(value)


class KeyedBuffer(KeyedProcessFunction, Buffer):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> list[Any]:
        return self.add(value)


def same(value: int) -> int:
    return value


@pytest.mark.parametrize(
    "factory",
    [
        MapOperatorFactory(MapBuffer()),
        FlatMapOperatorFactory(FlatMapBuffer()),
        ProcessOperatorFactory(ProcessBuffer()),
        KeyedProcessOperatorFactory(KeyedBuffer(), same),
    ],
    ids=lambda factory: type(factory).__name__,
)
def test_state_is_dealt_out_united_and_copied(factory: OperatorFactory) -> None:
    snapshots: list[OperatorSnapshot] = []
    for subtask, values in enumerate(([1, 2, 3], [4])):
        with OneInputHarness(factory, parallelism=2, subtask=subtask) as harness:
            for value in values:
                # straight into the function: which subtask owns a key does not matter here
                harness.operator.functions[0].add(value)  # type: ignore[attr-defined]
            snapshots.append(harness.snapshot())
    for parallelism, expected in ((1, [[1, 2, 3, 4]]), (2, [[1, 2, 3], [4]]), (3, [[1, 4], [2], [3]])):
        for subtask, snapshot in enumerate(redistribute(snapshots, parallelism, 128)):
            with OneInputHarness(factory, parallelism=parallelism, subtask=subtask, snapshot=snapshot) as harness:
                function = harness.operator.functions[0]  # type: ignore[attr-defined]
                assert function.add(-1) == [(True, expected[subtask], [1, 3], 1)]


def test_without_a_snapshot_nothing_is_restored() -> None:
    with OneInputHarness(FlatMapOperatorFactory(FlatMapBuffer())) as harness:
        harness.process([5, -1])
    assert harness.values == [(False, [5], [], None)]


def test_state_of_a_function_for_two_streams() -> None:
    class CoBuffer(CoFlatMapFunction, Buffer):
        def flat_map1(self, value: int) -> list[Any]:
            return self.add(value)

        flat_map2 = flat_map1

    factory = CoProcessOperatorFactory(CoBuffer())
    with TwoInputHarness(factory) as harness:
        harness.process1([1])
        harness.process2([2])
        snapshot = harness.snapshot()
    with TwoInputHarness(factory, snapshot=snapshot) as restored:
        restored.process2([-1])
    assert restored.values == [(True, [1, 2], [2], 1)]


def test_keyed_state_may_be_asked_for_while_initializing() -> None:
    class Counting(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            pass

        def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            self.count.update((self.count.value() or 0) + 1)
            yield value, self.count.value()

    factory = KeyedProcessOperatorFactory(Counting(), lambda value: value)
    with OneInputHarness(factory) as harness:
        harness.process(["a", "b", "a"])
        snapshot = harness.snapshot()
    with OneInputHarness(factory, snapshot=snapshot) as restored:
        restored.process(["a"])
    assert restored.values == [("a", 3)]


@pytest.mark.parametrize("method", ["initialize_state", "snapshot_state"])
def test_a_failure_says_what_was_being_done(method: str) -> None:
    class Failing(FlatMapBuffer):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            if method == "initialize_state":
                raise ValueError("no")

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            raise ValueError("no")

    with (
        pytest.raises(UserFunctionError, match=rf"failed in {method}\(\): ValueError: no"),
        OneInputHarness(FlatMapOperatorFactory(Failing())) as harness,
    ):
        harness.snapshot()
