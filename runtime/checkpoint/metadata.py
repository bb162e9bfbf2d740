"""`_metadata`: the content of a checkpoint or savepoint, as one sealed JSON document. Pure; any thread.

It lists every file with its size and sha256, and refers to those in its own directory by name only, so that a savepoint
can be moved. It holds no pickles; bytes (operator state, as users' serializers wrote it) are base64. Encoding and
decoding are exact inverses for the values of handles.py.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorState,
    OperatorSubtaskState,
)
from runtime.checkpoint.layout import METADATA
from runtime.checkpoint.locations import join
from runtime.checkpoint.sealed import seal, unseal
from runtime.checkpoint.signatures import NO_KEYS, SnapshotKeys
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, CheckpointOptions, SnapshotKind
from runtime.core.ids import CheckpointId, JobId, OperatorId
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import StatePart, meta_from_json, meta_to_json

KIND: Final = "tidemark-snapshot"
VERSION: Final = 1


def encode_metadata(metadata: CheckpointMetadata, keys: SnapshotKeys = NO_KEYS) -> bytes:
    """Return the content of `_metadata`, signed if there are keys."""
    files = _FileTable(metadata.options.directory)
    document = {
        "job_id": metadata.job_id,
        "job_name": metadata.job_name,
        "checkpoint_id": metadata.checkpoint_id,
        "timestamp_ms": metadata.timestamp_ms,
        "options": _options_to_json(metadata.options),
        "operators": [_operator_to_json(operator, files) for operator in metadata.operators],
        "channels": [_channel_to_json(channel, files) for channel in metadata.channels],
        "edges": [[edge_id, *_edge_to_json(edge)] for edge_id, edge in metadata.edges.items()],
        "files": files.rows,
    }
    return seal(KIND, VERSION, keys.signed(document))


def decode_metadata(data: bytes, directory: str, keys: SnapshotKeys = NO_KEYS) -> CheckpointMetadata:
    """Decode the result of `encode_metadata`, with the present locations of the files.

    Args:
        data: the content of `_metadata`.
        directory: URI of the directory that it was found in.
        keys: check its signature.

    Raises:
        NotASnapshotError: it is not metadata.
        DamagedSnapshotError: it is corrupt, or was changed after it was signed.
        ForeignSnapshotError: none of the keys has signed it, and others are not taken.
        NewerSnapshotError: it was written by a newer program.
    """
    location = join(directory, METADATA)
    document = unseal(KIND, VERSION, data, location)
    keys.check(document, location)
    try:
        return _decoded(document, directory)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DamagedSnapshotError(location, f"its checksum is right, but its content is invalid: {error!r}") from error


def _decoded(document: Mapping[str, Any], directory: str) -> CheckpointMetadata:
    files = [_file_from_json(row, directory) for row in document["files"]]
    return CheckpointMetadata(
        JobId(document["job_id"]),
        CheckpointId(document["checkpoint_id"]),
        document["timestamp_ms"],
        _options_from_json(document["options"], directory),
        tuple(_operator_from_json(saved, files) for saved in document["operators"]),
        tuple(_channel_from_json(saved, files) for saved in document["channels"]),
        {saved[0]: _edge_from_json(saved[1:]) for saved in document["edges"]},
        document["job_name"],
    )


# --- files ------------------------------------------------------------------------------------------------------------


class _FileTable:
    """Lists each file once, so that other parts refer to it by its index."""

    def __init__(self, directory: str) -> None:
        self.rows: list[list[Any]] = []
        self._prefix = directory.rstrip("/") + "/"
        self._known: dict[FileHandle, int] = {}

    def add(self, file: FileHandle) -> int:
        place = self._known.get(file)
        if place is None:
            name = file.uri.removeprefix(self._prefix)
            # only plain names are relative: a name joined to a directory must never lead out of it
            where = ["name", name] if name != file.uri and _is_plain(name) else ["uri", file.uri]
            place = self._known[file] = len(self.rows)
            self.rows.append([*where, file.size, file.sha256, file.is_shared])
        return place


def _file_from_json(row: Sequence[Any], directory: str) -> FileHandle:
    how, where, size, sha256, is_shared = row
    if how == "name":
        if not _is_plain(where):
            raise ValueError(f"{where!r} is not a file name")
        where = join(directory, where)
    return FileHandle(where, size, sha256, is_shared)


def _is_plain(name: str) -> bool:
    return bool(name) and "/" not in name and name not in (".", "..")


# --- parts ------------------------------------------------------------------------------------------------------------


def _options_to_json(options: CheckpointOptions) -> dict[str, Any]:
    return {
        "shared_directory": None if options.shared_directory == options.directory else options.shared_directory,
        "kind": options.kind.value,
        "alignment": options.alignment.value,
        "aligned_timeout_ms": options.aligned_timeout_ms,
        "is_savepoint": options.is_savepoint,
        "after": options.after.value,
    }


def _options_from_json(saved: Mapping[str, Any], directory: str) -> CheckpointOptions:
    return CheckpointOptions(
        directory,
        saved["shared_directory"] or directory,
        SnapshotKind(saved["kind"]),
        Alignment(saved["alignment"]),
        saved["aligned_timeout_ms"],
        saved["is_savepoint"],
        AfterSnapshot(saved["after"]),
    )


def _operator_to_json(operator: OperatorState, files: _FileTable) -> dict[str, Any]:
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "coordinator": None if operator.coordinator is None else _state_to_json(operator.coordinator),
        "finished": sorted(operator.finished),
        "key_type": operator.key_type,
        "window_type": operator.window_type,
        "state_content": operator.state_content,
        "state_parts": [list(part) for part in operator.state_parts],
        "subtasks": [_subtask_to_json(subtask, files) for subtask in operator.subtasks],
    }


def _operator_from_json(saved: Mapping[str, Any], files: Sequence[FileHandle]) -> OperatorState:
    coordinator = saved["coordinator"]
    return OperatorState(
        OperatorId(saved["operator_id"]),
        saved["uid"],
        saved["name"],
        saved["parallelism"],
        saved["max_parallelism"],
        tuple(_subtask_from_json(subtask, files) for subtask in saved["subtasks"]),
        None if coordinator is None else _state_from_json(coordinator),
        frozenset(saved["finished"]),
        # missing in earlier versions
        saved.get("key_type", ""),
        saved.get("window_type", ""),
        saved.get("state_content", ""),
        tuple(StatePart(content, of) for content, of in saved.get("state_parts", ())),
    )


def _subtask_to_json(subtask: OperatorSubtaskState, files: _FileTable) -> dict[str, Any]:
    return {
        "keyed": None if subtask.keyed is None else _keyed_to_json(subtask.keyed, files),
        "operator_states": {name: _state_to_json(state) for name, state in subtask.operator_states.items()},
        "watermark": subtask.watermark,
    }


def _subtask_from_json(saved: Mapping[str, Any], files: Sequence[FileHandle]) -> OperatorSubtaskState:
    keyed = saved["keyed"]
    return OperatorSubtaskState(
        None if keyed is None else _keyed_from_json(keyed, files),
        {name: _state_from_json(state) for name, state in saved["operator_states"].items()},
        saved["watermark"],
    )


def _keyed_to_json(keyed: KeyedStateHandle, files: _FileTable) -> dict[str, Any]:
    return {
        "format": keyed.format,
        "key_groups": [keyed.key_groups.start, keyed.key_groups.end],
        "max_parallelism": keyed.max_parallelism,
        "files": [[name, files.add(file)] for name, file in keyed.files.items()],
        "metadata": _bytes_to_json(keyed.metadata),
        "states": None if keyed.states is None else [meta_to_json(state) for state in keyed.states],
        "has_timers": keyed.has_timers,
    }


def _keyed_from_json(saved: Mapping[str, Any], files: Sequence[FileHandle]) -> KeyedStateHandle:
    # missing in earlier versions
    states = saved.get("states")
    return KeyedStateHandle(
        saved["format"],
        KeyGroupRange(*saved["key_groups"]),
        saved["max_parallelism"],
        {name: files[place] for name, place in saved["files"]},
        _bytes_from_json(saved["metadata"]),
        None if states is None else tuple(meta_from_json(state) for state in states),
        saved.get("has_timers"),
    )


def _state_to_json(state: OperatorStateSnapshot) -> dict[str, Any]:
    return {
        "mode": state.mode.value,
        "serializer": state.serializer,
        "items": [_bytes_to_json(item) for item in state.items],
    }


def _state_from_json(saved: Mapping[str, Any]) -> OperatorStateSnapshot:
    items = tuple(_bytes_from_json(item) for item in saved["items"])
    return OperatorStateSnapshot(Redistribution(saved["mode"]), items, saved["serializer"])


def _channel_to_json(channel: ChannelState, files: _FileTable) -> dict[str, Any]:
    return {
        "edge_id": channel.edge_id,
        "producer": channel.producer,
        "consumer": channel.consumer,
        "file": None if channel.file is None else files.add(channel.file),
        "offset": channel.offset,
        "length": channel.length,
        "is_output": channel.is_output,
    }


def _channel_from_json(saved: Mapping[str, Any], files: Sequence[FileHandle]) -> ChannelState:
    file = saved["file"]
    return ChannelState(
        saved["edge_id"],
        saved["producer"],
        saved["consumer"],
        None if file is None else files[file],
        saved["offset"],
        saved["length"],
        saved["is_output"],
    )


def _edge_to_json(edge: EdgeIdentity) -> list[Any]:
    return [edge.source, edge.target, edge.input_index, edge.side_output_tag]


def _edge_from_json(saved: Sequence[Any]) -> EdgeIdentity:
    source, target, input_index, tag = saved
    return EdgeIdentity(OperatorId(source), OperatorId(target), input_index, tag)


def _bytes_to_json(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes_from_json(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
