"""Jobs of one columnar operator whose checkpoints are files: taken, written, completed, given up, restored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.checkpoint.shared_registry import SharedFileRegistry
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.handles import KeyedStateHandle
from runtime.state.key_groups import key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot, SnapshotRequest
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OperatorHarness
from tests.operators.columnar.runs import normalized
from tests.state.files import DirectoryFiles

MAX_PARALLELISM = 128
Create = Callable[[int, int, ManualClock, OperatorSnapshot | None], OperatorHarness[Any]]
Feed = Callable[[Sequence[Any], Any], None]


@dataclass
class Checkpoint:
    """A checkpoint of all subtasks."""

    checkpoint_id: CheckpointId
    stage: int
    """How many stages it has behind it."""
    snapshots: list[OperatorSnapshot]
    handles: list[KeyedStateHandle] | None = None
    written_bytes: int = 0

    def shared(self) -> set[str]:
        return {file.uri for handle in self.handles or () for file in handle.files.values() if file.is_shared}


@dataclass
class CheckpointedJob:
    """Runs stages, and goes back to the newest complete checkpoint, at any parallelism.

    Args:
        create: makes a subtask's harness.
        feed: puts a stage's input into all subtasks.
        directory: of the files; only those that a retained checkpoint needs are there.
    """

    create: Create
    feed: Feed
    directory: Path
    stage: int = 0
    last_id: int = 0
    running: list[Checkpoint] = field(default_factory=list)
    retained: Checkpoint | None = None
    #: completed ones that are no longer retained, and those that were running then
    subsumed: list[tuple[CheckpointId, set[CheckpointId]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = DirectoryFiles(self.directory / "files")
        self.registry = SharedFileRegistry()
        self.harnesses: list[Any] = []
        self.restore(1)

    def run(self, stage: Any) -> Counter[str]:
        """Run the next stage and return what it emits."""
        before = [len(harness.records) for harness in self.harnesses]
        self.feed(self.harnesses, stage)
        self.stage += 1
        return Counter(
            repr((normalized(value), timestamp))
            for harness, start in zip(self.harnesses, before, strict=True)
            for value, timestamp in harness.records[start:]
        )

    def take(self, kind: SnapshotKind = SnapshotKind.INCREMENTAL) -> Checkpoint:
        """Begin a checkpoint: the synchronous part."""
        self.last_id += 1
        request = SnapshotRequest(kind, CheckpointId(self.last_id))
        snapshots = [harness.operator.snapshot_state(request) for harness in self.harnesses]
        self.running.append(Checkpoint(request.checkpoint_id, self.stage, snapshots))
        return self.running[-1]

    def write(self, checkpoint: Checkpoint) -> None:
        """Write what a checkpoint has taken."""
        before = self.files.written_bytes
        checkpoint.handles = [self._written(snapshot, subtask) for subtask, snapshot in enumerate(checkpoint.snapshots)]
        checkpoint.written_bytes = self.files.written_bytes - before

    def complete(self, checkpoint: Checkpoint) -> None:
        """Complete a written checkpoint, and delete what only earlier ones need."""
        assert checkpoint.handles is not None
        self.registry.register(checkpoint.checkpoint_id, checkpoint.shared())
        self.running = [other for other in self.running if other.checkpoint_id > checkpoint.checkpoint_id]
        for harness in self.harnesses:
            harness.operator.notify_checkpoint_complete(checkpoint.checkpoint_id)
        subsumed, self.retained = self.retained, checkpoint
        if subsumed is not None:
            # running ones may build on it, whether or not they are written: the coordinator waits for them
            self.subsumed.append((subsumed.checkpoint_id, {other.checkpoint_id for other in self.running}))
        self._delete_unneeded()

    def _delete_unneeded(self) -> None:
        """Delete the files of subsumed checkpoints on which none builds that was running then."""
        running = {other.checkpoint_id for other in self.running}
        still = [(old, blockers & running) for old, blockers in self.subsumed if blockers & running]
        over = [old for old, blockers in self.subsumed if not blockers & running]
        self.subsumed = still
        for old in over:
            for uri in self.registry.unregister(old):
                Path(uri).unlink()

    def abort(self, checkpoint: Checkpoint) -> None:
        """Give a checkpoint up, and delete what it has written."""
        self.running.remove(checkpoint)
        for harness in self.harnesses:
            harness.operator.notify_checkpoint_aborted(checkpoint.checkpoint_id)
        for uri in checkpoint.shared():
            if uri not in self.registry and not any(uri in other.shared() for other in self.running):
                Path(uri).unlink()
        self._delete_unneeded()

    def checkpoint(self, kind: SnapshotKind = SnapshotKind.INCREMENTAL) -> Checkpoint:
        """Take, write and complete a checkpoint."""
        checkpoint = self.take(kind)
        self.write(checkpoint)
        self.complete(checkpoint)
        return checkpoint

    def restore(self, parallelism: int) -> None:
        """Go back to the newest complete checkpoint; without one to the beginning."""
        self.close()
        self.running = []
        retained = self.retained
        snapshots: Sequence[OperatorSnapshot | None] = [None] * parallelism
        if retained is not None and retained.handles is not None:
            inline = [OperatorSnapshot(None, s.operator_states, s.watermark) for s in retained.snapshots]
            handles = retained.handles
            snapshots = [
                OperatorSnapshot(self.loaded(handles, parallelism, index), dealt.operator_states, dealt.watermark)
                for index, dealt in enumerate(redistribute(inline, parallelism, MAX_PARALLELISM))
            ]
        self.stage = 0 if retained is None else retained.stage
        clock = ManualClock()
        self.harnesses = [self.create(parallelism, index, clock, snapshots[index]) for index in range(parallelism)]

    def loaded(self, handles: Sequence[KeyedStateHandle], parallelism: int, index: int) -> Any:
        """Return what a subtask restores of its keyed state."""
        own = key_group_range(MAX_PARALLELISM, parallelism, index)
        return load_keyed_state(handles, own, MAX_PARALLELISM, self.files, self.directory / "restore")

    def close(self) -> None:
        for harness in self.harnesses:
            harness.close()

    def _written(self, snapshot: OperatorSnapshot, subtask: int) -> KeyedStateHandle:
        if snapshot.pending is not None:
            assert snapshot.pending.advance(0)
            return snapshot.pending.write(self.files)
        assert snapshot.keyed is not None
        file = self.files.write("keyed-state", encode_canonical(snapshot.keyed))
        own = key_group_range(MAX_PARALLELISM, len(self.harnesses), subtask)
        metas = tuple(snapshot.keyed.metas.values())
        return KeyedStateHandle(CANONICAL_FORMAT, own, MAX_PARALLELISM, {CANONICAL_FILE: file}, states=metas)
