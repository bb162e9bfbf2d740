"""Avro files and messages."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation
from runtime.connectors import (
    AvroMessageSchema,
    AvroWriterFormat,
    BadRecords,
)
from runtime.connectors.formats.avro.files import AvroFormat
from runtime.connectors.formats.avro.types import AvroTypes, avro_schema
from runtime.datastream.connectors.file_system import FileSink, FileSource
from runtime.datastream.formats.avro import (
    AvroBulkWriters,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError
from tests.connectors.rigs import SinkRig, SourceRig, read_split, reader_context, run_with_rescaling, splits_of
from tests.datastream.running import environment, read_files

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


AVRO = """{"type": "record", "name": "reading", "fields": [
    {"name": "gauge", "type": "string"}, {"name": "level", "type": ["null", "int"]}]}"""


def test_avro_messages_are_rows_of_the_schema() -> None:
    writer = AvroRowSerializationSchema(avro_schema_string=AVRO)
    reader = AvroRowDeserializationSchema(avro_schema_string=AVRO)
    assert list(reader.deserialize(writer.serialize(Row("Emden", 310)))) == ["Emden", 310]
    assert list(reader.deserialize(writer.serialize(Row("Emden", None)))) == ["Emden", None]
    assert reader.get_produced_type() == Types.ROW_NAMED(["gauge", "level"], [Types.STRING(), Types.INT()])
    with pytest.raises(TypeError, match="names a Java class"):
        AvroRowDeserializationSchema("org.example.Reading")
    with pytest.raises(TypeError, match="schema is needed"):
        AvroRowSerializationSchema()


def test_dicts_are_written_as_avro_records(tmp_path: Path) -> None:
    (tmp_path / "reading.avsc").write_text(AVRO)
    schema = AvroSchema.parse_file(str(tmp_path / "reading.avsc"))
    assert str(schema) == AVRO
    env = environment()
    gauges = env.from_collection(["Emden", "Husum"], Types.STRING())
    records = gauges.map(lambda gauge: {"gauge": gauge, "level": len(gauge)}, GenericRecordAvroTypeInfo(schema))
    records.sink_to(FileSink.for_bulk_format(tmp_path / "out", AvroBulkWriters.for_generic_record(schema)).build())
    env.execute()
    assert read_files(AvroFormat(AVRO), tmp_path / "out") == [["Emden", 5], ["Husum", 5]]
    with pytest.raises(TypeError, match="schema of records"):
        AvroSchema.parse_string('"int"')
