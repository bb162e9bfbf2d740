"""FileSource: formats, splits, positions, restores and errors."""

from __future__ import annotations

import datetime
import gzip
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.common.time import Duration
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import BadRecords, CsvFormat, FileSource, NdjsonFormat, ParquetFormat, StreamFormat
from runtime.connectors.files.paths import list_files
from runtime.connectors.formats.file_format import FileFormat
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus, SourceError
from runtime.testing.clock import ManualClock
from tests.connectors.rigs import SourceRig, read_split, reader_context, run_with_rescaling, splits_of

BID = RowTypeInfo([Types.LONG(), Types.STRING(), Types.DOUBLE()], ["id", "name", "price"])


def text_source(*paths: Any, splits: int | None = None) -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)
    return (builder if splits is None else builder.set_splits(splits)).build()


def bids_file(directory: Path, kind: str, rows: int = 300) -> FileSource:
    """A source of the same rows in one of the formats."""
    ids = list(range(rows))
    names = [None if i % 7 == 0 else "" if i % 5 == 0 else f'n,"{i}" ü' for i in ids]
    prices = [None if i % 11 == 0 else i / 4 for i in ids]
    path = directory / f"bids.{kind}"
    if kind == "parquet":
        table = pa.table({"id": ids, "name": names, "price": prices})
        pq.write_table(table, path, row_group_size=17)
        return FileSource.for_bulk_file_format(ParquetFormat(), path).set_splits(4).build()
    if kind == "csv":
        quoted = ["" if n is None else '"' + n.replace('"', '""') + '"' for n in names]
        texts = [f"{i},{n},{'' if p is None else p}" for i, n, p in zip(ids, quoted, prices, strict=True)]
        path.write_text("id,name,price\n" + "\n".join(texts))
        file_format: FileFormat = CsvFormat(BID)
    else:
        lines = [json.dumps({"id": i, "name": n, "price": p}) for i, n, p in zip(ids, names, prices, strict=True)]
        path.write_text("\n\n".join(lines) + "\n")
        file_format = NdjsonFormat(BID if kind == "ndjson" else None)
    return FileSource.for_record_stream_format(file_format, path).set_splits(4).build()


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value.values()) if isinstance(value, dict) else tuple(value)


KINDS = ["parquet", "csv", "ndjson", "json"]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)),
    end=st.sampled_from(["\n", "\r\n"]),
    ends_with_newline=st.booleans(),
    splits=st.integers(1, 9),
    max_rows=st.integers(1, 5),
)
def test_splits_cover_every_line_once(
    lines: list[str], end: str, ends_with_newline: bool, splits: int, max_rows: int
) -> None:
    text = end.join(lines) + (end if ends_with_newline and lines else "")
    expected = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lines"
        path.write_bytes(text.encode())
        source = text_source(path, splits=splits)
        found = [line for split in splits_of(source) for line in read_split(source, split, max_rows=max_rows)]
    if expected and expected[0].startswith("\ufeff"):
        expected[0] = expected[0][1:]
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_goes_on_exactly_at_every_position(kind: str, tmp_path: Path) -> None:
    source = bids_file(tmp_path, kind, rows=60)
    splits = splits_of(source)
    assert len(splits) == 4
    for split in splits:
        whole = read_split(source, split)
        reader = source.create_reader(split, None, reader_context())
        for done in range(len(whole) + 1):
            position = json.loads(json.dumps(reader.position))
            assert read_split(source, split, position) == whole[done:]
            reader.read(1)
        reader.close()


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_unicode_and_quotes_arrive(kind: str, tmp_path: Path) -> None:
    values = [as_tuple(v) for v in SourceRig(bids_file(tmp_path, kind), 2).run().values]
    assert len(values) == 300
    by_id = {value[0]: value for value in values}
    assert by_id[0] == (0, None, None)
    assert by_id[5] == (5, "", 1.25)
    assert by_id[13] == (13, 'n,"13" ü', 3.25)


@pytest.mark.parametrize("kind", [*KINDS, "text"])
@pytest.mark.parametrize("max_rows", [7, 1000])
def test_restore_at_one_two_one_loses_and_repeats_nothing(kind: str, max_rows: int, tmp_path: Path) -> None:
    if kind == "text":
        (tmp_path / "lines").write_text("".join(f"line {i}\n" for i in range(500)))
        source = text_source(tmp_path, splits=5)
    else:
        source = bids_file(tmp_path, kind)
    uninterrupted = SourceRig(source).run().values
    assert sorted(map(repr, run_with_rescaling(source, max_rows))) == sorted(map(repr, uninterrupted))


def test_typed_formats_keep_their_columns(tmp_path: Path) -> None:
    for kind in ("csv", "ndjson", "parquet"):
        source = bids_file(tmp_path, kind)
        assert source.produced_type() == BID
        reader = source.create_reader(splits_of(source)[0], None, reader_context())
        batch = reader.read(10)
        reader.close()
        assert isinstance(batch, RecordBatch) and batch.has_arrow and not batch.has_values
        assert isinstance(batch.values()[0], Row)


def test_dates_decimals_and_times_in_ndjson_and_csv(tmp_path: Path) -> None:
    row_type = RowTypeInfo(
        [Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(), Types.BOOLEAN(), Types.LIST(Types.INT())],
        ["day", "at", "amount", "ok", "list"],
    )
    (tmp_path / "a.ndjson").write_text(
        '{"day":"2024-02-29","at":"2024-02-29T01:02:03.5","amount":"12.50","ok":true,"list":[1,null],"more":{}}\n{}\n'
    )
    source = FileSource.for_record_stream_format(NdjsonFormat(row_type), tmp_path / "a.ndjson").build()
    expected = (
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 500000),
        Decimal("12.50"),
        True,
        [1, None],
    )
    first, second = SourceRig(source).run().values
    assert tuple(first) == expected
    assert tuple(second) == (None,) * 5

    plain = RowTypeInfo(list(row_type.field_types[:4]), list(row_type.field_names[:4]))
    (tmp_path / "a.csv").write_text("x,ok,day,at,amount\n1,true,2024-02-29,2024-02-29 01:02:03.5,12.50\n")
    source = FileSource.for_record_stream_format(CsvFormat(plain), tmp_path / "a.csv").build()
    assert [tuple(row) for row in SourceRig(source).run().values] == [expected[:4]]


def test_a_csv_without_a_type_takes_its_columns_from_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid;name\n1;x\n")
    source = FileSource.for_record_stream_format(CsvFormat(delimiter=";"), tmp_path / "a.csv").build()
    assert source.produced_type() == RowTypeInfo([Types.STRING()] * 2, ["id", "name"])
    assert SourceRig(source).run().values == [Row(id="1", name="x")]


@pytest.mark.parametrize(
    "file_format",
    [CsvFormat(BID), CsvFormat(BID, has_header=False), ParquetFormat(row_type=BID), NdjsonFormat(BID)],
    ids=["csv", "csv without header", "parquet", "ndjson"],
)
def test_no_file_is_opened_while_a_program_with_declared_types_is_built(
    file_format: FileFormat, tmp_path: Path
) -> None:
    source = FileSource.for_bulk_file_format(file_format, tmp_path / "absent").build()
    assert source.produced_type() == BID
    with pytest.raises(SourceError, match="absent: no such file"):
        SourceRig(source).run()


def test_declared_csv_columns_are_found_in_each_file_by_its_own_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,price\n1,x,0.5\n")
    (tmp_path / "b.csv").write_text("\ufeffextra,price,id,name\n9,1.5,2,y\n9,,3,z\n")
    (tmp_path / "c.csv").write_bytes(b"")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"name,id,price\nw,4,2.5\n"))
    source = FileSource.for_record_stream_format(CsvFormat(BID), tmp_path).set_splits(9).build()
    rows = SourceRig(source).run().values
    assert [(row.id, row.name, row.price) for row in rows] == [
        (1, "x", 0.5),
        (2, "y", 1.5),
        (3, "z", None),
        (4, "w", 2.5),
    ]
    (tmp_path / "e.csv").write_text("id,name\n5,v\n")
    with pytest.raises(SourceError, match=r"e.csv, line 1: no column 'price'; the header has \['id', 'name'\]"):
        SourceRig(source).run()


def test_files_whose_columns_are_taken_from_the_first_must_have_its_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    (tmp_path / "b.csv").write_text("name,id\ny,2\n")
    source = FileSource.for_record_stream_format(CsvFormat(), tmp_path).build()
    with pytest.raises(SourceError, match=r"b.csv, line 1: the header is \['name', 'id'\], that of the first file was"):
        SourceRig(source).run()


def test_parquet_columns_are_chosen_and_row_groups_are_splits(tmp_path: Path) -> None:
    bids_file(tmp_path, "parquet", rows=51)
    file_format = ParquetFormat(["price", "id"])
    source = FileSource.for_bulk_file_format(file_format, tmp_path / "bids.parquet").set_splits(9).build()
    assert [(s.start, s.end) for s in splits_of(source)] == [(0, 1), (1, 2), (2, 3)]
    assert SourceRig(source).run().values[1] == Row(price=0.25, id=1)


def test_an_example_is_found_wherever_tidemark_is() -> None:
    (path,) = list_files(["example:orders.csv"])
    assert Path(path).is_file() and Path(path).name == "orders.csv"
    for name in ("none.csv", "../flights.py", ""):
        with pytest.raises(SourceError, match=r"no such example; there are: .*orders\.csv"):
            list_files([f"example:{name}"])


def test_directories_and_patterns_are_searched_and_hidden_files_left_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden.txt", "_tmp/d.txt", "sub/.part.inprogress.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "empty.txt").touch()
    assert SourceRig(text_source(tmp_path)).run().values == ["a.txt", "b.txt", "sub/c.txt"]
    assert SourceRig(text_source(tmp_path / "[ab].txt")).run().values == ["a.txt", "b.txt"]
    assert SourceRig(text_source((tmp_path / "a.txt").as_uri())).run().values == ["a.txt"]


def test_compressed_files_are_one_split(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    source = text_source(tmp_path / "a.gz", splits=3)
    assert len(splits_of(source)) == 1
    assert run_with_rescaling(source, 1) == ["1", "2", "3"]


def test_default_splits_follow_size_and_parallelism(tmp_path: Path) -> None:
    (tmp_path / "small").write_text("x\n" * 10)
    assert len(splits_of(text_source(tmp_path / "small"), 4)) == 1
    (tmp_path / "large").write_bytes(b"x\n" * (3 << 19))
    assert len(splits_of(text_source(tmp_path / "large"), 2)) == 2
    assert len(splits_of(text_source(tmp_path / "large"), 8)) == 3
    assert len(splits_of(text_source(tmp_path / "large", splits=8), 1)) == 8


def test_the_rate_limit_is_shared_by_the_subtasks(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x\n" * 1000)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "lines")
    source = builder.set_rate_limit(100).build()
    clock = ManualClock(5000)
    reader = source.create_reader(splits_of(source)[0], None, reader_context(clock, parallelism=2))
    assert reader.read(100) is ReadStatus.NOTHING_YET
    assert reader.next_read_ms() == 5020
    clock.advance(500)
    batch = reader.read(100)
    assert isinstance(batch, RecordBatch) and batch.num_rows == 25
    assert reader.read(100) is ReadStatus.NOTHING_YET
    # who was held up does not burst
    clock.advance(60_000)
    batch = reader.read(1000)
    assert isinstance(batch, RecordBatch) and batch.num_rows == 50
    reader.close()


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("ndjson", '{"id":1}\n{"id":2}\n{"id":x}\n{"id":4}\n', r"a\.ndjson, line 3 \(byte 18\): .*'\{\"id\":x\}'"),
        ("ndjson", '{"id":1}\n{"id":"2"}\n', r"line 2 \(byte 9\)"),
        ("ndjson", '{"id":1}\n{"id":2}{"id":3}\n', r"line 2 \(byte 9\): a line must hold exactly one JSON value"),
        ("json", '{"id":1}\n[1\n2],3\n', r"line 2 \(byte 9\)"),
        ("json", '{"id":1}\n\n{"id":1} x\n', r"line 3 \(byte 10\): Extra data"),
        ("csv", "id,name,price\n1,x,2.5\n2,y\n", r"line 3 \(byte 22\).*'2,y'"),
        ("csv", "id,name,price\n1,x,2.5\n2,y,z\n", r"line 3 \(byte 22\).*'2,y,z'"),
        ("text", b"ok\n\xff\n", r"line 2 \(byte 3\).*utf-8"),
    ],
)
def test_a_bad_record_is_named_with_file_and_line(
    kind: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    formats: dict[str, FileFormat] = {
        "ndjson": NdjsonFormat(BID),
        "json": NdjsonFormat(),
        "csv": CsvFormat(BID),
        "text": StreamFormat.text_line_format(),
    }
    source = FileSource.for_record_stream_format(formats[kind], path).build()
    with pytest.raises(SourceError, match=rf"source numbers, split 0:a\.{kind}.*{message}"):
        SourceRig(source).run()


def test_what_cannot_be_read_is_said_at_submission(tmp_path: Path) -> None:
    source = text_source(tmp_path / "absent")
    with pytest.raises(SourceError, match=r"absent: no such file or directory"):
        source.check()
    with pytest.raises(SourceError, match="absent"):
        source.create_enumerator(1, None)
    with pytest.raises(SourceError, match="it has no files to read"):
        text_source(tmp_path).check()
    with pytest.raises(SourceError, match="no file matches"):
        text_source(tmp_path / "*.txt").check()
    with pytest.raises(SourceError, match="absent"):
        FileSource.for_bulk_file_format(ParquetFormat(), tmp_path / "absent").build()
    (tmp_path / "a.csv").write_text("id,name\n")
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        FileSource.for_bulk_file_format(ParquetFormat(), tmp_path / "a.csv").build()


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only local paths"):
        text_source("s3://bucket/key")
    with pytest.raises(ValueError, match="cannot be split at line ends"):
        StreamFormat.text_line_format("UTF-16")
    with pytest.raises(ValueError, match="unknown charset"):
        StreamFormat.text_line_format("UTF-99")
    with pytest.raises(TypeError, match="'m' cannot be read"):
        NdjsonFormat(RowTypeInfo([Types.MAP(Types.STRING(), Types.LONG())], ["m"]))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
    with pytest.raises(TypeError, match="must be a Duration"):
        builder.monitor_continuously(1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1 ms"):
        builder.monitor_continuously(Duration.of_nanos(5))
    with pytest.raises(ValueError, match="static file set"):
        builder.monitor_continuously(Duration.of_seconds(1)).set_splits(2).build()
    with pytest.raises(ValueError, match="cannot skip single records"):
        FileSource.for_bulk_file_format(ParquetFormat(), tmp_path).set_bad_records(BadRecords.skip()).build()


def test_a_truncated_gzip_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-9])
    with pytest.raises(SourceError, match=r"a\.gz cannot be read"):
        SourceRig(text_source(tmp_path / "a.gz")).run()
