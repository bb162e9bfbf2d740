"""Contract of every keyed state backend, by example."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.common.types import Row
from runtime.core.keys import KeyEncodingError
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.errors import (
    KeyGroupRangeError,
    NoCurrentKeyError,
    StateError,
    StateMigrationError,
    StateTypeError,
)
from runtime.state.key_groups import key_group_range
from runtime.state.snapshot import KeyedSnapshot
from runtime.state.ttl import StateTtlConfig
from tests.state.backends import (
    BACKENDS,
    MAX_PARALLELISM,
    AverageFunction,
    BackendFactory,
    SettableClock,
    canonical,
    ignore,
    rescaled,
    subtask_of,
    whole_range,
)


@pytest.fixture(params=BACKENDS)
def factory(request: pytest.FixtureRequest) -> BackendFactory:
    return BACKENDS[request.param]


@pytest.fixture
def backend(factory: BackendFactory) -> KeyedStateBackend:
    return whole_range(factory)


LOOKALIKES: list[Any] = [1, 1.0, True, "1", b"1", (1,), (1.0,), (True,), None, 0, False, 0.0, ("", 0), ("", 0.5), [1]]


def restored(factory: BackendFactory, backend: KeyedStateBackend) -> KeyedStateBackend:
    return rescaled(factory, [backend], 1, SettableClock())[0]


def test_keys_that_python_holds_equal_are_kept_apart(factory: BackendFactory, backend: KeyedStateBackend) -> None:
    descriptor = ValueStateDescriptor("v", Types.STRING())
    state = backend.get_state(descriptor)
    for key in LOOKALIKES:
        backend.set_current_key(key)
        assert state.value() is None
        state.update(repr(key))
    for _ in range(2):
        for key in LOOKALIKES:
            backend.set_current_key(key)
            assert state.value() == repr(key) == repr(backend.current_key)
        backend = restored(factory, backend)
        state = backend.get_state(descriptor)


def test_rows_nans_and_negative_zero_are_keys(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("v", Types.LONG()))
    for key, same in ((Row("a", 1), Row("a", 1)), (float("nan"), float("nan")), (0.0, -0.0), (2**80, 2**80)):
        backend.set_current_key(key)
        state.update(7)
        backend.set_current_key(same)
        assert state.value() == 7


def test_a_key_without_encoding_is_refused_and_the_current_key_stays(backend: KeyedStateBackend) -> None:
    backend.set_current_key("a")
    for key in ({"a": 1}, {1}, object(), ("a", {})):
        with pytest.raises(KeyEncodingError):
            backend.set_current_key(key)
    assert backend.current_key == "a"


def test_a_key_of_another_subtask_is_refused(factory: BackendFactory) -> None:
    backend = factory(key_group_range(MAX_PARALLELISM, 2, 0), MAX_PARALLELISM, SettableClock())
    foreign = next(key for key in range(100) if subtask_of(key, 2) == 1)
    with pytest.raises(KeyGroupRangeError, match=f"key {foreign} belongs to key group"):
        backend.set_current_key(foreign)
    assert list(backend.key_groups()) == list(range(8))


def test_a_key_group_range_beyond_max_parallelism_is_refused(factory: BackendFactory) -> None:
    with pytest.raises(KeyGroupRangeError):
        factory(key_group_range(32, 1, 0), 16, SettableClock())


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.get_state(ValueStateDescriptor("v")).value(),
        lambda b: b.get_state(ValueStateDescriptor("v")).update(1),
        lambda b: b.get_state(ListStateDescriptor("v")).add(1),
        lambda b: b.get_state(MapStateDescriptor("v")).put(1, 1),
        lambda b: b.get_timer_service("t", ignore, ignore).register_event_time_timer(1),
        lambda b: b.current_key,
    ],
)
def test_keyed_state_without_a_current_key_is_an_error(
    backend: KeyedStateBackend, use: Callable[[KeyedStateBackend], object]
) -> None:
    with pytest.raises(NoCurrentKeyError):
        use(backend)


def test_value_state(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("v", Types.LONG()))
    backend.set_current_key("a")
    assert state.value() is None
    state.update(0)
    assert state.value() == 0
    backend.set_current_key("b")
    assert state.value() is None
    backend.set_current_key("a")
    state.update(None)
    assert state.value() is None
    state.update(5)
    state.clear()
    assert state.value() is None


def test_list_state(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ListStateDescriptor("l", Types.STRING()))
    backend.set_current_key("a")
    assert list(state.get()) == list(state) == []
    state.add("x")
    state.add_all(["y", "z"])
    assert list(state.get()) == ["x", "y", "z"]
    for item in state.get():  # adding while iterating must neither fail nor go on for ever
        state.add(item)
    assert list(state) == ["x", "y", "z"] * 2
    mine = ["p"]
    state.update(mine)
    mine.append("q")
    assert list(state.get()) == ["p"]
    state.update([])
    state.add_all([])
    assert list(state.get()) == []
    assert list(backend.keys("l")) == []


def test_map_state(backend: KeyedStateBackend) -> None:
    state = backend.get_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    backend.set_current_key("a")
    assert state.is_empty()
    assert state.get("x") is None
    assert not state.contains("x")
    state.remove("x")
    state.put("x", 1)
    state["y"] = 2
    state.put_all({"z": 3})
    state.put_all({})
    assert dict(state.items()) == {"x": 1, "y": 2, "z": 3}
    assert sorted(state.keys()) == sorted(state) == ["x", "y", "z"]
    assert sorted(state.values()) == [1, 2, 3]
    assert "x" in state
    assert state["y"] == 2
    for key in state.keys():  # noqa: SIM118 (state is no dict: removing while iterating is allowed)
        del state[key]
    assert state.is_empty()
    assert list(backend.keys("m")) == []
    state.put_all({"x": 1, "y": 2}.items())
    state.put_all([("x", 3)])
    assert dict(state.items()) == {"x": 3, "y": 2}


def test_values_take_the_declared_form_when_they_are_given(backend: KeyedStateBackend) -> None:
    backend.set_current_key("a")
    pair = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    value = backend.get_state(ValueStateDescriptor("v", pair))
    value.update(["x", 1])
    assert value.value() == ("x", 1.0)
    assert isinstance(value.value()[1], float)
    items = backend.get_state(ListStateDescriptor("l", Types.INT()))
    items.add(1.0)
    items.add_all([True, None])
    assert list(map(repr, items.get())) == ["1", "1", "None"]
    items.update((2.0,))
    assert list(map(repr, items.get())) == ["2"]
    mapping = backend.get_state(MapStateDescriptor("m", Types.INT(), Types.BIG_DEC()))
    mapping.put(1.0, 5)
    mapping.put_all({2.0: 0.1})
    assert list(map(repr, mapping.items())) == ["(1, Decimal('5'))", "(2, Decimal('0.1'))"]
    assert mapping.get(1.0) == 5
    assert mapping.contains(2.0)
    mapping.remove(2.0)
    assert list(mapping.keys()) == [1]
    total = backend.get_state(ReducingStateDescriptor("r", lambda a, b: (a + b) / 1, Types.LONG()))
    total.add(1.0)
    total.add(2)
    assert repr(total.get()) == "3"
    mean = backend.get_state(
        AggregatingStateDescriptor("a", AverageFunction(), Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
    )
    mean.add(3)
    assert mean.get() == 3.0


INT_MAP = MapStateDescriptor("s", Types.STRING(), Types.INT())


@pytest.mark.parametrize(
    ("descriptor", "change", "error"),
    [
        (ValueStateDescriptor("s", Types.INT()), lambda state: state.update(2**31), OverflowError),
        (ValueStateDescriptor("s", Types.STRING()), lambda state: state.update(1), TypeError),
        (ListStateDescriptor("s", Types.BYTE()), lambda state: state.add(128), OverflowError),
        (ListStateDescriptor("s", Types.BYTE()), lambda state: state.add_all([1, "x"]), TypeError),
        (ListStateDescriptor("s", Types.BYTE()), lambda state: state.update([1, 1.5]), TypeError),
        (INT_MAP, lambda state: state.put("a", 2**31), OverflowError),
        (INT_MAP, lambda state: state.put(1, 1), TypeError),
        (INT_MAP, lambda state: state.put_all({"a": "b"}), TypeError),
        (INT_MAP, lambda state: state.get(1), TypeError),
        (ReducingStateDescriptor("s", lambda a, b: a + b, Types.BYTE()), lambda state: state.add(128), OverflowError),
        (
            ReducingStateDescriptor("s", lambda a, b: a + b, Types.BYTE()),
            lambda state: [state.add(100), state.add(100)],
            OverflowError,
        ),
        (AggregatingStateDescriptor("s", AverageFunction(), Types.LONG()), lambda state: state.add(1), TypeError),
    ],
    ids=[
        "update int",
        "update string",
        "add",
        "add_all",
        "update list",
        "put",
        "put key",
        "put_all",
        "get",
        "add to reduced",
        "reduce",
        "aggregate",
    ],
)
@pytest.mark.parametrize("namespaced", [False, True])
@pytest.mark.parametrize("ttl", [None, Time.hours(1)])
def test_what_does_not_fit_the_declared_type_is_refused_at_once(
    backend: KeyedStateBackend,
    descriptor: StateDescriptor,
    change: Callable[[Any], Any],
    error: type[Exception],
    namespaced: bool,
    ttl: Time | None,
) -> None:
    descriptor = copy.deepcopy(descriptor)
    if ttl is not None:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(ttl).build())
    state = backend.get_namespaced_state(descriptor) if namespaced else backend.get_state(descriptor)
    if namespaced:
        state.set_current_namespace((0, 10))
    backend.set_current_key("a")
    with pytest.raises(error, match=r"state 's', which is declared as .* does not fit"):
        change(state)
    backend.snapshot()


def test_state_of_fitted_values_takes_them_as_they_are(backend: KeyedStateBackend) -> None:
    backend.set_current_key("a")
    state = backend.get_state(ValueStateDescriptor("v", Types.LONG()), fitted=True)
    state.update(1.0)
    assert repr(state.value()) == "1.0"
    state.clear()


def test_a_map_does_not_contain_a_key_whose_value_is_none(backend: KeyedStateBackend) -> None:
    state = backend.get_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    backend.set_current_key("a")
    state.put("x", None)
    assert not state.contains("x")
    assert "x" not in state
    assert state.get("x") is None
    assert list(state.items()) == [("x", None)]
    assert not state.is_empty()


def test_map_state_takes_keys_that_cannot_be_hashed(factory: BackendFactory, backend: KeyedStateBackend) -> None:
    descriptor = MapStateDescriptor("m")
    state = backend.get_state(descriptor)
    backend.set_current_key("a")
    for _ in range(2):
        state.put([1, 2], "list")
        state.put([1, 2], "again")
        state.put("plain", 1)
        assert state.get([1, 2]) == "again"
        assert state.contains([1, 2])
        assert state.get([3]) is None
        assert sorted(map(repr, state.keys())) == ["'plain'", "[1, 2]"]
        backend = restored(factory, backend)
        state = backend.get_state(descriptor)
        backend.set_current_key("a")
        assert state.get([1, 2]) == "again"
    state.remove([1, 2])
    assert state.keys() == ["plain"]


def test_reducing_and_aggregating_state(backend: KeyedStateBackend) -> None:
    total = backend.get_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
    mean = backend.get_state(AggregatingStateDescriptor("mean", AverageFunction()))
    for key in ("a", "b"):
        backend.set_current_key(key)
        assert total.get() is None
        assert mean.get() is None
        for value in (1, 2, 6):
            total.add(value)
            mean.add(value)
        assert total.get() == 9
        assert mean.get() == 3.0
    total.add(None)
    mean.clear()
    assert total.get() is None
    assert mean.get() is None


def test_namespaces_are_apart_and_leave_nothing_behind(backend: KeyedStateBackend) -> None:
    state = backend.get_namespaced_state(ReducingStateDescriptor("s", max, Types.LONG()))
    backend.set_current_key("a")
    for start in (0, 10):
        state.set_current_namespace((start, start + 10))
        state.add(start)
    state.set_current_namespace((0, 10))
    assert state.get() == 0
    state.clear()
    state.clear()
    assert state.get() is None
    assert list(backend.keys("s")) == ["a"]
    state.set_current_namespace((10, 20))
    assert state.get() == 10
    state.clear()
    assert list(backend.keys("s")) == []


def test_namespaces_are_merged(backend: KeyedStateBackend) -> None:
    items = backend.get_namespaced_state(ListStateDescriptor("l", Types.LONG()))
    mean = backend.get_namespaced_state(AggregatingStateDescriptor("m", AverageFunction()))
    total = backend.get_namespaced_state(ReducingStateDescriptor("r", lambda a, b: a + b))
    states = (items, mean, total)
    backend.set_current_key("a")
    for namespace in (1, 2, 3):
        for state in states:
            state.set_current_namespace(namespace)
            state.add(namespace)
    for state in states:
        state.merge_namespaces(2, [1, 2, 4, 3])
        assert not state.get()  # still at namespace 3, which was merged away
        state.set_current_namespace(2)
    assert sorted(items.get()) == [1, 2, 3]
    assert mean.get() == 2.0
    assert total.get() == 6
    for state in states:
        state.merge_namespaces(9, [7, 8])
        state.set_current_namespace(9)
        assert not state.get()


def test_a_state_is_made_once_and_its_name_stands_for_one_kind(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()))
    assert backend.get_state(ValueStateDescriptor("s", Types.LONG())) is state
    others: list[StateDescriptor] = [ListStateDescriptor("s", Types.LONG()), ValueStateDescriptor("s", Types.STRING())]
    for other in others:
        with pytest.raises(StateTypeError, match="'s'"):
            backend.get_state(other)
    with pytest.raises(StateTypeError):
        backend.get_namespaced_state(ValueStateDescriptor("s", Types.LONG()))
    with pytest.raises(TypeError):
        backend.get_state(StateDescriptor("t", None))


def test_a_state_that_is_asked_for_late_is_empty_for_keys_seen_before(backend: KeyedStateBackend) -> None:
    first = backend.get_state(ValueStateDescriptor("first"))
    backend.set_current_key("a")
    first.update(1)
    second = backend.get_state(ValueStateDescriptor("second"))
    assert second.value() is None
    second.update(2)
    assert (first.value(), second.value()) == (1, 2)


def test_state_cannot_be_read_as_something_else_than_was_saved(factory: BackendFactory) -> None:
    backend = whole_range(factory)
    backend.set_current_key("a")
    backend.get_state(ValueStateDescriptor("s", Types.LONG())).update(1)
    backend = restored(factory, backend)
    with pytest.raises(StateMigrationError, match="'s' was saved as value state of"):
        backend.get_state(ValueStateDescriptor("s", Types.STRING()))
    with pytest.raises(StateMigrationError):
        backend.get_namespaced_state(ValueStateDescriptor("s", Types.LONG()))


def test_state_and_timers_that_nobody_asks_for_go_on_into_the_next_snapshot(factory: BackendFactory) -> None:
    backend = whole_range(factory)
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()))
    timers = backend.get_timer_service("t", ignore, ignore)
    for key in range(20):
        backend.set_current_key(key)
        state.update(key)
        timers.register_event_time_timer(key)
        timers.register_processing_time_timer(key)
    before = backend.snapshot()
    clock = SettableClock()
    untouched = rescaled(factory, rescaled(factory, [backend], 3, clock), 1, clock)[0]
    assert untouched.snapshot() == before
    assert sorted(untouched.keys("s")) == list(range(20))
    state = untouched.get_state(ValueStateDescriptor("s", Types.LONG()))
    untouched.set_current_key(7)
    assert state.value() == 7


def test_only_own_key_groups_are_restored(factory: BackendFactory) -> None:
    backend = whole_range(factory)
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()))
    for key in range(50):
        backend.set_current_key(key)
        state.update(key)
    half = factory(key_group_range(MAX_PARALLELISM, 2, 1), MAX_PARALLELISM, SettableClock())
    half.restore(canonical(backend))
    half.get_state(ValueStateDescriptor("s", Types.LONG()))
    assert sorted(half.keys("s")) == [key for key in range(50) if subtask_of(key, 2) == 1]


def test_restore_refuses_another_max_parallelism_and_coming_late(backend: KeyedStateBackend) -> None:
    with pytest.raises(KeyGroupRangeError, match="max parallelism 32"):
        backend.restore(KeyedSnapshot(32))
    backend.get_state(ValueStateDescriptor("s"))
    with pytest.raises(StateError):
        backend.restore(KeyedSnapshot(MAX_PARALLELISM))


def test_a_snapshot_does_not_change_with_the_state_and_names_what_cannot_be_saved(backend: KeyedStateBackend) -> None:
    # a state that is not fitted would refuse it at once
    state = backend.get_state(ListStateDescriptor("s", Types.LONG()), fitted=True)
    backend.set_current_key("a")
    state.add(1)
    first = backend.snapshot()
    state.add(2)
    assert backend.snapshot() != first
    state.add("no number")
    with pytest.raises(StateError, match="'s' of key 'a' cannot be saved"):
        backend.snapshot()


def test_state_written_after_a_snapshot_is_not_lost(backend: KeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("s"))
    backend.set_current_key("a")
    backend.snapshot()  # "a" has nothing yet and may be forgotten, but it is still the current key
    state.update(1)
    backend.set_current_key("b")
    backend.set_current_key("a")
    assert state.value() == 1


def test_dispose_can_be_called_twice(backend: KeyedStateBackend) -> None:
    backend.get_state(ValueStateDescriptor("s"))
    backend.dispose()
    backend.dispose()
    assert list(backend.keys("s")) == []
