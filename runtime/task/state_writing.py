"""Writes a task's part of a checkpoint to files, and turns restored handles into the operators' snapshots.

`write_task_state` runs in an upload thread, `operator_snapshots` in the loop's thread before the task runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.checkpoint.channel_state import ChannelPart, write_channel_states
from runtime.checkpoint.handles import OperatorSubtaskState, TaskRestore, TaskStateHandle
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import OperatorId, TaskId
from runtime.graph.job_graph import JobVertex
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.handles import KeyedStateHandle, StateFileReader, StateFileWriter
from runtime.state.key_groups import KeyGroupRange, key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.snapshot import KeyedSnapshot, OperatorSnapshot


@dataclass(frozen=True, slots=True)
class TaskState:
    """State that a task has to store for a checkpoint, once nothing is left for its own thread to do."""

    operators: Mapping[OperatorId, OperatorSnapshot]
    channels: Sequence[ChannelPart]
    is_finished: bool
    key_groups: KeyGroupRange
    max_parallelism: int
    compression: str
    """Of canonical files: none | zstd | lz4."""


def write_task_state(state: TaskState, files: StateFileWriter) -> TaskStateHandle:
    """Write everything that is not small, and return the handles.

    Raises:
        OSError: the storage refuses.
    """
    operators = {}
    for operator_id, snapshot in state.operators.items():
        keyed = None
        if snapshot.pending is not None:
            snapshot.pending.compression = state.compression
            keyed = replace(snapshot.pending.write(files), has_timers=snapshot.pending.has_timers)
        elif snapshot.keyed is not None and snapshot.keyed.groups:
            keyed = _write_canonical(snapshot.keyed, state, files)
        operators[operator_id] = OperatorSubtaskState(keyed, snapshot.operator_states, snapshot.watermark)
    return TaskStateHandle(operators, write_channel_states(state.channels, files), state.is_finished)


def _write_canonical(keyed: KeyedSnapshot, state: TaskState, files: StateFileWriter) -> KeyedStateHandle:
    file = files.write("keyed-state", encode_canonical(keyed, state.compression))
    states = tuple(keyed.metas.values())
    has_timers = any(group.event_timers or group.processing_timers for group in keyed.groups.values())
    return KeyedStateHandle(
        CANONICAL_FORMAT,
        state.key_groups,
        state.max_parallelism,
        {CANONICAL_FILE: file},
        states=states,
        has_timers=has_timers,
    )


def size_of(handle: TaskStateHandle) -> int:
    """Return the bytes of all that a task's part refers to and holds."""
    inline = sum(
        len(item)
        for operator in handle.operators.values()
        for operator_state in operator.operator_states.values()
        for item in operator_state.items
    )
    # parts of one file count once
    return inline + sum(file.size for file in dict.fromkeys(handle.files()))


def operator_snapshots(
    restore: TaskRestore | None,
    vertex: JobVertex,
    task: TaskId,
    files: StateFileReader,
    working_directory: Callable[[str], Path],
    clock: Clock = SYSTEM_CLOCK,
) -> dict[OperatorId, OperatorSnapshot]:
    """Return what each operator of a task restores; nothing if the task starts empty.

    Args:
        working_directory: gives the directory of an operator, by its id.
        clock: says when state got a time to live that subtasks had saved without one.

    Raises:
        DamagedSnapshotError: a file is missing or not what was written.
        RedistributionError: the state does not fit the operator.
    """
    if restore is None:
        return {}
    key_groups = key_group_range(vertex.max_parallelism, vertex.parallelism, task.subtask_index)
    # an operator that nothing was saved of is told all the same that the job goes on from a snapshot
    snapshots = {operator.operator_id: OperatorSnapshot() for operator in vertex.operators}
    for operator_id, saved in restore.operators.items():
        keyed = None
        if saved.keyed:
            directory = working_directory(operator_id)
            keyed = load_keyed_state(saved.keyed, key_groups, vertex.max_parallelism, files, directory, clock)
        snapshots[operator_id] = OperatorSnapshot(keyed, saved.operator_states, saved.watermark)
    return snapshots
