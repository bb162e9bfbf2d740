"""Every keyed state backend against plain dicts: random keys, operations, snapshots and rescaling (Hypothesis)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.common.typeinfo import Types
from runtime.core.keys import decode_key, encode_key
from runtime.state.backend import KeyedStateBackend, Timer, TimerService
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tests.state.backends import (
    BACKENDS,
    AverageFunction,
    BackendFactory,
    SettableClock,
    rescaled,
    subtask_of,
    subtasks,
)

PLAIN: list[StateDescriptor] = [
    ValueStateDescriptor("value", Types.STRING()),
    ListStateDescriptor("list", Types.LONG()),
    MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
    AggregatingStateDescriptor("aggregating", AverageFunction()),
]
NAMESPACED: list[StateDescriptor] = [
    ValueStateDescriptor("ns value"),
    ListStateDescriptor("ns list", Types.LONG()),
    ReducingStateDescriptor("ns reducing", lambda a, b: a + b, Types.LONG()),
]

# few distinct keys, so that operations meet; among them keys that Python's dicts would merge
KEYS = st.sampled_from(
    [0, 1, 1.0, True, False, 0.0, "1", "", b"1", (1,), (1.0,), (True, "x"), None, 2**70, float("inf"), "a", "b", 17]
)
NAMESPACES = st.sampled_from([(0, 10), (10, 20), (5, 15), 3, "w"])
NUMBERS = st.integers(-5, 5)


class BackendMachine(RuleBasedStateMachine):
    """Operations on the backends of all subtasks, done on dicts as well."""

    factory: BackendFactory

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableClock()
        #: state name → (encoded key, namespace) → what the state's `get` or `value` must give
        self.model: dict[str, dict[tuple[bytes, Any], Any]] = defaultdict(dict)
        self.timers: set[tuple[int, bytes, Any]] = set()
        self.fired: list[tuple[int, Any, Any]] = []
        self.backends: list[KeyedStateBackend] = []
        self.watermark = -1

    @initialize(parallelism=st.integers(1, 3))
    def start(self, parallelism: int) -> None:
        self.backends = subtasks(self.factory, parallelism, self.clock)
        self.open()

    def open(self) -> None:
        self.states: list[dict[str, Any]] = []
        self.services: list[TimerService] = []
        for backend in self.backends:
            states = {d.name: backend.get_state(d) for d in PLAIN}
            states.update({d.name: backend.get_namespaced_state(d) for d in NAMESPACED})
            self.states.append(states)
            self.services.append(backend.get_timer_service("timers", self.on_timer(backend), self.on_timer(backend)))

    def on_timer(self, backend: KeyedStateBackend) -> Any:
        def fire(timer: Timer) -> None:
            assert encode_key(backend.current_key) == encode_key(timer.key)
            self.fired.append((timer.timestamp, encode_key(timer.key), timer.namespace))

        return fire

    def at(self, key: Any, name: str, namespace: Any = None) -> Any:
        """The state object, scoped to key and namespace."""
        index = subtask_of(key, len(self.backends))
        self.backends[index].set_current_key(key)
        state = self.states[index][name]
        if name.startswith("ns "):
            state.set_current_namespace(namespace)
        return state

    @rule(key=KEYS, value=st.none() | st.text(max_size=3))
    def update_value(self, key: Any, value: str | None) -> None:
        self.at(key, "value").update(value)
        self.model["value"][encode_key(key), None] = value

    @rule(key=KEYS, values=st.lists(NUMBERS, max_size=3), replace=st.booleans())
    def change_list(self, key: Any, values: list[int], replace: bool) -> None:
        state, where = self.at(key, "list"), (encode_key(key), None)
        if replace:
            state.update(values)
            self.model["list"][where] = values
        else:
            state.add_all(values)
            self.model["list"][where] = self.model["list"].get(where, []) + values

    @rule(key=KEYS, map_key=st.sampled_from("xyz"), value=st.none() | NUMBERS)
    def change_map(self, key: Any, map_key: str, value: int | None) -> None:
        state = self.at(key, "map")
        mapping = self.model["map"].setdefault((encode_key(key), None), {})
        if value is None:
            state.remove(map_key)
            mapping.pop(map_key, None)
        else:
            state.put(map_key, value)
            mapping[map_key] = value

    @rule(key=KEYS, value=NUMBERS)
    def add(self, key: Any, value: int) -> None:
        for name in ("reducing", "aggregating"):
            self.at(key, name).add(value)
            self.model[name].setdefault((encode_key(key), None), []).append(value)

    @rule(key=KEYS, namespace=NAMESPACES, value=NUMBERS)
    def add_namespaced(self, key: Any, namespace: Any, value: int) -> None:
        where = encode_key(key), namespace
        self.at(key, "ns value", namespace).update(value)
        self.model["ns value"][where] = value
        for name in ("ns list", "ns reducing"):
            self.at(key, name, namespace).add(value)
            self.model[name].setdefault(where, []).append(value)

    @rule(key=KEYS, into=NAMESPACES, source=NAMESPACES)
    def merge(self, key: Any, into: Any, source: Any) -> None:
        if into == source:
            return
        for name in ("ns list", "ns reducing"):
            self.at(key, name).merge_namespaces(into, [source])
            moved = self.model[name].pop((encode_key(key), source), [])
            self.model[name].setdefault((encode_key(key), into), []).extend(moved)

    @rule(key=KEYS, namespace=NAMESPACES, descriptor=st.sampled_from(PLAIN + NAMESPACED))
    def clear(self, key: Any, namespace: Any, descriptor: StateDescriptor) -> None:
        self.at(key, descriptor.name, namespace).clear()
        self.model[descriptor.name].pop(
            (encode_key(key), namespace if descriptor.name.startswith("ns ") else None), None
        )

    @rule(key=KEYS, namespace=st.none() | NAMESPACES, timestamp=st.integers(0, 20), register=st.booleans())
    def change_timer(self, key: Any, namespace: Any, timestamp: int, register: bool) -> None:
        index = subtask_of(key, len(self.backends))
        self.backends[index].set_current_key(key)
        if register:
            self.services[index].register_event_time_timer(timestamp, namespace)
            self.timers.add((timestamp, encode_key(key), namespace))
        else:
            self.services[index].delete_event_time_timer(timestamp, namespace)
            self.timers.discard((timestamp, encode_key(key), namespace))

    @rule(step=st.integers(0, 5))
    def advance_watermark(self, step: int) -> None:
        self.watermark += step
        for service in self.services:
            self.fired.clear()
            service.advance_watermark(self.watermark)
            assert [timer[0] for timer in self.fired] == sorted(timer[0] for timer in self.fired)
            due = set(self.fired)
            assert len(due) == len(self.fired)
            assert due <= self.timers
            self.timers -= due
        assert all(timer[0] > self.watermark for timer in self.timers)

    @rule(parallelism=st.integers(1, 3))
    def rescale(self, parallelism: int) -> None:
        self.backends = rescaled(self.factory, self.backends, parallelism, self.clock)
        self.open()

    @rule()
    def snapshot_and_go_on(self) -> None:
        for backend in self.backends:
            backend.snapshot()

    @invariant()
    def state_is_as_in_the_model(self) -> None:
        for name, expected in self.model.items():
            for (encoded, namespace), value in expected.items():
                state = self.at(decode_key(encoded), name, namespace)
                if name in ("value", "ns value"):
                    assert state.value() == value
                elif name == "map":
                    assert dict(state.items()) == value
                    assert state.is_empty() == (not value)
                elif name in ("list", "ns list"):
                    assert state.get() == value
                elif name == "aggregating":
                    assert state.get() == (sum(value) / len(value) if value else None)
                else:
                    assert state.get() == (sum(value) if value else None)
            present = {key for (key, _), value in expected.items() if value is not None and value != []}
            if name == "map":
                present = {key for (key, _), value in expected.items() if value}
            kept = [encode_key(key) for backend in self.backends for key in backend.keys(name)]
            assert len(kept) == len(set(kept))
            assert set(kept) == present

    def teardown(self) -> None:
        for backend in self.backends:
            backend.dispose()


def _test_case(name: str, examples: int) -> Any:
    machine = type(f"{name}Machine", (BackendMachine,), {"factory": staticmethod(BACKENDS[name])})
    test_case = machine.TestCase  # type: ignore[attr-defined]
    test_case.settings = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    return test_case


TestHashMapBackendAgainstDicts = _test_case("hashmap", 40)
TestRocksDBBackendAgainstDicts = _test_case("rocksdb", 5)
