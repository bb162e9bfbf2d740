"""CSV by a schema: messages and files. Plain files are in test_file_source and test_file_sink."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from runtime.datastream.formats.json import (
    JsonRowSerializationSchema,
)
from tests.datastream.running import environment, read_files

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
def test_any_text_and_number_survive_csv(text: str, whole: int | None, number: float) -> None:
    kind = Types.ROW_NAMED(["t", "n", "f"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
    row = Row(text, whole, number)
    csv_writer = CsvRowSerializationSchema.Builder(kind).set_null_literal("\\N").build()
    csv_reader = CsvRowDeserializationSchema.Builder(kind).set_null_literal("\\N").build()
    if text != "\\N":
        assert list(csv_reader.deserialize(csv_writer.serialize(row)) or []) == list(row)


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
    assert read_files(CsvReaderFormat.for_schema(schema().build()), path) == [
        ["Em;den", 310, True, ["a", "b"]],
        [None] * 4,
    ]
    skipping = schema().set_skip_first_data_row().build()
    assert read_files(CsvReaderFormat.for_schema(skipping), path) == [[None] * 4]


def test_a_bad_line_and_a_wrong_header_of_a_csv_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("gauge;level;ok;marks\nEmden;310;true;a\nHusum;high;true;a\n")
    with pytest.raises(Exception, match=r"a.csv, line 3 .*high"):
        read_files(CsvReaderFormat.for_schema(schema().build()), path)
    path.write_text("level;gauge\n")
    with pytest.raises(Exception, match=r"a.csv, line 1: the header is \['level', 'gauge'\]"):
        read_files(CsvReaderFormat.for_schema(schema().set_strict_headers().build()), path)


def test_a_schema_grows_column_by_column() -> None:
    builder = CsvSchema.builder().add_columns_from(schema().build()).add_number_column("more")
    assert (len(builder), builder.size()) == (5, 5)
    built = builder.build()
    assert (len(built), built.row_type.get_field_types()[-1]) == (5, Types.LONG())
    with pytest.raises(ValueError, match="columns of different names"):
        builder.clear_columns().build()
    with pytest.raises(NotImplementedError):
        builder.set_any_property_name("rest")


def test_a_bulk_writer_writes_csv_files_that_can_be_read(tmp_path: Path) -> None:
    row_type: RowTypeInfo = Types.ROW_NAMED(["gauge", "level"], [Types.STRING(), Types.INT()])
    csv_schema = CsvSchema.builder().add_string_column("gauge").add_number_column("level", Types.INT()).build()
    env = environment()
    rows = env.from_collection([Row("Emden", 310), Row("Husum", 281)], row_type)
    factory = CsvBulkWriters.for_schema(csv_schema)
    rows.sink_to(FileSink.for_bulk_format(tmp_path / "out", factory).build())
    env.execute()
    assert read_files(CsvReaderFormat.for_schema(csv_schema), tmp_path / "out") == [["Emden", 310], ["Husum", 281]]
    assert factory.get_row_type() == row_type


def test_texts_that_an_expression_has_made_are_written(tmp_path: Path) -> None:
    env = environment()
    rows = env.from_collection([("a",), ("b,c",)], Types.ROW_NAMED(["name"], [Types.STRING()]))
    rows.select("name || '!' AS name").sink_to(FileSink.for_csv(tmp_path).build())
    env.execute()
    (file,) = tmp_path.rglob("*.csv")
    assert file.read_text() == '"name"\n"a!"\n"b,c!"\n'
