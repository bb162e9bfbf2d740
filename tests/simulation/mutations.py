"""Mistakes that the simulation must find: each is one line of production code replaced by another, while a run lasts.

The function is compiled again from its own source with the replacement made, which must fit exactly one place; so a
mutation that the code has grown away from is an error and not a silent pass.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runtime.checkpoint import file_system, state_files
from runtime.checkpoint.barrier_handler import BarrierHandler
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.retained_checkpoints import RetainedCheckpoints
from runtime.checkpoint.state_files import TaskStateReader
from runtime.connectors.files.file_sink import _FileSinkWriter
from runtime.connectors.files.part_file import PartFile
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.operations import JobOperations
from runtime.jobmaster.slot_watch import SlotWatch
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.network.remote import RemoteOutputChannel
from runtime.operators.sink_operator import SinkOperator
from runtime.operators.source_coordinator import SourceCoordinator
from runtime.operators.source_operator import SourceOperator
from runtime.state.hashmap.snapshot import RestoredState
from runtime.task import task
from runtime.task.channel_recording import ChannelRecording
from runtime.task.input_gate import InputGate
from runtime.task.processing_time import TimerQueue
from runtime.task.task import Task
from runtime.task.task_checkpoints import TaskCheckpoints
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.progress import HANGS, NOT_ENDED
from tests.simulation.scenario import Scenario
from tests.simulation.world import DAMAGED_AGAIN


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mistake built into the code."""

    name: str
    owner: Any
    """Class or module."""
    function: str
    old: str
    new: str
    seeds: tuple[int, ...] = ()
    """That were seen to find it; a hint only."""
    scenarios: tuple[Scenario, ...] = ()
    """Made for it, of which one has to find it; empty: it is looked for in seeds."""
    hangs: bool = False
    """Whether it is found because the job never ends, which takes long."""
    found_as: str = ""
    """In the text of the violation that stands for it."""


#: state of the newest checkpoint is as an older one has it, and has to be restored
DAMAGED = Scenario(1, num_retained=3, checkpoint_interval_ms=30, faults=(Fault(Point.NOTIFY, 5, Action.DAMAGE, 1),))
MUTATIONS = (
    Mutation(
        "what is read of a checkpoint is not compared with its size and sha256",
        state_files,
        "_check",
        "if size != file.size:",
        "return\n    if size != file.size:",
        scenarios=(DAMAGED,),
        found_as="was to come",
    ),
    Mutation(
        "files of a checkpoint are not synced",
        file_system,
        "_write_new_local",
        "os.fsync(file.fileno())",
        "pass",
        seeds=(21,),
        found_as="the snapshot to restore cannot be read",
    ),
    Mutation(
        "files of a sink are not synced",
        PartFile,
        "sync",
        "os.fsync(self._file.fileno())",
        "pass",
        seeds=(4,),
        found_as="aborted read: ",
    ),
    Mutation(
        "names of a sink's files are not synced",
        _FileSinkWriter,
        "_new_directories",
        "return new_in",
        "return set()",
        seeds=(4,),
        hangs=True,
        found_as="aborted read: ",
    ),
    Mutation(
        "a file sink goes on with all that a former writer wrote, not with what the snapshot holds",
        _FileSinkWriter,
        "_resume",
        '(origin, item["bytes"])',
        "(origin, origin.stat().st_size)",
        seeds=(48,),
        found_as="duplicated: ",
    ),
    Mutation(
        "timers wait until the wall clock says so",
        TimerQueue,
        "wait_ms",
        "min(first.due_ms - self._clock.monotonic_ms(), first.at_ms - self._clock.now_ms())",
        "first.at_ms - self._clock.now_ms()",
        hangs=True,
        seeds=(623,),
        found_as=NOT_ENDED,
    ),
    Mutation(
        "an acknowledgement is not waited for",
        CheckpointCoordinator,
        "_on_acknowledged",
        "if not pending.waiting_tasks:",
        "if not {task for task in pending.waiting_tasks if not task.subtask_index}:",
        seeds=(0,),
        found_as="broke: KeyError",
    ),
    Mutation(
        "sinks hear of a checkpoint before it is recorded",
        CheckpointCoordinator,
        "_store",
        "pending.stage = Stage.STORING",
        "pending.stage = Stage.STORING; self._actions.append(NotifyComplete(pending.checkpoint_id))",
        seeds=(0,),
        found_as="duplicated: ",
    ),
    Mutation(
        "a JobMaster that was replaced still records checkpoints",
        FileCompletedStore,
        "complete",
        "if last.owner != self._owner:",
        "if last.owner == '':",
        seeds=(18,),
        found_as="is to be committed and was aborted",
    ),
    Mutation(
        "a JobMaster that has brought the job to its end leaves nothing that says so",
        FileCompletedStore,
        "end",
        "if self._leader_epoch == 0:",
        "if True:",
        seeds=(626, 3359),
        found_as="duplicated: ",
    ),
    Mutation(
        "what sinks prepare is committed at once",
        SinkOperator,
        "_prepare",
        "self._pending.extend(_Pending(None, committable) for committable in committables)",
        "self._pending.extend(_Pending(None, c) for c in committables); self._commit(self._pending)",
        seeds=(0,),
        found_as="duplicated: ",
    ),
    Mutation(
        "what was prepared for a checkpoint that was given up is forgotten",
        SinkOperator,
        "snapshot_state",
        "checkpoint_id = int(request.checkpoint_id)",
        "checkpoint_id = int(request.checkpoint_id); "
        "self._pending = [p for p in self._pending if p.checkpoint_id is None]",
        seeds=(1,),
        found_as="lost: ",
    ),
    Mutation(
        "what a checkpoint holds for sinks is not committed after a restore",
        SinkOperator,
        "_recover",
        "self._commit(self._pending)",
        "pass",
        seeds=(9,),
        found_as="lost: ",
    ),
    Mutation(
        "a barrier does not block its channel",
        TaskCheckpoints,
        "_perform",
        "gate.block(in_gate)",
        "pass",
        seeds=(10,),
        found_as="duplicated: ",
    ),
    Mutation(
        "a source remembers where it was one record too late",
        SourceOperator,
        "snapshot_state",
        "SplitState(s.split, s.reader.position, s.tracker.current,",
        "SplitState(s.split, s.reader.position + 1, s.tracker.current,",
        seeds=(4,),
        found_as="lost: ",
    ),
    Mutation(
        "timers are not restored",
        RestoredState,
        "add",
        "(group.event_timers, draft.event_timers),",
        "({}, draft.event_timers),",
        seeds=(5,),
        found_as="lost: windows with too little",
    ),
    Mutation(
        "a source's splits are dealt out while their coordinator takes its snapshot",
        JobCheckpoints,
        "hold",
        "self._held.append(event)",
        "return False",
        seeds=(364,),
        found_as="was to come",
    ),
    Mutation(
        "what was in flight at the sender is not restored",
        Task,
        "initialize",
        "in restored_elements(restore, self.deployment, files):",
        "in restored_elements(dataclasses.replace(restore, channels=[c for c in restore.channels if not c.is_output]), "
        "self.deployment, files):",
        seeds=(10,),
        found_as="lost: ",
    ),
    Mutation(
        "what was in flight at the receiver is not restored",
        Task,
        "initialize",
        "in restored_elements(restore, self.deployment, files):",
        "in restored_elements(dataclasses.replace(restore, channels=[c for c in restore.channels if c.is_output]), "
        "self.deployment, files):",
        seeds=(10,),
        found_as="was to come",
    ),
    Mutation(
        "the rest of a batch that is being worked off is not part of a snapshot",
        ChannelRecording,
        "start",
        "elements = [*unread.elements, *elements]",
        "pass",
        seeds=(28,),
        found_as="lost: ",
    ),
    Mutation(
        "a channel's barrier is overtaken by the next one's records",
        InputGate,
        "poll",
        "if self._num_blocked and self._is_blocked[index]:",
        "if self._num_blocked > 1 and self._is_blocked[index]:",
        seeds=(7,),
        found_as="duplicated: ",
    ),
    Mutation(
        "files that a newer checkpoint refers to are deleted with an older one",
        RetainedCheckpoints,
        "_discard",
        "free = self._registry.unregister(checkpoint.checkpoint_id)",
        "free = sorted(self._registry._files.get(checkpoint.checkpoint_id, ())); "
        "self._registry.unregister(checkpoint.checkpoint_id)",
        scenarios=(
            Scenario(1, is_incremental=True, checkpoint_interval_ms=30, faults=(Fault(Point.STEP, 300, Action.KILL),)),
        ),
        found_as="is damaged: it is missing",
    ),
    Mutation(
        "an attempt commits its output before its last checkpoint",
        JobOperations,
        "all_finished",
        "self._take_final()\n    return False",
        "self._take_final()\n    return True",
        seeds=(1,),
        found_as="state 'count' is",
    ),
    Mutation(
        "a damaged checkpoint is taken again",
        RetainedCheckpoints,
        "drop_damaged",
        "[c for c in self._completed if c.checkpoint_id != checkpoint_id]",
        "[c for c in self._completed]",
        scenarios=(DAMAGED,),
        found_as=DAMAGED_AGAIN,
    ),
    Mutation(
        "a storage that is away counts as damage",
        TaskStateReader,
        "_found",
        "if self._snapshot is not None and (",
        "if self._snapshot is None and (",
        seeds=(22,),
        found_as="is damage",
    ),
    Mutation(
        "a JobMaster that cannot read what to go on from gives the job up",
        StorageWorker,
        "_try_to_recover",
        "return RecoveryDelayed(",
        "return Submitted(refusal=",
        seeds=(14,),
        found_as='is FAILED: FailureInfo(message="cannot read yet what to restore',
    ),
    Mutation(
        "a key group too few is restored",
        task,
        "operator_snapshots",
        "key_groups = key_group_range(vertex.max_parallelism, vertex.parallelism, task.subtask_index)",
        "key_groups = key_group_range(vertex.max_parallelism, vertex.parallelism, task.subtask_index); "
        "key_groups = type(key_groups)(key_groups.start + 1, key_groups.end)",
        seeds=(2,),
        found_as="state 'count' is",
    ),
    Mutation(
        "splits that were on their way are not dealt out again",
        SourceCoordinator,
        "__init__",
        "self._enumerator.add_splits_back(lost)",
        "pass",
        seeds=(4,),
        found_as="lost: ",
    ),
    Mutation(
        "a barrier that overtakes leaves behind what it overtook",
        RemoteOutputChannel,
        "_move_up",
        "overtaken = [bytes(frame) for frame in between if is_channel_state(frame)]",
        "overtaken = []",
        seeds=(10,),
        found_as="lost: ",
    ),
    Mutation(
        "a JobMaster that cannot read what to go on from never asks again",
        StorageWorker,
        "recover",
        "self.put(_Recover())",
        "pass",
        seeds=(14,),
        found_as=HANGS,
    ),
    Mutation(
        "slots of a later attempt are not let in",
        SlotWatch,
        "on_message",
        "self._on_register(message)",
        "self._on_register(message) if message.attempt == 0 else None",
        scenarios=(Scenario(1, faults=(Fault(Point.STEP, 300, Action.KILL),)),),
        found_as=HANGS,
    ),
    Mutation(
        "the end of a channel counts as no barrier",
        BarrierHandler,
        "_has_all",
        "ended or c in pending.arrived",
        "c in pending.arrived",
        hangs=True,
        seeds=(2,),
        found_as=HANGS,
    ),
)


@contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """Make the mistake for as long as the block lasts.

    Raises:
        LookupError: the line to be replaced is not there, or more than once.
    """
    original = mutation.owner.__dict__[mutation.function]
    setattr(mutation.owner, mutation.function, _recompiled(original, mutation))
    try:
        yield
    finally:
        setattr(mutation.owner, mutation.function, original)


def _recompiled(replaced: Callable[..., Any], mutation: Mutation) -> Callable[..., Any]:
    # of one that is made a context manager, the function itself; its source names the decorator
    function = inspect.unwrap(replaced)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(mutation.old) != 1:
        raise LookupError(f"{mutation.name}: {source.count(mutation.old)} places in {function.__qualname__} match")
    made: dict[str, Any] = {}
    code = compile(
        "from __future__ import annotations\n" + source.replace(mutation.old, mutation.new), "<mutant>", "exec"
    )
    # the module's own globals, for a simulation replaces some of them while it runs; and a name that mutations use
    function.__globals__.setdefault("dataclasses", dataclasses)
    exec(code, function.__globals__, made)
    mutant: Callable[..., Any] = made[mutation.function]
    return mutant
