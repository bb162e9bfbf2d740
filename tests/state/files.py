"""Files of checkpoints in a local directory, for the tests of state backends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from runtime.core.ids import CheckpointId
from runtime.state.handles import DamagedSnapshotError, FileHandle


class DirectoryFiles:
    """Writes and reads files of one directory; counts what is written."""

    def __init__(self, directory: Path, checkpoint_id: int = 1) -> None:
        self.checkpoint_id = CheckpointId(checkpoint_id)
        self.written_bytes = 0
        self._directory = directory
        self._count = 0

    def write(self, name: str, data: bytes | Iterable[bytes], *, shared: bool = False) -> FileHandle:
        content = data if isinstance(data, bytes) else b"".join(data)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._count += 1
        path = self._directory / f"{name}-{self._count}"
        path.write_bytes(content)
        self.written_bytes += len(content)
        return FileHandle(str(path), len(content), hashlib.sha256(content).hexdigest(), shared)

    def upload(self, name: str, path: Path, *, shared: bool = False) -> FileHandle:
        return self.write(name, path.read_bytes(), shared=shared)

    def read(self, file: FileHandle) -> bytes:
        path = Path(file.uri)
        if not path.exists():
            raise DamagedSnapshotError(file.uri, "it is missing")
        content = path.read_bytes()
        if (len(content), hashlib.sha256(content).hexdigest()) != (file.size, file.sha256):
            raise DamagedSnapshotError(file.uri, "it is corrupt")
        return content

    def download(self, file: FileHandle, path: Path) -> None:
        path.write_bytes(self.read(file))

    def read_range(self, file: FileHandle, offset: int, length: int) -> bytes:
        return self.read(file)[offset : offset + length]
