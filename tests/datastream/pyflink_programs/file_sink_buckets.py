"""Directories and names of the part files of a FileSink, with each bucket assigner; digits are shown as 0."""

import re
import tempfile
from pathlib import Path

from pyflink.common import Row, Types
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig
from pyflink.datastream.formats.csv import CsvBulkWriters, CsvSchema

try:
    from pyflink.table import DataTypes
except ImportError:
    from pyflink.common import Types as DataTypes


def rows_to(directory):
    return FileSink.for_row_format(directory, Encoder.simple_string_encoder())


def csv_to(directory):
    schema = CsvSchema.builder().add_number_column("n", DataTypes.INT()).build()
    return FileSink.for_bulk_format(directory, CsvBulkWriters.for_schema(schema))


NAMES = OutputFileConfig.builder().with_part_prefix("tide").with_part_suffix(".txt").build()

SINKS = {
    "lines": rows_to,
    "lines, one bucket": lambda to: rows_to(to).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()),
    "lines by hour": lambda to: rows_to(to).with_bucket_assigner(BucketAssigner.date_time_bucket_assigner()),
    "lines by month": lambda to: rows_to(to).with_bucket_assigner(
        BucketAssigner.date_time_bucket_assigner("yyyy/MM", "UTC")
    ),
    "lines by names": lambda to: rows_to(to).with_bucket_assigner(
        BucketAssigner.date_time_bucket_assigner("'year='yyyy'-day='dd", "Asia/Tokyo")
    ),
    "lines with names": lambda to: rows_to(to).with_output_file_config(NAMES),
    "csv": csv_to,
    "csv, one bucket": lambda to: csv_to(to).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()),
    "csv by day": lambda to: csv_to(to).with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd")),
    "csv with names": lambda to: csv_to(to).with_output_file_config(NAMES),
}


def shape(path: Path) -> str:
    """A path whose ids and dates are blotted out."""
    return re.sub(r"\d", "0", re.sub(r"(part|tide)-[-0-9a-f]+", r"\1-ID", path.as_posix()))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3], Types.INT())
    rows = numbers.map(lambda n: Row(n=n), Types.ROW_NAMED(["n"], [Types.INT()]))
    with tempfile.TemporaryDirectory() as directory:
        for name, make in SINKS.items():
            written = rows if name.startswith("csv") else numbers
            written.sink_to(make(f"{directory}/{name}").build())
        env.execute()
        for path in sorted(path for path in Path(directory).rglob("*") if path.is_file()):
            print(f"{shape(path.relative_to(directory))}: {path.read_text()!r}")


if __name__ == "__main__":
    main()
