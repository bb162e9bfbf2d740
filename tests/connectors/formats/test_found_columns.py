"""The columns that are found in files, and that the formats read the files with."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.connectors.formats import found_columns
from runtime.connectors.formats.csv.columns import CsvFormat
from runtime.connectors.formats.found_columns import ColumnsNotFoundError, row_type_of_file
from runtime.connectors.formats.json.ndjson import NdjsonFormat

CSV = {"kind": "csv", "header": True, "delimiter": ",", "quote": '"'}
NDJSON = {"kind": "ndjson"}


def columns(path: Path, file_format: dict[str, Any]) -> dict[str, str]:
    row = row_type_of_file(str(path), file_format)
    return {name: kind.type_string() for name, kind in zip(row.field_names, row.field_types, strict=True)}


def test_columns_of_csv_have_the_types_that_its_texts_are_of(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(
        "id,price,item,paid,day,at,empty\n"
        "1,1.5,pen,true,2024-01-02,2024-01-02 10:00:00,\n"
        '2,,"ink, black",false,2024-01-03,2024-01-03 11:30:00,\n'
    )
    found = columns(path, CSV)
    assert found == {
        "id": "long",
        "price": "double",
        "item": "string",
        "paid": "boolean",
        "day": "sql_date",
        "at": "sql_timestamp",
        "empty": "string",
    }
    rows = CsvFormat(row_type_of_file(str(path), CSV)).decode(path.read_bytes().split(b"\n", 1)[1]).arrow().to_pylist()
    assert rows[1]["item"] == "ink, black" and rows[1]["day"] == datetime.date(2024, 1, 3)


def test_csv_without_a_header_has_columns_by_number(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("1;'a;b'\n2;c\n")
    assert columns(path, {"kind": "csv", "header": False, "delimiter": ";", "quote": "'"}) == {
        "f0": "long",
        "f1": "string",
    }


def test_a_header_alone_names_columns_of_text(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("a,b")
    assert columns(path, CSV) == {"a": "string", "b": "string"}


def test_columns_of_json_may_be_nested(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson.gz"
    lines = [
        {"id": 1, "tags": ["a"], "who": {"name": "Ann", "age": None}, "nothing": None},
        {"id": 2, "tags": [], "who": {"name": "Bob", "age": 5}, "late": 1.5},
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    found = columns(path, NDJSON)
    assert {name: found[name] for name in ("id", "nothing", "late")} == {
        "id": "long",
        "nothing": "string",
        "late": "double",
    }
    assert "string" in found["tags"] and "name" in found["who"] and "long" in found["who"]
    row = row_type_of_file(str(path), NDJSON)
    assert NdjsonFormat(row).decode(gzip.decompress(path.read_bytes())).arrow().to_pylist()[0]["tags"] == ["a"]


def test_a_sample_ends_with_a_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_columns, "SAMPLE_BYTES", 20)
    path = tmp_path / "long.csv"
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,not a number any more\n")
    assert columns(path, CSV) == {"a": "long", "b": "long"}
    path.write_text("a" * 30 + "\n1\n")
    with pytest.raises(ColumnsNotFoundError, match="first line has more than 20 bytes"):
        columns(path, CSV)


def test_columns_of_parquet_are_those_of_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    at = pa.array([datetime.datetime(2024, 1, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "at": at, "tags": [["a"]]}), path)
    found = columns(path, {"kind": "parquet"})
    assert (found["id"], found["at"], list(found)) == ("long", "sql_timestamp", ["id", "at", "tags"])


@pytest.mark.parametrize(
    ("name", "content", "file_format"),
    [
        ("x.csv", b"", CSV),
        ("x.csv", b"a,b\n1\n1,2,3\n", CSV),
        ("x.ndjson", b"{not json}\n", NDJSON),
        ("x.ndjson", b'{"a": 1}\n{"a": "text"}\n', NDJSON),
        ("x.parquet", b"no parquet", {"kind": "parquet"}),
        ("x.csv.gz", b"not compressed", CSV),
        ("x.txt", b"text\n", {"kind": "text"}),
    ],
)
def test_a_file_that_is_something_else_says_so(
    tmp_path: Path, name: str, content: bytes, file_format: dict[str, Any]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ColumnsNotFoundError) as caught:
        columns(path, file_format)
    assert str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ColumnsNotFoundError, match=r"gone\.csv"):
        columns(tmp_path / "gone.csv", CSV)
