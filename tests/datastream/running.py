"""Runs programs on a MiniCluster of this process, whose clock moves to the next deadline by itself.

What a stream delivers comes back as a list: `values_of(stream)`. Every run is counted for the report of `make test`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.common.configuration import Configuration
from runtime.common.time import Duration
from runtime.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from runtime.connectors.formats.file_format import FileFormat
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource
from tests.job_runs import record_run

PARALLELISMS = (1, 3)
at_each_parallelism = pytest.mark.parametrize("parallelism", PARALLELISMS)


class SecondField(TimestampAssigner):
    """Event time is the record's second field, ms."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def environment(parallelism: int = 1, options: Mapping[str, str] | None = None) -> StreamExecutionEnvironment:
    """An environment that runs jobs in this process."""
    configuration = Configuration()
    configuration.set_string("execution.target", "mini-cluster")
    configuration.set_integer("parallelism.default", parallelism)
    for key, value in (options or {}).items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def values_of(stream: DataStream) -> list[Any]:
    """Run the program and give all that the stream delivers, in order of arrival."""
    record_run("mini-cluster")
    with stream.execute_and_collect() as records:
        return list(records)


def sorted_values_of(stream: DataStream) -> list[Any]:
    """Return `values_of` sorted: at a parallelism above 1 there is no order."""
    return sorted(values_of(stream))


def read_files(file_format: FileFormat, path: Path) -> list[list[Any]]:
    """Read the rows of the files below a path, in a program."""
    source = FileSource.for_record_stream_format(file_format, path).build()
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "files")
    return [list(row) for row in values_of(stream)]


def row_by_row(delay_ms: int = 0) -> WatermarkStrategy:
    """Watermarks behind every record, if the interval is 0: lateness then depends on the order of the input alone."""
    bound = Duration.of_millis(delay_ms)
    return WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_assigner(SecondField())


ROW_BY_ROW = {"pipeline.auto-watermark-interval": "0 ms"}
