"""Files: a CSV file is read, written as Parquet, and that is read again, one of its columns only."""

from __future__ import annotations

import tempfile
from pathlib import Path

from runtime.common import Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from runtime.datastream.formats.csv import CsvReaderFormat, CsvSchema
from runtime.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

READINGS = """gauge;level;marks
Emden;310;high|rising
Husum;281;
# a comment
Emden;655;alarm
"""


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = (
        CsvSchema.builder()
        .add_string_column("gauge")
        .add_number_column("level", Types.INT())
        .add_array_column("marks", "|")
        .set_column_separator(";")
        .set_use_header()
        .set_allow_comments()
        .build()
    )
    with tempfile.TemporaryDirectory() as directory:
        csv_file, parquet = Path(directory, "readings.csv"), Path(directory, "parquet")
        csv_file.write_text(READINGS)
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), csv_file).build()
        readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "readings")
        readings.print("read")
        # not a directory for each hour, as by default
        buckets = BucketAssigner.base_path_bucket_assigner()
        sink = FileSink.for_bulk_format(parquet, ParquetBulkWriters.for_row_type(schema.row_type))
        readings.sink_to(sink.with_bucket_assigner(buckets).build())
        env.execute("CSV to Parquet")

        level = Types.ROW_NAMED(["level"], [Types.INT()])
        columns = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(level), parquet).build()
        env.from_source(columns, WatermarkStrategy.no_watermarks(), "levels").print("level")
        env.execute("one column of Parquet")


if __name__ == "__main__":
    main()
