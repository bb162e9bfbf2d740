"""A storage worker whose answers are kept, over directories of this test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.checkpoint.completed_store import CompletedCheckpointStore
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import checkpoint_directory
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots
from runtime.checkpoint.messages import DeleteFiles, ForgetCheckpoints, RecordEnd, StoreCheckpoint
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.signatures import NO_KEYS, SnapshotKeys
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries, default_file_system
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, JobId
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.events import RecoveryDelayed, StorageAnswered, Submitted, Tick
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.testing.clock import ManualClock

JOB = JobId("a" * 32)
SETTINGS = CheckpointSettings(interval_ms=1_000)


class Rig:
    """A worker whose answers are kept."""

    def __init__(
        self,
        root: Path,
        store: CompletedCheckpointStore | None = None,
        settings: CheckpointSettings = SETTINGS,
        *,
        is_inline: bool = True,
        epoch: int = 0,
        is_taken_over: bool = False,
        failures: Iterable[OSError] = (),
        may_write: Callable[[], bool] = lambda: True,
        left_stop: str | None = None,
        give_up_stop: Callable[[], None] = lambda: None,
        allowed: AllowedRoots = EVERYWHERE,
        keys: SnapshotKeys = NO_KEYS,
    ) -> None:
        self.root = root.as_uri()
        self.clock = ManualClock(0)
        self.posted: list[Any] = []
        files = SnapshotFiles(default_file_system(), allowed, Retries(()), keys)
        home = CheckpointHome.of(
            replace(settings, directory=self.root), JOB, slots_are_local=True, leader_epoch=epoch, files=files
        )
        if store is not None:
            home = replace(home, open_store=lambda: store)
        failing, open_store = iter(failures), home.open_store

        def open_in_the_end() -> CompletedCheckpointStore:
            for failure in failing:
                raise failure
            return open_store()

        home = replace(
            home, open_store=open_in_the_end, may_write=may_write, left_stop=left_stop, give_up_stop=give_up_stop
        )
        self.worker = StorageWorker(home, settings, JOB, self.clock, self.posted.append, is_inline, is_taken_over)

    @property
    def answers(self) -> list[Any]:
        return [event.answer for event in self.posted if isinstance(event, StorageAnswered)]

    def recover(self) -> Submitted:
        submitted = self.worker.recover()
        assert isinstance(submitted, Submitted)
        return submitted

    def recover_when_it_is_back(self, is_back: Callable[[int], None]) -> tuple[list[float], Submitted]:
        """Try again when that is due, after a call with the number of tries so far; the waits, and what is found."""
        assert isinstance(self.worker.recover(), RecoveryDelayed)
        waits: list[float] = []
        while not any(isinstance(event, Submitted) for event in self.posted):
            is_back(len(waits) + 1)
            due_ms = self.worker.next_ms()
            assert due_ms is not None
            assert self.worker.is_idle, "nothing is waited for at the job's end"
            waits.append(due_ms - self.clock.monotonic_ms())
            self.clock.advance(int(waits[-1]))
            assert self.worker.step()
        assert self.worker.next_ms() is None
        *delays, submitted, tick = self.posted
        assert all(isinstance(event, RecoveryDelayed) for event in delays)
        assert isinstance(submitted, Submitted)
        assert tick == Tick()
        return waits, submitted

    def metadata(self, number: int, attempt: int = 0) -> CheckpointMetadata:
        directory = checkpoint_directory(self.root, JOB, CheckpointId(number), 0, Attempt(attempt))
        return CheckpointMetadata(
            JOB, CheckpointId(number), 0, CheckpointOptions(directory, f"{self.root}/{JOB}/shared"), ()
        )

    def store(self, number: int, *, is_recorded: bool = True) -> CheckpointMetadata:
        metadata = self.metadata(number)
        self.worker.put(StoreCheckpoint(metadata, is_owned=True, is_recorded=is_recorded))
        self.worker.step()
        return metadata


def damage(tmp_path: Path, number: int) -> None:
    path = tmp_path / JOB / f"chk-{number}-0.0" / "_metadata"
    path.write_bytes(path.read_bytes()[:-20])


def end(rig: Rig, number: int) -> None:
    """End the job without keeping its checkpoints."""
    rig.worker.put(RecordEnd(JobOutcome.CANCELED))
    rig.worker.put(ForgetCheckpoints((CheckpointId(number),)))
    rig.worker.put(DeleteFiles((), (f"{rig.root}/{JOB}/chk-{number}-0.0",)))
    rig.worker.step()
