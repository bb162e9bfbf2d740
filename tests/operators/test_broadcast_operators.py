"""The broadcast pattern: states that one side writes and the other reads, in every subtask and after a restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common.typeinfo import Types
from runtime.core.elements import Watermark
from runtime.operators.broadcast_operators import BroadcastProcessOperatorFactory
from runtime.operators.errors import StateAccessError, UserFunctionError
from runtime.operators.functions import RuntimeContext, TimeDomain
from runtime.operators.two_input_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from runtime.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from runtime.state.redistribution import redistribute
from runtime.testing.harness import Stage
from runtime.testing.two_input_harness import TwoInputHarness, TwoInputStage, assert_two_inputs_survive_rescaling

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
UNKNOWN = MapStateDescriptor("unknown", Types.STRING(), Types.LONG())
TOTAL = ValueStateDescriptor("total", Types.LONG())

Event = tuple[str, int]


def key_of(value: Event) -> str:
    return value[0]


class Limiting(BroadcastProcessFunction[Event, Event, Any]):
    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        limits = ctx.get_broadcast_state(LIMITS)
        if value[0] in limits and value[1] > (limits[value[0]] or 0):
            yield value, limits.get(value[0]), ctx.timestamp(), ctx.current_watermark()

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS).put(*value)


class Totals(KeyedBroadcastProcessFunction[str, Event, Event, Any]):
    """Adds up per key; tells the total against the limit at the next full 10 ms; a limit below 0 clears all totals."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() - ctx.timestamp() % 10 + 10)

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS).put(*value)
        if value[1] < 0:
            ctx.apply_to_keyed_state(TOTAL, lambda key, total: total.update(total.value() - 1000))

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        limit = ctx.get_broadcast_state(LIMITS).get(ctx.get_current_key())
        yield ctx.get_current_key(), self.total.value(), limit, ctx.timestamp()


PLAIN = BroadcastProcessOperatorFactory(Limiting(), (LIMITS,))
KEYED = BroadcastProcessOperatorFactory(Totals(), (LIMITS,), key_of)
KEYS = (key_of, None)


def test_rules_that_came_before_a_record_hold_for_it() -> None:
    with TwoInputHarness(PLAIN) as harness:
        harness.process1([("a", 5)], [1])
        harness.process2([("a", 3), ("b", 9)])
        harness.process_both_watermarks(2)
        harness.process1([("a", 5), ("b", 5), ("a", 2)], [3, 4, 5])
    assert harness.output == [Watermark(2), ((("a", 5), 3, 3, 2), 3)]


def test_keyed_state_and_timers_of_the_keyed_side() -> None:
    with TwoInputHarness(KEYED, KEYS) as harness:
        harness.process1([("a", 5), ("b", 1), ("a", 2)], [1, 2, 12])
        harness.process2([("a", 3)], [4])
        harness.process_both_watermarks(15)
        harness.process2([("x", -1)], [16])
        harness.end_input()
    assert harness.records == [(("a", 7, 3, 10), 10), (("b", 1, None, 10), 10), (("a", -993, 3, 20), 20)]


def test_what_is_applied_to_keyed_state_may_be_a_function_object() -> None:
    class Doubling(KeyedStateFunction):
        def process(self, key: str, state: Any) -> None:
            state.update(state.value() * 2)

    class Changing(Totals):
        def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> None:
            ctx.apply_to_keyed_state(TOTAL, Doubling())

    with TwoInputHarness(BroadcastProcessOperatorFactory(Changing(), (LIMITS,), key_of), KEYS) as harness:
        harness.process1([("a", 5), ("b", 1)], [1, 2])
        harness.process2([("x", 0)])
        harness.end_input()
    assert harness.values == [("a", 10, None, 10), ("b", 2, None, 10)]


def test_the_broadcast_side_has_no_key() -> None:
    class Reaching(Totals):
        def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> None:
            self.total.update(0)

    with TwoInputHarness(BroadcastProcessOperatorFactory(Reaching(), (LIMITS,), key_of), KEYS) as harness:
        harness.process1([("a", 5)], [1])
        with pytest.raises(UserFunctionError, match="NoCurrentKeyError"):
            harness.process2([("a", 5)], [1])


def test_the_side_that_reads_cannot_write() -> None:
    class Writing(Limiting):
        def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
            limits = ctx.get_broadcast_state(LIMITS)
            assert not hasattr(limits, "put")
            assert not hasattr(limits, "remove")
            yield limits.is_empty(), list(limits.keys()), list(limits.values()), list(limits), list(limits.items())
            with pytest.raises(StateAccessError):
                limits.clear()

    with TwoInputHarness(BroadcastProcessOperatorFactory(Writing(), (LIMITS,))) as harness:
        harness.process2([("a", 1)])
        harness.process1([("a", 1)])
    assert harness.values == [(False, ["a"], [1], ["a"], [("a", 1)])]


def test_a_state_that_was_not_named_is_refused() -> None:
    class Guessing(Limiting):
        def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
            ctx.get_broadcast_state(UNKNOWN)

    with (
        TwoInputHarness(BroadcastProcessOperatorFactory(Guessing(), (LIMITS,))) as harness,
        pytest.raises(UserFunctionError, match=r"no broadcast state 'unknown': name it in broadcast\(\)"),
    ):
        harness.process2([("a", 1)])


def test_every_subtask_saves_its_state_and_new_subtasks_get_a_copy() -> None:
    with TwoInputHarness(PLAIN, parallelism=2) as one, TwoInputHarness(PLAIN, parallelism=2, subtask=1) as two:
        for harness in (one, two):
            harness.process2([("a", 1), ("b", 2)])
        snapshots = [one.snapshot(), two.snapshot()]
    for subtask, snapshot in enumerate(redistribute(snapshots, 3, 128)):
        with TwoInputHarness(PLAIN, parallelism=3, subtask=subtask, snapshot=snapshot) as restored:
            restored.process1([("a", 2), ("b", 3)], [0, 0])
        assert [value[1] for value in restored.values] == [1, 2]


def test_functions_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="not keyed needs a BroadcastProcessFunction"):
        BroadcastProcessOperatorFactory(Totals(), (LIMITS,))
    with pytest.raises(TypeError, match="keyed needs a KeyedBroadcastProcessFunction"):
        BroadcastProcessOperatorFactory(Limiting(), (LIMITS,), key_of)
    with pytest.raises(TypeError, match="at least one descriptor"):
        BroadcastProcessOperatorFactory(Limiting(), ())


def stage(start: int) -> TwoInputStage:
    numbers = range(start, start + 10)
    events = Stage([(f"k{n % 4}", n) for n in numbers], list(numbers), start + 7)
    return TwoInputStage(events, Stage([(f"k{start % 3}", start), ("x", 15 - start)], [start, start], start + 5))


STAGES = [stage(start) for start in (0, 10, 20, 30)]


def test_survives_rescaling() -> None:
    assert_two_inputs_survive_rescaling(PLAIN, STAGES, broadcast_second=True)
    assert_two_inputs_survive_rescaling(KEYED, STAGES, KEYS, broadcast_second=True)
