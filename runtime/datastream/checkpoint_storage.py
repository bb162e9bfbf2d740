"""CheckpointStorage: storage of checkpoints, as values at PyFlink's module path.

In Flink 2 no method takes one: a program names a directory by `execution.checkpointing.dir`. They are kept for programs
that compute with them. Source: PyFlink, checkpoint_storage.py.
"""

from __future__ import annotations

from runtime.common.exclusions import refusing_module

__all__ = [
    "DEFAULT_WRITE_BUFFER_BYTES",
    "CheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]

DEFAULT_WRITE_BUFFER_BYTES = 4096


class CheckpointStorage:
    """Storage of a job's checkpoints."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Storage in the JobMaster's memory.

    Args:
        checkpoint_path: directory for metadata; None = none.
        max_state_size: bytes that one snapshot of one operator may have.
    """

    DEFAULT_MAX_STATE_SIZE = 5 << 20

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Return bytes."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return None: savepoints name their own directory."""
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """Storage in a directory.

    Args:
        checkpoint_path: the directory, any URI.
        file_state_size_threshold: state below that many bytes is stored with the metadata.
        write_buffer_size: bytes; -1 = the default.

    Raises:
        ValueError: no path, or a threshold outside 0..1 MiB.
    """

    MAX_FILE_STATE_THRESHOLD = 1 << 20

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int | None = None, write_buffer_size: int = -1
    ) -> None:
        if not checkpoint_path:
            raise ValueError("FileSystemCheckpointStorage needs a checkpoint path")
        threshold = 20 << 10 if file_state_size_threshold is None else file_state_size_threshold
        if not 0 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError(f"the file state size threshold must be in 0..1 MiB, not {threshold}")
        self._checkpoint_path = checkpoint_path
        self._threshold = threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Return None: savepoints name their own directory."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return bytes."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return bytes."""
        return DEFAULT_WRITE_BUFFER_BYTES if self._write_buffer_size < 0 else self._write_buffer_size


__getattr__ = refusing_module(__name__)
