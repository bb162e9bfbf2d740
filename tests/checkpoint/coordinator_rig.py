"""A coordinator with a model of its tasks and its storage: files are names in a set."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.handles import CheckpointMetadata, CheckpointMetrics, OperatorSubtaskState, TaskStateHandle
from runtime.checkpoint.messages import (
    Acknowledged,
    AttemptEnded,
    AttemptRunning,
    CoordinatorAction,
    CoordinatorEvent,
    CoordinatorsAnswered,
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    NotifyComplete,
    NotStored,
    RequestDone,
    SnapshotSources,
    StoreCheckpoint,
    Stored,
    TimePassed,
    TriggerRequested,
    TriggerTasks,
)
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, SlotId, TaskId
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from tests.jobmaster.simulation import keyed_job

GRAPH = keyed_job(2)
TASKS = [TaskId(v.vertex_id, i) for v in GRAPH.vertices for i in range(v.parallelism)]
SOURCES = frozenset({SlotId(0)})
ROOT = "file:///checkpoints"
WALL_MS = 1_000_000
FIRST = Attempt(0)


@dataclass
class Rig:
    """Drives one coordinator. `files` is what the storage holds, `pointers` what recovery would find."""

    settings: CheckpointSettings = field(default_factory=lambda: CheckpointSettings(interval_ms=1_000))
    coordinator: CheckpointCoordinator = field(init=False)
    now_ms: float = 0.0
    attempt: Attempt = FIRST
    files: set[str] = field(default_factory=set)
    pointers: dict[CheckpointId, CheckpointMetadata] = field(default_factory=dict)
    savepoints: list[CheckpointMetadata] = field(default_factory=list)
    storing: list[StoreCheckpoint] = field(default_factory=list)
    triggers: dict[CheckpointId, TriggerTasks] = field(default_factory=dict)
    done: dict[str, RequestDone] = field(default_factory=dict)
    actions: list[CoordinatorAction] = field(default_factory=list)
    #: shared files that a task may build on, by task; and what they were when a checkpoint was triggered
    base: dict[TaskId, tuple[FileHandle, ...]] = field(default_factory=dict)
    base_at_trigger: dict[CheckpointId, dict[TaskId, tuple[FileHandle, ...]]] = field(default_factory=dict)
    acks: dict[CheckpointId, dict[TaskId, TaskStateHandle]] = field(default_factory=dict)
    written: int = 0

    def __post_init__(self) -> None:
        names = iter(f"{i:012x}" for i in range(10**6))
        self.coordinator = CheckpointCoordinator(
            self.settings, GRAPH.job_id, ROOT, leader_epoch=3, new_name=lambda: next(names)
        )

    # --- what happens -------------------------------------------------------------------------------------------------

    def do(self, event: CoordinatorEvent) -> list[CoordinatorAction]:
        """Hand in an event and perform what is to be done, but for storing."""
        actions = self.coordinator.handle(event, self.now_ms, int(WALL_MS + self.now_ms))
        for action in actions:
            match action:
                case TriggerTasks(checkpoint_id):
                    self.triggers[checkpoint_id] = action
                    self.base_at_trigger[checkpoint_id] = dict(self.base)
                case StoreCheckpoint():
                    self.storing.append(action)
                case NotifyComplete(checkpoint_id):
                    for task, state in self.acks[checkpoint_id].items():
                        self.base[task] = tuple(f for f in state.files() if f.is_shared)
                case ForgetCheckpoints(ids):
                    for checkpoint_id in ids:
                        self.pointers.pop(checkpoint_id, None)
                case ForgetDamaged(checkpoint_id):
                    self.pointers.pop(checkpoint_id)
                case DeleteFiles(files, directories):
                    self.files -= set(files)
                    self.files = {f for f in self.files if not any(f.startswith(d + "/") for d in directories)}
                case RequestDone(request_id):
                    assert request_id not in self.done
                    self.done[request_id] = action
        self.actions.extend(actions)
        self.coordinator.check_invariants()
        self.check_files()
        return actions

    def check_files(self) -> None:
        """Nothing that can still be restored has lost a file."""
        for metadata in (*self.pointers.values(), *self.savepoints, *(a.metadata for a in self.storing)):
            lost = {f.uri for f in metadata.files()} - self.files
            assert not lost, f"checkpoint {metadata.checkpoint_id} has lost {lost}"

    def start(self) -> None:
        """The attempt runs."""
        point = self.coordinator.restore_point()
        self.base = {}
        if point is not None:
            for operator in point.metadata.operators[:1]:
                for index, state in enumerate(operator.subtasks):
                    files = state.keyed.files.values() if state.keyed is not None else ()
                    task = TaskId(GRAPH.vertices[0].vertex_id, index)
                    self.base[task] = tuple(f for f in files if f.is_shared)
        self.do(AttemptRunning(self.attempt, GRAPH, SOURCES))

    def fail_attempt(self) -> None:
        self.do(AttemptEnded("a task failed"))
        self.attempt = Attempt(self.attempt + 1)

    def advance(self, ms: float) -> list[CoordinatorAction]:
        """Let time pass; what is due happens when it is."""
        end_ms, seen = self.now_ms + ms, len(self.actions)
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.do(TimePassed())
        self.now_ms = end_ms
        return self.actions[seen:]

    def answer_sources(self, checkpoint_id: int) -> None:
        self.do(CoordinatorsAnswered(SlotId(0), self.attempt, CheckpointId(checkpoint_id), {}))

    def acknowledge(
        self,
        checkpoint_id: int,
        task: TaskId,
        *,
        late_base: bool = False,
        compacts: bool = False,
        attempt: Attempt | None = None,
    ) -> None:
        """A task writes its files and says so.

        Args:
            checkpoint_id: which one; it was triggered.
            task: which one.
            late_base: whether it builds on what it has heard of since the trigger.
            compacts: whether it builds on nothing.
            attempt: that it says it is of; None = the current one.
        """
        number = CheckpointId(checkpoint_id)
        state = self.write(number, task, late_base, compacts)
        self.acks.setdefault(number, {}).setdefault(task, state)
        metrics = CheckpointMetrics(checkpointed_bytes=10, state_bytes=10)
        self.do(Acknowledged(self.attempt if attempt is None else attempt, task, number, state, metrics))

    def write(self, checkpoint_id: CheckpointId, task: TaskId, late_base: bool, compacts: bool) -> TaskStateHandle:
        options = self.triggers[checkpoint_id].options
        files = {"own": self.new_file(options.directory, False)}
        if options.kind is SnapshotKind.INCREMENTAL:
            base = self.base if late_base else self.base_at_trigger[checkpoint_id]
            for index, file in enumerate(() if compacts else base.get(task, ())[-2:]):
                files[f"base{index}"] = file
            files["delta"] = self.new_file(options.shared_directory, True)
        vertex = GRAPH.vertex(task.vertex_id)
        keyed = KeyedStateHandle("test", KeyGroupRange(0, 127), 128, files)
        return TaskStateHandle({vertex.head.operator_id: OperatorSubtaskState(keyed)})

    def new_file(self, directory: str, shared: bool) -> FileHandle:
        self.written += 1
        uri = f"{directory}/file-{self.written}"
        self.files.add(uri)
        return FileHandle(uri, 10, "0" * 64, shared)

    def acknowledge_all(self, checkpoint_id: int, *, compacts: bool = False) -> None:
        for task in TASKS:
            self.acknowledge(checkpoint_id, task, compacts=compacts)

    def finish_storing(self, *, succeeds: bool = True, is_fenced: bool = False) -> None:
        """The storage answers the oldest question."""
        action = self.storing.pop(0)
        checkpoint_id = action.metadata.checkpoint_id
        if not succeeds:
            self.do(NotStored(checkpoint_id, "disk full", is_fenced))
            return
        if action.is_recorded:
            self.pointers[checkpoint_id] = action.metadata
        if not action.is_owned:
            self.savepoints.append(action.metadata)
        self.do(Stored(checkpoint_id))

    # --- what a test says ---------------------------------------------------------------------------------------------

    def complete_checkpoint(self) -> CheckpointId:
        """Let one periodic checkpoint begin and go through."""
        self.advance(self.settings.interval_ms or 0)
        (checkpoint_id,) = self.coordinator.pending()
        self.complete(checkpoint_id)
        return checkpoint_id

    def complete(self, checkpoint_id: int) -> None:
        """Let one that has begun go through."""
        self.answer_sources(checkpoint_id)
        self.acknowledge_all(checkpoint_id)
        self.finish_storing()

    def request(self, request_id: str, **options: object) -> None:
        self.do(TriggerRequested(request_id, **options))  # type: ignore[arg-type]

    def of_kind(self, kind: type[CoordinatorAction]) -> list[CoordinatorAction]:
        return [a for a in self.actions if isinstance(a, kind)]

    def begun(self) -> list[int]:
        """Checkpoints whose sources were asked."""
        return [a.checkpoint_id for a in self.actions if isinstance(a, SnapshotSources)]


def completed(checkpoint_id: int, rig: Rig, *, is_owned: bool = True, is_claimed: bool = False) -> CompletedCheckpoint:
    """Return a checkpoint with one file that an earlier run has left."""
    other = Rig(CheckpointSettings(interval_ms=1_000, is_incremental=True), written=1_000)
    other.start()
    for _ in range(checkpoint_id):
        other.complete_checkpoint()
    metadata = other.pointers[CheckpointId(checkpoint_id)]
    rig.files |= {f.uri for f in metadata.files()}
    rig.pointers[CheckpointId(checkpoint_id)] = metadata
    return CompletedCheckpoint(metadata, is_owned, is_claimed)


def claimed(rig: Rig) -> CompletedCheckpoint:
    """Return a checkpoint of another job that this one has claimed; no store of its checkpoints contains it."""
    checkpoint = completed(1, rig, is_claimed=True)
    rig.pointers.clear()
    return checkpoint
