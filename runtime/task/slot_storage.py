"""SlotStorage: where a slot keeps state: the local working directory, and readers and writers of snapshots."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.state_files import Retries, TaskStateReader, TaskStateWriter, default_file_system
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.task.working_directory import WorkingDirectory


class SlotStorage:
    """Storage of one slot.

    Args:
        slot: whose it is.
        attempt: of the job.
        files: where snapshots are; None = the real file systems.
        retries: of what the storage refuses.
        on_restored: is told by any thread how many bytes of snapshots have been read so far.
    """

    def __init__(
        self,
        slot: SlotId,
        attempt: Attempt,
        files: CheckpointFileSystem | None,
        retries: Retries,
        on_restored: Callable[[int], None],
    ) -> None:
        self._slot_id = slot
        self._attempt = attempt
        self._files = files
        self._retries = retries
        self._on_restored = on_restored
        self._directory = WorkingDirectory(Configuration(), "", slot)
        #: guarded by the lock, as several threads may read
        self._restored_bytes = 0
        self._lock = threading.Lock()
        self.compression = "none"
        """Codec of snapshots."""

    def open(self, configuration: Configuration, job_id: str) -> None:
        """Take the settings of the job."""
        name = f"{job_id[:8]}-{self._attempt}-{self._slot_id}"
        self._directory = WorkingDirectory(configuration, name, self._slot_id)
        self.compression = "zstd" if configuration.get(options.SNAPSHOT_COMPRESSION) else "none"

    @property
    def restored_bytes(self) -> int:
        """Return how many bytes of snapshots have been read; any thread."""
        return self._restored_bytes

    def working_directory(self) -> Path:
        """Return the local directory, which exists until `close`."""
        return self._directory.path()

    def writer(self, options: CheckpointOptions, checkpoint_id: CheckpointId, task: str) -> TaskStateWriter:
        """Return a writer for a task's files of a checkpoint."""
        return TaskStateWriter(self._file_system(), options, checkpoint_id, task, self._retries)

    def reader(self, location: str | None) -> TaskStateReader:
        """Return a verifying reader for files of the checkpoint or savepoint in a directory."""
        return TaskStateReader(self._file_system(), self._retries, location, self._note_restored)

    def close(self) -> None:
        """Delete the working directory; idempotent."""
        self._directory.close()

    def _note_restored(self, num_bytes: int) -> None:
        with self._lock:
            self._restored_bytes += num_bytes
            restored = self._restored_bytes
        self._on_restored(restored)

    def _file_system(self) -> CheckpointFileSystem:
        if self._files is None:
            self._files = default_file_system()
        return self._files
