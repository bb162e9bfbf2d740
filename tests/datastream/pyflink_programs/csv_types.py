"""CSV of columns of each type, written from rows and read back: limits, truth values, arrays, floats."""

import tempfile
from decimal import Decimal
from pathlib import Path

from outcomes import show_together
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource
from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema

try:
    from pyflink.table import DataTypes
except ImportError:
    from pyflink.common import Types as DataTypes

TINYINT = DataTypes.TINYINT() if hasattr(DataTypes, "TINYINT") else DataTypes.BYTE()
SMALLINT = DataTypes.SMALLINT() if hasattr(DataTypes, "SMALLINT") else DataTypes.SHORT()
BIGINT = DataTypes.BIGINT() if hasattr(DataTypes, "BIGINT") else DataTypes.LONG()
DECIMAL = DataTypes.DECIMAL(38, 18) if hasattr(DataTypes, "DECIMAL") else DataTypes.BIG_DEC()


def number(kind):
    return CsvSchema.builder().add_number_column("c", kind)


def array(kind):
    return CsvSchema.builder().add_array_column("c", ";", kind)


CASES = {
    "TINYINT": (number(TINYINT), Types.BYTE(), [127, -128]),
    "SMALLINT": (number(SMALLINT), Types.SHORT(), [32767]),
    "INT": (number(DataTypes.INT()), Types.INT(), [2**31 - 1]),
    "BIGINT": (number(BIGINT), Types.LONG(), [-(2**63)]),
    "FLOAT": (number(DataTypes.FLOAT()), Types.FLOAT(), [3e38, 1.1, 1e-10, 0.001, 1e7, -0.0]),
    "DOUBLE": (number(DataTypes.DOUBLE()), Types.DOUBLE(), [1e300, 1.1, 1e-10, 0.001, 1e7, 5e-324]),
    "DECIMAL": (number(DECIMAL), Types.BIG_DEC(), [Decimal("1.50"), Decimal("1E+5"), Decimal("0.000000001")]),
    "BOOLEAN": (CsvSchema.builder().add_boolean_column("c"), Types.BOOLEAN(), [True, False]),
    "STRING": (CsvSchema.builder().add_string_column("c"), Types.STRING(), ["", "true", "1.0", "null", None]),
    "array of STRING": (array(DataTypes.STRING()), Types.OBJECT_ARRAY(Types.STRING()), [["a", "b"], []]),
    "array of INT": (array(DataTypes.INT()), Types.OBJECT_ARRAY(Types.INT()), [[1, -2], [3]]),
    "array of DOUBLE": (array(DataTypes.DOUBLE()), Types.OBJECT_ARRAY(Types.DOUBLE()), [[1.5, 1e10]]),
}


def write(cases: dict, root: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for name, (builder, kind, values) in cases.items():
        row_type = Types.ROW_NAMED(["c", "z"], [kind, Types.INT()])
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        rows = indexes.map(lambda index, values=values: Row(values[index], index), row_type)
        schema = builder.add_number_column("z", DataTypes.INT()).build()
        rows.sink_to(FileSink.for_bulk_format(str(root / name), CsvBulkWriters.for_schema(schema)).build())
    env.execute()
    for name in cases:
        for path in sorted((root / name).rglob("part-*")):
            print(f"{name}: {path.read_text()!r}")


def read(cases: dict, root: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    texts = {}
    for name, (builder, _, _) in cases.items():
        files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(builder.build()), str(root / name))
        rows = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), name)
        texts[f"{name} read"] = rows.map(lambda row: f"{row[0]!r}", Types.STRING())
    show_together(texts)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        write(CASES, Path(directory))
        read(CASES, Path(directory))


if __name__ == "__main__":
    main()
