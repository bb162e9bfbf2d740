"""A filter that looks at two columns of seven, from NDJSON, CSV and Parquet, beside the same by hand in Polars.

The job declares all columns, as a pipeline does whose source is described once; what is read of them is for the engine
to find out. The loops decode all, or what a careful hand would write down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bids import wide_bids
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import CPU, TIDEMARK, Options, Outcome, Run, Target, Work, looped
from benchmarks.reference import column_loops
from benchmarks.sinks import DigestSink, read_cpu_seconds, read_digest
from runtime.common import Types, WatermarkStrategy
from runtime.connectors import CsvFormat, NdjsonFormat, ParquetFormat
from runtime.connectors.formats.file_format import FileFormat
from runtime.datastream.connectors.file_system import FileSource

ROWS = {"ndjson": 5_000_000, "csv": 5_000_000, "parquet": 20_000_000}
QUICK_ROWS = 30_000
ALL = "polars, all columns"
TWO = "polars, two columns"
TYPE = Types.ROW_NAMED(
    list(column_loops.SCHEMA),
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()],
)
FORMATS: dict[str, Callable[[], FileFormat]] = {
    "ndjson": lambda: NdjsonFormat(TYPE),
    "csv": lambda: CsvFormat(TYPE, has_header=False),
    "parquet": lambda: ParquetFormat(row_type=TYPE),
}
#: share of the speed of the loop that decodes all columns. Arrow, our decoder of CSV, takes longer than Polars.
SHARES = {"ndjson": 0.9, "csv": 0.5, "parquet": 1.4}


def column_works(options: Options) -> list[Work]:
    """The filter, from each format."""
    works = []
    for kind in FORMATS:
        rows = options.rows(ROWS[kind], QUICK_ROWS)
        file = partial(wide_bids, options.directory, rows, kind)
        works.append(
            Work(
                f"columns {kind}",
                "two columns of seven: price > 90,000, 10 % of the bids",
                {
                    ALL: _loop(file, rows, options.slots, tuple(column_loops.SCHEMA)),
                    TIDEMARK: partial(_run, kind, file, rows, options),
                    TWO: _loop(file, rows, options.slots, column_loops.READ),
                },
                (Target(TIDEMARK, ALL, at_least=SHARES[kind]),),
            )
        )
    return works


def _run(kind: str, file: Callable[[], Path], rows: int, options: Options) -> Outcome:
    """Our job."""
    env = environment(options.slots, options.execution)
    source = FileSource.for_record_stream_format(FORMATS[kind](), file()).build()
    with results_directory() as directory:
        bids = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids")
        bids.where("price > 90000").select("auction", "price").sink_to(DigestSink(directory))
        run = run_job(env, f"columns {kind}")
        cpu = {CPU: read_cpu_seconds(directory)}
        return Outcome(run.seconds, rows, read_digest(directory), run.beside_seconds, cpu)


def _loop(file: Callable[[], Path], rows: int, slots: int, read: tuple[str, ...]) -> Run:
    def run() -> Outcome:
        return looped(column_loops.by_hand(file(), slots, read), rows)

    return run
