"""PartFile: a file that is being written under a hidden name and gets its own in a second step.

The hidden name holds `.inprogress.` until a snapshot relies on the file, `.kept.` from then on. The file stays open,
and so locked, until it is committed or given up: what no live process has locked is a dead writer's leftover.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO, Any

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.files.writer_formats import FileWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError


class PartFile:
    """One part file.

    Args:
        temporary: hidden path; must not exist unless `length` is given.
        target: path that a commit gives it.
        file_format: of the content.
        input_type: of the records.
        now_ms: wall-clock time.
        length: None for a new file; else an existing one is cut to this length and continued.

    Raises:
        SinkError: the file cannot be written; the message names it.
    """

    def __init__(
        self,
        temporary: Path,
        target: Path,
        file_format: FileWriterFormat,
        input_type: TypeInformation | None,
        now_ms: int,
        length: int | None = None,
    ) -> None:
        self.temporary = temporary
        self.target = target
        self.rows = 0
        self.created_ms = now_ms
        self.written_ms = now_ms
        try:
            self._file: IO[bytes] = temporary.open("xb" if length is None else "r+b")
        except OSError as error:
            raise unwritable(temporary, error) from error
        try:
            lock(self._file)
            if length is not None:
                self._cut(length)
            self._writer = file_format.open(self._file, input_type, is_new=length is None)
        except OSError as error:
            self._file.close()
            raise unwritable(temporary, error) from error
        except SinkError:
            self._file.close()
            raise

    def _cut(self, length: int) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size < length:
            raise SinkError(f"{self.temporary} has {size} bytes; the snapshot says {length}")
        self._file.truncate(length)
        self._file.seek(length)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, buffered ones included."""
        return self._file.tell()

    def write(self, batch: RecordBatch, now_ms: int) -> None:
        """Append records.

        Raises:
            SinkError: a record does not fit, or the disk refuses.
        """
        try:
            self._writer.write(batch)
        except OSError as error:
            raise unwritable(self.temporary, error) from error
        self.rows += batch.num_rows
        self.written_ms = now_ms

    def sync(self) -> None:
        """Make what was written durable."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self.temporary, error) from error

    def finish(self) -> None:
        """Write the end of the file and make it durable; it stays open for the sake of its lock."""
        try:
            self._writer.finish()
        except OSError as error:
            raise unwritable(self.temporary, error) from error
        self.sync()

    def keep(self) -> None:
        """Take the name of a file that a snapshot relies on; idempotent."""
        kept = self.temporary.with_name(self.temporary.name.replace(".inprogress.", ".kept."))
        if kept != self.temporary:
            self.temporary.rename(kept)
            self.temporary = kept

    def committable(self) -> dict[str, Any]:
        """What a committer needs: JSON-serializable."""
        return {"temporary": str(self.temporary), "target": str(self.target), "bytes": self.size_bytes}

    def close(self, remove: bool) -> None:
        """Close the file, and remove it if it still has its hidden name and `remove` says so; idempotent."""
        # a full disk refuses the buffer's rest, of a file that is given up anyway
        with contextlib.suppress(OSError):
            self._writer.abandon()
        with contextlib.suppress(OSError):
            self._file.close()
        if remove:
            self.temporary.unlink(missing_ok=True)


def commit_part(committable: dict[str, Any]) -> Path:
    """Give a finished part file its own name; nothing happens if it has it already.

    Returns:
        The directory, to be made durable with `sync_directory`.

    Raises:
        SinkError: the file is gone, or has not the length that it was prepared with.
    """
    temporary, target = Path(committable["temporary"]), Path(committable["target"])
    try:
        size = temporary.stat().st_size
    except FileNotFoundError:
        if target.exists():
            return target.parent
        raise SinkError(f"{temporary} is gone, and {target} was never committed") from None
    if size != committable["bytes"]:
        raise SinkError(f"{temporary} has {size} bytes; {committable['bytes']} were prepared")
    try:
        temporary.rename(target)
    except OSError as error:
        raise unwritable(target, error) from error
    return target.parent


def sync_directory(directory: Path) -> None:
    """Make renames in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(file: IO[bytes]) -> None:
    """Lock a file as long as it is open.

    Raises:
        OSError: somebody else has it locked.
    """
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_leftovers(base: Path, sink_id: str) -> None:
    """Remove the unfinished files of this sink that no live writer holds and no snapshot relies on."""
    for path in base.rglob(f".*.inprogress.{sink_id}"):
        try:
            with path.open("rb") as file:
                lock(file)
                path.unlink()
        except OSError:
            # a live writer's, or somebody was quicker
            continue


def check_writable(directory: Path, probe_name: str) -> None:
    """Make a directory and see whether files can be written in it.

    Raises:
        SinkError: they cannot; the message names the directory.
    """
    probe = directory / probe_name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(b"\n")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from error


def unwritable(path: Path, error: OSError) -> SinkError:
    """The error for a path that the system refuses to write."""
    return SinkError(f"{path} cannot be written: {error.strerror or error}")
