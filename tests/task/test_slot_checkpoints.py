"""A slot's responses to checkpoint messages when something fails."""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.core.checkpoint_options import AfterSnapshot, Alignment
from runtime.core.ids import CheckpointId
from runtime.core.serializers import SerializationError
from runtime.datastream import CheckpointedFunction, MapFunction, StreamExecutionEnvironment
from runtime.operators.sink import Committer, Sink, SinkWriter, WriterContext
from runtime.operators.sink_operator import SinkOperator
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CommitFinished,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    SlotFailed,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from runtime.task.uploads import UploadThreads
from tests.checkpoint.faulty import FaultyFileSystem
from tests.support.waiting import wait_until
from tests.task import test_task_checkpoints as jobs
from tests.task.checkpoint_rig import CheckpointRig
from tests.task.rigs import environment

#: what the job's functions do when they are called; set by the test
HOOKS: dict[str, Callable[[], None]] = {}
STORY: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    HOOKS.clear()
    STORY.clear()
    yield
    HOOKS.clear()


class Remembering(MapFunction, CheckpointedFunction):
    """Has state of its own."""

    def initialize_state(self, context: Any) -> None:
        STORY.append(f"restored {context.is_restored()}")

    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, context: Any) -> None:
        HOOKS.get("snapshot", lambda: None)()

    def close(self) -> None:
        STORY.append("closed")


class HookedSink(Sink):
    """Tells what it prepares and commits."""

    def create_writer(self, context: WriterContext, restored: Any) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer()


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self.rows = 0

    def write(self, batch: Any) -> None:
        self.rows += batch.num_rows

    def prepare_commit(self) -> list[Any]:
        rows, self.rows = self.rows, 0
        return [rows] if rows else []


class _Committer(Committer):
    def commit(self, committables: Any) -> None:
        HOOKS.get("commit", lambda: None)()
        STORY.append(f"committed {sum(committables)}")


def program(count: int = 100_000, interval: str = "1 h", **options: str) -> StreamExecutionEnvironment:
    env = environment(1, {"execution.checkpointing.interval": interval, **options})
    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().map(Remembering(), Types.LONG()).uid("map").sink_to(HookedSink()).uid("out")
    return env


def running(tmp_path: Path, **arguments: Any) -> CheckpointRig:
    rig = CheckpointRig(program(**arguments), tmp_path).start()
    for _ in range(3):
        rig.step()
    return rig


class BrokenFiles(ArrowFileSystem):
    """Refuses to write."""

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")


def fail(error: Exception) -> Callable[..., None]:
    def raising(*_: object) -> None:
        raise error

    return raising


def test_coordinators_are_asked_first_and_answer_with_their_state(tmp_path: Path) -> None:
    rig = running(tmp_path)
    rig.checkpoint(7)
    [answer] = rig.link.all(CoordinatorsSnapshotted)
    assert answer.checkpoint_id == 7
    assert list(answer.states) == list(rig.execution.coordinator_slots)
    assert rig.link.sent.index(answer) < rig.link.sent.index(rig.link.all(AcknowledgeCheckpoint)[0])
    rig.release()


def test_a_coordinator_that_cannot_tell_its_state_declines(tmp_path: Path) -> None:
    rig = running(tmp_path)
    [coordinator] = rig.slot._sources._coordinators.values()
    coordinator.snapshot = fail(RuntimeError("lost the list"))  # type: ignore[method-assign,assignment]
    rig.trigger(1)
    declined = rig.link.all(DeclineCheckpoint)[0]
    assert declined.task is None and "lost the list" in declined.cause.message
    rig.release()


def test_a_checkpoint_that_comes_before_the_start_is_declined_and_is_no_failure(tmp_path: Path) -> None:
    rig = CheckpointRig(program(), tmp_path).deploy()
    rig.tell(TriggerCheckpoint(CheckpointId(1), 5, rig.options_of(1)))
    assert [message.counts_as_failure for message in rig.declined(1)] == [False, False]
    assert "not running yet" in rig.declined(1)[0].cause.message
    rig.release()


def test_storage_that_refuses_fails_the_checkpoint_and_not_the_task(tmp_path: Path) -> None:
    rig = CheckpointRig(jobs.counting(20_000, parallelism=1), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    rig.slot._storage._files = BrokenFiles()
    rig.trigger(1)
    rig.step_until(lambda: len(rig.acknowledged(1)) + len(rig.declined(1)) == 2)
    [declined] = rig.declined(1)
    assert "no space left" in declined.cause.message
    assert declined.counts_as_failure
    rig.abort(1)
    rig.slot._storage._files = ArrowFileSystem()
    rig.checkpoint(2)
    rig.release()


def test_a_function_that_fails_while_state_is_taken_fails_its_task(tmp_path: Path) -> None:
    rig = running(tmp_path)
    HOOKS["snapshot"] = fail(ValueError("half way"))
    rig.trigger(1)
    for _ in range(50):
        rig.step()
    assert TaskState.FAILED in rig.states()
    assert "half way" in rig.failure()
    rig.release()


def test_state_that_has_no_stored_form_fails_the_checkpoint_only(tmp_path: Path) -> None:
    rig = running(tmp_path)
    task = rig.task(1)
    taken = task.chain.snapshot
    task.chain.snapshot = fail(SerializationError("pickle", "a socket"))  # type: ignore[method-assign,assignment]
    rig.trigger(1)
    rig.step_until(lambda: len(rig.declined(1)) == 1)
    assert rig.declined(1)[0].counts_as_failure
    task.chain.snapshot = taken  # type: ignore[method-assign]
    rig.checkpoint(2)
    rig.release()


def test_a_failing_commit_fails_its_task(tmp_path: Path) -> None:
    rig = running(tmp_path)
    rig.checkpoint(1)
    operator = rig.task(1).chain.operators[-1]
    assert isinstance(operator, SinkOperator)
    operator.notify_checkpoint_complete = fail(OSError("gone"))  # type: ignore[method-assign]
    rig.complete(1)
    assert "gone" in rig.failure()
    assert rig.states()[-1] is TaskState.FAILED
    rig.release()


def test_a_commit_that_fails_behind_the_end_is_told_too(tmp_path: Path) -> None:
    rig = running(tmp_path, count=100)
    rig.step_until(rig.all_finished)
    rig.checkpoint(1)
    rig.task(1).chain.operators[-1].notify_checkpoint_complete = fail(OSError("gone"))  # type: ignore[method-assign]
    rig.complete(1)
    [failed] = rig.link.all(SlotFailed)
    assert "gone" in failed.failure.message
    rig.release()


@pytest.mark.parametrize("interval", ["1 s", "0 ms"])
def test_operators_stay_open_behind_the_end_until_all_tasks_have_ended(tmp_path: Path, interval: str) -> None:
    rig = running(tmp_path, count=100, interval=interval)
    rig.step_until(rig.all_finished)
    assert "closed" not in STORY
    rig.tell(CommitFinished())
    assert STORY.count("closed") == 1
    rig.release()
    assert STORY.count("closed") == 1


def test_operators_are_closed_at_their_end_where_no_snapshot_is_taken_behind_it(tmp_path: Path) -> None:
    after = {"execution.checkpointing.checkpoints-after-tasks-finish": "false"}
    rig = running(tmp_path, count=100, **after)
    rig.step_until(rig.all_finished)
    assert STORY.count("closed") == 1
    rig.release()
    assert STORY.count("closed") == 1


def test_functions_are_told_whether_they_go_on_from_a_snapshot(tmp_path: Path) -> None:
    rig = running(tmp_path)
    metadata = rig.checkpoint(1)
    rig.release()
    again = CheckpointRig(program(), tmp_path, metadata).deploy()
    again.release()
    assert [line for line in STORY if line.startswith("restored")] == ["restored False", "restored True"]


def test_uploads_in_threads_are_acknowledged_by_the_loop(tmp_path: Path) -> None:
    rig = CheckpointRig(program(), tmp_path)
    rig.slot._host.uploads = UploadThreads("uploads-test")
    rig.start()
    for _ in range(3):
        rig.step()
    rig.trigger(1)

    def stepped() -> bool:
        rig.step()
        return rig.is_acknowledged(1)

    wait_until(stepped, 60, "the acknowledgements")
    assert all(message.metrics.async_ms >= 0 for message in rig.acknowledged(1))
    rig.release()


def test_a_checkpoint_that_was_given_up_during_its_upload_is_not_acknowledged(tmp_path: Path) -> None:
    rig = CheckpointRig(program(), tmp_path)
    held: list[Callable[[], None]] = []

    class Held:
        def submit(self, action: Callable[[], None]) -> None:
            held.append(action)

        def abandon(self, action: Callable[[], None]) -> None:
            assert action in held

        def close(self) -> None:
            held.clear()

    rig.slot._host.uploads = Held()
    rig.start()
    for _ in range(3):
        rig.step()
    rig.trigger(1)
    rig.step_until(lambda: len(held) == 2)
    assert rig.slot.awaits_mail()
    rig.abort(1)
    for action in list(held):
        action()
    rig.step()
    assert not rig.acknowledged(1) and not rig.declined(1)
    rig.release()


class HangingFileSystem(FaultyFileSystem):
    """Writes of some checkpoints do not come back before they may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()
        self.hanging_below = 0
        self.num_hanging = 0
        self.fail = self._hang

    def _hang(self, operation: str, uri: str) -> None:
        number = re.search(r"/chk-(\d+)/", uri)
        if operation == "write_new" and number is not None and int(number[1]) < self.hanging_below:
            self.num_hanging += 1
            self.may_end.wait(120)


class OnHangingStorage:
    """A job of which one task writes files, and a storage that hangs for its first checkpoints."""

    def __init__(self, directory: Path, num_hanging: int, **threads: int) -> None:
        self.files = HangingFileSystem()
        self.files.hanging_below = num_hanging + 1
        self.rig = CheckpointRig(jobs.counting(200_000, parallelism=1), directory, window_bytes=4_096).start()
        self.rig.slot._storage._files = self.files
        self.rig.slot._host.uploads = UploadThreads("uploads-hanging", **threads)
        for _ in range(8):
            self.rig.step()
        for number in range(1, num_hanging + 1):
            self.rig.trigger(number)
            self.step_until(lambda: self.files.num_hanging == number, "the upload")  # noqa: B023
            self.rig.abort(number)

    def step_until(self, condition: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.rig.step()
            return condition()

        wait_until(stepped, 60, what)

    def end(self) -> None:
        self.files.may_end.set()
        self.rig.release()


def test_a_storage_that_hangs_for_a_while_costs_the_checkpoints_of_that_while_only(tmp_path: Path) -> None:
    job = OnHangingStorage(tmp_path, num_hanging=3, num_threads=1)
    job.rig.trigger(4)
    job.step_until(lambda: job.rig.is_acknowledged(4), "a checkpoint while others hang")
    job.files.may_end.set()
    # what they write in the end is deleted, for nobody knows of it
    job.step_until(lambda: len([c for c in job.files.calls if c[0] == "delete_file"]) == 3, "the end of their files")
    job.step_until(lambda: not any(list((tmp_path / f"chk-{number}").iterdir()) for number in (1, 2, 3)), "that too")
    # by the task that has nothing to write
    assert [len(job.rig.acknowledged(number)) for number in (1, 2, 3)] == [1, 1, 1]
    job.end()


def test_a_task_fails_for_a_storage_that_hangs_for_ever(tmp_path: Path) -> None:
    job = OnHangingStorage(tmp_path, num_hanging=3, num_threads=1, max_hanging=2)
    job.rig.step()
    changes = [change for link in job.rig.links.values() for change in link.all(TaskStateChanged)]
    [failure] = [change.failure.message for change in changes if change.failure is not None]
    assert failure.startswith("the checkpoint storage does not answer: 3 uploads")
    job.end()


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.AT_LEAST_ONCE])
def test_a_task_learns_from_its_input_that_the_job_is_drained_if_its_slot_hears_of_it_late(
    tmp_path: Path, alignment: Alignment
) -> None:
    env = environment(2, {"execution.checkpointing.interval": "0 ms"})
    source = env.from_source(NumberSequenceSource(1, 100_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers = source.set_parallelism(1).rebalance().map(Remembering(), Types.LONG()).uid("map")
    numbers.rebalance().sink_to(HookedSink()).uid("out")
    rig = CheckpointRig(env, tmp_path).start()
    for _ in range(3):
        rig.step()
    options = rig.options[CheckpointId(1)] = rig.options_of(
        1, is_savepoint=True, after=AfterSnapshot.DRAIN, alignment=alignment
    )
    trigger = TriggerCheckpoint(CheckpointId(1), rig.clock.now_ms(), options)
    on_time, late = rig.links
    rig.links[on_time].inbox.append(trigger)
    rig.step_until(rig.all_finished)
    rig.links[late].inbox.append(trigger)
    rig.step_until(lambda: rig.is_acknowledged(1))
    assert all(message.state.is_finished for message in rig.acknowledged(1))
    assert rig.declined(1) == []
    rig.release()
