"""Avro files and messages."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
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
from runtime.connectors.formats.avro.codecs import to_number
from runtime.connectors.formats.avro.files import SYNC_BYTES, AvroFormat
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
from tests.connectors.formats.avro_message_cases import CASES
from tests.connectors.rigs import SinkRig, SourceRig, read_split, reader_context, run_with_rescaling, splits_of
from tests.datastream.running import environment, read_files

DATA = Path(__file__).parent / "data"
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
    with (tmp_path / "c.avro").open("wb") as file:
        fastavro.writer(file, "long", [1, 2])
    with pytest.raises(SourceError, match=r"c\.avro: its values are Long, not records"):
        FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "c.avro").build()
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
    recursive = {"type": "record", "name": "r", "fields": [{"name": "f", "type": ["null", "r"]}]}
    with pytest.raises(TypeError, match="the Avro type 'r' is recursive"):
        AvroTypes(recursive)
    with pytest.raises(ValueError, match="not an Avro schema: UnknownType: what"):
        AvroTypes({"type": "array", "items": "what"})
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


# --- as Flink does ----------------------------------------------------------------------------------------------------


def as_tuple(value: Any) -> Any:
    """The other way."""
    if isinstance(value, Row):
        return tuple(map(as_tuple, value))
    return [as_tuple(item) for item in value] if isinstance(value, list) else value


#: Java's name of a type → ours, of those that have another one
NAMES_HERE = {
    "Row": "RowTypeInfo",
    "Map": "MapTypeInfo",
    "ObjectArrayTypeInfo": "ListTypeInfo",
    "byte[]": "PrimitiveArrayTypeInfo<Byte>",
    "Date": "DateTypeInfo",
    "Time": "TimeTypeInfo",
    "Timestamp": "TimestampTypeInfo",
    "GenericType<java.lang.Object>": "PickledByteArrayTypeInfo",
    "Void": "PickledByteArrayTypeInfo",
}
JAVA_NAME = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in NAMES_HERE))
RECORDED: dict[str, dict[str, str] | None] = json.loads((DATA / "avro_messages.json").read_text(encoding="utf-8"))


def as_row(value: Any) -> Any:
    """A value of `avro_message_cases` with rows in place of tuples."""
    if isinstance(value, tuple):
        return Row(*map(as_row, value))
    return [as_row(item) for item in value] if isinstance(value, list) else value


#: Flink writes a decimal's digits whatever its scale is, 0.15 for 1.5 here, and fails if there are fewer than bytes
FLINK_IS_WRONG = ("decimal of fewer digits", "decimal of fixed size")
REFUSED = [name for name in CASES if RECORDED[name] is None and name not in FLINK_IS_WRONG]


@pytest.mark.parametrize("name", [name for name in CASES if name not in (*REFUSED, *FLINK_IS_WRONG)])
def test_messages_of_rows_are_those_of_flink(name: str) -> None:
    (schema, values), recorded = CASES[name], RECORDED[name]
    assert recorded is not None
    row, message = as_row(values), bytes.fromhex(recorded["message"])
    assert AvroRowSerializationSchema(avro_schema_string=schema).serialize(row) == message
    reader = AvroRowDeserializationSchema(avro_schema_string=schema)
    assert as_tuple(reader.deserialize(message)) == values
    names_here = JAVA_NAME.sub(lambda found: NAMES_HERE[found[0]], recorded["type"])
    assert str(reader.get_produced_type()) == names_here


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_flink_refuses_are_refused(name: str) -> None:
    schema, values = CASES[name]
    with pytest.raises(TypeError, match="does not fit the Avro schema"):
        AvroRowSerializationSchema(avro_schema_string=schema).serialize(as_row(values))


@pytest.mark.parametrize("name", FLINK_IS_WRONG)
def test_decimals_that_flink_cannot_write_are_written(name: str) -> None:
    schema, values = CASES[name]
    message = AvroRowSerializationSchema(avro_schema_string=schema).serialize(as_row(values))
    assert fastavro.schemaless_reader(io.BytesIO(message), json.loads(schema), None) == {"a": values[0]}
    assert RECORDED[name] is None or RECORDED[name] != message.hex()


# --- unions -----------------------------------------------------------------------------------------------------------

CIRCLE = {"type": "record", "name": "circle", "fields": [{"name": "radius", "type": "double"}]}
SQUARE = {"type": "record", "name": "square", "fields": [{"name": "side", "type": ["null", "double"]}]}
SEEN = {"type": "long", "logicalType": "timestamp-millis"}
SHAPES = {
    "type": "record",
    "name": "drawing",
    "namespace": "shapes",
    "fields": [
        {"name": "shape", "type": ["null", CIRCLE, SQUARE, "string"]},
        {"name": "others", "type": {"type": "array", "items": ["circle", "square"]}},
        {"name": "seen", "type": ["null", SEEN, "string", {"type": "map", "values": SEEN}]},
        {"name": "frame", "type": ["null", "square"]},
        {"name": "nothing", "type": "null"},
    ],
}
INSTANT = Instant(1_709_210_096, 789_000_000)
MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=datetime.UTC)


def drawing(**fields: Any) -> Row:
    return Row(**{"shape": None, "others": [], "seen": None, "frame": None, "nothing": None} | fields)


@pytest.mark.parametrize(
    ("row", "datum"),
    [
        (drawing(), {}),
        (drawing(shape=Row(radius=1.5)), {"shape": {"radius": 1.5}}),
        (drawing(shape=Row(side=2.0)), {"shape": {"side": 2.0}}),
        (drawing(shape="none"), {"shape": "none"}),
        (drawing(others=[Row(side=None), Row(radius=1.0)]), {"others": [("shapes.square", {}), {"radius": 1.0}]}),
        (drawing(seen=INSTANT), {"seen": MOMENT}),
        (drawing(seen="never"), {"seen": "never"}),
        (drawing(seen={"first": INSTANT}), {"seen": {"first": MOMENT}}),
        (drawing(frame=Row(side=3.0)), {"frame": {"side": 3.0}}),
    ],
)
def test_a_value_of_a_union_is_that_of_its_branch(row: Row, datum: dict[str, Any], tmp_path: Path) -> None:
    message = io.BytesIO()
    fastavro.schemaless_writer(message, fastavro.parse_schema(SHAPES), {"others": [], **datum})
    schema = AvroMessageSchema(SHAPES)
    assert schema.serialize(row) == message.getvalue()
    assert schema.deserialize(message.getvalue()) == row
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["shape", "others", "seen", "frame", "nothing"],
        [
            Types.PICKLED_BYTE_ARRAY(),
            Types.LIST(Types.PICKLED_BYTE_ARRAY()),
            Types.PICKLED_BYTE_ARRAY(),
            Types.ROW_NAMED(["side"], [Types.DOUBLE()]),
            Types.PICKLED_BYTE_ARRAY(),
        ],
    )
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, SHAPES, [{"others": [], **datum}])
    assert SourceRig(FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "a.avro").build()).run().values == [row]


@pytest.mark.parametrize(("unit", "ticks"), [("millis", 1_709_210_096_789), ("micros", 1_709_210_096_789_000)])
def test_timestamps_are_written_in_the_unit_of_their_schema(
    unit: str, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"type": "long", "logicalType": f"timestamp-{unit}"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "at", "type": ["null", kind]}]}
    expected = io.BytesIO()
    fastavro.schemaless_writer(expected, fastavro.parse_schema(schema), {"at": ticks})
    assert AvroMessageSchema(schema).serialize(Row(at=INSTANT)) == expected.getvalue()
    assert AvroMessageSchema(schema).deserialize(expected.getvalue()) == Row(at=INSTANT)
    # date-times without a zone are in UTC, wherever the process is
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        legacy = AvroRowSerializationSchema(avro_schema_string=json.dumps(schema))
        assert legacy.serialize(Row(MOMENT.replace(tzinfo=None))) == expected.getvalue()
        assert legacy.serialize(Row(MOMENT)) == expected.getvalue()
    finally:
        monkeypatch.undo()
        time.tzset()


# --- files of other writers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("id", "int", ...), ("name", "string", ...), ("more", "int", 7)], Row(id=1, name="a", more=7)),
        ([("name", "string", ...)], Row(name="a")),
        ([("name", "string", ...), ("id", "double", ...)], Row(name="a", id=1.0)),
        ([("id", ["null", "long"], None)], Row(id=1)),
    ],
    ids=["added", "dropped", "promoted and reordered", "nullable"],
)
def test_files_are_read_by_the_schema_of_the_reader(
    fields: list[tuple[str, Any, Any]], expected: Row, tmp_path: Path
) -> None:
    written = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": written}, [{"id": 1, "name": "a"}])
    wanted = [
        {"name": name, "type": kind, **({} if default is ... else {"default": default})}
        for name, kind, default in fields
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": wanted})
    source = FileSource.for_bulk_file_format(AvroFormat(schema), tmp_path / "a.avro").build()
    assert SourceRig(source).run().values == [expected]


def test_files_that_do_not_fit_the_schema_of_the_reader_are_named(tmp_path: Path) -> None:
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, avro_schema(INNER), [{"x": 1.0}])
    schema = {"type": "record", "name": "record", "fields": [{"name": "y", "type": "int"}]}
    source = FileSource.for_bulk_file_format(AvroFormat(json.dumps(schema)), tmp_path).build()
    with pytest.raises(SourceError, match=r"a\.avro, block at byte \d+: .*y"):
        SourceRig(source).run()


def test_blocks_that_java_has_packed_with_snappy_are_read() -> None:
    source = FileSource.for_bulk_file_format(AvroFormat(), DATA / "snappy.avro").set_splits(3).build()
    rows = [row for split in splits_of(source) for row in read_split(source, split)]
    assert rows == [Row(n=n, t=None if n % 5 == 0 else "tide " * (n % 7)) for n in range(200)]


def test_a_damaged_snappy_block_is_named(tmp_path: Path) -> None:
    data = bytearray((DATA / "snappy.avro").read_bytes())
    data[-SYNC_BYTES - 1] ^= 1
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(SourceError, match="the block's checksum is wrong"):
        SourceRig(FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "a.avro").build()).run()


def test_blocks_packed_with_zstandard_are_read(tmp_path: Path) -> None:
    schema, sync, head = fastavro.parse_schema(avro_schema(INNER)), b"s" * SYNC_BYTES, io.BytesIO()
    fastavro.writer(head, schema, [], codec="null", sync_marker=sync)
    # a text's length stands before it
    file = head.getvalue().replace(b"\x08null", b"\x12zstandard")
    for first in (0, 2000):
        block = io.BytesIO()
        for x in range(first, first + 2000):
            fastavro.schemaless_writer(block, schema, {"x": float(x)})
        packed = pa.Codec("zstd").compress(block.getvalue(), asbytes=True)
        file += to_number(2000) + to_number(len(packed)) + packed + sync
    (tmp_path / "a.avro").write_bytes(file)
    source = FileSource.for_bulk_file_format(AvroFormat(), tmp_path / "a.avro").build()
    assert [row.x for row in SourceRig(source).run().values] == list(range(4000))
