"""Asynchronous calls: order, capacity, time limits, retries, snapshots. Tests decide when a call ends, none waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark
from runtime.core.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from runtime.operators.async_functions import AsyncFunction, AsyncRetryStrategy, NoRetryStrategy
from runtime.operators.async_operator import STATE_NAME, AsyncWaitOperatorFactory
from runtime.operators.errors import UserFunctionError
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot, Redistribution
from runtime.testing.harness import OneInputHarness
from tests.support.waiting import wait_until

CALLS: dict[Any, Future[Any]] = {}
"""Calls under way, by value; shared with the operator, whose function is pickled by reference."""
ATTEMPTS: list[Any] = []
"""Values of all attempts, in order."""


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()
    ATTEMPTS.clear()


def call_of(value: Any) -> Future[Any]:
    """Return the event that the call for a value waits for; created by its first user."""
    return CALLS.setdefault(value, Future())


class Waiting(AsyncFunction[Any, Any]):
    """Gives what the test sets as the call's result."""

    async def async_invoke(self, value: Any) -> list[Any]:
        ATTEMPTS.append(value)
        result: list[Any] = await asyncio.wrap_future(call_of(value))
        return result


class Forgiving(Waiting):
    def timeout(self, value: Any) -> list[Any]:
        return [("too late", value)]


class Scripted(AsyncFunction[Any, Any]):
    """The value is a list of outcomes of its attempts: results or errors."""

    def open(self, runtime_context: Any) -> None:
        self.outcomes: dict[str, list[Any]] = {}

    async def async_invoke(self, value: tuple[str, list[Any]]) -> list[Any]:
        name, outcomes = value
        ATTEMPTS.append(name)
        outcome = self.outcomes.setdefault(name, list(outcomes)).pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        result: list[Any] = outcome
        return result


def ordered(function: AsyncFunction[Any, Any], **options: Any) -> AsyncWaitOperatorFactory:
    return AsyncWaitOperatorFactory(function, **{"timeout_ms": 1000, **options})


def finish(harness: OneInputHarness, *values: Any) -> None:
    """End the calls of these values, one after the other, each with its value as the only result."""
    for value in values:
        call_of(value).set_result([value])
        harness.mailbox.run_next()


def test_ordered_results_wait_for_those_before_them() -> None:
    with OneInputHarness(ordered(Waiting())) as harness:
        harness.process(["a", "b", "c"], [1, 2, 3], [Mark(2, 2)])
        harness.process_watermark_status(WatermarkStatus.IDLE)
        finish(harness, "c", "b")
        assert harness.output == []
        finish(harness, "a")
    assert harness.output == [("a", 1), ("b", 2), Watermark(2), ("c", 3), WatermarkStatus.IDLE]


def test_unordered_results_come_as_they_are_ready_but_pass_no_watermark() -> None:
    with OneInputHarness(ordered(Waiting(), is_ordered=False)) as harness:
        harness.process(["a", "b", "c", "d"], [1, 2, 3, 4], [Mark(2, 2)])
        finish(harness, "d", "b")
        assert harness.output == [("b", 2)]
        finish(harness, "a", "c")
    assert harness.output == [("b", 2), ("a", 1), Watermark(2), ("d", 4), ("c", 3)]


def test_a_watermark_with_nothing_before_it_goes_at_once() -> None:
    with OneInputHarness(ordered(Waiting())) as harness:
        harness.process_watermark(5)
        assert harness.watermarks == [5]


def test_any_number_of_results_is_coerced_to_the_output_type() -> None:
    with OneInputHarness(ordered(Scripted(), output_type=Types.FLOAT())) as harness:
        harness.process([("none", [[]]), ("two", [[0.1, 2]])], [1, 2])
        harness.end_input()
    assert harness.records == [(0.10000000149011612, 2), (2.0, 2)]


def test_no_more_calls_than_the_capacity_are_in_flight() -> None:
    with OneInputHarness(ordered(Waiting(), capacity=2)) as harness:
        operator = harness.operator
        assert operator.is_available()
        harness.process(["a"])
        assert operator.is_available()
        harness.process(["b", "c", "d"])
        assert not operator.is_available()
        finish(harness, "b")
        assert "c" not in ATTEMPTS
        finish(harness, "a")
        assert harness.values == ["a", "b"]
        assert not operator.is_available()
        finish(harness, "c")
        assert operator.is_available()
        finish(harness, "d")
        assert not operator.has_pending()
        assert not operator.awaits_mail()
    assert ATTEMPTS == ["a", "b", "c", "d"]


def test_the_end_of_input_waits_for_results() -> None:
    with OneInputHarness(ordered(Waiting())) as harness:
        harness.process(["a"], [1])
        harness.process_watermark(MAX_WATERMARK)
        assert harness.operator.has_pending()
        assert harness.operator.awaits_mail()
        call_of("a").set_result(["a"])
        harness.finish()
    assert harness.output == [("a", 1), Watermark(MAX_WATERMARK)]


def test_a_call_that_takes_too_long_is_cancelled_and_asked_for_another_result() -> None:
    with OneInputHarness(ordered(Forgiving(), timeout_ms=50)) as harness:
        harness.process(["a", "b"], [1, 2])
        finish(harness, "b")
        harness.advance_processing_time(49)
        assert harness.values == []
        harness.advance_processing_time(1)
        assert harness.values == [("too late", "a"), "b"]
        assert harness.processing_time.num_timers == 0
        # the outcome of the cancelled attempt changes nothing
        harness.mailbox.run_next()
        assert not harness.operator.awaits_mail()
    assert len(harness.values) == 2


def test_without_a_timeout_function_a_call_that_takes_too_long_fails_the_job() -> None:
    with OneInputHarness(ordered(Waiting(), timeout_ms=50)) as harness:
        harness.process(["a"])
        with pytest.raises(UserFunctionError, match="TimeoutError: Async function call has timed out for input: a"):
            harness.advance_processing_time(50)


def test_an_error_fails_the_job_and_names_the_record() -> None:
    with OneInputHarness(ordered(Scripted())) as harness:
        harness.process([("x", [ValueError("broken")])])
        with pytest.raises(UserFunctionError, match=r"on record \('x'.*ValueError: broken"):
            harness.mailbox.run_next()


@pytest.mark.parametrize("result", [None, 7, "text"])
def test_results_must_be_a_list(result: Any) -> None:
    with OneInputHarness(ordered(Scripted())) as harness:
        harness.process([("x", [result])])
        with pytest.raises(UserFunctionError, match=r"Scripted.async_invoke\(\) must return a list"):
            harness.mailbox.run_next()


RETRY: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(
    2, 10, lambda results: not results, lambda error: isinstance(error, KeyError)
)


def test_attempts_are_made_again_after_a_while() -> None:
    with OneInputHarness(ordered(Scripted(), retry_strategy=RETRY)) as harness:
        harness.process([("a", [[], KeyError(1), [3]]), ("b", [[1]])])
        harness.run_mails_until(lambda: not harness.operator.awaits_mail())
        assert harness.values == []
        assert harness.operator.has_pending()
        for _ in range(2):
            harness.advance_processing_time(10)
            harness.run_mails_until(lambda: not harness.operator.awaits_mail())
    assert harness.values == [3, 1]
    assert ATTEMPTS == ["a", "b", "a", "a"]


def test_the_last_attempt_counts() -> None:
    with OneInputHarness(ordered(Scripted(), retry_strategy=RETRY)) as harness:
        harness.process([("a", [[], [], []])])
        for _ in range(3):
            harness.run_mails_until(lambda: not harness.operator.awaits_mail())
            harness.advance_processing_time(10)
        assert not harness.operator.has_pending()
    assert (harness.values, len(ATTEMPTS)) == ([], 3)


def test_an_error_that_is_not_to_be_retried_fails_the_job() -> None:
    with OneInputHarness(ordered(Scripted(), retry_strategy=RETRY)) as harness:
        harness.process([("a", [KeyError(1), ValueError(2)])])
        harness.mailbox.run_next()
        harness.advance_processing_time(10)
        with pytest.raises(UserFunctionError, match="ValueError: 2"):
            harness.mailbox.run_next()


def test_the_time_limit_holds_for_all_attempts_together() -> None:
    strategy: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(100, 30, lambda results: True, None)
    with OneInputHarness(ordered(Scripted(), retry_strategy=strategy, timeout_ms=50)) as harness:
        harness.process([("a", [[]] * 5)])
        harness.mailbox.run_next()
        harness.advance_processing_time(30)
        harness.mailbox.run_next()
        with pytest.raises(UserFunctionError, match="timed out"):
            harness.advance_processing_time(30)
    assert ATTEMPTS == ["a", "a"]


def test_exponential_delays_grow_to_their_limit_and_are_the_same_for_every_call() -> None:
    strategy: AsyncRetryStrategy[Any] = AsyncRetryStrategy.exponential_backoff(5, 10, 60, 2.0, None, None)
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 5, 2)] == [10, 20, 40, 60, 60, 20]
    assert [strategy.can_retry(attempts) for attempts in (5, 6)] == [True, False]
    assert not AsyncRetryStrategy.no_restart().can_retry(1)


def test_records_without_results_are_saved_and_called_again() -> None:
    factory = ordered(Waiting(), capacity=2, input_type=Types.STRING())
    with OneInputHarness(factory) as harness:
        harness.process(["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5])
        finish(harness, "b", "a")
        assert harness.records == [("a", 1), ("b", 2)]
        finish(harness, "d")
        snapshot = harness.snapshot()
        state = snapshot.operator_states[STATE_NAME]
        assert (state.mode, len(state.items)) == (Redistribution.SPLIT, 3)
    CALLS.clear()
    with OneInputHarness(factory, snapshot=snapshot) as restored:
        assert not restored.operator.is_available()
        finish(restored, "c", "d", "e")
        assert restored.snapshot().operator_states[STATE_NAME].items == []
    assert restored.records == [("c", 3), ("d", 4), ("e", 5)]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_every_record_comes_out_once_through_rescaling(is_ordered: bool) -> None:
    """1 -> 2 -> 1, with calls in flight at each snapshot."""
    factory = ordered(Waiting(), is_ordered=is_ordered, capacity=3)
    values: list[Any] = []
    snapshots: list[OperatorSnapshot] = []
    for stage, parallelism in enumerate((1, 2, 1)):
        restored = redistribute(snapshots, parallelism, 128) if snapshots else [None] * parallelism
        snapshots = []
        for subtask in range(parallelism):
            with OneInputHarness(factory, None, parallelism, subtask, snapshot=restored[subtask]) as harness:
                new = [(stage, subtask, n) for n in range(5)]
                harness.process(new)
                finish(harness, harness.operator._queue.calls()[0].value)  # type: ignore[attr-defined]
                snapshots.append(harness.snapshot())
                if stage == 2:
                    for call in [*harness.operator._queue.calls(), *harness.operator._waiting]:  # type: ignore[attr-defined]
                        call_of(call.value).set_result([call.value])
                    harness.end_input()
            values.extend(harness.values)
            for value in [value for value, call in CALLS.items() if not call.done() or call.cancelled()]:
                del CALLS[value]
    expected = [
        (stage, subtask, n) for stage, count in ((0, 1), (1, 2), (2, 1)) for subtask in range(count) for n in range(5)
    ]
    assert sorted(values) == sorted(expected)


def test_what_cannot_work_is_refused() -> None:
    class Synchronous(AsyncFunction[Any, Any]):
        def async_invoke(self, value: Any) -> list[Any]:  # type: ignore[override]
            return []

    with pytest.raises(TypeError, match="needs an AsyncFunction"):
        ordered(len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be declared as `async def`"):
        ordered(Synchronous())
    with pytest.raises(TypeError, match="AsyncRetryStrategy"):
        ordered(Waiting(), retry_strategy=None)
    with pytest.raises(ValueError, match="retries need a timeout"):
        ordered(Waiting(), retry_strategy=RETRY, timeout_ms=0)
    with pytest.raises(ValueError, match="capacity"):
        ordered(Waiting(), capacity=0)
    with pytest.raises(ValueError, match="greater than zero"):
        AsyncRetryStrategy.fixed_delay(0, 1, None, None)
    assert ordered(Waiting(), retry_strategy=NoRetryStrategy(), timeout_ms=0).timeout_ms == 0


def test_closing_ends_calls_and_the_thread() -> None:
    before = set(threading.enumerate())
    with OneInputHarness(ordered(Waiting())) as harness:
        harness.process(["a"])
        wait_until(lambda: ATTEMPTS == ["a"], 10, "the call")
        assert set(threading.enumerate()) - before
    assert call_of("a").cancelled()
    assert set(threading.enumerate()) == before
    assert harness.processing_time.num_timers == 0
