"""Application mode: execute, execute_async, execute_and_collect and JobClient, on a MiniCluster with the real clock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common import JobStatus, Types
from runtime.connectors import BlackHoleSink
from runtime.datastream import MapFunction, RuntimeContext
from runtime.execution.application import submit
from runtime.execution.errors import JobCanceledError, JobExecutionError, UnknownTargetError
from runtime.jobmaster.job_state import JobState
from runtime.testing.clock import ManualClock
from tests.datastream.running import at_each_parallelism, environment
from tests.execution.jobs import HOOKS, Hooked, endless_job, hooked_tick, numbers, ticks
from tests.job_runs import record_run

WAIT_S = 10.0


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    yield
    HOOKS.clear()


@pytest.fixture(autouse=True)
def counted() -> None:
    record_run("mini-cluster")


# --- execute ----------------------------------------------------------------------------------------------------------


def test_execute_waits_for_the_end_and_reports_the_job() -> None:
    env = environment(2)
    numbers(env, 100).sink_to(BlackHoleSink())
    result = env.execute("counting")
    assert len(str(result.get_job_id())) == 32
    assert result.get_net_runtime() >= 0
    assert result.get_all_accumulator_results() == {}


def test_execute_runs_in_the_calling_thread_so_that_a_debugger_sees_it() -> None:
    threads: set[str] = set()
    HOOKS["tick"] = lambda _: threads.add(threading.current_thread().name)
    env = environment(2)
    numbers(env, 10).rebalance().map(hooked_tick).sink_to(BlackHoleSink())
    env.execute()
    assert threads == {threading.current_thread().name}


def test_what_has_been_executed_does_not_run_again() -> None:
    counts = {"first": 0}
    HOOKS["tick"] = lambda _: counts.update(first=counts["first"] + 1)
    env = environment()
    stream = numbers(env, 3).map(hooked_tick, Types.LONG())
    stream.sink_to(BlackHoleSink())
    env.execute()
    numbers(env, 5).sink_to(BlackHoleSink())
    env.execute()
    assert counts == {"first": 3}
    stream.sink_to(BlackHoleSink())  # builds on what has run: that runs again
    env.execute()
    assert counts == {"first": 6}


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_cancels_the_job_and_waits_for_its_tasks_to_close() -> None:
    closed: list[str] = []
    HOOKS["closed"] = closed.append
    HOOKS["tick"] = lambda value: signal.raise_signal(signal.SIGINT) if value == 3 else None
    env = environment()
    ticks(env, per_second=1000).map(hooked_tick).map(TellsClose()).sink_to(BlackHoleSink())
    with pytest.raises(KeyboardInterrupt):
        env.execute()
    assert closed == ["closed"]


class TellsClose(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        HOOKS["closed"]("closed")


def test_an_unknown_target_is_refused() -> None:
    env = environment(1, {"execution.target": "mini-cluster"})
    numbers(env, 1).sink_to(BlackHoleSink())
    graph = env.create_job_graph(None)
    graph.configuration["execution.target"] = "yarn"  # type: ignore[index]
    with pytest.raises(Exception, match=r"execution\.target") as caught:
        submit(graph)
    assert isinstance(caught.value, (UnknownTargetError, ValueError))


# --- JobClient --------------------------------------------------------------------------------------------------------


def test_a_job_in_the_background_can_be_watched_and_cancelled() -> None:
    opened = threading.Event()
    HOOKS["map"] = lambda _: opened.set()
    client = endless_job(2).execute_async("endless")
    assert opened.wait(WAIT_S)
    assert client.get_job_status().result() is JobStatus.RUNNING
    status = client.get_status()
    assert status.name == "endless"
    assert len(status.tasks) == 4
    assert str(client.get_job_id()) == status.job_id
    assert client.get_accumulators().result() == {}
    assert client.cancel().result() is None
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCanceledError, match="'endless' was cancelled"):
        client.get_job_execution_result().result()
    assert client.cancel().result() is None


def test_the_result_of_a_job_in_the_background_comes_when_it_has_finished() -> None:
    env = environment()
    numbers(env, 10).sink_to(BlackHoleSink())
    client = env.execute_async()
    result = client.get_job_execution_result().result()
    assert result.get_job_id() == client.get_job_id()
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_waiting_for_a_job_can_time_out() -> None:
    client = endless_job().execute_async()
    with pytest.raises(TimeoutError):
        client.handle.wait(timeout_s=0.01)
    client.cancel().result()


def test_two_jobs_run_one_after_the_other_and_at_once() -> None:
    both = threading.Barrier(2, timeout=WAIT_S)
    HOOKS["map"] = lambda value: both.wait() if value == 0 else value
    clients = []
    for _ in range(2):
        env = environment()
        ticks(env, per_second=10_000, count=5).map(Hooked()).sink_to(BlackHoleSink())
        clients.append(env.execute_async())
    for client in clients:
        client.get_job_execution_result().result()
    assert clients[0].get_job_id() != clients[1].get_job_id()
    HOOKS.clear()
    for _ in range(2):
        assert environment().from_collection([1, 2]).execute_and_collect(limit=5) == [1, 2]


# --- execute_and_collect ----------------------------------------------------------------------------------------------


@at_each_parallelism
def test_collected_records_come_one_after_the_other(parallelism: int) -> None:
    with numbers(environment(parallelism), 10_000).execute_and_collect("collecting") as records:
        assert iter(records) is records
        first = records.next()
        assert sorted([first, *records]) == list(range(1, 10_001))
        with pytest.raises(StopIteration):
            records.next()


def test_records_of_any_type_can_be_collected() -> None:
    values = [None, 1, "text", (1, {"a": [2]}), {3}, 2.5, b"bytes", JobStatus.RUNNING]
    collected = environment().from_collection(values).execute_and_collect()
    with collected as records:
        assert list(records) == values


def test_closing_the_iterator_stops_an_endless_job() -> None:
    records = ticks(environment(2), per_second=1000).execute_and_collect()
    assert next(records) is not None
    records.close()
    records.close()
    assert list(records) == []
    assert records._client.get_job_status().result() is JobStatus.CANCELED


def test_a_limit_takes_so_many_records_and_stops_the_job() -> None:
    assert ticks(environment(), per_second=1000).execute_and_collect(limit=5) == [0, 1, 2, 3, 4]
    assert numbers(environment(), 3).execute_and_collect(limit=5) == [1, 2, 3]
    assert numbers(environment(), 3).execute_and_collect(limit=0) == []


def test_a_limit_does_not_wait_for_one_record_more() -> None:
    # an endless job that delivers no fourth record
    first = ticks(environment(), per_second=1000).filter(lambda tick: tick < 3)
    assert first.execute_and_collect(limit=3) == [0, 1, 2]


def test_a_job_does_not_run_ahead_of_a_slow_consumer() -> None:
    emitted: list[int] = []
    HOOKS["tick"] = emitted.append
    blocks = numbers(environment(), 2_000).map(hooked_tick).map(lambda value: b"x" * 10_000)
    with blocks.execute_and_collect() as records:
        next(records)
        taken = 1
        while len(emitted) < 2_000 and taken < 2_000:
            # never more than the window, a batch over it, and what was taken
            assert len(emitted) * 10_000 <= taken * 10_000 + (1 << 20) + 20_000_000
            next(records)
            taken += 1
        assert len(list(records)) == 2_000 - taken


def test_a_failing_job_gives_its_records_and_then_raises() -> None:
    HOOKS["tick"] = lambda value: 1 // (value - 3)
    env = environment(1, {"execution.buffer-timeout.interval": "0 ms"})
    stream = ticks(env, per_second=100).map(hooked_tick)
    collected: list[Any] = []
    with pytest.raises(JobExecutionError, match="on record 3: Zero"), stream.execute_and_collect() as records:
        collected.extend(records)
    assert collected == [0, 1, 2]


# --- submit -----------------------------------------------------------------------------------------------------------


def test_a_job_may_be_given_a_clock_of_its_own() -> None:
    env = environment()
    ticks(env, per_second=0.1, count=10).sink_to(BlackHoleSink())
    clock = ManualClock()
    handle = submit(env.create_job_graph("slow"), wait_in_caller=True, clock=clock)
    assert handle.wait().state is JobState.FINISHED
    assert clock.monotonic_ms() >= 90_000
    assert handle.wait() == handle.status()


class FailingOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise OSError("no model file")

    def map(self, value: Any) -> Any:
        return value


def test_the_details_of_a_failure_hold_the_traceback() -> None:
    env = environment()
    numbers(env, 1).map(FailingOpen()).name("model").sink_to(BlackHoleSink())
    with pytest.raises(JobExecutionError) as caught:
        env.execute("failing")
    assert str(caught.value).startswith("job 'failing' failed: operator 'model'")
    assert "in open(): OSError: no model file" in str(caught.value)
    assert "Traceback" in caught.value.details
