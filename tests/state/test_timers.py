"""Timers: order, deduplication, deletion, callbacks that register, against a sorted list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.state.backend import KeyedStateBackend, Timer, TimerService
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.errors import StateError
from tests.state.backends import BACKENDS, BackendFactory, SettableClock, ignore, rescaled, whole_range

Fired = tuple[int, Any, Any]


@pytest.fixture(params=BACKENDS)
def factory(request: pytest.FixtureRequest) -> BackendFactory:
    return BACKENDS[request.param]


@pytest.fixture
def backend(factory: BackendFactory) -> KeyedStateBackend:
    return whole_range(factory)


def recording(fired: list[Fired]) -> Callable[[Timer], None]:
    return lambda timer: fired.append((timer.timestamp, timer.key, timer.namespace))


def test_timers_fire_by_timestamp_then_by_registration_with_their_key_current(backend: KeyedStateBackend) -> None:
    fired: list[Fired] = []
    state = backend.get_state(ValueStateDescriptor("s"))

    def on_event_time(timer: Timer) -> None:
        assert backend.current_key == timer.key
        assert state.value() == f"state of {timer.key}"
        fired.append((timer.timestamp, timer.key, timer.namespace))

    service = backend.get_timer_service("t", on_event_time, ignore)
    assert service.current_watermark == MIN_WATERMARK
    for key, timestamp, namespace in (("b", 20, None), ("a", 10, (0, 10)), ("c", 10, None), ("a", 30, None)):
        backend.set_current_key(key)
        state.update(f"state of {key}")
        service.register_event_time_timer(timestamp, namespace)
        service.register_event_time_timer(timestamp, namespace)
    service.advance_watermark(9)
    assert fired == []
    service.advance_watermark(20)
    assert fired == [(10, "a", (0, 10)), (10, "c", None), (20, "b", None)]
    assert service.current_watermark == 20
    service.advance_watermark(MAX_WATERMARK)
    assert fired[3:] == [(30, "a", None)]


def test_due_timers_that_a_callback_registers_fire_in_the_same_call(backend: KeyedStateBackend) -> None:
    fired: list[int] = []

    def on_event_time(timer: Timer) -> None:
        fired.append(timer.timestamp)
        service.register_event_time_timer(timer.timestamp + 10)
        service.delete_event_time_timer(25)

    service: TimerService = backend.get_timer_service("t", on_event_time, ignore)
    backend.set_current_key("a")
    service.register_event_time_timer(5)
    service.register_event_time_timer(25)
    service.advance_watermark(30)
    assert fired == [5, 15]  # 25 was deleted by both, after the one at 15 had registered it again
    service.advance_watermark(40)
    assert fired == [5, 15]


def test_a_timer_that_is_registered_anew_goes_to_the_end_of_its_timestamp(backend: KeyedStateBackend) -> None:
    fired: list[Fired] = []
    service = backend.get_timer_service("t", recording(fired), ignore)
    backend.set_current_key("a")
    for namespace in (1, 2):
        service.register_event_time_timer(5, namespace)
    service.delete_event_time_timer(5, 1)
    service.register_event_time_timer(5, 1)
    service.advance_watermark(5)
    assert fired == [(5, "a", 2), (5, "a", 1)]


def test_the_watermark_is_set_before_callbacks_run(backend: KeyedStateBackend) -> None:
    seen: list[int] = []
    service = backend.get_timer_service("t", lambda timer: seen.append(service.current_watermark), ignore)
    backend.set_current_key("a")
    service.register_event_time_timer(5)
    service.advance_watermark(7)
    assert seen == [7]


def test_the_two_time_domains_and_two_services_are_apart(backend: KeyedStateBackend) -> None:
    event: list[Fired] = []
    processing: list[Fired] = []
    service = backend.get_timer_service("t", recording(event), recording(processing))
    other = backend.get_timer_service("u", recording(event), recording(processing))
    backend.set_current_key("a")
    assert service.next_processing_time() is None
    service.register_event_time_timer(1)
    service.register_processing_time_timer(2)
    service.register_processing_time_timer(1)
    other.register_processing_time_timer(0)
    assert service.next_processing_time() == 1
    service.delete_processing_time_timer(1)
    assert service.next_processing_time() == 2
    service.advance_processing_time(2)
    assert (event, processing) == ([], [(2, "a", None)])
    assert service.next_processing_time() is None
    assert other.next_processing_time() == 0


def test_a_timer_service_is_given_out_once(backend: KeyedStateBackend) -> None:
    backend.get_timer_service("t", ignore, ignore)
    with pytest.raises(StateError, match="'t'"):
        backend.get_timer_service("t", ignore, ignore)


def test_a_timestamp_is_an_integer(backend: KeyedStateBackend) -> None:
    service = backend.get_timer_service("t", ignore, ignore)
    backend.set_current_key("a")
    with pytest.raises(TypeError):
        service.register_event_time_timer(1.5)  # type: ignore[arg-type]
    service.advance_watermark(MAX_WATERMARK)


def test_order_within_a_key_group_survives_a_snapshot(factory: BackendFactory) -> None:
    backend = whole_range(factory)
    service = backend.get_timer_service("t", ignore, ignore)
    backend.set_current_key("a")
    for namespace in (3, 1, 2):
        service.register_event_time_timer(5, namespace)
    service.register_event_time_timer(4, 9)
    restored = rescaled(factory, [backend], 1, SettableClock())[0]
    fired: list[Fired] = []
    restored.get_timer_service("t", recording(fired), ignore).advance_watermark(5)
    assert fired == [(4, "a", 9), (5, "a", 3), (5, "a", 1), (5, "a", 2)]


def test_overdue_processing_time_timers_are_still_there_after_a_restore(factory: BackendFactory) -> None:
    backend = whole_range(factory)
    backend.set_current_key("a")
    backend.get_timer_service("t", ignore, ignore).register_processing_time_timer(5, (1, 2))
    restored = rescaled(factory, [backend], 1, SettableClock())[0]
    fired: list[Fired] = []
    service = restored.get_timer_service("t", ignore, recording(fired))
    assert service.next_processing_time() == 5
    service.advance_processing_time(1_000_000)
    assert fired == [(5, "a", (1, 2))]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("+++-!"), st.sampled_from("ab"), st.integers(0, 4), st.sampled_from([None, (0, 1)])),
    max_size=60,
)


@pytest.mark.parametrize("name", BACKENDS)
@given(operations=OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_timers_against_a_sorted_list(name: str, operations: list[tuple[str, str, int, Any]]) -> None:
    backend = whole_range(BACKENDS[name])
    fired: list[Fired] = []
    service = backend.get_timer_service("t", recording(fired), ignore)
    model: list[tuple[int, int, str, Any]] = []
    expected: list[Fired] = []
    for number, (operation, key, timestamp, namespace) in enumerate(operations):
        backend.set_current_key(key)
        matching = [timer for timer in model if (timer[0], timer[2], timer[3]) == (timestamp, key, namespace)]
        if operation == "+":
            service.register_event_time_timer(timestamp, namespace)
            if not matching:
                model.append((timestamp, number, key, namespace))
        elif operation == "-":
            service.delete_event_time_timer(timestamp, namespace)
            model = [timer for timer in model if timer not in matching]
        else:
            service.advance_watermark(timestamp)
            due = sorted((timer for timer in model if timer[0] <= timestamp), key=lambda timer: timer[:2])
            expected += [(timer[0], timer[2], timer[3]) for timer in due]
            model = [timer for timer in model if timer[0] > timestamp]
        assert fired == expected


def test_deleted_timers_do_not_pile_up() -> None:
    backend = whole_range(BACKENDS["hashmap"])
    service = backend.get_timer_service("t", ignore, ignore)
    backend.set_current_key("a")
    for timestamp in range(10_000):
        service.register_event_time_timer(timestamp)
        service.delete_event_time_timer(timestamp - 1)
    assert len(service.event) < 2_000  # type: ignore[attr-defined]
