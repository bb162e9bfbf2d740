"""Ongoing snapshots of a task: what is waited for, and that each is answered once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.channel_state import ChannelPart
from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.state_files import TaskStateWriter
from runtime.core.checkpoint_options import CheckpointOptions, SnapshotKind
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId, OperatorId, TaskId
from runtime.network.channel import ChannelId
from runtime.state.handles import KeyedStateHandle, PendingKeyedState, StateFileWriter
from runtime.state.key_groups import KeyGroupRange
from runtime.state.snapshot import OperatorSnapshot
from runtime.task.ongoing_snapshots import OngoingSnapshot, OngoingSnapshots
from runtime.task.uploads import Uploads
from runtime.testing.clock import ManualClock
from tests.jobmaster.simulation import keyed_job

VERTEX = keyed_job(1).vertices[0]
TASK = TaskId(VERTEX.vertex_id, 0)
FIRST = CheckpointId(1)
PART = ChannelPart(ChannelId(0, 0, 0), [b"12345"], is_output=False)


class Gathering(PendingKeyedState):
    """State that takes some steps to gather; `error` is raised by the last one, or by the write."""

    def __init__(self, steps: int, error: Exception | None = None, fails_in_write: bool = False) -> None:
        self.steps = steps
        self.error = error
        self.fails_in_write = fails_in_write
        self.is_discarded = False

    def advance(self, budget_ms: float) -> bool:
        self.steps -= 1
        if self.steps == 0 and self.error is not None and not self.fails_in_write:
            raise self.error
        return self.steps <= 0

    def write(self, files: StateFileWriter) -> KeyedStateHandle:
        file = files.write("keyed", b"state")
        if self.error is not None:
            raise self.error
        return KeyedStateHandle("test", KeyGroupRange(0, 127), 128, {"keyed": file})

    def discard(self) -> None:
        self.is_discarded = True


class Services:
    """A slot whose uploads run when the test says so."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.clock = clock
        self.uploads: Uploads = self
        self.state_compression = "none"
        self.directory = directory
        self.submitted: deque[Callable[[], None]] = deque()
        self.posted: deque[Callable[[], None]] = deque()
        self.acknowledged: list[CheckpointId] = []
        self.metrics: list[CheckpointMetrics] = []
        self.declined: list[str] = []

    def submit(self, upload: Callable[[], None]) -> None:
        self.submitted.append(upload)

    def abandon(self, upload: Callable[[], None]) -> None:
        raise AssertionError("nobody waits for uploads here")

    def close(self) -> None:
        self.submitted.clear()

    def state_writer(self, options: CheckpointOptions, checkpoint_id: CheckpointId, task: str) -> TaskStateWriter:
        return TaskStateWriter(ArrowFileSystem(), options, checkpoint_id, task)

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None:
        self.acknowledged.append(checkpoint_id)
        self.metrics.append(metrics)

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None:
        self.declined.append(str(error))

    def post(self, action: Callable[[], None]) -> None:
        self.posted.append(action)

    def upload_all(self) -> None:
        while self.submitted or self.posted:
            (self.submitted or self.posted).popleft()()

    def files(self) -> list[Path]:
        return [path for path in self.directory.rglob("*") if path.is_file()]


class Rig:
    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.services = Services(directory, self.clock)
        self.snapshots = OngoingSnapshots(TASK, "source (1/1)", VERTEX, self.services)

    def begin(self, pending: PendingKeyedState, is_recording: bool = False) -> OngoingSnapshot:
        directory = self.services.directory.as_uri()
        options = CheckpointOptions(f"{directory}/chk-1", f"{directory}/shared", kind=SnapshotKind.FULL)
        ongoing = OngoingSnapshot(
            CheckpointBarrier(FIRST, 0, options),
            {OperatorId("a"): OperatorSnapshot(pending=pending)},
            CheckpointMetrics(),
            ended_ms=self.services.clock.monotonic_ms(),
            is_finished=False,
            gathering=[pending],
            is_recording=is_recording,
        )
        self.snapshots.add(ongoing)
        return ongoing


def test_state_is_gathered_in_steps_then_stored_and_acknowledged(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.begin(Gathering(3))
    assert [rig.snapshots.advance() for _ in range(3)] == [True] * 3
    assert (rig.snapshots.is_gathering, rig.snapshots.is_uploading) == (False, True)
    rig.clock.advance(40)
    rig.services.upload_all()
    assert rig.services.acknowledged == [1]
    assert (rig.services.metrics[0].checkpointed_bytes, rig.services.metrics[0].async_ms) == (5, 40)
    assert not rig.snapshots


def test_what_is_recorded_of_the_inputs_is_waited_for_and_comes_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    ongoing = rig.begin(Gathering(1), is_recording=True)
    overtaken = ChannelPart(ChannelId(1, 0, 0), [b"123"], is_output=True)
    ongoing.parts = [overtaken]
    rig.snapshots.advance()
    assert not rig.services.submitted
    rig.snapshots.add_recorded(FIRST, [PART])
    assert ongoing.parts == [PART, overtaken]
    rig.services.upload_all()
    assert rig.services.metrics[0].persisted_bytes == PART.size + overtaken.size


def test_state_that_cannot_be_gathered_declines_the_checkpoint_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    pending = Gathering(2, ValueError("no form"))
    rig.begin(pending)
    for _ in range(4):
        rig.snapshots.advance()
    rig.snapshots.fail(FIRST, ValueError("again"))
    assert rig.services.declined == ["no form"]
    assert pending.is_discarded


def test_an_upload_that_fails_leaves_no_file(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.begin(Gathering(1, OSError("disk full"), fails_in_write=True))
    rig.snapshots.advance()
    rig.services.upload_all()
    assert (rig.services.declined, rig.services.acknowledged) == (["disk full"], [])
    assert rig.services.files() == []


def test_a_checkpoint_that_is_given_up_while_it_is_stored_is_not_answered_and_leaves_no_file(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.begin(Gathering(1))
    rig.snapshots.advance()
    rig.services.submitted.popleft()()
    assert rig.services.files()
    assert len(rig.snapshots.drop(FIRST)) == 1
    rig.services.upload_all()
    assert (rig.services.declined, rig.services.acknowledged, rig.services.files()) == ([], [], [])


def test_one_that_is_given_up_before_has_nothing_to_store(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    pending = Gathering(2)
    rig.begin(pending)
    rig.snapshots.advance()
    assert rig.snapshots.drop(FIRST) == []
    assert pending.is_discarded
    assert not rig.snapshots.advance()
    assert rig.services.files() == []
