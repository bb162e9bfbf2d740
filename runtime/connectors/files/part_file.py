"""PartFile: a file that is being written under a hidden name and gets its own in a second step.

The hidden name says which sink of which job began it, and in which attempt. The file stays open, and so locked, until
it is committed or given up: what an older attempt began, no live process has locked and no snapshot holds is a dead
writer's leftover. An attempt knows what its checkpoint holds; a file that a savepoint holds is read-only until it is
committed, and nobody sweeps it unless that savepoint has failed: an extended attribute names it. A file is only ever
written by the process that made it: a writer that goes on with another's copies what the snapshot holds of it, so that
a process which was thought dead cannot get at what becomes visible.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.writer_format import FileWriterFormat, FormatWriter
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError, SnapshotUnusableError

_SAVEPOINTS = "user.tidemark.savepoints"
"""Extended attribute of a finished file: the checkpoint ids of the savepoints that were to hold it, space-separated."""
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_IS_UNNAMED = stat.S_ISVTX
"""Mode of a finished file that savepoints were to hold which the attribute does not name."""
SYNC_THREADS = 8
"""How many files are made durable at a time. 128 small ones take 780 ms one by one and 60 ms with eight threads, on a
machine of two processors; more threads gain little."""


class AsItIs(FileWriterFormat):
    """The format of a file that is only copied: nothing is added to it."""

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return _NothingMore()


class _NothingMore(FormatWriter):
    def write(self, batch: RecordBatch) -> None:
        raise AssertionError("records for a file that is only copied")


class PartFile:
    """A part file.

    Args:
        temporary: hidden path; must not exist.
        target: path that a commit gives it.
        file_format: of the content.
        input_type: of the records.
        now_ms: wall-clock time.
        beginning: None for an empty file; else what it begins with: an existing file, and how many bytes of it.

    Raises:
        SinkError: the file cannot be written, or there is less to copy; the message names it.
    """

    def __init__(
        self,
        temporary: Path,
        target: Path,
        file_format: FileWriterFormat,
        input_type: TypeInformation | None,
        now_ms: int,
        beginning: tuple[Path, int] | None = None,
    ) -> None:
        self.temporary = temporary
        self.target = target
        self.rows = 0
        self.created_ms = now_ms
        self.written_ms = now_ms
        self._savepoints: set[int] = set()
        self._is_named = False
        try:
            self._file: IO[bytes] = temporary.open("xb")
        except OSError as error:
            raise unwritable(temporary, error) from error
        try:
            lock(self._file)
            if beginning is not None:
                _copy(*beginning, self._file)
            self._writer = file_format.open(self._file, input_type, is_new=beginning is None)
        except (OSError, SinkError) as error:
            self._file.close()
            temporary.unlink(missing_ok=True)
            raise unwritable(temporary, error) if isinstance(error, OSError) else error from error

    @property
    def size_bytes(self) -> int:
        """Return the bytes written so far, buffered ones included."""
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
        """Write the end of the file, which then has to be made durable; it stays open for the sake of its lock."""
        try:
            self._writer.finish()
            self._file.flush()
        except OSError as error:
            raise unwritable(self.temporary, error) from error

    def reserve(self, checkpoint_id: int) -> None:
        """Keep others from sweeping the finished file, as a savepoint relies on it; to be made durable with `sync`.

        Args:
            checkpoint_id: of the savepoint.
        """
        file = self._file.fileno()
        mode = stat.S_IMODE(os.fstat(file).st_mode) & ~_WRITABLE
        self._savepoints.add(checkpoint_id)
        try:
            # first: a file that is read-only and names no savepoint stays for ever
            os.setxattr(file, _SAVEPOINTS, " ".join(map(str, sorted(self._savepoints))).encode())
            self._is_named = True
        except OSError:
            # the disk may be full; and a file that is read-only takes no name, unless from root
            if self._is_named:
                mode |= _IS_UNNAMED
        os.fchmod(file, mode)

    def committable(self) -> dict[str, Any]:
        """Return what a committer needs: JSON-serializable."""
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


def _copy(source: Path, length: int, target: IO[bytes]) -> None:
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < length:
            raise SnapshotUnusableError(f"{source} has {size} bytes; the snapshot says {length}")
        copied = 0
        with contextlib.suppress(OSError):
            # within the file system, without a copy where it can share blocks
            while copied < length:
                step = os.copy_file_range(file.fileno(), target.fileno(), length - copied, copied, copied)
                if not step:
                    break
                copied += step
        file.seek(copied)
        target.seek(copied)
        if copied < length:
            shutil.copyfileobj(file, target)
            target.truncate(length)
            target.seek(length)


def commit_part(committable: dict[str, Any]) -> bool:
    """Give a finished part file its own name; the directory is to be made durable with `sync_all`.

    Returns:
        False if it has its name already.

    Raises:
        SnapshotUnusableError: the file is gone, or has not the length that it was prepared with.
        SinkError: the system refuses.
    """
    temporary, target = Path(committable["temporary"]), Path(committable["target"])
    try:
        if not check_part(committable):
            return False
        mode = stat.S_IMODE(temporary.stat().st_mode)
        temporary.rename(target)
        if not mode & _WRITABLE:
            # afterwards: a hidden file that can be written to is no savepoint's. A reader may have taken it away
            with contextlib.suppress(FileNotFoundError):
                target.chmod((mode & ~_IS_UNNAMED) | stat.S_IWUSR)
    except FileNotFoundError:
        # at this moment, by a process of an older attempt: the name is the same
        if check_part(committable):
            raise SinkError(f"{temporary} was temporarily missing") from None
        return False
    except OSError as error:
        raise unwritable(target, error) from error
    return True


def check_part(committable: dict[str, Any]) -> bool:
    """Check whether a finished part file can be committed.

    Returns:
        False if it has its own name already.

    Raises:
        SnapshotUnusableError: the file is gone, or has not the length that it was prepared with.
        SinkError: its directory does not exist.
    """
    temporary, target = Path(committable["temporary"]), Path(committable["target"])
    size = size_of(temporary)
    if size is None:
        if size_of(target) is not None:
            return False
        raise SnapshotUnusableError(f"{temporary} is gone, and {target} was never committed")
    if size != committable["bytes"]:
        raise SnapshotUnusableError(f"{temporary} has {size} bytes; {committable['bytes']} were prepared")
    return True


def size_of(path: Path) -> int | None:
    """Bytes of a file that a snapshot relies on; None if it is gone from its directory.

    Raises:
        SinkError: the directory is not there: its file system may be away, and nobody knows about the file.
        OSError: the file system does not answer.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise directory_away(path.parent) from None
    try:
        return os.stat(path.name, dir_fd=directory).st_size
    except FileNotFoundError:
        return None
    finally:
        os.close(directory)


def sync_all(parts: Iterable[PartFile], directories: Iterable[Path]) -> None:
    """Make files durable, and the names in directories.

    Side by side: a disk writes hundreds of files in the time of a few, if it is asked for all of them at once.

    Raises:
        SinkError: the disk refuses.
    """
    actions = [part.sync for part in parts] + [partial(_sync_directory, directory) for directory in directories]
    if len(actions) < 2:
        for action in actions:
            action()
        return
    with ThreadPoolExecutor(min(len(actions), SYNC_THREADS), "file-sink-sync") as threads:
        for future in [threads.submit(action) for action in actions]:
            future.result()


def _sync_directory(directory: Path) -> None:
    try:
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise unwritable(directory, error) from error


def sync_above(directory: Path) -> None:
    """Make the names that lead to a directory durable, as far as the system lets us: whoever made them may have ended
    before doing so.
    """
    for above in directory.parents:
        with contextlib.suppress(SinkError):
            _sync_directory(above)


def _savepoints_of(file: int) -> set[int]:
    """Return the checkpoint ids of the savepoints that an open file was reserved for; empty: nobody knows."""
    try:
        return {int(word) for word in os.getxattr(file, _SAVEPOINTS).split()}
    except (OSError, ValueError):
        # there are none, or the file system keeps no such attributes
        return set()


def _is_relied_on(file: int, failed: Collection[int]) -> bool:
    """Return whether a savepoint may rely on an open file, other than those that have failed."""
    mode = os.fstat(file).st_mode
    if mode & _WRITABLE:
        return False
    if mode & _IS_UNNAMED:
        return True
    savepoints = _savepoints_of(file)
    return not savepoints or not savepoints <= set(failed)


def lock(file: IO[bytes]) -> None:
    """Lock a file as long as it is open.

    Raises:
        OSError: somebody else has it locked.
    """
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def hidden_name(name: str, origin: str, owner: str, attempt: int) -> str:
    """Return the name of a part file until it is committed; see WriterContext for whose it is."""
    return f".{name}.inprogress.{origin}.{owner}.{attempt}"


def suffix_of(temporary: Path, target: Path) -> str:
    """Return the suffix of a part file, given both its names."""
    name = temporary.name.rpartition(".inprogress.")[0].removeprefix(".")
    return target.name.removeprefix(name)


def maker_of(path: Path) -> tuple[str, int] | None:
    """Return the owner and attempt of a hidden file; None if the name does not say."""
    _, _, maker = path.name.rpartition(".inprogress.")
    owner, _, attempt = maker.rpartition(".")
    return (owner.rpartition(".")[2], int(attempt)) if attempt.isdecimal() else None


def remove_leftovers(
    base: Path, origin: str, is_leftover: Callable[[Path], bool], failed_savepoints: Callable[[Path], Collection[int]]
) -> None:
    """Remove hidden files of one sink that no live writer has locked and no savepoint relies on.

    Args:
        base: directory; those below it are looked into as well.
        origin: of the files.
        is_leftover: whether nobody else needs a file of that origin either.
        failed_savepoints: checkpoint ids of savepoints that a file may have been reserved for and that have failed.
    """
    for path in base.rglob(f".*.inprogress.{origin}.*"):
        if not is_leftover(path):
            continue
        try:
            with path.open("rb") as file:
                if _is_relied_on(file.fileno(), failed_savepoints(path)):
                    continue
                lock(file)
                path.unlink()
        except OSError:
            # a live writer's, or another process was quicker
            continue


def check_writable(directory: Path, probe_name: str) -> None:
    """Make a directory and check whether files can be written in it.

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


def directory_away(directory: Path) -> SinkError:
    """The error for a directory that has files in it which a snapshot relies on, and cannot be found."""
    return SinkError(f"directory {directory} does not exist, and the snapshot relies on files in it")


def unwritable(path: Path, error: OSError) -> SinkError:
    """Return the error for a path that the system refuses to write."""
    return SinkError(f"{path} cannot be written: {error.strerror or error}")
