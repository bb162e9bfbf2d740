"""Sources learn which columns of theirs a program reads, and conditions that they may apply themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import polars as pl
import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import DEAD_LETTERS, BadRecords, NdjsonFormat, ParquetFormat
from runtime.connectors.formats.file_format import FileFormat
from runtime.core.column_condition import ColumnCondition
from runtime.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource
from runtime.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.operators.output_tag import OutputTag
from tests.datastream.running import environment, values_of

NAMES = ["id", "name", "price", "note", "ts"]
ROW = RowTypeInfo([Types.LONG(), Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()], NAMES)
TEN_S = Time.seconds(10)
NO_WATERMARKS = WatermarkStrategy.no_watermarks()
BY_TS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
Program = Callable[[DataStream], DataStream]


class RecordingFormat(ParquetFormat):
    """Keeps what it is told."""

    told: tuple[frozenset[str], tuple[ColumnCondition, ...]] | None = None

    def reading(self, columns: frozenset[str], conditions: Any) -> RecordingFormat:
        made = RecordingFormat(row_type=ROW)
        made.told = columns, tuple(conditions)
        return made


def stream_of(
    file_format: FileFormat, path: Path, strategy: WatermarkStrategy = NO_WATERMARKS, **options: str
) -> DataStream:
    env = environment(1, {key.replace("_", "."): value for key, value in options.items()})
    return env.from_source(FileSource.for_bulk_file_format(file_format, path).build(), strategy, "rows")


def graph_of(made: DataStream) -> JobGraph:
    made.print()
    env: StreamExecutionEnvironment = made.get_execution_environment()
    return env.create_job_graph("job")


def told(made: DataStream) -> tuple[frozenset[str], tuple[ColumnCondition, ...]]:
    """Return what the source's format was told."""
    factory = cloudpickle.loads(graph_of(made).vertices[0].head.factory)
    found: tuple[frozenset[str], tuple[ColumnCondition, ...]] = factory.source._format.told
    return found


def read(program: Program, strategy: WatermarkStrategy = NO_WATERMARKS, **options: str) -> set[str]:
    return set(told(program(stream_of(RecordingFormat(row_type=ROW), Path("/nowhere"), strategy, **options)))[0])


def conditions(program: Program, strategy: WatermarkStrategy = NO_WATERMARKS) -> list[tuple[Any, ...]]:
    found = told(program(stream_of(RecordingFormat(row_type=ROW), Path("/nowhere"), strategy)))[1]
    return [(condition.column, condition.comparison, condition.value) for condition in found]


def _counted_by_the_clock(keyed: KeyedStream) -> DataStream:
    return keyed.window(TumblingProcessingTimeWindows.of(TEN_S)).aggregate_columns("count(*) AS n")


@pytest.mark.parametrize(
    ("program", "columns"),
    [
        (lambda s: s, "id name price note ts"),
        (lambda s: s.select("id", "price"), "id price"),
        (lambda s: s.select("id", "price * 2 AS twice", "1 AS one"), "id price"),
        (lambda s: s.where("price > 5").select("id"), "id price"),
        (lambda s: s.with_columns("upper(name) AS name").select("id"), "id name"),
        (lambda s: s.select("id AS key", "price", "note").select("key"), "id"),
        (lambda s: s.where("price > 5"), "id name price note ts"),
        (lambda s: s.where("price > 5").map(lambda row: row), "id name price note ts"),
        (lambda s: s.select("id", "name").map_frames(lambda frame: frame), "id name"),
        (lambda s: s.assign_timestamps_and_watermarks(BY_TS).select("id"), "id ts"),
        (lambda s: s.key_by_columns("id").aggregate_columns("sum(price) AS total"), "id price"),
        (lambda s: s.key_by_columns("id", "name").deduplicate("first").select("ts"), "id name ts"),
        (lambda s: s.key_by_columns("id").deduplicate("last").select("ts"), "id name price note ts"),
        (lambda s: s.key_by(lambda row: row[0]).map(lambda row: row[0]), "id name price note ts"),
        (lambda s: s.rebalance().select("id"), "id"),
        (lambda s: s.union(s.where("price > 1")).select("id"), "id price"),
        (lambda s: _counted_by_the_clock(s.key_by_columns("id")), "id"),
    ],
)
def test_the_columns_that_a_program_reads(program: Program, columns: str) -> None:
    assert read(program) == set(columns.split())


@pytest.mark.parametrize("windows", [TumblingEventTimeWindows.of(TEN_S), EventTimeSessionWindows.with_gap(TEN_S)])
def test_windows_in_two_phases_read_keys_arguments_and_times(windows: Any) -> None:
    def program(stream: DataStream) -> DataStream:
        return stream.key_by_columns("id").window(windows).aggregate_columns("max(price) AS top")

    assert read(program, BY_TS) == {"id", "price", "ts"}


def test_windows_that_show_late_rows_read_all_columns() -> None:
    late = OutputTag("late", ROW)

    def program(stream: DataStream) -> DataStream:
        windows = stream.key_by_columns("id").window(TumblingEventTimeWindows.of(TEN_S)).side_output_late_data(late)
        return windows.aggregate_columns("max(price) AS top")

    assert read(program, BY_TS) == set(NAMES)


def test_functions_of_a_watermark_strategy_read_all_columns() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[4])
    assert read(lambda s: s.select("id"), strategy) == set(NAMES)


def test_rows_that_an_unaligned_checkpoint_may_save_keep_their_columns() -> None:
    def program(stream: DataStream) -> DataStream:
        return stream.where("price > 5").key_by_columns("id").aggregate_columns("count(*) AS n")

    unaligned = {"execution_checkpointing_unaligned_enabled": "true"}
    assert read(program) == {"id", "price"}
    assert read(program, NO_WATERMARKS, **unaligned) == set(NAMES)
    # what a chain hands on is never saved
    assert read(lambda s: program(s.select("id", "price")), NO_WATERMARKS, **unaligned) == {"id", "price"}


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (lambda s: s.where("price > 5 AND 'a' <= name"), [("price", ">", 5), ("name", ">=", "a")]),
        (lambda s: s.where("price > 5").where("id = 3"), [("price", ">", 5), ("id", "=", 3)]),
        # the second may only be asked for rows that the first has let through
        (lambda s: s.where("price > 5 OR id = 3").where("id = 3"), []),
        (lambda s: s.where("price > 5").select("id").where("id = 3"), [("price", ">", 5)]),
        (lambda s: s.where("price / id > 5"), []),
        (lambda s: s.where("price > 5.5"), []),
        (lambda s: s.rebalance().where("price > 5"), []),
        (lambda s: s.assign_timestamps_and_watermarks(BY_TS).where("price > 5"), []),
        (lambda s: s.where("price > 5").union(s), []),
    ],
)
def test_the_conditions_that_a_source_may_apply(program: Program, found: list[Any]) -> None:
    assert conditions(program) == found


def test_rows_that_move_event_time_on_are_not_left_out() -> None:
    assert conditions(lambda s: s.where("price > 5"), BY_TS) == []


def test_the_graph_says_where_columns_are_null(tmp_path: Path) -> None:
    stream = stream_of(RecordingFormat(row_type=ROW), tmp_path).where("price > 5").name("dear")
    graph = graph_of(stream.select("id", "price").name("chosen").select("price + 1 AS more").name("made"))
    graph = job_graph_from_json(json.loads(json.dumps(job_graph_to_json(graph))))
    unread = {operator.name: operator.unread_columns for vertex in graph.vertices for operator in vertex.operators}
    assert unread["Source: rows"] == unread["dear"] == ("id", "name", "note", "ts")
    assert unread["chosen"] == ("id",)
    assert unread["made"] == ()
    # types stay as they are declared
    assert [operator.output_type for operator in graph.vertices[0].operators][:2] == [ROW, ROW]


# --- results ----------------------------------------------------------------------------------------------------------


def written(path: Path) -> Path:
    rows = [(i, f"n{i % 5}", i * 7 % 100, "x", 1_000 * i) for i in range(200)]
    lines: list[Any] = [dict(zip(NAMES, row, strict=True)) for row in rows]
    # numbers that nobody reads
    lines[50]["id"] = "no number"
    del lines[60]["note"], lines[61]["price"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "program",
    [
        lambda s: s.select("name", "price"),
        lambda s: s.where("price > 50").select("ts"),
        lambda s: s.key_by_columns("name").aggregate_columns("sum(price) AS total"),
    ],
)
def test_a_program_gives_the_same_whatever_its_sources_leave_out(program: Program, tmp_path: Path) -> None:
    path = written(tmp_path / "rows.ndjson")

    def run(keep_all: bool) -> tuple[list[Any], list[Any]]:
        results = []
        for letters in (False, True):
            source = FileSource.for_record_stream_format(NdjsonFormat(ROW), path)
            stream = environment().from_source(
                source.set_bad_records(BadRecords.to_side_output()).build(), NO_WATERMARKS, "rows"
            )
            made = program(stream.map_frames(_unchanged) if keep_all else stream)
            results.append(values_of(stream.get_side_output(DEAD_LETTERS) if letters else made))
        return results[0], results[1]

    rows, letters = run(keep_all=False)
    assert len(letters) == 1
    assert (rows, letters) == run(keep_all=True)


def _unchanged(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def test_rows_are_the_same_with_row_groups_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    frame = pl.DataFrame({"id": range(1000), "price": [i // 10 for i in range(1000)], "name": ["a", "b"] * 500})
    frame.write_parquet(path, row_group_size=100)
    source = FileSource.for_bulk_file_format(ParquetFormat(), path).build()
    stream = environment().from_source(source, NO_WATERMARKS, "rows")
    found = values_of(stream.where("price >= 95 AND name = 'b'").select("id", "price"))
    assert [tuple(row) for row in found] == [(i, i // 10) for i in range(951, 1000, 2)]
