"""The disk of the slots' machine, in place of pathlib, os, shutil and fcntl, and what is left of it when power is lost.

Files have a content that every process sees and one that is on disk: syncing a file makes its content durable, syncing
a directory the names in it. A process that ends closes its files without flushing them. Losing power keeps of each
directory's unsynced changes the first few, of each file's unsynced bytes the first few, at random. Nothing else is
simulated of a file system; a call that is not is an error.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

from runtime.checkpoint import file_system
from runtime.checkpoint.locations import local_path
from runtime.connectors.files import file_sink, part_file
from tests.simulation import active
from tests.simulation.faults import Point
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

OUT = "/out/rows"
"""Base path of the file sink."""
STORAGE = "/storage"
"""Where checkpoints are, if they are on this disk."""
_BUFFER_BYTES = 256


class Inode:
    """A file, whatever it is called."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.num_synced = 0
        self.mode = self.synced_mode = 0o644
        self.attributes: dict[str, bytes] = {}
        self.synced_attributes: dict[str, bytes] = {}
        self.locked_by: OpenFile | None = None


class OpenFile(io.RawIOBase):
    """A file handle of a process, with the buffer that is lost with the process."""

    def __init__(self, disk: Disk, path: DiskPath, inode: Inode, is_written: bool, is_buffered: bool) -> None:
        super().__init__()
        self.inode = inode
        self._disk = disk
        self.path = path
        self._is_written = is_written
        self._limit = _BUFFER_BYTES if is_buffered else 0
        self._buffer = bytearray()
        self._position = 0
        self.process = disk.world.current
        self._number = disk.add(self)

    def fileno(self) -> int:
        return self._number

    def readable(self) -> bool:
        return not self._is_written

    def writable(self) -> bool:
        return self._is_written

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position + len(self._buffer)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        assert whence == os.SEEK_SET
        self.flush()
        self._position = position
        return position

    def readinto(self, target: Any) -> int:
        taken = self.inode.content[self._position : self._position + len(target)]
        target[: len(taken)] = taken
        self._position += len(taken)
        return len(taken)

    def write(self, data: Any) -> int:
        self._disk.written(self.path, bytes(data))
        self._buffer += data
        if len(self._buffer) > self._limit:
            self.flush()
        return len(data)

    def flush(self) -> None:
        if self.closed or not self._buffer:
            return
        assert self._position == len(self.inode.content)
        self.inode.content += self._buffer
        self._position += len(self._buffer)
        self._buffer.clear()

    def truncate(self, size: int | None = None) -> int:
        assert size is not None
        self.flush()
        del self.inode.content[size:]
        self.inode.num_synced = min(self.inode.num_synced, size)
        return size

    def close(self) -> None:
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close without flushing, as the system does for a process that has ended."""
        self._buffer.clear()
        self._disk.remove(self._number)
        if self.inode.locked_by is self:
            self.inode.locked_by = None
        if not self.closed:
            super().close()


Change = Callable[[dict[str, Inode], set[str]], None]


class Disk:
    """File system of one machine.

    Args:
        world: whose processes use it.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        #: as processes see it
        self.files: dict[str, Inode] = {}
        self.directories: set[str] = {"/"}
        #: as it is on disk
        self._durable_files: dict[str, Inode] = {}
        self._durable_directories: set[str] = {"/"}
        #: what syncing a directory makes durable, by directory
        self._changes: dict[str, list[Change]] = {}
        self._handles: dict[int, OpenFile | str] = {}
        self._next_number = 1_000
        self.num_power_losses = 0

    # --- what is there ------------------------------------------------------------------------------------------------

    def visible(self) -> dict[str, bytes]:
        """Files that a reader of the sink's output takes notice of."""
        return {
            name: bytes(inode.content)
            for name, inode in self.files.items()
            if is_output(name) and not any(part[0] in "._" for part in name[len(OUT) + 1 :].split("/"))
        }

    def is_directory(self, path: str) -> bool:
        return path in self.directories

    # --- handles ------------------------------------------------------------------------------------------------------

    def add(self, handle: OpenFile | str) -> int:
        self._next_number += 1
        self._handles[self._next_number] = handle
        return self._next_number

    def remove(self, number: int) -> None:
        self._handles.pop(number, None)

    def handle(self, number: int) -> OpenFile | str:
        """Return the open file of a number, or the path of a directory.

        Raises:
            OSError: nothing is.
        """
        if number not in self._handles:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._handles[number]

    def ended(self, process: Process) -> None:
        """A process has ended: its files are closed as they are."""
        for handle in list(self._handles.values()):
            if isinstance(handle, OpenFile) and handle.process is process:
                handle.abandon()

    # --- changes ------------------------------------------------------------------------------------------------------

    def change(self, directory: str, change: Change) -> None:
        """Change names in a directory; it is durable once the directory is synced."""
        self.world.check_alive()
        change(self.files, self.directories)
        self._changes.setdefault(directory, []).append(change)

    def written(self, path: DiskPath, data: bytes) -> None:
        """A process writes to a file: if it is one of a sink that takes time."""
        world = self.world
        if not is_output(path):
            return
        world.reach(Point.WRITE, str(path), refuses=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        world.clock.advance(world.scenario.record_ms * data.count(b"\n") / 2)

    def sync(self, number: int) -> None:
        """Make a file's content durable, or the names in a directory."""
        handle, world = self.handle(number), self.world
        refusal = OSError(errno.EIO, os.strerror(errno.EIO))
        if isinstance(handle, OpenFile):
            is_prepared = is_output(handle.path)
            world.reach(Point.PRE_COMMIT if is_prepared else Point.SYNC, refuses=refusal)
            handle.inode.num_synced = len(handle.inode.content)
            handle.inode.synced_mode = handle.inode.mode
            handle.inode.synced_attributes = dict(handle.inode.attributes)
            if is_prepared:
                world.reach(Point.PREPARED, refuses=refusal)
            return
        world.reach(Point.SYNC, refuses=refusal)
        for change in self._changes.pop(handle, ()):
            change(self._durable_files, self._durable_directories)

    def lose_power(self) -> None:
        """Forget what is not durable, apart from what got there by chance. Nobody has a file open any more."""
        self.num_power_losses += 1
        random = self.world.random
        for directory in sorted(self._changes):
            changes = self._changes[directory]
            for change in changes[: random.randrange(len(changes) + 1)]:
                change(self._durable_files, self._durable_directories)
        self._changes.clear()
        # what is in a directory that is not there is not there either
        for path in sorted(self._durable_directories - {"/"}):
            if str(PurePosixPath(path).parent) not in self._durable_directories:
                self._durable_directories.remove(path)
        self._durable_files = {
            name: inode
            for name, inode in self._durable_files.items()
            if str(PurePosixPath(name).parent) in self._durable_directories
        }
        self.files, self.directories = dict(self._durable_files), set(self._durable_directories)
        for inode in {id(inode): inode for inode in self.files.values()}.values():
            del inode.content[inode.num_synced + random.randrange(len(inode.content) - inode.num_synced + 1) :]
            inode.num_synced = len(inode.content)
            inode.mode = inode.synced_mode
            inode.attributes = dict(inode.synced_attributes)


def is_output(path: object) -> bool:
    """Return whether a path belongs to a sink."""
    return str(path).startswith(OUT + "/")


class DiskPath(PurePosixPath):
    """A path on the simulated disk, with those of pathlib's operations that file sinks use."""

    __slots__ = ()

    def open(self, mode: str = "r", buffering: int = -1) -> IO[bytes]:
        disk, name = _disk(), str(self)
        disk.world.check_alive()
        if mode == "rb":
            return io.BufferedReader(OpenFile(disk, self, self._inode(), False, False))
        assert mode == "xb", mode
        if name in disk.files:
            raise _error(errno.EEXIST, name)
        if not self.parent.is_dir():
            raise _error(errno.ENOENT, name)
        inode = Inode()

        def create(files: dict[str, Inode], directories: set[str]) -> None:
            files[name] = inode

        disk.change(str(self.parent), create)
        return OpenFile(disk, self, inode, True, buffering != 0)  # type: ignore[return-value]

    def write_bytes(self, data: bytes) -> int:
        with self.open("xb", buffering=0) as file:
            return file.write(data)

    def read_bytes(self) -> bytes:
        return bytes(self._inode().content)

    def hardlink_to(self, target: DiskPath) -> None:
        disk, name = _disk(), str(self)
        inode = target._inode()
        if name in disk.files:
            raise _error(errno.EEXIST, name)

        def link(files: dict[str, Inode], directories: set[str]) -> None:
            files[name] = inode

        disk.change(str(self.parent), link)

    def is_symlink(self) -> bool:
        return False

    def exists(self) -> bool:
        return str(self) in _disk().files or self.is_dir()

    def is_dir(self) -> bool:
        return _disk().is_directory(str(self))

    def stat(self) -> os.stat_result:
        return _stat(self._inode())

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        self._inode().mode = mode

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        name = str(self)
        if self.is_dir():
            if not exist_ok:
                raise _error(errno.EEXIST, name)
            return
        if parents:
            self.parent.mkdir(mode, True, True)
        if not self.parent.is_dir():
            raise _error(errno.ENOENT, name)

        def make(files: dict[str, Inode], directories: set[str]) -> None:
            directories.add(name)

        _disk().change(str(self.parent), make)

    def unlink(self, missing_ok: bool = False) -> None:
        disk, name = _disk(), str(self)
        if name not in disk.files:
            if not missing_ok:
                raise _error(errno.ENOENT, name)
            return

        def remove(files: dict[str, Inode], directories: set[str]) -> None:
            files.pop(name, None)

        disk.change(str(self.parent), remove)

    def rename(self, target: DiskPath) -> DiskPath:
        disk, name, new_name = _disk(), str(self), str(target)
        disk.world.reach(Point.COMMIT, name, refuses=_error(errno.EIO, name))
        inode = self._inode()
        if new_name in disk.files:
            disk.world.violate(f"{name} replaces {new_name}")
        disk.world.reader.will_appear(new_name, bytes(inode.content))

        def move(files: dict[str, Inode], directories: set[str]) -> None:
            files.pop(name, None)
            files[new_name] = inode

        disk.change(str(self.parent), move)
        disk.world.tell(f"committed {new_name}")
        disk.world.reach(Point.COMMITTED, name, refuses=_error(errno.EIO, name))
        return target

    def rglob(self, pattern: str) -> Iterator[DiskPath]:
        found = (DiskPath(name) for name in sorted(_disk().files))
        yield from [path for path in found if self in path.parents and path.match(pattern)]

    def children(self) -> list[DiskPath]:
        """Return the entries of the directory."""
        disk = _disk()
        disk.world.check_alive()
        start = str(self).rstrip("/") + "/"
        names = sorted(name for name in (*disk.files, *disk.directories) if name.startswith(start) and name != start)
        return [DiskPath(name) for name in names if "/" not in name[len(start) :]]

    def _inode(self) -> Inode:
        inode = _disk().files.get(str(self))
        if inode is None:
            raise _error(errno.ENOENT, str(self))
        return inode


class InlineThreads:
    """A thread pool that works when it is asked to."""

    def __init__(self, max_workers: int, name: str) -> None:
        """Accept the arguments of ThreadPoolExecutor."""

    def __enter__(self) -> InlineThreads:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: all work is done."""

    def submit(self, action: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(action())
        except Exception as error:
            future.set_exception(error)
        return future


class ScheduledCall:
    """A BackgroundCall whose thread gets its turn when the scheduler says so."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._function = function
        self._error: Exception | None = None
        self.is_done = False
        world = active.world()
        world.later(world.current, self._run, world.scenario.upload_ms)

    def result(self) -> None:
        self._run()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._run()

    def _run(self) -> None:
        if self.is_done:
            return
        self.is_done = True
        try:
            self._function()
        except Exception as error:
            self._error = error


class _Entry:
    """An entry of scandir."""

    def __init__(self, path: DiskPath) -> None:
        self._path = path
        self.name = path.name

    def is_dir(self, follow_symlinks: bool) -> bool:
        return self._path.is_dir()

    def stat(self, follow_symlinks: bool) -> os.stat_result:
        return self._path.stat()


@contextmanager
def _scan(path: DiskPath) -> Iterator[list[Any]]:
    if not path.is_dir():
        raise _error(errno.ENOENT, str(path))
    yield [_Entry(child) for child in path.children()]


_OS = SimpleNamespace(
    O_RDONLY=os.O_RDONLY,
    O_DIRECTORY=os.O_DIRECTORY,
    open=lambda path, flags: _open_directory(path),
    close=lambda number: _disk().remove(number),
    fsync=lambda number: _disk().sync(number),
    fstat=lambda number: _stat(_file(number).inode),
    stat=lambda name, dir_fd: _stat_in(name, dir_fd),
    fchmod=lambda number, mode: setattr(_file(number).inode, "mode", mode),
    setxattr=lambda number, name, value: _file(number).inode.attributes.update({name: value}),
    getxattr=lambda number, name: _attribute(_file(number).inode, name),
    copy_file_range=lambda *arguments: _refuse_to_copy(),
    scandir=lambda path: _scan(path),
    strerror=os.strerror,
)
_SHUTIL = SimpleNamespace(rmtree=lambda path: _remove_tree(path))
_FCNTL = SimpleNamespace(
    LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB, flock=lambda number, flags: _lock(_file(number), flags)
)


@contextmanager
def installed() -> Iterator[None]:
    """File sinks write to the disk of the simulation that runs."""
    replaced = [
        (part_file, "Path", DiskPath),
        (part_file, "os", _OS),
        (part_file, "fcntl", _FCNTL),
        (part_file, "ThreadPoolExecutor", InlineThreads),
        (file_system, "local_path", lambda uri: DiskPath(local_path(uri))),
        (file_system, "os", _OS),
        (file_system, "shutil", _SHUTIL),
        (file_sink, "Path", DiskPath),
        (file_sink, "BackgroundCall", ScheduledCall),
    ]
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    try:
        for module, name, value in replaced:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in originals:
            setattr(module, name, value)


def _disk() -> Disk:
    return active.world().disk


def _file(number: int) -> OpenFile:
    handle = _disk().handle(number)
    assert isinstance(handle, OpenFile)
    return handle


def _open_directory(path: DiskPath) -> int:
    if not path.is_dir():
        raise _error(errno.ENOENT, str(path))
    return _disk().add(str(path))


def _stat_in(name: str, dir_fd: int) -> os.stat_result:
    directory = _disk().handle(dir_fd)
    assert isinstance(directory, str)
    return DiskPath(directory, name).stat()


def _remove_tree(path: DiskPath) -> None:
    for child in path.children():
        if child.is_dir():
            _remove_tree(child)
        else:
            child.unlink(missing_ok=True)
    name = str(path)

    def remove(files: dict[str, Inode], directories: set[str]) -> None:
        directories.discard(name)

    _disk().change(str(path.parent), remove)


def _lock(file: OpenFile, flags: int) -> None:
    assert flags == fcntl.LOCK_EX | fcntl.LOCK_NB
    if file.inode.locked_by not in (None, file):
        raise OSError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
    file.inode.locked_by = file


def _refuse_to_copy() -> int:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _stat(inode: Inode) -> os.stat_result:
    return os.stat_result((inode.mode, 0, 0, 1, 0, 0, len(inode.content), 0, 0, 0))


def _attribute(inode: Inode, name: str) -> bytes:
    if name not in inode.attributes:
        raise _error(errno.ENODATA, name)
    return inode.attributes[name]


def _error(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)
