"""Whole jobs into sinks that commit with checkpoints: restarts leave neither gaps nor doubles, nor anything else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BucketAssigner, FileSink
from runtime.connectors.postgres_sink import PostgresSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee, Sink
from runtime.jobmaster.job_state import JobState
from runtime.testing import JobResult, ScriptedSource, crash, pause, run_job, until_checkpoint
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob, options_of
from tests.connectors.chain_program import ROW, TOTAL, as_row, numbers_source, write_to
from tests.connectors.postgres_fixture import running_postgres
from tests.job_runs import record_run


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


def hidden_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob(".*") if path.is_file()]


def records_in(directory: Path) -> list[tuple[int, str]]:
    """Numbers in visible files, with their buckets."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(
        (json.loads(line)["id"], path.parent.name) for path in files for line in path.read_text().splitlines()
    )


@pytest.mark.parametrize("parallelism", [1, 3])
def test_files_hold_every_record_once_after_three_crashes(parallelism: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = FileSink.for_ndjson(out).with_bucket_assigner(BucketAssigner.by_field("part")).build()
    result = run(sink, tmp_path, parallelism)
    assert result.restarts == 3
    assert hidden_in(out) == []
    assert records_in(out) == [(number, f"part={number % 3}") for number in range(TOTAL)]


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


# --- savepoints that the job goes on behind ---------------------------------------------------------------------------

EACH_ONCE = [(number, f"part={number % 3}") for number in range(TOTAL)]
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "10 ms",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
}


@pytest.mark.parametrize("after", [1, 3, None])
def test_a_savepoint_is_restored_whatever_its_job_did_behind_it(after: int | None, tmp_path: Path) -> None:
    out, source, clock = tmp_path / "out", numbers_source(), JobClock()
    sink = FileSink.for_ndjson(out).with_bucket_assigner(BucketAssigner.by_field("part")).build()
    options = options_of(tmp_path, **RESTARTS)
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options).start() as job:
        source.let_through(20)
        job.settle()
        savepoint = job.answer(job.driver.trigger_savepoint())
        if after is not None:
            job.result(job.driver.rescale({v.vertex_id: after for v in job.graph.vertices}))
            job.settle()
        # twice: what the first one holds of open files is not needed after the second
        for _ in range(2):
            job.answer(job.driver.trigger_checkpoint())
        job.cancel()
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options, savepoint).start() as job:
        source.end()
        job.run()
        assert job.driver.status().restarts == 0
    assert records_in(out) == EACH_ONCE


def test_a_job_whose_savepoint_has_lost_its_files_fails_at_once_and_says_why(tmp_path: Path) -> None:
    out, source, clock = tmp_path / "out", numbers_source(), JobClock()
    sink = FileSink.for_ndjson(out).build()
    options = options_of(tmp_path, **RESTARTS)
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options).start() as job:
        source.let_through(20)
        job.settle()
        savepoint = job.answer(job.driver.trigger_savepoint())
        job.cancel()
    for path in hidden_in(out):
        path.unlink()
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options, savepoint) as job:
        status = job.run(JobState.FAILED)
    assert status.restarts == 0
    assert "is gone, and" in job.failure()
    assert "there is no older checkpoint to restore" in job.failure()
    assert records_in(out) == []


CHAIN: list[tuple[int, Sequence[str]]] = [
    (2, ("10", "checkpoint", "20", "savepoint", "24", "kill")),
    (2, ("25", "checkpoint", "rescale=3", "30", "savepoint", "33", "kill")),
    (1, ("34", "checkpoint", "36", "end")),
]
"""Parallelism and steps of jobs each of which claims the savepoint of the one before it."""


def run_chain(target: str, directory: Path, chain: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Run each job in a process of its own, which kills itself but for the last one."""
    savepoint = ""
    for parallelism, steps in chain:
        program = [sys.executable, "-m", "tests.connectors.chain_program"]
        arguments = [target, str(directory), str(parallelism), savepoint, *steps]
        ended = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == (-signal.SIGKILL if steps[-1] == "kill" else 0), ended.stderr
        savepoint = ended.stdout.strip()


def test_a_chain_of_killed_and_restored_jobs_leaves_no_hidden_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_chain(str(out), tmp_path, CHAIN[:1])
    assert hidden_in(out) != []
    out = tmp_path / "again"
    run_chain(str(out), tmp_path, CHAIN)
    assert records_in(out) == EACH_ONCE
    assert hidden_in(out) == []


def test_a_job_that_claims_and_is_rescaled_after_each_checkpoint_leaves_no_hidden_file(tmp_path: Path) -> None:
    out, source, clock = tmp_path / "out", numbers_source(), JobClock()
    sink = FileSink.for_ndjson(out).with_bucket_assigner(BucketAssigner.by_field("part")).build()
    options = options_of(tmp_path, **RESTARTS, **{"execution.checkpointing.num-retained": "3"})
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options).start() as job:
        source.let_through(10)
        job.settle()
        checkpoint = job.answer(job.driver.trigger_checkpoint())
        job.cancel()
    assert hidden_in(out) != []
    with RunningJob(lambda env: write_to(env, source, sink), clock, 2, options, checkpoint, claims=True) as job:
        job.start()
        for parallelism, position in ((1, 12), (2, 14), (1, 16)):
            source.let_through(position)
            job.settle()
            job.answer(job.driver.trigger_checkpoint())
            job.result(job.driver.rescale({v.vertex_id: parallelism for v in job.graph.vertices}))
            job.settle()
        source.end()
        job.run()
    assert records_in(out) == EACH_ONCE
    assert hidden_in(out) == []


@pytest.mark.slow
def test_a_chain_of_killed_and_restored_jobs_leaves_no_prepared_transaction(tmp_path: Path) -> None:
    chain = [(width, [*steps[:-1], "prepare", "kill"] if steps[-1] == "kill" else steps) for width, steps in CHAIN]
    with running_postgres(max_prepared_transactions=64) as url, psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE numbers (id bigint UNIQUE, part bigint)")
        run_chain(url, tmp_path, chain)
        found = database.execute("SELECT id FROM numbers ORDER BY id").fetchall()
        assert [number for (number,) in found] == list(range(TOTAL))
        assert database.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
