"""CSV files in many dialects: which texts are written with quotes, and what is read back."""

import tempfile
from decimal import Decimal
from pathlib import Path

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource
from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema, CsvSchemaBuilder

try:
    from pyflink.table import DataTypes
except ImportError:
    from pyflink.common import Types as DataTypes

TYPE = Types.ROW_NAMED(
    ["a b", "b", "words", "d"],
    [Types.STRING(), Types.INT(), Types.OBJECT_ARRAY(Types.STRING()), Types.BIG_DEC()],
)
TEXTS = [
    *("plain", "a,b", 'a"b', '"', "it's", " lead", "trail ", "a\tb", "#c", "a\\b", "a\\nb", "a;b", "a|b", "a!b", "+1"),
    *("x" * 24, "x" * 25, "日本", "日" * 25, "😀" * 12, "😀" * 12 + "x", "NULL"),
]
ROWS = [
    *(Row(text, 1, ["p", "q"], Decimal("1.5")) for text in TEXTS),
    Row("words", 2, ["a b", 'q"q'], Decimal("10")),
    Row("long words", -3, ["twelve chars", "twelve chars"], Decimal("0.00000001")),
    Row("one word", 4, ["x"], Decimal("-2.25")),
]
NULLS = [Row(None, 1, ["p"], Decimal("1")), Row("x", None, ["p", None], None)]


def builder() -> CsvSchemaBuilder:
    columns = CsvSchema.builder().add_string_column("a b").add_number_column("b", DataTypes.INT())
    return columns.add_array_column("words").add_number_column(
        "d", DataTypes.DECIMAL(20, 10) if hasattr(DataTypes, "DECIMAL") else Types.BIG_DEC()
    )


DIALECTS = {
    "default": builder(),
    "header": builder().set_use_header(),
    "escape": builder().set_escape_char("\\"),
    "escape !": builder().set_escape_char("!"),
    "no quotes": builder().set_column_separator("\x01").disable_quote_char(),
    "semicolon": builder().set_column_separator(";").set_array_element_separator(","),
    "pipe": builder().set_column_separator("|"),
    "tab": builder().set_column_separator("\t"),
    "single quote": builder().set_quote_char("'"),
    "null": builder().set_null_value("NULL"),
}


def show(name: str, row: Row) -> str:
    return f"{name}: {row[0]!r} {row[1]} {row[2] if row[2] is None else list(row[2])}"


def rows_of(name: str) -> list:
    return [*(row for row in ROWS if row[0] != "NULL"), *NULLS] if name == "null" else ROWS


def write(schemas: dict, root: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for name, schema in schemas.items():
        rows = rows_of(name)
        numbers = env.from_collection(list(range(len(rows))), Types.INT())
        written = numbers.map(lambda index, rows=rows: rows[index], TYPE)
        files = FileSink.for_bulk_format(str(root / name), CsvBulkWriters.for_schema(schema))
        written.sink_to(files.build())
    env.execute()


def read(schemas: dict, root: Path) -> list:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    streams = []
    for name, schema in schemas.items():
        files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(root / name)).build()
        rows = env.from_source(files, WatermarkStrategy.no_watermarks(), name)
        streams.append(rows.map(lambda row, name=name: show(name, row), Types.STRING()))
    with streams[0].union(*streams[1:]).execute_and_collect() as lines:
        return list(lines)


def main() -> None:
    schemas = {name: dialect.build() for name, dialect in DIALECTS.items()}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write(schemas, root)
        for name in schemas:
            print(f"--- {name}")
            for path in sorted((root / name).rglob("part-*")):
                print(path.read_text(), end="")
        for line in sorted(read(schemas, root)):
            print(line)


if __name__ == "__main__":
    main()
