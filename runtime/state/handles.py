"""Handles of stored keyed state: files, how backends write them, and how they are read back.

Handles are small frozen values; the bytes are in files that are immutable once written, each named with its size and
sha256, so that damage is detected before any of it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runtime.core.ids import CheckpointId
from runtime.state.key_groups import KeyGroupRange
from runtime.state.state_meta import StateMeta


class DamagedSnapshotError(Exception):
    """A file of a snapshot is missing or corrupt."""

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True
    #: the job restores an older snapshot; without one it fails at once
    is_damaged_snapshot = True

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"snapshot file {path} is damaged: {why}")


@dataclass(frozen=True, slots=True)
class FileHandle:
    """An immutable file of a checkpoint."""

    uri: str
    size: int
    """Bytes."""
    sha256: str
    """Hex."""
    is_shared: bool = False
    """Whether other checkpoints may refer to it: it is deleted when the last of them is gone."""


@dataclass(frozen=True, slots=True)
class KeyedStateHandle:
    """Keyed state of one operator subtask, as its backend wrote it."""

    format: str
    """canonical | hashmap | rocksdb | segments: decides who can read it; see runtime.state.readers."""
    key_groups: KeyGroupRange
    """The key groups whose state it contains."""
    max_parallelism: int
    files: Mapping[str, FileHandle]
    """By names that the format defines; the order matters to formats whose files build on each other."""
    metadata: bytes = b""
    """The format's own, JSON, small."""
    states: Sequence[StateMeta] | None = None
    """The states in it; None: not recorded, as in snapshots of earlier versions."""
    has_timers: bool | None = None
    """Whether there are timers in it, which are no states; None: not recorded."""

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files.values())


class StateFileWriter(Protocol):
    """Writes the files of one task's part of one checkpoint; any thread. The writer makes names unique."""

    checkpoint_id: CheckpointId

    def write(self, name: str, data: bytes | Iterable[bytes], *, shared: bool = False) -> FileHandle:
        """Write a new file; it is on disk when this returns.

        Args:
            name: a hint for people, such as "keyed-state".
            data: the content, whole or in pieces.
            shared: into the shared directory, where later checkpoints may refer to it.

        Raises:
            OSError: it cannot be written; nothing is left of it.
        """

    def upload(self, name: str, path: Path, *, shared: bool = False) -> FileHandle:
        """Write a local file's content, like `write`."""


class StateFileReader(Protocol):
    """Reads files of checkpoints; any thread."""

    def read(self, file: FileHandle) -> bytes:
        """Return the content, verified.

        Raises:
            DamagedSnapshotError: it is missing, or size or sha256 differ.
        """

    def read_range(self, file: FileHandle, offset: int, length: int) -> bytes:
        """Return a part of the content, for formats with their own checksums (block files): only its length is checked.

        Raises:
            DamagedSnapshotError: the file is missing or shorter.
        """

    def download(self, file: FileHandle, path: Path) -> None:
        """Read into a new local file, like `read`; verified while it is written."""


class PendingKeyedState(ABC):
    """Keyed state at the time of the `snapshot` call, written out while processing continues.

    Call `advance` until it returns True, then `write` once; or `discard` at any time before.
    """

    compression = "none"
    """Of block files, none | zstd | lz4; set it before `write`."""
    has_timers: bool | None = None
    """Whether there are timers in it; None: nobody says."""

    @abstractmethod
    def advance(self, budget_ms: float) -> bool:
        """Work for about that long, on the task's thread; returns True when nothing is left for this thread to do.

        With 0 the smallest possible step is taken.

        Raises:
            StateError: a value cannot be written; the snapshot fails.
        """

    @abstractmethod
    def write(self, files: StateFileWriter) -> KeyedStateHandle:
        """Write new state to files; any thread, after `advance` has returned True.

        Raises:
            StateError: a value cannot be written; the snapshot fails.
            OSError: the storage refuses; the checkpoint fails, the state is unharmed.
        """

    @abstractmethod
    def discard(self) -> None:
        """Release everything held for an aborted checkpoint; idempotent, any thread."""
