"""Deletion of snapshots: claim modes, retained checkpoints and their number, and damaged checkpoints."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from runtime.checkpoint.locations import local_path
from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.checkpoint.settings import Retention
from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from tests.checkpoint.counting_program import (
    ALL_COUNTS,
    KEYS,
    Build,
    Count,
    Numbers,
    counting,
    crash_once,
    finish,
    first,
    refusal,
    resumed,
    same,
    stopped,
)
from tests.checkpoint.running_jobs import JobClock, RunningJob, checkpoints_in, options_of

BACKENDS = ["hashmap", pytest.param("rocksdb", marks=pytest.mark.slow)]
RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
#: what is delivered behind the tenth round, and committed with a checkpoint, comes again from a snapshot before it
COUNTS_AFTER_TEN_AGAIN = ALL_COUNTS + Counter((key, count) for key in KEYS for count in (11, 12))
INCREMENTAL = {"execution.checkpointing.incremental": "true"}


def begun(numbers: Numbers, clock: JobClock, **options: str) -> RunningJob:
    """The counting job, running."""
    settings = {**options_of(numbers.directory), **options}
    return RunningJob(lambda env: counting(env, numbers), clock, 2, settings).start()


def checkpoint_after(job: RunningJob, numbers: Numbers, rounds: int) -> Path:
    """Take a checkpoint when so many rounds of input are done; its directory."""
    numbers.source.let_through(rounds * len(KEYS))
    job.settle()
    path = local_path(job.answer(job.driver.trigger_checkpoint()))
    assert path is not None
    # what its completion brings about, deletions among it, is done
    job.settle()
    return Path(path)


def counts_in(snapshot: Path) -> set[int]:
    """The counts that a snapshot holds; a whole one can be read to its last byte."""
    return set(SavepointReader.read(snapshot).keyed_state("counter", "count")["value"].to_list())


def damage(directories: Iterable[Path]) -> None:
    """Change one byte of the keyed state in each."""
    for directory in directories:
        file = max((p for p in directory.iterdir() if p.name != "_metadata"), key=lambda p: p.stat().st_size)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x10
        file.write_bytes(content)


def files_in(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


# --- whose a snapshot is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claims", [True, False])
def test_a_savepoint_is_the_users_unless_it_is_claimed(claims: bool, tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock) as job:
        numbers.source.let_through(numbers.half)
        job.settle()
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
    [savepoint] = (tmp_path / "savepoints").iterdir()
    written = files_in(savepoint)
    with resumed(numbers, counting, location, clock, claims=claims).start() as job:
        job.settle()
        assert files_in(savepoint) == written
        checkpoint_after(job, numbers, 12)
        assert (savepoint.exists(), job.state) == (not claims, JobState.RUNNING)
        finish(numbers, job)
    assert savepoint.exists() is not claims
    if not claims:
        assert files_in(savepoint) == written
        assert counts_in(savepoint) == {10}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_restored_without_a_claim_is_not_referred_to(backend: str, tmp_path: Path) -> None:
    options = {"state.backend.type": backend, **INCREMENTAL}
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **options) as job:
        checkpoint_after(job, numbers, 5)
        retained = checkpoint_after(job, numbers, 10)
        job.cancel()
    before = files_in(retained.parent)
    with resumed(numbers, counting, retained.as_uri(), clock, options=options).start() as job:
        checkpoint_after(job, numbers, 12)
        checkpoint_after(job, numbers, 14)
        assert files_in(retained.parent) == before
        # the user throws it away, and the job is none the worse
        shutil.rmtree(retained.parent)
        crash_once()
        numbers.source.let_through(15 * len(KEYS))
        job.step_until(lambda: job.driver.status().restarts == 1, "restart")
        finish(numbers, job)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_claimed_checkpoint_goes_and_the_files_that_newer_ones_need_stay(backend: str, tmp_path: Path) -> None:
    options = {"state.backend.type": backend, **INCREMENTAL}
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **options) as job:
        checkpoint_after(job, numbers, 5)
        retained = checkpoint_after(job, numbers, 10)
        job.cancel()
    with resumed(numbers, counting, retained.as_uri(), clock, claims=True, options=options).start() as job:
        assert retained.exists()
        newest = checkpoint_after(job, numbers, 12)
        assert not retained.exists()
        assert counts_in(newest) == {12}
        crash_once()
        numbers.source.let_through(13 * len(KEYS))
        job.step_until(lambda: job.driver.status().restarts == 1, "restart")
        finish(numbers, job)
    # all that both jobs have written is gone, but for the first one's log
    assert all("/completed/" in name for name in files_in(tmp_path / "checkpoints"))


def claiming(
    numbers: Numbers, clock: JobClock, location: str, options: Mapping[str, str] | None = None, build: Build = counting
) -> RunningJob:
    """A job that claims a snapshot, not begun yet."""
    return resumed(numbers, build, location, clock, claims=True, options=options)


@pytest.mark.parametrize("retention", [retention.value for retention in Retention])
def test_a_claimed_savepoint_stays_when_the_job_cannot_start(retention: str, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    [savepoint] = (tmp_path / "savepoints").iterdir()
    written = files_in(savepoint)

    def as_texts(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
        counted = numbers.stream(env).key_by(first, Types.STRING()).process(Count(Types.STRING())).uid("counter")
        numbers.deliver(counted.name("counter").map(same).uid("same"))

    options = {RETENTION: retention, "restart-strategy.type": "none"}
    assert "string" in refusal(claiming(numbers, clock, location, options, as_texts))
    assert files_in(savepoint) == written
    finish(numbers, claiming(numbers, clock, location))
    assert not savepoint.exists()


@pytest.mark.parametrize("retention", [retention.value for retention in Retention])
def test_it_stays_when_the_job_is_cancelled_before_a_checkpoint_of_its_own(retention: str, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    [savepoint] = (tmp_path / "savepoints").iterdir()
    written = files_in(savepoint)
    with claiming(numbers, clock, location, {RETENTION: retention}).start() as job:
        job.settle()
        job.cancel()
    assert files_in(savepoint) == written
    finish(numbers, claiming(numbers, clock, location))


def test_it_stays_when_a_job_without_checkpoints_has_finished(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    finish(numbers, claiming(numbers, clock, location, {"execution.checkpointing.interval": "0"}))
    assert counts_in(Path(local_path(location) or "")) == {10}


@pytest.mark.parametrize("is_taken_over", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_claimed_checkpoint_whose_place_is_not_taken_yet_outlives_the_jobs_own(
    backend: str, is_taken_over: bool, tmp_path: Path
) -> None:
    options = {"state.backend.type": backend, RETENTION: "DELETE_ON_CANCELLATION", **INCREMENTAL}
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **options | {RETENTION: "RETAIN_ON_CANCELLATION"}) as job:
        checkpoint_after(job, numbers, 5)
        retained = checkpoint_after(job, numbers, 10)
        job.cancel()
    before = files_in(retained.parent)
    more = options | {"execution.checkpointing.num-retained": "2"}
    with claiming(numbers, clock, retained.as_uri(), more).start() as job:
        newest = checkpoint_after(job, numbers, 12)
        if is_taken_over:
            job.driver.abandon()
            job.run(JobState.CANCELED)
            with RunningJob(job.graph, clock).start() as successor:
                successor.settle()
                successor.cancel()
        else:
            job.cancel()
    assert not newest.exists()
    assert files_in(retained.parent) == before
    assert counts_in(retained) == {10}
    finish(numbers, claiming(numbers, clock, retained.as_uri(), more), COUNTS_AFTER_TEN_AGAIN)


def test_a_job_whose_first_checkpoint_is_damaged_goes_back_to_what_it_has_claimed(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    location, clock = stopped(numbers)
    with claiming(numbers, clock, location, {"execution.checkpointing.num-retained": "2"}).start() as job:
        damage([checkpoint_after(job, numbers, 12)])
        crash_once()
        numbers.source.let_through(13 * len(KEYS))
        job.step_until(lambda: job.driver.status().attempt == 2, "two more attempts")
        job.start()
        report = job.driver.status().restored_from
        assert report is not None
        assert report.location == location
        # and takes checkpoints as before
        assert counts_in(checkpoint_after(job, numbers, 14)) == {14}
        numbers.source.end()
        job.run()
    assert set(numbers.delivered()) == set(ALL_COUNTS)


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "end", "is_kept"),
    [
        ("RETAIN_ON_CANCELLATION", JobState.CANCELED, True),
        ("RETAIN_ON_CANCELLATION", JobState.FAILED, True),
        ("RETAIN_ON_CANCELLATION", JobState.FINISHED, False),
        ("DELETE_ON_CANCELLATION", JobState.CANCELED, False),
        ("DELETE_ON_CANCELLATION", JobState.FAILED, True),
        ("NO_EXTERNALIZED_CHECKPOINTS", JobState.CANCELED, False),
        ("NO_EXTERNALIZED_CHECKPOINTS", JobState.FAILED, False),
    ],
)
def test_checkpoints_outlive_the_job_as_they_are_asked_to(
    retention: str, end: JobState, is_kept: bool, tmp_path: Path
) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **{RETENTION: retention, "restart-strategy.type": "none"}) as job:
        path = checkpoint_after(job, numbers, 10)
        match end:
            case JobState.CANCELED:
                job.cluster.cancel()
            case JobState.FAILED:
                crash_once()
                numbers.source.let_through(11 * len(KEYS))
            case _:
                numbers.source.end()
        job.run(end)
    assert checkpoints_in(tmp_path / "checkpoints") == ([path] if is_kept else [])
    if not is_kept:
        assert files_in(tmp_path / "checkpoints") == set()
    else:
        finish(numbers, resumed(numbers, counting, path.as_uri(), clock))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_retained_checkpoint_is_whole(backend: str, tmp_path: Path) -> None:
    options = {"execution.checkpointing.num-retained": "3", "state.backend.type": backend, **INCREMENTAL}
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **options) as job:
        taken = [checkpoint_after(job, numbers, rounds) for rounds in (2, 4, 6, 8, 10)]
        assert checkpoints_in(tmp_path / "checkpoints") == taken[-3:]
        job.cancel()
    assert [counts_in(path) for path in taken[-3:]] == [{6}, {8}, {10}]
    # what was delivered behind the oldest one comes again: the user has asked for that
    with resumed(numbers, counting, taken[-3].as_uri(), clock, options=options) as job:
        numbers.source.end()
        job.run()
    again = {(key, count) for key in KEYS for count in range(7, 11)}
    delivered = numbers.delivered()
    assert {pair for pair, times in delivered.items() if times == 2} == again
    assert set(delivered) == set(ALL_COUNTS)


# --- what is damaged --------------------------------------------------------------------------------------------------


def test_behind_a_damaged_checkpoint_the_one_before_it_is_used(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    no_restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"}
    with begun(numbers, clock, **{"execution.checkpointing.num-retained": "3", **no_restarts}) as job:
        taken = [checkpoint_after(job, numbers, rounds) for rounds in (5, 7, 9)]
        damage(taken[1:])
        crash_once()
        numbers.source.let_through(10 * len(KEYS))
        job.step_until(lambda: job.driver.status().attempt == 3, "two more attempts")
        job.start()
        job.settle()
        report = job.driver.status().restored_from
        assert report is not None
        assert report.location == taken[0].as_uri()
        # one was allowed: damage is not the job's own failure
        assert job.driver.status().restarts == 1
        causes = [entry.cause.message for entry in job.driver.status().exceptions]
        assert "power cut" in causes[0]
        assert "chk-3" in causes[1]
        assert "chk-2" in causes[2]
        numbers.source.end()
        job.run()
    assert set(numbers.delivered()) == set(ALL_COUNTS)


def test_when_all_checkpoints_are_damaged_the_job_fails_and_says_so(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **{"execution.checkpointing.num-retained": "2"}) as job:
        damage([checkpoint_after(job, numbers, rounds) for rounds in (5, 7)])
        delivered = numbers.delivered()
        crash_once()
        numbers.source.let_through(10 * len(KEYS))
        why = refusal(job)
    assert "there is no older checkpoint to restore" in why
    assert "chk-1" in why
    assert numbers.delivered() == delivered


@pytest.mark.parametrize("what", ["_metadata", "state"])
def test_a_jobmaster_that_takes_over_passes_by_what_is_damaged(what: str, tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, **{"execution.checkpointing.num-retained": "2"}) as job:
        older, newer = [checkpoint_after(job, numbers, rounds) for rounds in (5, 7)]
        job.driver.abandon()
        job.run(JobState.CANCELED)
    if what == "_metadata":
        content = (newer / "_metadata").read_bytes()
        (newer / "_metadata").write_bytes(content[:-20] + b"x" + content[-19:])
    else:
        damage([newer])
    with RunningJob(job.graph, clock) as successor:
        successor.start()
        report = successor.driver.status().restored_from
        assert report is not None
        assert report.location == older.as_uri()
        numbers.source.end()
        successor.run()
    assert set(numbers.delivered()) == set(ALL_COUNTS)


def test_a_jobmaster_that_takes_over_and_finds_all_damaged_does_not_begin_anew(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock) as job:
        newest = checkpoint_after(job, numbers, 5)
        job.driver.abandon()
        job.run(JobState.CANCELED)
    (newest / "_metadata").write_text("nothing")
    delivered = numbers.delivered()
    with RunningJob(job.graph, clock) as successor:
        why = refusal(successor)
    assert "none of the job's 1 checkpoints can be read" in why
    assert numbers.delivered() == delivered
