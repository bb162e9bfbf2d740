"""Whole jobs on a MiniCluster that fail, are stopped, rescaled and started again: nothing is lost, nothing is twice.

What a job delivers is compared with a plain model of it: for every key the values 1..n, each once, and their sums.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpointStore
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.state_files import Retries
from runtime.common import Types
from runtime.common.configuration import Configuration
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ValueStateDescriptor
from runtime.execution.mini_cluster import MiniCluster
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.rescaling import RescaleError, rescaled
from runtime.state.handles import DamagedSnapshotError
from runtime.task.slot import Slot
from runtime.testing.clock import ManualClock
from runtime.testing.collecting_sink import CollectingSink, collected_records
from tests.datastream.running import environment
from tests.execution.jobs import HOOKS, Hooked, step_until, ticks
from tests.job_runs import record_run
from tests.support.waiting import wait_until

T = TypeVar("T")
KEYS = 7
COUNT = 1_000
EVERY_100_MS = {
    "execution.checkpointing.interval": "100 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "10",
}


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    yield
    HOOKS.clear()


@pytest.fixture
def tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory where there is such a place: every file of a checkpoint waits for the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-recovery-", dir=memory) as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


class RunningSum(KeyedProcessFunction):
    """(key, how many values so far, their sum)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("sum", kind))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        count, total = self.state.value() or (0, 0)
        self.state.update((count + 1, total + value))
        yield ctx.get_current_key(), count + 1, total + value


def by_key(value: int) -> int:
    return value % KEYS


def running_sums(
    directory: Path, parallelism: int = 2, options: Mapping[str, str] | None = None, count: int | None = COUNT
) -> StreamExecutionEnvironment:
    """ticks → Hooked → sum by key → collected below `directory`."""
    env = environment(parallelism, {**EVERY_100_MS, **(options or {})})
    numbers = ticks(env, 1_000.0, count).uid("numbers").map(Hooked(), Types.LONG()).uid("hooked").name("hooked")
    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    sums = numbers.key_by(by_key, Types.LONG()).process(RunningSum(), kind).uid("sums").name("sums")
    sums.sink_to(CollectingSink(directory)).uid("out").name("out")
    return env


def cluster_of(env: StreamExecutionEnvironment) -> MiniCluster:
    record_run("mini-cluster")
    return MiniCluster(env.create_job_graph("sums"), ClientOutputs(), ManualClock(1_000_000))


def run(cluster: MiniCluster, limit: int = 200_000) -> JobState:
    step_until(cluster, cluster.driver.ended.is_set, limit)
    return cluster.driver.status().state


def result_of(cluster: MiniCluster, future: Future[T]) -> T:
    step_until(cluster, future.done, 200_000)
    return future.result()


def assert_exact(directory: Path, count: int = COUNT) -> None:
    """Every number was counted once under its key, whatever the order of the two sources' records."""
    records = collected_records(directory)
    for key in range(KEYS):
        numbers = range(key, count, KEYS)
        mine = sorted((c, s) for k, c, s in records if k == key)
        assert [c for c, _ in mine] == list(range(1, len(numbers) + 1)), f"key {key}"
        assert mine[-1][1] == sum(numbers)


def fail_at(*values: int) -> None:
    """Fail once at each of these records."""
    left = set(values)

    def look(value: int) -> int:
        if value in left:
            left.discard(value)
            raise ValueError(f"power cut at {value}")
        return value

    HOOKS["map"] = look


def record_values() -> list[int]:
    """Record the values processed from now on."""
    seen: list[int] = []

    def look(value: int) -> int:
        seen.append(value)
        return value

    HOOKS["map"] = look
    return seen


def completed(cluster: MiniCluster) -> int:
    return cluster.driver.status().checkpoints.counts.completed


# --- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"execution.checkpointing.unaligned.enabled": "true"},
        {"execution.checkpointing.incremental": "true", "execution.checkpointing.num-retained": "3"},
        {"execution.checkpointing.max-concurrent-checkpoints": "2"},
        {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
    ],
    ids=lambda options: " ".join(key.rpartition(".checkpointing.")[2] for key in options) or "defaults",
)
def test_a_job_that_fails_goes_on_from_its_newest_checkpoint(options: dict[str, str], tmp_path: Path) -> None:
    fail_at(225, 675, 925)
    cluster = cluster_of(running_sums(tmp_path, options=options))
    assert run(cluster) is JobState.FINISHED
    status = cluster.driver.status()
    assert status.restarts == 3
    assert status.checkpoints.counts.restored >= 2
    assert_exact(tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_no_loss(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    options = {
        "execution.checkpointing.dir": root.as_uri(),
        "execution.checkpointing.tolerable-failed-checkpoints": "3",
    }
    cluster = cluster_of(running_sums(tmp_path / "out", options=options))
    step_until(cluster, lambda: completed(cluster) == 2)
    (job,) = root.iterdir()
    # what is in the way of the next checkpoint's directory is a file
    blocked = job / "chk-3-0.0"
    blocked.write_text("")
    assert run(cluster) is JobState.FINISHED
    failed = cluster.driver.status().checkpoints.latest_failed
    assert failed is not None
    assert failed.checkpoint_id == 3
    assert_exact(tmp_path / "out")


def test_nothing_is_left_of_a_jobs_checkpoints_when_it_has_finished(tmp_path: Path) -> None:
    options = {"execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri()}
    cluster = cluster_of(running_sums(tmp_path / "out", options=options))
    step_until(cluster, lambda: completed(cluster) == 3)
    (job,) = (tmp_path / "checkpoints").iterdir()
    assert {path.name.partition("-")[0] for path in job.iterdir()} <= {"chk", "completed", "shared"}
    assert run(cluster) is JobState.FINISHED
    assert list((tmp_path / "checkpoints").iterdir()) == []


def flip_a_byte_of(directory: Path) -> None:
    """Damage the largest state file of a checkpoint."""
    largest = max((p for p in directory.iterdir() if p.name != "_metadata"), key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.unlink()
    largest.write_bytes(bytes(data))


def test_a_damaged_checkpoint_is_found_before_a_record_is_processed_and_the_one_before_is_taken(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    options = {"execution.checkpointing.dir": root.as_uri(), "execution.checkpointing.num-retained": "2"}
    cluster = cluster_of(running_sums(tmp_path / "out", options=options))
    step_until(cluster, lambda: completed(cluster) == 3)
    fail_at(*range(COUNT))
    step_until(cluster, lambda: cluster.driver.status().state is JobState.RESTARTING)
    seen = record_values()
    (job,) = root.iterdir()
    newest = max(job.glob("chk-*"), key=lambda path: int(path.name.split("-")[1]))
    flip_a_byte_of(newest)
    step_until(cluster, lambda: cluster.driver.status().checkpoints.counts.restored == 2)
    assert seen == []
    status = cluster.driver.status()
    damaged = int(newest.name.split("-")[1])
    assert status.checkpoints.latest_restored is not None
    assert status.checkpoints.latest_restored.checkpoint_id == damaged - 1
    assert status.restarts <= 2
    assert "is damaged" in status.exceptions[-1].cause.message
    assert run(cluster) is JobState.FINISHED
    assert seen[-1] == COUNT - 1
    records = collected_records(tmp_path / "out")
    for key in range(KEYS):
        numbers = range(key, COUNT, KEYS)
        times = Counter(c for k, c, _ in records if k == key)
        assert set(times) == set(range(1, len(numbers) + 1)), f"key {key}"
        # what was committed with the damaged one is written again, and nothing else
        assert set(times.values()) == {1, 2}
        assert max((c, s) for k, c, s in records if k == key)[1] == sum(numbers)


def a_job_that_fails(tmp_path: Path, options: Mapping[str, str] | None = None) -> tuple[MiniCluster, Path]:
    """A job that waits for its restart behind three checkpoints, and the directory of those."""
    root = tmp_path / "checkpoints"
    cluster = cluster_of(
        running_sums(tmp_path / "out", options={"execution.checkpointing.dir": root.as_uri(), **(options or {})})
    )
    step_until(cluster, lambda: completed(cluster) == 3)
    fail_at(*range(COUNT))
    step_until(cluster, lambda: cluster.driver.status().state is JobState.RESTARTING)
    HOOKS.clear()
    (job,) = root.iterdir()
    return cluster, job


@pytest.mark.parametrize("num_retained", ["1", "2"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_storage_that_is_away_while_a_job_is_restored_is_no_damage(
    backend: str, num_retained: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.execution.mini_cluster.Slot", partial(Slot, retries=Retries(())))
    options = {"execution.checkpointing.num-retained": num_retained, "state.backend.type": backend}
    cluster, job = a_job_that_fails(tmp_path, options)
    aside, before = tmp_path / "aside", cluster.driver.status().restarts
    job.rename(aside)
    seen = record_values()
    step_until(cluster, lambda: cluster.driver.status().restarts > before + 1, 200_000)
    assert seen == []
    assert "its storage is unavailable" in cluster.driver.status().exceptions[-1].cause.message
    assert not job.exists()
    aside.rename(job)
    assert run(cluster) is JobState.FINISHED
    assert_exact(tmp_path / "out")


@pytest.mark.parametrize("num_retained", ["1", "2"])
def test_what_a_task_that_runs_finds_broken_is_not_its_checkpoint(num_retained: str, tmp_path: Path) -> None:
    cluster, job = a_job_that_fails(tmp_path, {"execution.checkpointing.num-retained": num_retained})
    kept = sorted(path.name for path in job.glob("chk-*"))
    step_until(cluster, lambda: cluster.driver.status().state is JobState.RUNNING)
    restarts = cluster.driver.status().restarts

    def break_once(value: int) -> int:
        HOOKS.clear()
        raise DamagedSnapshotError("/local/db", "block checksum mismatch")

    HOOKS["map"] = break_once
    step_until(cluster, lambda: cluster.driver.status().restarts > restarts)
    assert sorted(path.name for path in job.glob("chk-*")) == kept
    assert run(cluster) is JobState.FINISHED
    assert_exact(tmp_path / "out")


def test_when_all_are_damaged_the_job_fails_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    cluster = cluster_of(running_sums(tmp_path / "out", options={"execution.checkpointing.dir": root.as_uri()}))
    step_until(cluster, lambda: completed(cluster) == 2)
    fail_at(*range(COUNT))
    step_until(cluster, lambda: cluster.driver.status().state is JobState.RESTARTING)
    (job,) = root.iterdir()
    for directory in job.glob("chk-*"):
        flip_a_byte_of(directory)
    assert run(cluster) is JobState.FAILED
    assert "there is no older checkpoint to restore" in cluster.driver.status().exceptions[-1].cause.message


# --- savepoints -------------------------------------------------------------------------------------------------------


def savepoint_of(cluster: MiniCluster, directory: Path, after: AfterSavepoint) -> str:
    answer = result_of(cluster, cluster.driver.trigger_savepoint(str(directory), after=after))
    assert answer.location is not None
    assert answer.location.startswith(directory.as_uri())
    return answer.location


BACKENDS = ("hashmap", "rocksdb")
IN_EVERY_RUN = {("hashmap", "hashmap", 3), ("hashmap", "rocksdb", 1), ("rocksdb", "hashmap", 2)}
CHANGES = [
    pytest.param(before, after, p, marks=() if (before, after, p) in IN_EVERY_RUN else pytest.mark.slow)
    for before in BACKENDS
    for after in BACKENDS
    for p in (1, 2, 3)
]


@pytest.mark.parametrize(("backend_before", "backend_after", "parallelism"), CHANGES)
def test_a_stopped_job_is_started_again_from_its_savepoint(
    backend_before: str, backend_after: str, parallelism: int, tmp_path: Path
) -> None:
    before, after = ({"state.backend.type": backend} for backend in (backend_before, backend_after))
    first = cluster_of(running_sums(tmp_path / "out", 2, before))
    step_until(first, lambda: completed(first) == 3)
    location = savepoint_of(first, tmp_path / "saved", AfterSavepoint.SUSPEND)
    assert run(first) is JobState.FINISHED
    assert 0 < len(collected_records(tmp_path / "out")) < COUNT
    options = {**after, "execution.state-recovery.path": location}
    second = cluster_of(running_sums(tmp_path / "out", parallelism, options))
    assert run(second) is JobState.FINISHED
    assert_exact(tmp_path / "out")
    report = second.driver.status().restored_from
    assert report is not None
    assert {o.uid for o in report.matched} == {"numbers", "hooked", "sums", "out"}
    # a savepoint is the user's
    assert (tmp_path / "saved" / location.rpartition("/")[2] / "_metadata").exists()


def test_a_drained_job_has_gone_to_the_end_of_time(tmp_path: Path) -> None:
    cluster = cluster_of(running_sums(tmp_path / "out", count=None))
    step_until(cluster, lambda: completed(cluster) == 3)
    savepoint_of(cluster, tmp_path / "saved", AfterSavepoint.DRAIN)
    assert run(cluster) is JobState.FINISHED
    counts = [c for _, c, _ in collected_records(tmp_path / "out")]
    assert counts


def test_a_job_goes_on_behind_a_savepoint_and_another_begins_from_it(tmp_path: Path) -> None:
    first = cluster_of(running_sums(tmp_path / "first"))
    step_until(first, lambda: completed(first) == 3)
    location = savepoint_of(first, tmp_path / "saved", AfterSavepoint.GO_ON)
    assert run(first) is JobState.FINISHED
    assert_exact(tmp_path / "first")
    second = cluster_of(running_sums(tmp_path / "second", options={"execution.state-recovery.path": location}))
    assert run(second) is JobState.FINISHED
    both = sorted(collected_records(tmp_path / "second"))
    # what comes behind the savepoint, with the counts and sums that the first part had left
    assert both == sorted(r for r in both if r[1] > 1)
    final = {key: max(r for r in both if r[0] == key) for key in range(KEYS)}
    assert all(final[key][2] == sum(range(key, COUNT, KEYS)) for key in range(KEYS))


def test_a_job_is_cancelled_behind_its_savepoint(tmp_path: Path) -> None:
    first = cluster_of(running_sums(tmp_path / "out"))
    step_until(first, lambda: completed(first) == 3)
    location = savepoint_of(first, tmp_path / "saved", AfterSavepoint.CANCEL)
    assert run(first) is JobState.CANCELED
    second = cluster_of(running_sums(tmp_path / "out", options={"execution.state-recovery.path": location}))
    assert run(second) is JobState.FINISHED
    assert_exact(tmp_path / "out")


def test_a_claimed_savepoint_is_deleted_when_it_is_needed_no_more(tmp_path: Path) -> None:
    first = cluster_of(running_sums(tmp_path / "out"))
    step_until(first, lambda: completed(first) == 3)
    location = savepoint_of(first, tmp_path / "saved", AfterSavepoint.SUSPEND)
    run(first)
    options = {"execution.state-recovery.path": location, "execution.state-recovery.claim-mode": "CLAIM"}
    second = cluster_of(running_sums(tmp_path / "out", options=options))
    assert run(second) is JobState.FINISHED
    assert_exact(tmp_path / "out")
    assert list((tmp_path / "saved").iterdir()) == []


def test_what_is_no_savepoint_fails_the_job_and_says_so(tmp_path: Path) -> None:
    options = {"execution.state-recovery.path": str(tmp_path / "nothing")}
    cluster = cluster_of(running_sums(tmp_path / "out", options=options))
    assert run(cluster) is JobState.FAILED
    assert "nothing is not a checkpoint or savepoint" in cluster.driver.status().exceptions[0].cause.message


def test_a_retained_checkpoint_is_started_from_like_a_savepoint(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    first = cluster_of(running_sums(tmp_path / "out", options=options))
    step_until(first, lambda: completed(first) == 3)
    first.cancel()
    assert run(first) is JobState.CANCELED
    (checkpoint,) = (tmp_path / "checkpoints").glob("*/chk-*")
    restored = {**options, "execution.state-recovery.path": str(checkpoint)}
    second = cluster_of(running_sums(tmp_path / "out", 3, options=restored))
    assert run(second) is JobState.FINISHED
    assert_exact(tmp_path / "out")
    assert checkpoint.exists()


# --- rescaling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_a_job_is_rescaled_while_it_runs(unaligned: str, tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.unaligned.enabled": unaligned,
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    }
    cluster = cluster_of(running_sums(tmp_path, 1, options))
    for count, parallelism in enumerate((2, 4, 3, 1), start=1):
        step_until(cluster, lambda: cluster.driver.status().state is JobState.RUNNING)
        seen = completed(cluster)
        step_until(cluster, lambda seen=seen: completed(cluster) > seen + 1)  # type: ignore[misc]
        wanted = dict.fromkeys(cluster.driver.status().parallelism, parallelism)
        result_of(cluster, cluster.driver.rescale(wanted))
        assert len(cluster.driver.status().slots) == parallelism
        assert cluster.driver.status().attempt == count
    assert run(cluster) is JobState.FINISHED
    assert cluster.driver.status().restarts == 0
    assert_exact(tmp_path)


def test_a_job_that_takes_no_checkpoints_can_be_saved_and_rescaled_too(tmp_path: Path) -> None:
    options = {"execution.checkpointing.interval": "0"}
    cluster = cluster_of(running_sums(tmp_path / "out", 1, options, count=None))
    seen = record_values()
    step_until(cluster, lambda: len(seen) > 300)
    result_of(cluster, cluster.driver.rescale(dict.fromkeys(cluster.driver.status().parallelism, 2)))
    step_until(cluster, lambda: len(seen) > 600)
    savepoint_of(cluster, tmp_path / "saved", AfterSavepoint.SUSPEND)
    assert run(cluster) is JobState.FINISHED
    records = collected_records(tmp_path / "out")
    assert len(records) == len(seen)
    for key in range(KEYS):
        counts = sorted(c for k, c, _ in records if k == key)
        assert counts == list(range(1, len(counts) + 1))


def test_a_request_fails_with_the_reason(tmp_path: Path) -> None:
    cluster = cluster_of(running_sums(tmp_path))
    step_until(cluster, lambda: completed(cluster) == 1)
    with pytest.raises(JobRequestError, match="no directory is given for the savepoint"):
        result_of(cluster, cluster.driver.trigger_savepoint())
    with pytest.raises(JobRequestError, match="has no vertex"):
        result_of(cluster, cluster.driver.rescale({"0" * 32: 2}))  # type: ignore[dict-item]
    run(cluster)
    with pytest.raises(JobRequestError, match="the job has ended"):
        cluster.driver.trigger_checkpoint().result(1)


def test_an_operator_that_runs_as_one_subtask_stays_one() -> None:
    env = environment(2, EVERY_100_MS)
    env.from_collection([1, 2], Types.LONG()).map(Hooked(), Types.LONG()).print()
    graph = env.create_job_graph("one")
    with pytest.raises(RescaleError, match=r"parallelism 2 is not in 1\.\.1"):
        rescaled(graph, {graph.vertices[0].vertex_id: 2})


# --- another JobMaster ------------------------------------------------------------------------------------------------


def home_of(graph: Any, epoch: int) -> CheckpointHome:
    """Return the CheckpointHome of the same job's next JobMaster."""
    configuration = Configuration.from_dict(dict(graph.configuration))
    settings = CheckpointSettings.from_configuration(configuration)
    return CheckpointHome.of(settings, graph.job_id, slots_are_local=True, leader_epoch=epoch)


def abandoned_job(tmp_path: Path) -> JobGraph:
    """A job whose first JobMaster has left it behind four checkpoints."""
    options = {"execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri()}
    graph = running_sums(tmp_path / "out", options=options).create_job_graph("sums")
    record_run("mini-cluster")
    first = MiniCluster(graph, ClientOutputs(), ManualClock(1_000_000), home_of(graph, 1))
    step_until(first, lambda: completed(first) == 4)
    first.driver.abandon()
    assert run(first) is JobState.CANCELED
    return graph


def test_another_jobmaster_of_the_same_job_goes_on_with_it(tmp_path: Path) -> None:
    graph = abandoned_job(tmp_path)
    second = MiniCluster(graph, ClientOutputs(), ManualClock(2_000_000), home_of(graph, 2))
    step_until(second, lambda: second.driver.status().checkpoints.counts.restored == 1)
    assert run(second) is JobState.FINISHED
    assert_exact(tmp_path / "out")


def test_another_jobmaster_waits_for_a_storage_that_is_away(tmp_path: Path) -> None:
    graph = abandoned_job(tmp_path)
    home = home_of(graph, 2)
    is_away = True

    def open_store() -> CompletedCheckpointStore:
        if is_away:
            raise OSError(errno.EIO, "the storage cannot be reached")
        return home.open_store()

    clock = ManualClock(2_000_000)
    second = MiniCluster(graph, ClientOutputs(), clock, replace(home, open_store=open_store))
    step_until(second, lambda: clock.now_ms() > 2_060_000)
    status = second.driver.status()
    assert (status.state, status.exceptions, status.slots) == (JobState.CREATED, (), ())
    assert "the storage cannot be reached" in status.waiting_for
    is_away = False
    assert run(second) is JobState.FINISHED
    assert second.driver.status().checkpoints.counts.restored == 1
    assert second.driver.status().exceptions == ()
    assert_exact(tmp_path / "out")


def test_a_job_that_waits_for_its_storage_can_be_cancelled_and_loses_nothing(tmp_path: Path) -> None:
    graph = abandoned_job(tmp_path)
    kept = sorted((tmp_path / "checkpoints").rglob("*"))

    def open_store() -> CompletedCheckpointStore:
        raise OSError(errno.EIO, "the storage cannot be reached")

    home = replace(home_of(graph, 2), open_store=open_store)
    second = MiniCluster(graph, ClientOutputs(), ManualClock(2_000_000), home)
    step_until(second, lambda: second.driver.status().waiting_for != "")
    second.cancel()
    assert run(second) is JobState.CANCELED
    assert sorted((tmp_path / "checkpoints").rglob("*")) == kept


def test_a_jobmaster_that_was_replaced_completes_no_checkpoint_and_ends(tmp_path: Path) -> None:
    options = {"execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri()}
    graph = running_sums(tmp_path / "out", options=options, count=None).create_job_graph("sums")
    record_run("mini-cluster")
    first = MiniCluster(graph, ClientOutputs(), ManualClock(1_000_000), home_of(graph, 1))
    step_until(first, lambda: completed(first) == 4)
    home_of(graph, 2).open_store()
    before = sorted((tmp_path / "checkpoints").rglob("_metadata"))
    assert run(first) is JobState.FAILED
    assert "another JobMaster has taken over" in first.driver.status().exceptions[-1].cause.message
    assert set(before) <= set((tmp_path / "checkpoints").rglob("_metadata"))


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_a_killed_worker_a_savepoint_and_another_parallelism_lose_nothing(tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def die_once(value: int) -> int:
        if value == 1_200 and not killed.exists():
            killed.touch()
            os._exit(9)
        return value

    options = {"parallelism.default": "2", "execution.checkpointing.interval": "200 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    numbers = ticks(env, 500.0, 3_000).uid("numbers").map(die_once, Types.LONG()).uid("die")
    sums = numbers.key_by(by_key, Types.LONG()).process(RunningSum(), kind).uid("sums")
    sums.sink_to(CollectingSink(tmp_path / "out")).uid("out")
    record_run("spark")
    handle = env.execute_async("sums").handle
    wait_until(lambda: handle.status().checkpoints.counts.completed > 0, 60, "a checkpoint")
    location = handle.trigger_savepoint(str(tmp_path / "saved")).result(30)
    assert location.startswith((tmp_path / "saved").as_uri())
    wait_until(lambda: handle.status().restarts == 1, 60, "a restart")
    wait_until(lambda: handle.status().state is JobState.RUNNING, 60, "the job to run again")
    handle.rescale(dict.fromkeys(handle.status().parallelism, 3)).result(60)
    status = handle.wait(100)
    assert (len(status.slots), status.restarts, status.checkpoints.counts.restored) == (3, 1, 2)
    assert_exact(tmp_path / "out", 3_000)
