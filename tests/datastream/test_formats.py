"""Formats at PyFlink's module paths: JSON and CSV messages, CSV and Parquet files, and what each refuses."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types, WatermarkStrategy
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.files.avro import AvroFormat
from runtime.datastream.connectors.file_system import FileSink, FileSource
from runtime.datastream.formats.avro import (
    AvroBulkWriters,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from runtime.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from runtime.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    type_of_json_schema,
)
from runtime.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from tests.datastream.running import environment, values_of

NESTED = Types.ROW_NAMED(
    ["id", "price", "day", "at", "tags", "inner", "marks", "raw", "ok"],
    [
        Types.LONG(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.STRING()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.DOUBLE()]),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BOOLEAN(),
    ],
)
ROW = Row(
    7,
    Decimal("1.10"),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 5000),
    ["a", None, 'q"'],
    Row(1, 0.5),
    {"m": 3},
    b"\x00\xff",
    True,
)
JSON = (
    b'{"id":7,"price":1.10,"day":"2024-02-29","at":"2024-02-29 12:30:00.005000","tags":["a",null,"q\\""],'
    b'"inner":{"x":1,"y":0.5},"marks":{"m":3},"raw":"AP8=","ok":true}'
)


def json_reader(type_info: Any = NESTED) -> JsonRowDeserializationSchema.Builder:
    return JsonRowDeserializationSchema.builder().type_info(type_info)


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_a_row_of_every_kind_of_field_becomes_json_and_comes_back() -> None:
    written = JsonRowSerializationSchema.builder().with_type_info(NESTED).build().serialize(ROW)
    assert written == JSON
    row = json_reader().build().deserialize(written)
    assert row is not None
    assert list(row)[:5] == list(ROW)[:5]
    assert row.as_dict(True)["inner"] == {"x": 1, "y": 0.5}
    assert row.price == Decimal("1.10")
    assert str(row.price) == "1.10"
    assert json_reader().build().get_produced_type() == NESTED


def test_missing_json_fields_are_null_unless_they_are_to_fail() -> None:
    row = json_reader().build().deserialize(b'{"id": 1, "other": 2}')
    assert row is not None
    assert (row.id, row.price, row.tags) == (1, None, None)
    with pytest.raises(ValueError, match="no field 'price'"):
        json_reader().fail_on_missing_field().build().deserialize(b'{"id": 1}')


@pytest.mark.parametrize("message", [b"{", b"[1]", b'{"id": "x"}', b'{"inner": 3}', b'{"id": [1]}'])
def test_json_that_cannot_be_read_is_told_or_ignored(message: bytes) -> None:
    with pytest.raises(ValueError, match="JSON message cannot be read"):
        json_reader().build().deserialize(message)
    assert json_reader().ignore_parse_errors().build().deserialize(message) is None


def test_a_json_schema_says_which_fields_there_are() -> None:
    schema = """{"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": ["null", "string"]}, "c": {"type": "number"},
        "d": {"type": "array", "items": {"$ref": "#/definitions/point"}}, "e": {"type": "string", "format": "date"}},
        "definitions": {"point": {"type": "object", "properties": {"x": {"type": "boolean"}}}}}"""
    built = JsonRowDeserializationSchema.builder().json_schema(schema).build()
    point = Types.ROW_NAMED(["x"], [Types.BOOLEAN()])
    types = [Types.BIG_INT(), Types.STRING(), Types.BIG_DEC(), Types.OBJECT_ARRAY(point), Types.SQL_DATE()]
    assert built.get_produced_type() == Types.ROW_NAMED(["a", "b", "c", "d", "e"], types)
    with pytest.raises(ValueError, match="must be an object"):
        type_of_json_schema({"type": "string"})
    with pytest.raises(ValueError, match="no type here"):
        type_of_json_schema({"type": "object", "properties": {"x": {"type": "null"}}})


def test_json_schemas_travel_to_the_slots() -> None:
    schema = pickle.loads(pickle.dumps(json_reader().build()))
    assert schema.deserialize(JSON) == json_reader().build().deserialize(JSON)


# --- CSV messages -----------------------------------------------------------------------------------------------------

LINE = Types.ROW_NAMED(
    ["name", "level", "tags", "day"], [Types.STRING(), Types.DOUBLE(), Types.LIST(Types.INT()), Types.SQL_DATE()]
)


def test_a_row_becomes_a_line_of_csv_and_comes_back() -> None:
    row = Row('a,"b"', 1.5, [1, 2], datetime.date(2024, 1, 2))
    writer = CsvRowSerializationSchema.Builder(LINE).set_null_literal("-").build()
    reader = CsvRowDeserializationSchema.Builder(LINE).set_null_literal("-").build()
    assert writer.serialize(row) == b'"a,""b""",1.5,1;2,2024-01-02\n'
    read = reader.deserialize(writer.serialize(row))
    assert read is not None
    assert list(read) == list(row)
    assert list(reader.deserialize(b"-,-,-,-\n") or []) == [None] * 4
    assert reader.get_produced_type() == LINE


def test_floats_are_written_as_java_writes_them() -> None:
    row_type = Types.ROW_NAMED(["f", "d", "l"], [Types.FLOAT(), Types.DOUBLE(), Types.LIST(Types.FLOAT())])
    row = (3e38, 1e300, [1.1, 0.1])
    assert CsvRowSerializationSchema.Builder(row_type).build().serialize(row) == b"3.0E38,1.0E300,1.1;0.1\n"
    json_schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    assert json_schema.serialize(row) == b'{"f":3.0E38,"d":1.0E300,"l":[1.1,0.1]}'


def test_every_part_of_how_csv_is_written_can_be_chosen() -> None:
    writer = (
        CsvRowSerializationSchema.Builder(LINE)
        .set_field_delimiter("|")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_line_delimiter("\r\n")
        .build()
    )
    assert writer.serialize(Row("a|b", 2.0, [1, 2], None)) == b"'a|b'|2.0|'1/2'|\r\n"
    reader = (
        CsvRowDeserializationSchema.Builder(LINE)
        .set_field_delimiter("|")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_null_literal("")
        .set_allow_comments(True)
        .build()
    )
    assert list(reader.deserialize(b"'a|b'|2.0|'1/2'|\r\n") or []) == ["a|b", 2.0, [1, 2], None]
    assert reader.deserialize(b"# nothing") is None
    escaped = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["a"], [Types.STRING()])).set_escape_character("\\")
    assert list(escaped.build().deserialize(b"a\\,b") or []) == ["a,b"]
    bare = CsvRowSerializationSchema.Builder(Types.ROW_NAMED(["a"], [Types.STRING()])).disable_quote_character()
    assert bare.build().serialize(Row("a,b")) == b"a,b\n", "as Flink writes it, though nobody can tell the fields apart"


@pytest.mark.parametrize("message", [b"a,1.5", b"a,high,1,2024-01-02", b"a,1,1,2024-13-02", b'"a'])
def test_csv_that_cannot_be_read_is_told_or_ignored(message: bytes) -> None:
    with pytest.raises(ValueError, match="CSV message cannot be read"):
        CsvRowDeserializationSchema.Builder(LINE).build().deserialize(message)
    lenient = CsvRowDeserializationSchema.Builder(LINE).set_ignore_parse_errors(True).build()
    assert lenient.deserialize(message) is None


ONE_TEXT = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *(("", b",1\n"), (None, b",1\n"), (" x", b'" x",1\n'), ("#c", b'"#c",1\n'), ("a\\b", b'"a\\b",1\n')),
        *(("a\rb", b'"a\rb",1\n'), ("a;b", b"a;b,1\n"), ("\x7f", b"\x7f,1\n"), ('"', b'"""",1\n')),
        *(("x" * 24, b"x" * 24 + b",1\n"), ("x" * 25, b'"' + b"x" * 25 + b'",1\n')),
    ],
)
def test_texts_of_csv_messages_are_quoted_as_flink_quotes_them(text: str | None, line: bytes) -> None:
    assert CsvRowSerializationSchema.Builder(ONE_TEXT).build().serialize(Row(text, 1)) == line


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.BIG_DEC(), Decimal("1.50"), b"1.50"),
        (Types.BIG_DEC(), Decimal("1E-10"), b"1E-10"),
        (Types.SQL_DATE(), datetime.date(2020, 1, 2), b"2020-01-02"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5), b'"2020-01-02 03:04:05.0"'),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5, 120_000), b'"2020-01-02 03:04:05.12"'),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", b"YWI="),
        (Types.OBJECT_ARRAY(Types.INT()), list(range(20)), b'"0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19"'),
    ],
)
def test_values_of_csv_messages_have_the_texts_that_flink_writes(type_info: Any, value: Any, text: bytes) -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [type_info, Types.INT()])
    line = CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(value, 1))
    assert line == text + b",1\n"
    assert list(CsvRowDeserializationSchema.Builder(row_type).build().deserialize(line) or []) == [value, 1]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        *((b'"a" ,1', "a"), (b'a"b,1', 'a"b'), (b' "a",1', ' "a"'), (b'"a\\"b",1', 'a"b'), (b'"a""b",1', 'a"b')),
        *((b"a\\,b,1", "a,b"), (b'"a\\nb\\0\\x",1', "a\nb\0x"), (b"\xef\xbb\xbfa,1", "a"), (b'"a\r\nb",1', "a\r\nb")),
    ],
)
def test_csv_messages_are_read_as_flink_reads_them(message: bytes, expected: str) -> None:
    reader = CsvRowDeserializationSchema.Builder(ONE_TEXT).set_escape_character("\\").build()
    assert list(reader.deserialize(message) or []) == [expected, 1]


@pytest.mark.parametrize("message", [b'"a"x,1', b'"a,1', b"a\rb,1", b"a,1_0", b"a,1\nb,2"])
def test_what_is_no_line_of_csv_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="CSV message cannot be read"):
        CsvRowDeserializationSchema.Builder(ONE_TEXT).build().deserialize(message)


def test_csv_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(TypeError, match="a row type is needed"):
        CsvRowSerializationSchema.Builder(Types.INT())
    with pytest.raises(ValueError, match="must be one character"):
        CsvRowSerializationSchema.Builder(LINE).set_field_delimiter(", ")
    with pytest.raises(TypeError, match="cannot be written as text"):
        CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["m"], [Types.MAP(Types.INT(), Types.INT())])).build()


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"))


@given(_TEXT, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), st.floats(allow_nan=False))
def test_any_text_and_number_survive_csv_and_json(text: str, whole: int | None, number: float) -> None:
    kind = Types.ROW_NAMED(["t", "n", "f"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    row = Row(text, whole, number)
    csv_writer = CsvRowSerializationSchema.Builder(kind).set_null_literal("\\N").build()
    csv_reader = CsvRowDeserializationSchema.Builder(kind).set_null_literal("\\N").build()
    if text != "\\N":
        assert list(csv_reader.deserialize(csv_writer.serialize(row)) or []) == list(row)
    written = JsonRowSerializationSchema.builder().with_type_info(kind).build().serialize(row)
    assert list(json_reader(kind).build().deserialize(written) or []) == list(row)


# --- files ------------------------------------------------------------------------------------------------------------


def read(file_format: Any, path: Path) -> list[Any]:
    source = FileSource.for_record_stream_format(file_format, path).build()
    env = environment()
    return [list(row) for row in values_of(env.from_source(source, WatermarkStrategy.no_watermarks(), "files"))]


def schema() -> Any:
    return (
        CsvSchema.builder()
        .add_string_column("gauge")
        .add_number_column("level", Types.INT())
        .add_boolean_column("ok")
        .add_array_column("marks", "|")
        .set_column_separator(";")
        .set_null_value("-")
        .set_use_header()
        .set_allow_comments()
    )


def test_csv_files_of_a_schema_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('gauge;level;ok;marks\n"Em;den";310;true;a|b\n# no line\n-;-;-;-\n')
    assert read(CsvReaderFormat.for_schema(schema().build()), path) == [["Em;den", 310, True, ["a", "b"]], [None] * 4]
    skipping = schema().set_skip_first_data_row().build()
    assert read(CsvReaderFormat.for_schema(skipping), path) == [[None] * 4]


def test_a_bad_line_and_a_wrong_header_of_a_csv_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("gauge;level;ok;marks\nEmden;310;true;a\nHusum;high;true;a\n")
    with pytest.raises(Exception, match=r"a.csv, line 3 .*high"):
        read(CsvReaderFormat.for_schema(schema().build()), path)
    path.write_text("level;gauge\n")
    with pytest.raises(Exception, match=r"a.csv, line 1: the header is \['level', 'gauge'\]"):
        read(CsvReaderFormat.for_schema(schema().set_strict_headers().build()), path)


def test_a_schema_grows_column_by_column() -> None:
    builder = CsvSchema.builder().add_columns_from(schema().build()).add_number_column("more")
    assert (len(builder), builder.size()) == (5, 5)
    built = builder.build()
    assert (len(built), built.row_type.get_field_types()[-1]) == (5, Types.LONG())
    with pytest.raises(ValueError, match="columns of different names"):
        builder.clear_columns().build()
    with pytest.raises(NotImplementedError):
        builder.set_any_property_name("rest")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_a_bulk_writer_writes_can_be_read(kind: str, tmp_path: Path) -> None:
    row_type: RowTypeInfo = Types.ROW_NAMED(["gauge", "level"], [Types.STRING(), Types.INT()])
    csv_schema = CsvSchema.builder().add_string_column("gauge").add_number_column("level", Types.INT()).build()
    env = environment()
    rows = env.from_collection([Row("Emden", 310), Row("Husum", 281)], row_type)
    factory: Any = CsvBulkWriters.for_schema(csv_schema) if kind == "csv" else ParquetBulkWriters.for_row_type(row_type)
    rows.sink_to(FileSink.for_bulk_format(tmp_path / "out", factory).build())
    env.execute()
    files: Any = CsvReaderFormat.for_schema(csv_schema) if kind == "csv" else ParquetColumnarRowInputFormat(row_type)
    assert read(files, tmp_path / "out") == [["Emden", 310], ["Husum", 281]]
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
    assert read(AvroFormat(AVRO), tmp_path / "out") == [["Emden", 5], ["Husum", 5]]
    with pytest.raises(TypeError, match="schema of records"):
        AvroSchema.parse_string('"int"')
