"""CSV files written from rows: the text of numbers and texts."""

import tempfile
from pathlib import Path

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.formats.csv import CsvBulkWriters, CsvSchema

try:
    from pyflink.table import DataTypes
except ImportError:
    from pyflink.common import Types as DataTypes

SCHEMA = (
    CsvSchema.builder()
    .add_number_column("i", DataTypes.INT())
    .add_number_column("f", DataTypes.FLOAT())
    .add_number_column("d", DataTypes.DOUBLE())
    .add_boolean_column("b")
    .add_string_column("s")
    .build()
)
TYPE = Types.ROW_NAMED(
    ["i", "f", "d", "b", "s"], [Types.INT(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING()]
)
ROWS = [
    Row(i=1, f=1.1, d=1.1, b=True, s="plain"),
    Row(i=-(2**31), f=3e38, d=1e300, b=False, s="日本"),
    Row(i=0, f=1e-10, d=1e-10, b=True, s="x"),
    Row(i=7, f=100.0, d=12345678.0, b=True, s="1.5"),
    Row(i=8, f=16777216.0, d=0.001, b=True, s="y"),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    with tempfile.TemporaryDirectory() as directory:
        rows = env.from_collection([0, 1, 2, 3, 4], Types.INT()).map(lambda index: ROWS[index], TYPE)
        rows.sink_to(FileSink.for_bulk_format(directory, CsvBulkWriters.for_schema(SCHEMA)).build())
        env.execute()
        for path in sorted(Path(directory).rglob("part-*")):
            print(path.read_text(), end="")


if __name__ == "__main__":
    main()
