"""run_job and assert_same_result_in_all_modes, on jobs that go well, crash, hang and differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.core.clock import SYSTEM_CLOCK
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.execution.errors import JobExecutionError
from runtime.testing import (
    ALL_MODES,
    CONTINUOUS_ON_MINI_CLUSTER,
    CONTINUOUS_ON_SPARK,
    STREAMING_MODES,
    ScriptedSource,
    assert_same_result_in_all_modes,
    crash,
    pause,
    record,
    run_job,
    until_checkpoint,
    watermark,
)
from runtime.testing.modes import canonical_text, describe_difference
from tests.job_runs import record_run

RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "1 h",
}
PLAIN = WatermarkStrategy.no_watermarks()
MINI = [CONTINUOUS_ON_MINI_CLUSTER]


def sums(env: StreamExecutionEnvironment, source: ScriptedSource) -> DataStream:
    """(key, sum) of each key and 10 ms of event time."""
    pairs = env.from_source(source, PLAIN, "script", Types.TUPLE([Types.STRING(), Types.LONG()]))
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


SCRIPT = [record(("a", 1), 1), record(("b", 2), 5), record(("a", 3), 9), watermark(9), record(("a", 4), 12)]
SUMS = [("a", 4), ("a", 4), ("b", 2)]


def test_a_job_is_run_and_gives_what_it_delivers() -> None:
    record_run("mini-cluster")
    result = run_job(lambda env: sums(env, ScriptedSource(SCRIPT)), parallelism=2)
    assert sorted(result.values) == SUMS
    assert (result.restarts, result.failures) == (0, [])


def test_several_streams_are_kept_apart() -> None:
    def build(env: StreamExecutionEnvironment) -> Sequence[DataStream]:
        numbers = env.from_source(NumberSequenceSource(1, 4), PLAIN, "numbers")
        return numbers.filter(lambda n: n % 2 == 0), numbers.map(lambda n: -n)

    record_run("mini-cluster")
    result = run_job(build)
    assert result.outputs == [[2, 4], [-1, -2, -3, -4]]
    with pytest.raises(ValueError, match="returned 2 streams"):
        _ = result.values


def test_a_job_without_a_stream_to_collect(tmp_path: Path) -> None:
    class Touching:
        def __call__(self, value: int) -> int:
            (tmp_path / str(value)).touch()
            return value

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_collection([1, 2]).map(Touching()).print()

    record_run("mini-cluster")
    assert run_job(build).outputs == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]


def test_a_job_that_crashes_delivers_each_record_once() -> None:
    script = [*SCRIPT[:2], crash("power cut", times=2), *SCRIPT[2:4], crash("and again"), *SCRIPT[4:]]
    source = ScriptedSource(script, batch_rows=1)
    record_run("mini-cluster")
    result = run_job(lambda env: sums(env, source), options=RESTARTS)
    assert sorted(result.values) == SUMS
    assert result.restarts == 3
    assert [text.rpartition("ScriptedCrash: ")[2].partition(" (operator")[0] for text in result.failures] == [
        "power cut",
        "power cut",
        "and again",
    ]


#: what `remember` has seen, in the order of the calls
SEEN: list[int] = []


def remember(value: int) -> int:
    SEEN.append(value)
    return value


def test_a_job_that_takes_checkpoints_goes_on_behind_the_last() -> None:
    SEEN.clear()
    source = ScriptedSource([1, 2, until_checkpoint(1), 3, crash("behind it"), 4], batch_rows=1)
    record_run("mini-cluster")
    result = run_job(
        lambda env: env.from_source(source, PLAIN, "script").uid("script").map(remember),
        options={**RESTARTS, "execution.checkpointing.interval": "1 s"},
    )
    assert result.values == [1, 2, 3, 4]
    assert result.restarts == 1
    assert SEEN == [1, 2, 3, 3, 4]


def test_a_job_that_fails_says_why() -> None:
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match="split 0: ScriptedCrash: for good"):
        run_job(lambda env: env.from_source(ScriptedSource([1, crash("for good")]), PLAIN, "script"))


def test_a_job_that_hangs_is_cancelled() -> None:
    record_run("mini-cluster")
    source = ScriptedSource([1, pause()])
    with pytest.raises(TimeoutError, match=r"not ended within 0\.5 s; it was RUNNING, its tasks: .*script.* RUNNING"):
        run_job(lambda env: env.from_source(source, PLAIN, "script"), timeout_s=0.5, clock=SYSTEM_CLOCK)


def test_pauses_of_a_mini_cluster_take_no_time() -> None:
    record_run("mini-cluster")
    source = ScriptedSource([1, pause(60_000), 2])
    assert run_job(lambda env: env.from_source(source, PLAIN, "script")).values == [1, 2]


def test_all_modes_are_there_and_named() -> None:
    kinds = ("continuous", "micro-batch", "batch")
    places = ("MiniCluster", "Spark")
    assert [mode.name for mode in ALL_MODES] == [f"{kind} on {place}" for kind in kinds for place in places]


@pytest.mark.spark
def test_the_result_is_the_same_in_all_modes(tmp_path: Path) -> None:
    lives: list[ScriptedSource] = []

    def build(env: StreamExecutionEnvironment) -> DataStream:
        # a new source for each run: each crashes once
        script = [*SCRIPT[:2], crash("once"), *SCRIPT[2:]]
        lives.append(ScriptedSource(script, directory=tmp_path, batch_rows=1))
        return sums(env, lives[-1])

    record_run("mini-cluster")
    record_run("spark local")
    options = {**RESTARTS, "restart-strategy.fixed-delay.delay": "1 ms"}
    # running sums: a batch gives the last ones only
    [records] = assert_same_result_in_all_modes(build, modes=STREAMING_MODES, options=options, parallelisms=[2])
    assert sorted(records) == SUMS
    assert len(list(tmp_path.glob("*/crash-0-2-0"))) == len(lives) == 4


@pytest.mark.spark
def test_a_script_that_crashes_on_spark_needs_a_directory() -> None:
    record_run("spark local")
    source = ScriptedSource([1, crash("x")])
    with pytest.raises(JobExecutionError, match="give ScriptedSource a directory"):
        run_job(lambda env: env.from_source(source, PLAIN, "script"), mode=CONTINUOUS_ON_SPARK)


def test_a_difference_is_told_with_the_run_and_the_records() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        parallelism = env.get_parallelism()
        return env.from_collection([1, 2, 2, 3]).map(lambda n: n + (parallelism - 1) * (n == 2))

    record_run("mini-cluster")
    record_run("mini-cluster")
    with pytest.raises(AssertionError) as caught:
        assert_same_result_in_all_modes(build, modes=MINI)
    assert str(caught.value).splitlines() == [
        "these runs deliver other records than continuous on MiniCluster, parallelism 1:",
        "continuous on MiniCluster, parallelism 2:",
        "  missing: 2  (2 times)",
        "  extra: 3  (2 times)",
    ]


def test_the_order_counts_only_if_asked_for() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_collection([1, 2, 3][:: 1 if env.get_parallelism() == 1 else -1])

    for _ in range(4):
        record_run("mini-cluster")
    assert assert_same_result_in_all_modes(build, modes=MINI) == [[1, 2, 3]]
    with pytest.raises(AssertionError, match="out of order from record 0 on: expected 1, got 3"):
        assert_same_result_in_all_modes(build, modes=MINI, ordered=True)


def test_a_run_that_fails_is_named() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_collection([1]).map(lambda n: n // (env.get_parallelism() - 1))

    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match="ZeroDivisionError") as caught:
        assert_same_result_in_all_modes(build, modes=MINI)
    assert caught.value.__notes__ == ["in mode continuous on MiniCluster, parallelism 1"]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="no mode"):
        assert_same_result_in_all_modes(lambda env: None, modes=())
    record_run("mini-cluster")
    with pytest.raises(ValueError, match="no stream"):
        assert_same_result_in_all_modes(
            lambda env: env.from_collection([1]).print() and None,  # type: ignore[arg-type, return-value]
            modes=MINI,
            parallelisms=[1],
        )


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


class Plain(Slotted):
    pass


def test_equal_values_have_the_same_text_and_others_have_not() -> None:
    same = [({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1, 2, 30}, {30, 2, 1}), (Slotted([{1}]), Slotted([{1}]))]
    assert all(canonical_text(a) == canonical_text(b) for a, b in same)
    values = [1, 1.0, True, "1", None, (1,), [1], {1}, frozenset({1}), Slotted(1), Slotted(2), Plain(1), b"1", ()]
    assert len({canonical_text(value) for value in values}) == len(values)


def test_a_long_difference_is_cut() -> None:
    text = describe_difference(range(100), [])
    assert len(text.splitlines()) == 11
    assert text.endswith("missing: 90 more")
