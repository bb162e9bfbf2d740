"""Formats that are told which columns are read give the same in these, and judge lines as they did."""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import BadRecords, CsvFormat, FileSource, NdjsonFormat, ParquetFormat
from runtime.connectors.formats.file_format import FileFormat, LineFormat
from runtime.connectors.formats.parquet import rows as parquet_rows
from runtime.core.column_condition import ColumnCondition
from runtime.operators.source import Source, SourceError
from tests.connectors.formats.json_lines import TYPE, blocks
from tests.connectors.rigs import SourceRig, read_split, splits_of

NAMES = TYPE.get_field_names()
columns = st.frozensets(st.sampled_from(NAMES))

ROW = RowTypeInfo([Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING()], ["id", "name", "price", "note"])


def outcome(line_format: LineFormat, data: bytes, read: Collection[str]) -> Any:
    """Return the values of the columns that are read, or the error."""
    try:
        batch = line_format.decode(data)
    except ValueError as error:
        return str(error)
    made = batch.arrow()
    assert made.schema.names == list(line_format.produced_type().get_field_names())  # type: ignore[union-attr]
    rows = [[repr(value) for name, value in row.items() if name in read] for row in made.to_pylist()]
    assert len(batch.values()) == len(rows)
    return rows


def outcomes(data: bytes, read: frozenset[str]) -> tuple[Any, Any]:
    """Return what is read by the format that leaves columns out, and by the one that does not."""
    whole = NdjsonFormat(TYPE)
    narrow = pickle.loads(pickle.dumps(whole.reading(read, ())))
    return outcome(narrow, data, read), outcome(whole, data, read)


@settings(max_examples=200, deadline=None)
@given(blocks, columns)
def test_json_lines_are_read_alike(data: bytes, read: frozenset[str]) -> None:
    narrow, whole = outcomes(data, read)
    assert narrow == whole


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@settings(max_examples=40_000, deadline=None)
@given(blocks, columns)
def test_a_hundred_thousand_json_lines_are_read_alike(data: bytes, read: frozenset[str]) -> None:
    narrow, whole = outcomes(data, read)
    assert narrow == whole


def test_json_texts_that_nobody_reads_are_left_out() -> None:
    data = b'{"n": 1, "text": "a", "other text": "b", "flag": true}\n'
    batch = NdjsonFormat(TYPE).reading(frozenset({"n", "other text"}), ()).decode(data)
    # numbers are checked, so they are there
    assert [list(row) for row in batch.values()] == [[1, None, None, "b", True, None, None]]


def test_json_records_of_texts_only_are_counted_when_nobody_reads_them() -> None:
    row_type = RowTypeInfo([Types.STRING()] * 2, ["a", "b"])
    narrow = NdjsonFormat(row_type).reading(frozenset(), ())
    assert narrow.decode(b'{"a": "x"}\n{}\n').num_rows == 2


def test_formats_that_leave_nothing_out_stay_as_they_are() -> None:
    everything = frozenset(NAMES)
    assert (whole := NdjsonFormat(TYPE)).reading(everything, ()) is whole
    assert (untyped := NdjsonFormat()).reading(frozenset(), ()) is untyped
    # texts of nested records are judged by the decoder that reads them
    nested = NdjsonFormat(RowTypeInfo([Types.STRING(), Types.OBJECT_ARRAY(Types.LONG())], ["a", "b"]))
    assert nested.reading(frozenset({"b"}), ()) is nested
    assert (csv_format := CsvFormat(ROW)).reading(frozenset(ROW.get_field_names()), ()) is csv_format
    parquet = ParquetFormat(row_type=ROW)
    assert parquet.reading(frozenset(ROW.get_field_names()), ()) is parquet


# --- CSV --------------------------------------------------------------------------------------------------------------

csv_fields = st.one_of(
    st.sampled_from(
        ["", "1", "x", '""', '"a"', "1.5", "-7", "1e9", '"1"', '"a,b"', '"a""b"', '"', "NaN", " 1", "ü", "null"]
    ),
    st.text('ab1,"', max_size=4),
)
csv_lines = st.lists(csv_fields, min_size=3, max_size=5).map(lambda fields: ",".join(fields).encode())
bad_bytes = st.sampled_from([b"1,\xff,1,a", b"1,a,1,\xff", b"\xff,a,1,a", b"1,a,1.0,a", b"1,a,1,a\r", b""])
csv_blocks = st.lists(csv_lines | bad_bytes, min_size=1, max_size=5).map(lambda made: b"\n".join(made) + b"\n")


@settings(max_examples=100, deadline=None)
@given(csv_blocks, st.frozensets(st.sampled_from(ROW.get_field_names())))
def test_csv_lines_are_read_alike(data: bytes, read: frozenset[str]) -> None:
    whole = CsvFormat(ROW, has_header=False)
    narrow = pickle.loads(pickle.dumps(whole.reading(read, ())))
    assert outcome(narrow, data, read) == outcome(whole, data, read)


def test_csv_texts_that_nobody_reads_are_left_out() -> None:
    narrow = CsvFormat(ROW, has_header=False).reading(frozenset({"note"}), ())
    assert [list(row) for row in narrow.decode(b"1,a,2.5,b\n").values()] == [[1, None, 2.5, "b"]]


# --- files ------------------------------------------------------------------------------------------------------------


def source_of(path: Path, file_format: FileFormat, bad: BadRecords | None = None, splits: int = 1) -> FileSource:
    builder = FileSource.for_record_stream_format(file_format, path).set_splits(splits)
    return (builder if bad is None else builder.set_bad_records(bad)).build()


def records(source: Source) -> tuple[list[Any], list[Any]]:
    """Records and dead letters."""
    rig = SourceRig(source).run()
    return [list(row) for row in rig.values], [list(row) for row in rig.dead_letters]


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_dead_letters_are_the_same_whoever_reads_the_columns(kind: str, tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [(i, f"n{i}", i / 2, "a") for i in range(300)]
    # in columns that nobody reads
    rows[17], rows[200] = ("x", "a", 1.0, "b"), (1, "a", "y", "b")
    path = tmp_path / f"rows.{kind}"
    file_format: FileFormat
    if kind == "ndjson":
        names = ROW.get_field_names()
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
        file_format = NdjsonFormat(ROW)
    else:
        text = io.StringIO()
        csv.writer(text).writerows([ROW.get_field_names(), *rows])
        path.write_text(text.getvalue())
        file_format = CsvFormat(ROW)
    whole = source_of(path, file_format, BadRecords.to_side_output())
    narrow = whole.reading(frozenset({"note"}), ())
    assert narrow is not whole
    (all_rows, all_letters), (read_rows, read_letters) = records(whole), records(narrow)
    assert len(all_letters) == 2
    assert read_letters == all_letters
    assert [row[3] for row in read_rows] == [row[3] for row in all_rows]


# --- Parquet ----------------------------------------------------------------------------------------------------------

PARQUET_ROWS = 100


@pytest.fixture(params=["polars", "arrow"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 23)
    if request.param == "arrow":
        monkeypatch.setattr(parquet_rows, "BATCHES_PER_GROUP", 0)
    return str(request.param)


def parquet_file(path: Path, group_rows: int = 10, **columns: Any) -> Path:
    table = {
        "id": list(range(PARQUET_ROWS)),
        "name": [None if i % 7 == 0 else f"ü{i:03}" for i in range(PARQUET_ROWS)],
        "price": [i / 4 for i in range(PARQUET_ROWS)],
        "note": [None if 30 <= i < 60 else "n" for i in range(PARQUET_ROWS)],
    }
    pq.write_table(pa.table(table | columns), path, row_group_size=group_rows)
    return path


@pytest.mark.usefixtures("decoder")
def test_parquet_columns_that_nobody_reads_are_null(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "f.parquet")
    narrow = source_of(path, ParquetFormat()).reading(frozenset({"price", "id"}), ())
    [split] = splits_of(narrow)
    rows = [list(row) for row in read_split(narrow, split)]
    assert rows == [[i, None, i / 4, None] for i in range(PARQUET_ROWS)]


@pytest.mark.usefixtures("decoder")
def test_parquet_rows_are_counted_when_nobody_reads_them(tmp_path: Path) -> None:
    narrow = source_of(parquet_file(tmp_path / "f.parquet"), ParquetFormat()).reading(frozenset(), ())
    [split] = splits_of(narrow)
    assert len(read_split(narrow, split)) == PARQUET_ROWS


def test_a_parquet_column_that_cannot_be_read_as_declared_is_an_error_even_if_nobody_reads_it(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "f.parquet", price=[2**40] * PARQUET_ROWS)
    for declared in ([Types.LONG(), Types.INT()], [Types.LONG(), Types.BOOLEAN()]):
        row_type = RowTypeInfo(declared, ["id", "price" if declared[1] == Types.INT() else "lacking"])
        whole = source_of(path, ParquetFormat(row_type=row_type))
        for source in (whole, whole.reading(frozenset({"id"}), [ColumnCondition("id", ">", 95)])):
            [split] = splits_of(source)
            with pytest.raises(SourceError):
                read_split(source, split)


CONDITIONS = [
    ColumnCondition("id", "=", 35),
    ColumnCondition("id", "<", 20),
    ColumnCondition("id", "<=", 20),
    ColumnCondition("id", ">", 79),
    ColumnCondition("id", ">=", 79),
    ColumnCondition("id", "=", 1000),
    ColumnCondition("name", "=", "ü036"),
    ColumnCondition("name", "<", "ü020"),
    ColumnCondition("name", ">=", "ü090"),
    ColumnCondition("note", "=", "n"),
    ColumnCondition("note", ">", "n"),
]
_HOLDS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def meets(row: Any, conditions: Collection[ColumnCondition]) -> bool:
    for condition in conditions:
        value = row[ROW.get_field_names().index(condition.column)]
        if value is None or not _HOLDS[condition.comparison](value, condition.value):
            return False
    return True


@pytest.mark.usefixtures("decoder")
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2), st.sampled_from([3, 10, 40]), st.integers(1, 3))
def test_row_groups_without_rows_that_are_wanted_are_passed_over(
    tmp_path_factory: pytest.TempPathFactory, conditions: list[ColumnCondition], group_rows: int, splits: int
) -> None:
    path = parquet_file(tmp_path_factory.mktemp("groups") / "f.parquet", group_rows)
    whole = source_of(path, ParquetFormat(), splits=splits)
    narrow = whole.reading(frozenset(ROW.get_field_names()), conditions)
    everything = [list(row) for split in splits_of(whole) for row in read_split(whole, split)]
    found = [list(row) for split in splits_of(narrow) for row in read_split(narrow, split)]
    wanted = [row for row in everything if meets(row, conditions)]
    assert [row for row in found if meets(row, conditions)] == wanted
    groups = {row[0] // group_rows for row in wanted}
    # bounds of two conditions may each have rows in a group that has none for both
    if len(conditions) == 1:
        assert {row[0] // group_rows for row in found} == groups or conditions[0].column == "name"
    assert len(found) <= math.ceil(PARQUET_ROWS / group_rows) * group_rows


@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("steps", range(1, 9))
def test_positions_go_on_between_readers_of_other_columns_and_conditions(steps: int, tmp_path: Path) -> None:
    whole = source_of(parquet_file(tmp_path / "f.parquet"), ParquetFormat())
    late = whole.reading(frozenset({"id"}), [ColumnCondition("id", ">=", 45)])
    for first, second in ((whole, late), (late, whole)):
        rig = SourceRig(first)
        for _ in range(steps):
            rig.step(7)
        before = [row[0] for row in rig.values]
        rest = SourceRig(second, snapshots=rig.snapshot())
        rest.run()
        after = [row[0] for row in rest.values]
        rig.close()
        # rows of row groups that were passed over are done with, as if a filter had dropped them
        done = before[-1] + 1 if before else after[0]
        assert before or done in (0, 40)
        assert before == (list(range(0 if first is whole else 40, done)) if before else [])
        assert after == list(range(done if second is whole else max(done, 40), PARQUET_ROWS))
