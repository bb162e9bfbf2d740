"""map_frames: frames in, frames out; event times, marks, and what is said of a frame that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.graph.errors import GraphError
from runtime.operators.columnar.map_frames import MapFramesOperatorFactory
from runtime.operators.errors import UserFunctionError
from runtime.operators.map_operators import FlatMapOperatorFactory, MapOperatorFactory
from runtime.testing import run_job
from runtime.testing.harness import OneInputHarness
from runtime.testing.jobs import ALL_MODES, JobMode
from tests.datastream.running import environment
from tests.job_runs import record_run
from tests.operators.columnar.runs import ROWS, Run, played, runs

OUT = Types.ROW_NAMED(["key", "double"], [Types.STRING(), Types.LONG()])


def double(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(double=pl.col("number") * 2, key="key")


def doubled(row: Row) -> Row:
    return Row(key=row["key"], double=None if row["number"] is None else row["number"] * 2)


def twice(frame: pl.DataFrame) -> pl.DataFrame:
    kept = frame.filter(pl.col("number") > 0)
    return kept.select("key", "event_time", double="number")[[i // 2 for i in range(2 * kept.height)]]


def each_twice(row: Row) -> list[Row]:
    number = row["number"]
    return [Row(key=row["key"], double=number)] * 2 if number is not None and number > 0 else []


@settings(max_examples=25, deadline=None)
@given(run=runs(), cut=st.booleans(), as_columns=st.booleans())
def test_frames_give_what_records_give(run: Run, cut: bool, as_columns: bool) -> None:
    expected = played(MapOperatorFactory(doubled, OUT), run, cut, as_columns)
    assert played(MapFramesOperatorFactory(double, "same", ROWS, OUT), run, cut, as_columns) == expected
    expected = played(FlatMapOperatorFactory(each_twice, OUT), run, cut, as_columns)
    assert played(MapFramesOperatorFactory(twice, "any", ROWS, OUT), run, cut, as_columns) == expected


NUMBER = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda f: f.lazy(), "must be returned, not LazyFrame; call collect"),
        (lambda f: None, "must be returned, not NoneType"),
        (lambda f: f.select("n"), r"\['n'\] were returned where \['n', 's'\] are declared"),
        (lambda f: f.with_columns(x=1), r"\['n', 's', 'x'\] were returned"),
        (lambda f: f.with_columns(n=pl.lit("x")), "'n' was returned as String where Int32 is declared"),
        (lambda f: f.with_columns(n=pl.col("n") * 1.5), "'n' was returned as Float64"),
        (lambda f: f.with_columns(n=pl.lit(2**40)), "does not fit its declared type"),
        (lambda f: f.head(1), "1 rows were returned for 2; declare rows='any'"),
        (lambda f: f.select(pl.col("nope")), "ColumnNotFoundError.*test_map_frames.py"),
    ],
)
def test_a_frame_that_does_not_fit_is_told(function: Callable[[Any], Any], match: str) -> None:
    factory = MapFramesOperatorFactory(function, "same", NUMBER, NUMBER)
    with OneInputHarness(factory, input_type=NUMBER) as harness, pytest.raises(UserFunctionError, match=match):
        harness.process([Row(n=1, s="a"), Row(n=2, s="b")])


def test_whole_numbers_and_nulls_are_taken_as_declared() -> None:
    def widened(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.select(s=pl.lit(None), n=pl.col("n").cast(pl.Int64))

    with OneInputHarness(MapFramesOperatorFactory(widened, "same", NUMBER, NUMBER), input_type=NUMBER) as harness:
        harness.process([Row(n=1, s="a")])
        assert harness.values == [Row(n=1, s=None)]


def test_rows_without_event_times_and_rows_with_some() -> None:
    def timeless(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.drop("event_time")

    def half(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(event_time=pl.when(pl.col("n") > 1).then("event_time"))

    rows = [Row(n=1, s="a"), Row(n=2, s="b")]
    with OneInputHarness(MapFramesOperatorFactory(timeless, "any", NUMBER, NUMBER), input_type=NUMBER) as harness:
        harness.process(rows, [5, 6])
        assert [(record.value, record.timestamp) for record in harness.records] == [(row, None) for row in rows]
    factory, match = MapFramesOperatorFactory(half, "any", NUMBER, NUMBER), "some rows that were returned have an"
    with OneInputHarness(factory, input_type=NUMBER) as harness, pytest.raises(UserFunctionError, match=match):
        harness.process(rows, [5, 6])


def test_what_cannot_work_is_refused_while_the_program_is_built() -> None:
    stream = environment().from_collection([Row(n=1, s="a")], NUMBER)
    with pytest.raises(TypeError, match="needs a function"):
        stream.map_frames("n + 1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows must be one of same, any"):
        stream.map_frames(double, rows="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rename the column first"):
        stream.with_columns(event_time="n").map_frames(double, rows="any")
    with pytest.raises(TypeError, match="declared type"):
        stream.map(str).map_frames(double)
    counts = stream.key_by_columns("s").aggregate_columns("count(*) AS n")
    counts.map_frames(lambda frame: frame).print()
    with pytest.raises(GraphError, match="MapFrames"):
        environment_of(counts).create_job_graph("changelog")


def environment_of(stream: Any) -> Any:
    return stream.get_execution_environment()


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[pytest.mark.spark] if "Spark" in m.name else []) for m in ALL_MODES], ids=str
)
def test_frames_from_end_to_end(mode: JobMode) -> None:
    rows = [Row(n=i, s="ab"[i % 2]) for i in range(100)]

    def squares(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(n=pl.col("n") ** 2).filter(pl.col("s") == "a")

    record_run(mode.name)
    result = run_job(
        lambda env: env.from_collection(rows, NUMBER).map_frames(squares, rows="any"), mode=mode, parallelism=2
    )
    assert sorted(row["n"] for row in result.values) == [i * i for i in range(0, 100, 2)]
