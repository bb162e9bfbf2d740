"""Whole jobs into sinks that commit with checkpoints: restarts leave neither gaps nor doubles, nor anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runtime.common import Row, Types, WatermarkStrategy
from runtime.connectors import BucketAssigner, FileSink
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee, Sink
from runtime.testing import JobResult, ScriptedSource, crash, pause, run_job, until_checkpoint
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob, options_of
from tests.connectors.postgres_fixture import running_postgres
from tests.job_runs import record_run

ROW = Types.ROW_NAMED(["id", "part"], [Types.LONG(), Types.LONG()])
TOTAL = 80


def numbers(split: int) -> list[Any]:
    """Forty numbers, with time between them in which checkpoints are taken; the first split crashes on its way."""
    script: list[Any] = []
    for number in range(split * 40, split * 40 + 40):
        script += [number, pause(40)]
        if number == 8:
            script.append(until_checkpoint(1))
        if number in (3, 17, 30):
            script.append(crash(f"at {number}"))
    return script


def as_row(number: int) -> Row:
    return Row(id=number, part=number % 3)


def run(sink: Sink, directory: Path, parallelism: int, script: ScriptedSource | None = None) -> JobResult:
    def build(env: StreamExecutionEnvironment) -> None:
        source = script or ScriptedSource(numbers(0), numbers(1))
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        stream.map(as_row, ROW).rebalance().sink_to(sink).uid("sink")

    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    record_run("mini-cluster")
    return run_job(build, parallelism=parallelism, options=options)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_files_hold_every_record_once_after_three_crashes(parallelism: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = FileSink.for_ndjson(out).with_bucket_assigner(BucketAssigner.by_field("part")).build()
    result = run(sink, tmp_path, parallelism)
    assert result.restarts == 3
    files = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.startswith(".")]
    records = [(json.loads(line)["id"], path.parent.name) for path in files for line in path.read_text().splitlines()]
    assert sorted(records) == [(number, f"part={number % 3}") for number in range(TOTAL)]


@pytest.mark.slow
def test_a_table_holds_every_record_once_after_three_crashes(tmp_path: Path) -> None:
    with running_postgres(max_prepared_transactions=64) as url, psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE numbers (id bigint, part bigint)")
        sink = PostgresSink(url, "numbers", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
        assert run(sink, tmp_path, 2).restarts == 3
        found = database.execute("SELECT id FROM numbers ORDER BY id").fetchall()
        assert [number for (number,) in found] == list(range(TOTAL))
        assert database.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []


@pytest.mark.slow
def test_a_job_that_died_with_unique_rows_prepared_is_started_again_by_claiming_its_checkpoint(tmp_path: Path) -> None:
    source = GatedSource(*[[(n, n) for n in range(start, start + 40)] for start in (0, 40)], type_info=Types.LONG())
    clock, options = JobClock(), options_of(tmp_path)
    with running_postgres(max_prepared_transactions=64) as url, psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE numbers (id bigint UNIQUE, part bigint)")
        sink = PostgresSink(url, "numbers", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)

        def build(env: StreamExecutionEnvironment) -> None:
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
            stream.map(as_row, ROW).sink_to(sink).uid("sink")

        with RunningJob(build, clock, 2, options).start() as job:
            source.let_through(10)
            job.settle()
            checkpoint = job.answer(job.driver.trigger_checkpoint())
            source.let_through(20)
            job.settle()
            # prepares, and commits nothing
            job.answer(job.driver.trigger_savepoint())
            job.cancel()
        assert len(database.execute("SELECT gid FROM pg_prepared_xacts").fetchall()) == 2
        with RunningJob(build, clock, 2, options, checkpoint, claims=True).start() as job:
            source.end()
            job.run()
        found = database.execute("SELECT id FROM numbers ORDER BY id").fetchall()
        assert [number for (number,) in found] == list(range(TOTAL))
        assert database.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
