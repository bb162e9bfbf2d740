"""Parquet: both decoders give the same rows from any row on, in batches of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.common import Row, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import FileSource, ParquetFormat
from runtime.connectors.formats.parquet import rows as parquet_rows
from runtime.connectors.formats.parquet.rows import open_rows, repeating_texts
from runtime.core.batch import RecordBatch
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from runtime.operators.columnar.frames import has_views
from runtime.operators.source import SourceError
from tests.connectors.rigs import SourceRig, read_split, reader_context, run_with_rescaling, splits_of
from tests.datastream.running import environment, read_files

ROWS = 100
TYPE = RowTypeInfo([Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP()], ["id", "name", "at"])


def table(rows: int = ROWS) -> pa.Table:
    names = [None if i % 7 == 0 else f"ü{i % 3}" for i in range(rows)]
    return pa.table({"id": range(rows), "name": names, "at": pa.array(range(rows), pa.timestamp("us"))})


@pytest.fixture(params=["polars", "arrow"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Small batches, so that row groups and batches end at different rows, by one decoder or the other."""
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 23)
    if request.param == "arrow":
        # every row group is too large for Polars
        monkeypatch.setattr(parquet_rows, "BATCHES_PER_GROUP", 0)
    yield request.param


def source_of(path: Path, splits: int = 1, **columns: Any) -> FileSource:
    return FileSource.for_bulk_file_format(ParquetFormat(**columns), path).set_splits(splits).build()


def first_batch(path: Path, row_type: RowTypeInfo) -> pa.RecordBatch | None:
    file = pq.ParquetFile(path)
    rows = open_rows(str(path), file, row_type, 0, file.metadata.num_rows)
    try:
        return rows.next_batch()
    finally:
        rows.close()


@pytest.mark.parametrize("group_rows", [1, 10, 23, 40, ROWS])
def test_a_reader_goes_on_in_the_middle_of_batches_and_row_groups(
    decoder: str, group_rows: int, tmp_path: Path
) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=group_rows)
    source = source_of(tmp_path / "a.parquet", splits=3)
    rows: list[Any] = []
    for split in splits_of(source):
        whole = read_split(source, split)
        rows += whole
        reader = source.create_reader(split, None, reader_context())
        done = 0
        while done < len(whole):
            # before and after the block is decoded
            for _ in range(2):
                position = json.loads(json.dumps(reader.position))
                assert read_split(source, split, position) == whole[done:]
                reader.prepare()
            batch = reader.read(9)
            assert isinstance(batch, RecordBatch) and batch.num_rows <= 9
            # what a block leaves over comes in even shares
            assert has_views(batch.arrow().schema) == (decoder == "polars")
            done += batch.num_rows
        assert read_split(source, split, reader.position) == []
        reader.close()
    assert [tuple(row) for row in rows] == list(zip(*table().to_pydict().values(), strict=True))


@pytest.mark.parametrize("max_rows", [5, 1000])
def test_restore_loses_and_repeats_nothing(decoder: str, max_rows: int, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=30)
    source = source_of(tmp_path / "a.parquet", splits=4)
    assert sorted(row["id"] for row in run_with_rescaling(source, max_rows)) == list(range(ROWS))


def test_a_position_behind_a_row_groups_last_row_is_the_next_ones_first(decoder: str, tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=30)
    source = source_of(tmp_path / "a.parquet")
    (split,) = splits_of(source)
    assert [row["id"] for row in read_split(source, split, [1, 30])] == list(range(60, ROWS))


def test_an_empty_file_has_no_rows(decoder: str, tmp_path: Path) -> None:
    pq.write_table(table(0), tmp_path / "a.parquet")
    assert SourceRig(source_of(tmp_path / "a.parquet")).run().values == []


def test_a_damaged_file_is_named_with_the_row(decoder: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(1000), path, compression="snappy", use_dictionary=False)
    data = bytearray(path.read_bytes())
    first = pq.read_metadata(path).row_group(0).column(0)
    for at in range(first.data_page_offset, first.data_page_offset + first.total_compressed_size):
        data[at] ^= 0x5A
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.parquet, from row 0 on: "):
        SourceRig(source_of(path, row_type=TYPE)).run()


def test_a_file_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 10)
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=10)
    source = source_of(path)
    reader = source.create_reader(splits_of(source)[0], None, reader_context())
    assert isinstance(reader.read(10), RecordBatch)
    pq.write_table(table(), tmp_path / "b.parquet", row_group_size=50)
    (tmp_path / "b.parquet").replace(path)
    with pytest.raises(SourceError, match=r"a\.parquet was changed while it was read"):
        reader.read(10)
    reader.close()


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    pq.write_table(table().drop_columns(["at"]), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet, from row 0 on: .*at"):
        SourceRig(source_of(tmp_path / "a.parquet", row_type=TYPE)).run()


def test_other_types_than_the_files_and_nested_ones_are_left_to_arrow(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32()), "list": [["x"], None], "big": ["a", "b"]}), path)
    wider = RowTypeInfo([Types.LONG(), Types.STRING()], ["n", "big"])
    batch = first_batch(path, wider)
    assert batch is not None and batch.schema.types == [pa.int64(), pa.string()]
    assert [tuple(row) for row in SourceRig(source_of(path)).run().values] == [(1, ["x"], "a"), (2, None, "b")]
    # what is not read does not matter
    batch = first_batch(path, RowTypeInfo([Types.STRING()], ["big"]))
    assert batch is not None and has_views(batch.schema)


def test_strings_that_repeat_are_read_by_arrow_through_their_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "BATCHES_PER_GROUP", 0)
    columns: dict[str, list[str | None]] = {
        "few": [None if i % 7 == 0 else f"ü{i % 3}" for i in range(900)],
        "all": [f"{i:020}" for i in range(900)],
        "none": [None] * 900,
    }
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({name: pa.array(texts, pa.large_string()) for name, texts in columns.items()}), path)
    assert repeating_texts(pq.ParquetFile(path).metadata, list(columns)) == ["few", "none"]
    rows = SourceRig(source_of(path)).run().values
    assert {name: [row[name] for row in rows] for name in columns} == columns


def test_batches_of_wide_rows_have_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_BYTES", 100_000)
    path = tmp_path / "a.parquet"
    wide = [chr(97 + i % 26) * 1000 + str(i) for i in range(400)]
    pq.write_table(pa.table({"n": range(400), "wide": wide}), path, use_dictionary=False, row_group_size=100)
    row_type = RowTypeInfo([Types.LONG(), Types.STRING()], ["n", "wide"])
    batch = first_batch(path, row_type)
    assert batch is not None and 50 <= batch.num_rows < 100
    narrow = first_batch(path, RowTypeInfo([Types.LONG()], ["n"]))
    assert narrow is not None and narrow.num_rows == 400
    assert [row["wide"] for row in SourceRig(source_of(path)).run().values] == wide


@pytest.mark.parametrize(
    ("group_rows", "sizes"),
    [(7, [21, 21, 21, 21, 16]), (23, [23, 23, 23, 23, 8]), (50, [17, 17, 16] * 2), (100, [20] * 5)],
)
def test_batches_end_with_row_groups_where_they_can(
    group_rows: int, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 23)
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=group_rows)
    file = pq.ParquetFile(path)
    rows = open_rows(str(path), file, TYPE, 0, ROWS)
    batches = list(iter(rows.next_batch, None))
    rows.close()
    assert [batch.num_rows for batch in batches] == sizes
    assert all(has_views(batch.schema) for batch in batches)
    assert [i for batch in batches for i in batch["id"].to_pylist()] == list(range(ROWS))


def test_slices_of_large_row_groups_are_not_left_to_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would pass over all that comes before, for each."""
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 10)
    for group_rows, by_polars in ((80, True), (81, False)):
        path = tmp_path / f"{group_rows}.parquet"
        pq.write_table(table(), path, row_group_size=group_rows)
        batch = first_batch(path, TYPE)
        assert batch is not None and has_views(batch.schema) == by_polars
        assert pl.DataFrame(batch).cast({"name": pl.String}).equals(pl.DataFrame(table().slice(0, 10)))


def test_a_bulk_writer_writes_parquet_files_that_can_be_read(tmp_path: Path) -> None:
    row_type: RowTypeInfo = Types.ROW_NAMED(["gauge", "level"], [Types.STRING(), Types.INT()])
    env = environment()
    rows = env.from_collection([Row("Emden", 310), Row("Husum", 281)], row_type)
    factory = ParquetBulkWriters.for_row_type(row_type)
    rows.sink_to(FileSink.for_bulk_format(tmp_path / "out", factory).build())
    env.execute()
    assert read_files(ParquetColumnarRowInputFormat(row_type), tmp_path / "out") == [["Emden", 310], ["Husum", 281]]
    assert factory.get_row_type() == row_type


def test_records_of_another_type_are_not_written(tmp_path: Path) -> None:
    env = environment()
    row_type = Types.ROW_NAMED(["level"], [Types.INT()])
    sink = FileSink.for_bulk_format(tmp_path / "out", ParquetBulkWriters.for_row_type(row_type)).build()
    env.from_collection(["x"], Types.STRING()).sink_to(sink)
    with pytest.raises(Exception, match="the files have the row type"):
        env.execute()
    with pytest.raises(TypeError, match="a row type is needed"):
        ParquetBulkWriters.for_row_type(Types.INT())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exact names"):
        ParquetColumnarRowInputFormat(row_type, is_case_sensitive=False)
