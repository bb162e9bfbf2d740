"""MiniCluster with a clock that moves by itself: whole jobs, restarts, cancellation, and what sinks make visible."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Time, Types
from runtime.connectors import BlackHoleSink
from runtime.datastream import KeyedProcessFunction, ProcessWindowFunction
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.window import ProcessingTimeSessionWindows, TimeWindow
from runtime.jobmaster.job_state import JobState
from runtime.task.messages import TaskState
from runtime.testing.clock import ManualClock
from tests.datastream.running import at_each_parallelism, environment
from tests.execution.jobs import HOOKS, Hooked, cluster_of, endless_job, hooked_tick, numbers, run, step_until, ticks

FIXED_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "30 s",
}
ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    yield
    HOOKS.clear()


def visible(directory: Path) -> list[int]:
    """The numbers in the finished files."""
    return sorted(
        json.loads(line)["n"] for path in directory.glob("**/part-*") for line in path.read_text().splitlines()
    )


def hidden(directory: Path) -> list[Path]:
    return [path for path in directory.glob("**/.*") if path.is_file()]


def write_numbers(env: Any, count: int, directory: Path) -> None:
    rows = numbers(env, count).rebalance().map(Hooked(), Types.LONG()).name("work")
    rows.map(lambda n: (n,), ROW).sink_to(FileSink.for_ndjson(str(directory)).build()).name("files")


# --- straight ---------------------------------------------------------------------------------------------------------


@at_each_parallelism
def test_a_job_runs_to_its_end(parallelism: int, tmp_path: Path) -> None:
    env = environment(parallelism)
    write_numbers(env, 1_000, tmp_path)
    status = run(env)
    assert status.state is JobState.FINISHED
    assert {task.state for task in status.tasks} == {TaskState.FINISHED}
    assert len(status.tasks) == 2 * parallelism
    assert len(status.slots) == parallelism
    assert visible(tmp_path) == list(range(1, 1_001))
    assert hidden(tmp_path) == []
    out = [task.metrics["numRecordsOut"] for task in status.tasks if task.name.startswith("Source")]
    assert sum(out) == 1_000  # type: ignore[arg-type]


def test_a_job_that_waits_for_an_hour_takes_no_time() -> None:
    clock = ManualClock(1_000_000)
    env = environment()
    ticks(env, per_second=0.01, count=36).sink_to(BlackHoleSink())
    assert run(env, clock).state is JobState.FINISHED
    assert 3_400_000 <= clock.monotonic_ms() <= 3_800_000


class Every10Seconds(KeyedProcessFunction):
    """Emits the time of each of its processing-time timers."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() // 10_000 * 10_000 + 10_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        HOOKS["timer"]((timestamp, ctx.timer_service().current_processing_time()))


def test_processing_time_timers_fire_at_their_time_and_pending_ones_are_dropped_at_the_end() -> None:
    fired: list[tuple[int, int]] = []
    HOOKS["timer"] = fired.append
    env = environment()
    ticks(env, per_second=1, count=35).key_by(lambda tick: 0).process(Every10Seconds()).sink_to(BlackHoleSink())
    run(env, ManualClock(1_000_000))
    assert [due for due, _ in fired] == [1_010_000, 1_020_000, 1_030_000]
    assert all(0 <= at - due <= 1 for due, at in fired)


def test_slot_sharing_groups_take_slots_of_their_own() -> None:
    env = environment(2)
    numbers(env, 100).rebalance().map(Hooked(), Types.LONG()).slot_sharing_group("other").sink_to(BlackHoleSink())
    status = run(env)
    assert len(status.slots) == 4
    assert status.state is JobState.FINISHED


def test_jobs_of_two_unconnected_pipelines_run_as_one() -> None:
    env = environment()
    seen: list[int] = []
    HOOKS["map"] = seen.append
    numbers(env, 3).map(Hooked()).sink_to(BlackHoleSink())
    numbers(env, 2).map(Hooked()).set_parallelism(2).sink_to(BlackHoleSink())
    assert run(env).state is JobState.FINISHED
    assert sorted(seen) == [1, 1, 2, 2, 3]


# --- failures and restarts --------------------------------------------------------------------------------------------


@at_each_parallelism
def test_a_job_that_fails_makes_nothing_visible(parallelism: int, tmp_path: Path) -> None:
    def fail_at_900(value: int) -> int:
        if value == 900:
            raise ValueError("no 900")
        return value

    HOOKS["map"] = fail_at_900
    env = environment(parallelism)
    write_numbers(env, 1_000, tmp_path)
    status = run(env)
    assert status.state is JobState.FAILED
    [failure] = status.exceptions
    assert "operator 'work'" in failure.cause.message
    assert "on record 900: ValueError: no 900" in failure.cause.message
    assert visible(tmp_path) == []
    assert hidden(tmp_path) == []


@at_each_parallelism
def test_a_restarted_job_makes_each_record_visible_exactly_once(parallelism: int, tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    failed_at: list[float] = []
    attempts: list[int] = []
    HOOKS["open"] = lambda context: attempts.append(context.get_attempt_number())

    def fail_twice(value: int) -> int:
        if value == 900 and len(failed_at) < 2:
            failed_at.append(clock.monotonic_ms())
            raise ValueError("not yet")
        return value

    HOOKS["map"] = fail_twice
    env = environment(parallelism, FIXED_DELAY)
    write_numbers(env, 1_000, tmp_path)
    status = run(env, clock)
    assert status.state is JobState.FINISHED
    assert status.restarts == 2
    assert [entry.attempt for entry in status.exceptions] == [0, 1]
    assert sorted(set(attempts)) == [0, 1, 2]
    assert failed_at[1] - failed_at[0] >= 30_000
    assert visible(tmp_path) == list(range(1, 1_001))
    assert hidden(tmp_path) == []


def test_a_job_that_keeps_failing_ends_when_the_attempts_are_used_up() -> None:
    opened: list[int] = []
    HOOKS["open"] = lambda context: opened.append(context.get_attempt_number())
    HOOKS["map"] = lambda value: 1 // 0
    env = environment(1, FIXED_DELAY)
    numbers(env, 5).map(Hooked()).name("work").sink_to(BlackHoleSink())
    status = run(env)
    assert status.state is JobState.FAILED
    assert opened == [0, 1, 2]
    assert len(status.exceptions) == 3


def test_nothing_is_visible_before_the_slowest_task_has_finished(tmp_path: Path) -> None:
    env = environment()
    write_numbers(env, 10, tmp_path)
    ticks(env, per_second=1, count=60).sink_to(BlackHoleSink())
    cluster = cluster_of(env)

    def files_are_done() -> bool:
        tasks = cluster.driver.status().tasks
        states = [task.state for task in tasks if "files" in task.name or "numbers" in task.name]
        return bool(states) and all(state is TaskState.FINISHED for state in states)

    step_until(cluster, files_are_done)
    assert cluster.driver.status().state is JobState.RUNNING
    assert visible(tmp_path) == []
    cluster.run()
    assert visible(tmp_path) == list(range(1, 11))


def test_a_sink_that_cannot_commit_fails_the_job_without_a_restart(tmp_path: Path) -> None:
    env = environment(1, FIXED_DELAY)
    write_numbers(env, 10, tmp_path / "out")
    ticks(env, per_second=1, count=5).map(hooked_tick).sink_to(BlackHoleSink())
    HOOKS["tick"] = lambda value: _replace_by_file(tmp_path / "out") if value == 4 else None
    status = run(env)
    assert status.state is JobState.FAILED
    assert status.restarts == 0
    assert "the job is not restarted" in status.exceptions[0].cause.message


def _replace_by_file(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))
    directory.write_text("in the way")


# --- cancellation -----------------------------------------------------------------------------------------------------


def test_a_cancelled_job_closes_its_tasks_and_makes_nothing_visible(tmp_path: Path) -> None:
    env = environment(2)
    rows = ticks(env, per_second=10).map(lambda n: (n,), ROW)
    rows.sink_to(FileSink.for_ndjson(str(tmp_path)).build())
    cluster = cluster_of(env)
    step_until(cluster, lambda: cluster.driver.status().state is JobState.RUNNING)
    cluster.cancel()
    cluster.cancel()
    cluster.run()
    status = cluster.driver.status()
    assert status.state is JobState.CANCELED
    assert {task.state for task in status.tasks} == {TaskState.CANCELED}
    assert visible(tmp_path) == []
    assert hidden(tmp_path) == []


def test_a_job_can_be_cancelled_before_it_runs_and_while_it_waits_for_its_restart() -> None:
    early = cluster_of(endless_job())
    early.cancel()
    early.run()
    assert early.driver.status().state is JobState.CANCELED

    HOOKS["map"] = lambda value: 1 // 0
    env = environment(1, FIXED_DELAY)
    numbers(env, 5).map(Hooked()).sink_to(BlackHoleSink())
    waiting = cluster_of(env)
    step_until(waiting, lambda: waiting.driver.status().state is JobState.RESTARTING)
    waiting.cancel()
    waiting.run()
    assert waiting.driver.status().state is JobState.CANCELED


def test_a_function_that_takes_an_hour_is_no_lost_slot() -> None:
    clock = ManualClock(1_000_000)
    HOOKS["map"] = lambda value: clock.advance(3_600_000)
    env = environment(2)
    numbers(env, 4).rebalance().map(Hooked()).sink_to(BlackHoleSink())
    assert run(env, clock).state is JobState.FINISHED


FIRED: list[str] = []


class Reminder(KeyedProcessFunction):
    """Sets a timer half a second ahead, and says how late it came."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 500)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"timer {ctx.timer_service().current_processing_time() - timestamp} ms late"


class Members(ProcessWindowFunction[int, str, int, TimeWindow]):
    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
    ) -> Iterable[str]:
        yield f"session of {list(elements)}"


def note_fired(text: str) -> str:
    FIRED.append(text)
    return text


def test_timers_and_sessions_behind_a_slow_map_fire_between_its_records() -> None:
    clock = ManualClock(1_000_000)
    HOOKS["map"] = lambda value: (clock.advance(1_000), value)[1]  # type: ignore[func-returns-value]
    FIRED.clear()
    env = environment(1)
    keyed = numbers(env, 10).map(Hooked(), Types.LONG()).key_by(lambda value: 0)
    sessions = keyed.window(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(500)))
    told = keyed.process(Reminder(), Types.STRING()).union(sessions.process(Members(), Types.STRING()))
    told.map(note_fired).sink_to(BlackHoleSink())
    assert run(env, clock).state is JobState.FINISHED
    # the last one's are dropped at the end of the input
    assert FIRED[::2] == ["timer 500 ms late"] * 9
    assert FIRED[1::2] == [f"session of [{number}]" for number in range(1, 10)]
