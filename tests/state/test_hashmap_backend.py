"""What only the hashmap backend has to do: not grow with keys that hold nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core.clock import SYSTEM_CLOCK
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.errors import StateError
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from tests.state.backends import ignore


@pytest.fixture
def backend() -> HashMapKeyedStateBackend:
    return HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)


def visit(backend: HashMapKeyedStateBackend, state: Any, keys: list[Any]) -> None:
    for key in keys:
        backend.set_current_key(key)
        state.update(1)
        state.clear()


@pytest.mark.parametrize("make_key", [int, str, float, lambda n: (n, "x"), lambda n: (float(n),), lambda n: (0,) * n])
def test_keys_whose_state_was_cleared_are_forgotten(backend: HashMapKeyedStateBackend, make_key: Any) -> None:
    count = 300 if len(str(make_key(100))) > 100 else 20_000
    visit(backend, backend.get_state(ValueStateDescriptor("s")), [make_key(n) for n in range(count)])
    assert backend.num_entries < 10_000
    backend.snapshot()
    assert backend.num_entries <= 1  # the current key


def test_keys_with_state_or_timers_are_kept(backend: HashMapKeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("s"))
    fired: list[Any] = []
    timers = backend.get_timer_service("t", lambda timer: fired.append(timer.key), ignore)
    for n in range(1000):
        backend.set_current_key(n)
        if n % 2:
            state.update(n)
        else:
            timers.register_event_time_timer(n)
    visit(backend, state, [f"passing {n}" for n in range(20_000)])
    assert 1000 <= backend.num_entries < 10_000
    assert sorted(backend.keys("s")) == list(range(1, 1000, 2))
    for n in range(0, 1000, 2):
        backend.set_current_key(n)
        timers.register_event_time_timer(n)  # known already, unless the key was forgotten
    timers.advance_watermark(1000)
    assert fired == list(range(0, 1000, 2))


def test_the_number_of_entries_is_right(backend: HashMapKeyedStateBackend) -> None:
    visit(backend, backend.get_state(ValueStateDescriptor("s")), [1, 1.0, True, "1", (1,), (1.0,), (True,)] * 2)
    assert backend.num_entries == len(backend.entries()) == 7


def test_a_failed_key_is_not_remembered() -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 0), 128)
    refused = 0
    for key in range(200):
        try:
            backend.set_current_key(key)
        except StateError:
            refused += 1
    assert backend.num_entries == len(backend.entries()) == 200 - refused
    assert refused > 150
