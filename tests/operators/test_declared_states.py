"""What operators say of their states before they run is what their snapshots have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.common import Configuration, Time, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.datastream import (
    AsyncDataStream,
    DataStream,
    KeySelector,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.operators.checkpointed_function import CheckpointedFunction
from runtime.operators.declared_states import states_with_functions
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.state.backend import KeyedStateBackend
from runtime.state.handles import PendingKeyedState
from runtime.state.snapshot import OperatorSnapshot, SnapshotRequest
from runtime.testing import OneInputHarness, harness_of, two_input_harness_of
from tests.state.backends import BACKENDS, canonical, dispose_of_all, ignore, whole_range
from tests.testing.rescaling_cases import GATE, CoTotals, Gated, Limited, LimitedTotals, Pairing, user_of

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def add(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


class Listing(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Iterator[Any]:
        yield list(elements)


def factories(build: Callable[..., Any], *input_types: Any) -> list[Any]:
    """The operators that a program adds to streams of these types."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    streams = [env.from_collection([], input_type) for input_type in input_types]
    build(*streams)
    return [node.factory for node in list(env.program.nodes.values())[len(streams) :]]


def windows(stream: DataStream, assigner: Any) -> Any:
    return stream.key_by(user_of, Types.STRING()).window(assigner)


ONE_INPUT: dict[str, Callable[[DataStream], Any]] = {
    "reduce": lambda s: s.key_by(user_of).reduce(add),
    "sum": lambda s: s.key_by(user_of).sum(1),
    "windows": lambda s: windows(s, TEN).reduce(add),
    "sliding": lambda s: windows(s, SlidingEventTimeWindows.of(Time.milliseconds(30), Time.milliseconds(20))).reduce(
        add
    ),
    "processing time": lambda s: windows(s, TumblingProcessingTimeWindows.of(Time.milliseconds(10))).reduce(add),
    "elements": lambda s: windows(s, TEN).process(Listing()),
    "sessions": lambda s: windows(s, EventTimeSessionWindows.with_gap(Time.milliseconds(5))).reduce(add),
    "elements of sessions": lambda s: windows(s, EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(
        Listing()
    ),
    "count": lambda s: s.key_by(user_of).count_window(3).reduce(add),
    "sliding count": lambda s: s.key_by(user_of).count_window(3, 2).reduce(add),
    "global": lambda s: windows(s, GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(5))).reduce(add),
    "early": lambda s: windows(s, TEN).trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(3))).reduce(add),
    "evictor": lambda s: windows(s, TEN).evictor(CountEvictor.of(2)).process(Listing()),
    "evictor and reduce": lambda s: windows(s, TEN).evictor(CountEvictor.of(2)).reduce(add),
    "all": lambda s: s.window_all(TEN).reduce(add),
}
TWO_INPUTS: dict[str, Callable[[DataStream, DataStream], Any]] = {
    "co-process": lambda a, b: a.key_by(user_of).connect(b.key_by(user_of)).process(CoTotals()),
    "broadcast": lambda a, b: a.connect(b.broadcast(LIMITS)).process(Limited()),
    "keyed broadcast": lambda a, b: a.key_by(user_of).connect(b.broadcast(LIMITS)).process(LimitedTotals()),
    "interval join": lambda a, b: (
        a.key_by(user_of)
        .interval_join(b.key_by(user_of))
        .between(Time.milliseconds(-4), Time.milliseconds(6))
        .process(Pairing())
    ),
    "temporal join": lambda a, b: a.key_by(user_of).temporal_join(b.key_by(user_of)).left_outer().process(Pairing()),
}


def check(factory: OperatorFactory, snapshot: OperatorSnapshot) -> None:
    """Compare what an operator declares with its snapshot, for which it was given records of each kind."""
    declared: Any = getattr(factory, "declared_states", None)
    assert declared is not None, "an operator with state declares nothing"
    written = {} if snapshot.keyed is None else dict(snapshot.keyed.metas)
    keyed = {state.name: state for state in declared.states if state.is_keyed}
    assert {name: written.get(name) for name in keyed} == keyed
    items = {name: state.serializer for name, state in snapshot.operator_states.items() if state.items}
    of_operator = {state.name: state.serializer for state in declared.states if not state.is_keyed}
    assert {name: items.get(name) for name in of_operator} == of_operator
    if declared.is_complete:
        assert (set(written), set(items)) == (set(keyed), set(of_operator))
    assert written or items, "nothing was kept"


@pytest.mark.parametrize("case", ONE_INPUT)
@pytest.mark.parametrize("input_type", [None, PAIR])
def test_operators_declare_what_they_keep(case: str, input_type: Any) -> None:
    build = ONE_INPUT[case]
    with harness_of(build, input_type=input_type) as harness:
        harness.process([("a", 1), ("a", 2), ("b", 3)], [1, 2, 3])
        check(factories(build, input_type)[0], harness.snapshot())


@pytest.mark.parametrize("case", TWO_INPUTS)
@pytest.mark.parametrize("input_type", [None, PAIR])
def test_operators_with_two_inputs_declare_what_they_keep(case: str, input_type: Any) -> None:
    build = TWO_INPUTS[case]
    with two_input_harness_of(build, input_types=(input_type, input_type)) as harness:
        harness.process2([("a", 4), ("c", 5)], [1, 2])
        harness.process1([("a", 1), ("b", 2)], [3, 4])
        check(factories(build, input_type, input_type)[0], harness.snapshot())


@pytest.mark.parametrize("input_type", [None, PAIR])
def test_asynchronous_calls_declare_what_is_in_progress(input_type: Any) -> None:
    def build(stream: DataStream) -> DataStream:
        return AsyncDataStream.unordered_wait(stream, Gated(), Time.hours(1), capacity=9)

    GATE.clear()
    try:
        with harness_of(build, input_type=input_type) as harness:
            harness.process([("a", 1), ("b", 2)], [1, 2])
            check(factories(build, input_type)[0], harness.snapshot())
    finally:
        GATE.set()


def test_co_groups_are_windows_of_both_inputs() -> None:
    def build(one: DataStream, other: DataStream) -> Any:
        return one.co_group(other).where(user_of).equal_to(user_of).window(TEN).apply(lambda a, b: [(len(a), len(b))])

    [factory] = [made for made in factories(build, None, None) if isinstance(made, WindowOperatorFactory)]
    with OneInputHarness(factory, factory.key_selector) as harness:
        harness.process([(0, ("a", 1), None), (1, None, ("a", 2))], [1, 2])
        check(factory, harness.snapshot())


# --- what values are of -----------------------------------------------------------------------------------------------


def test_built_in_reductions_say_what_their_values_are() -> None:
    def content(build: Callable[[DataStream], Any], input_type: Any = None) -> str:
        return str(factories(build, input_type)[0].state_content)

    row = RowTypeInfo([Types.STRING(), Types.LONG()], ["user", "amount"])
    for reduced in (lambda s: s.key_by(user_of), lambda s: windows(s, TEN)):
        assert content(lambda s: reduced(s).sum(1)) == "sum of field 1"  # noqa: B023 (called at once)
        texts = {content(lambda s: getattr(reduced(s), kind)(1)) for kind in ("sum", "min", "max", "min_by", "max_by")}  # noqa: B023
        assert len(texts) == 5
        assert content(lambda s: reduced(s).sum(1), row) == content(lambda s: reduced(s).sum("amount"), row)  # noqa: B023
        assert content(lambda s: reduced(s).sum("amount"), row) == "sum of field 'amount'"  # noqa: B023
        # of a function of the user's nothing is known
        assert content(lambda s: reduced(s).reduce(add)) == ""  # noqa: B023
    # an evictor's windows keep the elements
    assert content(lambda s: windows(s, TEN).evictor(CountEvictor.of(2)).sum(1)) == ""
    assert content(lambda s: windows(s, TEN).process(Listing())) == ""


def test_windows_say_of_which_time_they_are() -> None:
    def window_type(assigner: Any) -> str:
        return str(factories(lambda s: windows(s, assigner).reduce(add), None)[0].window_type)

    assert window_type(TEN) == "TimeWindow of event time"
    assert window_type(TumblingProcessingTimeWindows.of(Time.milliseconds(10))) == "TimeWindow of processing time"
    assert window_type(GlobalWindows.create()) == "GlobalWindow"


# --- what is not known before it runs ---------------------------------------------------------------------------------


class Counting(TumblingEventTimeWindows):
    """Windows of an assigner that counts the elements of each key."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        count = context.get_runtime_context().get_state(COUNT)
        count.update((count.value() or 0) + 1)
        return super().assign_windows(element, timestamp, context)


COUNT = ValueStateDescriptor("count", Types.LONG())


def test_an_assigner_of_the_users_may_keep_state() -> None:
    def build(stream: DataStream) -> Any:
        return windows(stream, Counting(10)).reduce(add)

    with harness_of(build) as harness:
        harness.process([("a", 1)], [1])
        check(factories(build, None)[0], harness.snapshot())
    assert factories(lambda s: windows(s, TEN).reduce(add), None)[0].declared_states.is_complete


class Selector(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Remembering(Selector, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        self.seen = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def snapshot_state(self, context: Any) -> None:
        self.seen.update([1])


def test_a_key_selector_with_state_of_its_own_may_ask_for_it() -> None:
    assert states_with_functions([Selector()]).is_complete
    assert not states_with_functions([Remembering()]).is_complete


# --- timers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BACKENDS)
def test_a_snapshot_says_whether_it_has_timers(name: str) -> None:
    request = SnapshotRequest(SnapshotKind.FULL, CheckpointId(1))

    def has_timers(backend: KeyedStateBackend) -> bool | None:
        pending = backend.snapshot(request)
        assert isinstance(pending, PendingKeyedState)
        pending.discard()
        return pending.has_timers

    backend = whole_range(BACKENDS[name])
    assert has_timers(backend) is False
    timers = backend.get_timer_service("timers", ignore, ignore)
    backend.set_current_key("a")
    assert has_timers(backend) is False
    for register, delete in (
        (timers.register_event_time_timer, timers.delete_event_time_timer),
        (timers.register_processing_time_timer, timers.delete_processing_time_timer),
    ):
        register(5)
        assert has_timers(backend) is True
        delete(5)
        assert has_timers(backend) is False
    timers.register_event_time_timer(5)
    restored = whole_range(BACKENDS[name])
    restored.restore(canonical(backend))
    assert has_timers(restored) is True, "though nobody has asked for the service"
    restored.get_timer_service("timers", ignore, ignore).advance_watermark(5)
    assert has_timers(restored) is False
    dispose_of_all()
