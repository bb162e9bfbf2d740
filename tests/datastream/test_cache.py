"""cache(): kept by the first job that finishes, read by the next ones, forgotten when invalidated."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.datastream import CachedDataStream, DataStream, ProcessFunction
from runtime.execution.errors import JobExecutionError
from tests.datastream.running import SecondField, environment, values_of
from tests.job_runs import record_run

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
COMPUTED: list[Any] = []


def computed(value: Any) -> Any:
    """Passes values on and remembers that it was asked; a MiniCluster runs it in this process."""
    COMPUTED.append(value)
    return value


@pytest.fixture(autouse=True)
def forget() -> None:
    COMPUTED.clear()


def cached(*values: int, parallelism: int = 1) -> CachedDataStream:
    env = environment(parallelism)
    return env.from_collection(values, Types.LONG()).map(computed, Types.LONG()).cache()


def increased(stream: DataStream) -> list[int]:
    return sorted(values_of(stream.map(lambda n: n + 1, Types.LONG())))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_next_job_reads_what_the_first_one_kept(parallelism: int) -> None:
    stream = cached(1, 2, 3, parallelism=parallelism)
    assert increased(stream) == [2, 3, 4]
    assert increased(stream) == [2, 3, 4]
    assert sorted(values_of(stream)) == [1, 2, 3]
    assert sorted(COMPUTED) == [1, 2, 3]


def test_an_invalidated_cache_is_filled_anew() -> None:
    stream = cached(1, 2)
    assert increased(stream) == [2, 3]
    stream.invalidate()
    assert increased(stream) == [2, 3]
    assert increased(stream) == [2, 3]
    assert COMPUTED == [1, 2, 1, 2]


def test_execute_fills_the_cache_too() -> None:
    stream = cached(1, 2)
    stream.map(lambda n: n, Types.LONG())
    stream.get_execution_environment().execute()
    record_run("mini-cluster")
    assert increased(stream) == [2, 3]
    assert COMPUTED == [1, 2]


def test_a_job_that_fails_leaves_no_cache() -> None:
    stream = cached(1, 0)
    failing = stream.map(lambda n: 1 // n, Types.LONG())
    with pytest.raises(JobExecutionError):
        values_of(failing)
    assert COMPUTED == [1, 0]
    assert increased(stream) == [1, 2]
    assert COMPUTED == [1, 0, 1, 0]


class Tell(ProcessFunction):
    """Values with their event times."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield f"{value[0]} at {ctx.timestamp()}"


def test_event_times_are_kept() -> None:
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    timed = env.from_collection([("a", 5), ("b", 9)], PAIR).assign_timestamps_and_watermarks(strategy).cache()
    for _ in range(2):
        assert values_of(timed.process(Tell(), Types.STRING())) == ["a at 5", "b at 9"]


def test_a_keyed_stream_and_an_empty_one_can_be_kept() -> None:
    env = environment(2)
    keyed = env.from_collection([1, 2, 3, 4], Types.LONG()).key_by(lambda n: n % 2).cache()
    empty = env.from_collection([], Types.LONG()).cache()
    for _ in range(2):
        assert sorted(values_of(keyed)) == [1, 2, 3, 4]
        assert values_of(empty) == []


def test_untyped_values_are_kept() -> None:
    stream = environment().from_collection([{"a": 1}, None, "x"]).cache()
    for _ in range(2):
        assert values_of(stream.map(lambda value: value)) == [{"a": 1}, None, "x"]
