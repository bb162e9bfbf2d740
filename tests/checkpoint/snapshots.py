"""Snapshots to store: of two keyed subtasks, operator state, a source's coordinator and one channel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorState,
    OperatorSubtaskState,
)
from runtime.checkpoint.layout import checkpoint_directory, shared_directory
from runtime.checkpoint.locations import to_uri
from runtime.checkpoint.metadata import KIND
from runtime.checkpoint.state_files import TaskStateWriter
from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import CheckpointOptions, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, JobId, KeyGroup, OperatorId, operator_id_of
from runtime.core.keys import encode_key
from runtime.core.serializers import Serializer, serializer_for
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.handles import KeyedStateHandle
from runtime.state.key_groups import key_group_of, key_group_range
from runtime.state.namespaces import encode_namespace
from runtime.state.snapshot import (
    KeyedSnapshot,
    KeyGroupSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    StateEntry,
    StateMeta,
    TimerEntry,
)
from tests.checkpoint.faulty import NO_PAUSES

JOB = JobId("ab" * 16)
MAX_PARALLELISM = 16
COUNTER = operator_id_of("counter")
SOURCE = operator_id_of("source")
LONGS = serializer_for(Types.LONG())


def options_of(
    root: Path, number: int = 1, epoch: int = 1, attempt: int = 0, kind: SnapshotKind = SnapshotKind.INCREMENTAL
) -> CheckpointOptions:
    """Return the options of checkpoint `number` of JOB."""
    uri = to_uri(root)
    directory = checkpoint_directory(uri, JOB, CheckpointId(number), epoch, Attempt(attempt))
    return CheckpointOptions(directory, shared_directory(uri, JOB), kind)


def savepoint_options(directory: Path) -> CheckpointOptions:
    """Return the options of a savepoint."""
    return CheckpointOptions(to_uri(directory), to_uri(directory), SnapshotKind.CANONICAL, is_savepoint=True)


def counts_of(subtask: int, num_keys: int, parallelism: int = 2, serializer: Serializer = LONGS) -> KeyedSnapshot:
    """Counts 0, 10, 20 … of those of the keys "key-0", "key-1" … that are the subtask's, each with a timer."""
    own = key_group_range(MAX_PARALLELISM, parallelism, subtask)
    states: dict[int, list[StateEntry]] = {}
    timers: dict[int, list[TimerEntry]] = {}
    for number in range(num_keys):
        key = encode_key(f"key-{number}")
        group = key_group_of(key, MAX_PARALLELISM)
        if group in own:
            states.setdefault(group, []).append(StateEntry(key, b"", serializer.serialize(10 * number)))
            timers.setdefault(group, []).append(TimerEntry(number, key, encode_namespace(("w", number))))
    groups = {
        KeyGroup(group): KeyGroupSnapshot({"count": states[group]}, {"timers": timers[group]})
        for group in sorted(states)
    }
    meta = StateMeta("count", "value", serializer.name, namespaced=False)
    return KeyedSnapshot(MAX_PARALLELISM, {"count": meta}, groups)


def operator_state(*items: bytes) -> OperatorStateSnapshot:
    return OperatorStateSnapshot(Redistribution.SPLIT, items, "BYTE")


def stored(
    files: CheckpointFileSystem,
    options: CheckpointOptions,
    number: int = 1,
    num_keys: int = 20,
    serializer: Serializer = LONGS,
    shared: bool = False,
    keyed_state: Callable[[TaskStateWriter, int], KeyedStateHandle] | None = None,
) -> CheckpointMetadata:
    """Write the files of a checkpoint of a source and a counter with parallelism 2; the metadata, not yet written.

    Its keyed state is `counts_of` in the canonical form, or what `keyed_state` writes for a subtask.
    """
    subtasks, channels = [], []
    for subtask in range(2):
        writer = TaskStateWriter(files, options, CheckpointId(number), f"counter ({subtask + 1}/2)", NO_PAUSES)
        if keyed_state is not None:
            keyed = keyed_state(writer, subtask)
        else:
            content = encode_canonical(counts_of(subtask, num_keys, serializer=serializer))
            file = writer.write("keyed-state", content, shared=shared)
            own = key_group_range(MAX_PARALLELISM, 2, subtask)
            keyed = KeyedStateHandle(CANONICAL_FORMAT, own, MAX_PARALLELISM, {CANONICAL_FILE: file})
        states = {"buffer": operator_state(b"x", b"\x00y")} if subtask == 0 else {}
        subtasks.append(OperatorSubtaskState(keyed, states, 1000 + subtask))
        in_flight = writer.write("channels", b"frame one, frame two")
        channels.append(ChannelState(3, 0, subtask, in_flight, 11, 9, is_output=False))
    operators = (
        OperatorState(
            SOURCE, "source", "Source: numbers", 1, MAX_PARALLELISM, (OperatorSubtaskState(),), operator_state(b"{}")
        ),
        OperatorState(COUNTER, "counter", "count", 2, MAX_PARALLELISM, tuple(subtasks), None, frozenset({1}), "string"),
    )
    edges = {3: EdgeIdentity(SOURCE, OperatorId(COUNTER), 0)}
    return CheckpointMetadata(
        JOB, CheckpointId(number), 1_700_000_000_000, options, operators, tuple(channels), edges, "numbers"
    )


def with_checksum(version: bytes, body: bytes) -> bytes:
    """Return a `_metadata` file that is what its checksum says, whatever its body is."""
    sha256 = hashlib.sha256(version + b"\n" + body).hexdigest().encode()
    return b" ".join([KIND.encode(), version, sha256, b"%d" % len(body)]) + b"\n" + body
