"""Avro files and messages, raw lines and values."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation
from runtime.connectors import (
    AvroFormat,
    AvroMessageSchema,
    AvroWriterFormat,
    BadRecords,
    FileSink,
    FileSource,
    RawLineFormat,
    RawMessageSchema,
    RawWriterFormat,
)
from runtime.connectors.formats.avro_types import AvroTypes, avro_schema
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError
from tests.connectors.rigs import SinkRig, SourceRig, read_split, reader_context, run_with_rescaling, splits_of

INNER = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
EVERYTHING = Types.ROW_NAMED(
    ["long", "text", "flag", "float", "bytes", "list", "map", "row", "date", "time", "at", "decimal"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BOOLEAN(),
        Types.FLOAT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.INT()),
        Types.MAP(Types.STRING(), Types.LONG()),
        INNER,
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.BIG_DEC(),
    ],
)


def everything(i: int) -> Row:
    at = datetime.datetime(2020, 1, 1, 12, 0, 0, 123456) + datetime.timedelta(days=i)
    return Row(
        long=i,
        text=f"ü{i}",
        flag=i % 2 == 0,
        float=i / 2,
        bytes=bytes([i % 256]),
        list=[i, None],
        map={"a": i},
        row=Row(x=i / 4),
        date=at.date(),
        time=datetime.time(1, 2, 3, 4000),
        at=at,
        decimal=Decimal(i).scaleb(-2),
    )


NOTHING = Row(**dict.fromkeys(EVERYTHING.get_field_names()))


def small_file(path: Path, rows: int = 60) -> FileSource:
    schema = avro_schema(Types.ROW_NAMED(["id"], [Types.LONG()]))
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"id": i} for i in range(rows)], codec="deflate", sync_interval=10)
    return FileSource.for_bulk_file_format(AvroFormat(), path).set_splits(4).build()


def test_a_file_of_every_type_comes_back(tmp_path: Path) -> None:
    rig = SinkRig(FileSink.for_bulk_format(str(tmp_path), AvroWriterFormat()).build(), EVERYTHING)
    rows = [everything(0), NOTHING, everything(7)]
    rig.write(*rows)
    rig.finish()
    (part,) = tmp_path.rglob("part-*.avro")
    source = FileSource.for_bulk_file_format(AvroFormat(), part).build()
    assert source.produced_type() == EVERYTHING
    assert SourceRig(source).run().values == rows


def test_splits_cover_every_record_once_and_readers_go_on_at_every_position(tmp_path: Path) -> None:
    source = small_file(tmp_path / "a.avro")
    splits = splits_of(source)
    assert len(splits) == 4
    assert [row.id for split in splits for row in read_split(source, split)] == list(range(60))
    for split in splits:
        whole = read_split(source, split)
        reader = source.create_reader(split, None, reader_context())
        for done in range(len(whole) + 1):
            position = json.loads(json.dumps(reader.position))
            assert read_split(source, split, position) == whole[done:]
            reader.read(1)
        reader.close()
    assert sorted(row.id for row in run_with_rescaling(source, 7)) == list(range(60))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    source = small_file(tmp_path / "a.avro")
    data = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(data[:-3])
    with pytest.raises(SourceError, match=r"a\.avro, block at byte \d+: the block is"):
        SourceRig(source).run()
    (tmp_path / "b.avro").write_bytes(b"no")
    with pytest.raises(SourceError, match="cannot be read as Avro"):
        FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "b.avro").build()
    with pytest.raises(ValueError, match="cannot skip single records"):
        FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "a.avro").set_bad_records(BadRecords.skip()).build()


def test_files_of_another_schema_are_refused(tmp_path: Path) -> None:
    small_file(tmp_path / "a.avro")
    with (tmp_path / "b.avro").open("wb") as file:
        fastavro.writer(file, avro_schema(INNER), [{"x": 1.0}])
    source = FileSource.for_bulk_file_format(AvroFormat(), tmp_path).build()
    with pytest.raises(SourceError, match=r"b\.avro: its records are"):
        SourceRig(source).run()


def test_schemas_without_a_type_are_refused() -> None:
    for schema, message in (
        (["int", "string"], "a union must be"),
        ({"type": "record", "name": "r", "fields": [{"name": "f", "type": ["null", "r"]}]}, "recursive Avro type 'r'"),
        ({"type": "array", "items": "what"}, "unknown or recursive Avro type 'what'"),
    ):
        with pytest.raises(TypeError, match=message):
            AvroTypes(schema)
    with pytest.raises(TypeError, match="keys of an Avro map"):
        avro_schema(Types.MAP(Types.LONG(), Types.LONG()))
    with pytest.raises(TypeError, match="cannot be written as Avro"):
        avro_schema(Types.ROW_NAMED(["p"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(SinkError, match="rows of a known type"):
        AvroWriterFormat().check(Types.LONG())


def test_named_and_logical_types() -> None:
    schema = {
        "type": "record",
        "name": "event",
        "namespace": "shop",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["a", "b"]}},
            {"name": "other", "type": ["null", "kind"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    types = AvroTypes(schema)
    expected: list[TypeInformation] = [Types.STRING(), Types.STRING(), Types.INSTANT(), Types.STRING()]
    assert types.type_info == Types.ROW_NAMED(["kind", "other", "at", "key"], expected)


def test_messages_come_back() -> None:
    schema = pickle.loads(pickle.dumps(AvroMessageSchema(EVERYTHING)))
    assert schema.get_produced_type() == EVERYTHING
    for row in (everything(3), NOTHING):
        assert schema.deserialize(schema.serialize(row)) == row
    instants = AvroMessageSchema(Types.ROW_NAMED(["i"], [Types.INSTANT()]))
    for instant in (Instant(5, 7000), Instant(-5, 999_999_000)):
        assert instants.deserialize(instants.serialize(Row(i=instant))).i == instant


@given(st.binary(max_size=40))
def test_messages_that_are_no_datum_are_told(message: bytes) -> None:
    schema = AvroMessageSchema(Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LIST(Types.LONG())]))
    try:
        row = schema.deserialize(message)
    except ValueError as error:
        assert "not an Avro datum" in str(error)
    else:
        assert isinstance(row, Row)


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="not an Avro schema"):
        AvroMessageSchema('{"type": "record"}')
    with pytest.raises(TypeError, match="must be a record"):
        AvroMessageSchema('"long"')
    with pytest.raises(TypeError, match="does not fit the Avro schema"):
        AvroMessageSchema(INNER).serialize(Row(x="text"))


def test_raw_lines_come_back(tmp_path: Path) -> None:
    rig = SinkRig(FileSink.for_row_format(str(tmp_path), RawWriterFormat()).build(), None)
    lines = [b"a\xff", b"", b"c"]
    rig.write(*lines)
    rig.finish()
    (part,) = tmp_path.rglob("part-*")
    assert SourceRig(FileSource.for_record_stream_format(RawLineFormat(), part).build()).run().values == lines
    rig = SinkRig(FileSink.for_row_format(str(tmp_path), RawWriterFormat()).build(), None)
    with pytest.raises(SinkError, match="must be bytes"):
        rig.write("text")
    rig.operator.close()


@pytest.mark.parametrize(
    ("type_info", "value", "message"),
    [
        (None, b"\x00\xff", b"\x00\xff"),
        (Types.STRING(), "ü", "ü".encode()),
        (Types.INT(), -2, b"\xff\xff\xff\xfe"),
        (Types.LONG(), 1, b"\0\0\0\0\0\0\0\1"),
        (Types.BOOLEAN(), True, b"\1"),
        (Types.DOUBLE(), 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
    ],
)
def test_raw_values_come_back(type_info: TypeInformation | None, value: Any, message: bytes) -> None:
    schema = RawMessageSchema(type_info)
    assert schema.serialize(value) == message
    assert schema.deserialize(message) == value
    little = RawMessageSchema(type_info, endianness="little-endian")
    assert little.deserialize(little.serialize(value)) == value


def test_raw_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are not a raw"):
        RawMessageSchema(Types.INT()).deserialize(b"abc")
    with pytest.raises(TypeError, match="is no"):
        RawMessageSchema(Types.INT()).serialize("x")
    with pytest.raises(TypeError, match="no raw form"):
        RawMessageSchema(INNER)
    with pytest.raises(ValueError, match="endianness"):
        RawMessageSchema(endianness="middle")
