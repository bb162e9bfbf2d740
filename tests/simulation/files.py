"""The simulated storage of checkpoints, with passages and late writes: an object store, or the disk of all processes.

The object store is a dict that outlives every process. The disk is that of the slots' machine (see disk), on which the
real ArrowFileSystem writes, syncs and links files; the JobMaster is then on that machine, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.file_system import ArrowFileSystem, CheckpointFileSystem, DirectoryEntry
from runtime.checkpoint.locations import name_of, parent_of
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.state.handles import DamagedSnapshotError
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.simulation.disk import STORAGE
from tests.simulation.faults import Action, Point, ProcessEndedError

if TYPE_CHECKING:
    from tests.simulation.world import World

OBJECTS = "s3://sim"
REFUSAL = "the storage refuses"
"""What is told of whatever fails because an operation has failed here."""


class SimulatedFiles:
    """The file system that all processes share. Implements CheckpointFileSystem.

    Every operation of a process that has ended ends that process again; reads and writes are passages of points. While
    the storage is away no operation succeeds: it fails, or finds nothing.
    """

    def __init__(self, world: World, is_local: bool) -> None:
        self._world = world
        self._objects = MemoryFileSystem()
        self._files: CheckpointFileSystem = ArrowFileSystem() if is_local else self._objects
        self._is_local = is_local
        base = f"file://{STORAGE}" if is_local else OBJECTS
        self.root = f"{base}/checkpoints"
        self.savepoints = f"{base}/savepoints"
        #: all files as they were when a checkpoint was recorded last
        self.at_last_record: dict[str, bytes] = {}
        #: operations that found the storage away, by what they were for
        self.num_refused: Counter[str] = Counter()
        self._away_until_ms = 0.0
        self._is_unmounted = False

    def be_away(self, ms: float, is_unmounted: bool) -> None:
        """Let no operation succeed for some time.

        Args:
            ms: how long.
            is_unmounted: whether nothing seems to be there, to whoever is on the slots' machine; else operations fail,
                whoever asks.
        """
        self._away_until_ms = self._world.clock.monotonic_ms() + ms
        self._is_unmounted = is_unmounted

    @property
    def is_away(self) -> bool:
        """Return whether all operations of the current process fail at present."""
        is_elsewhere = self._world.current.is_jobmaster and not self._is_local
        return self._world.clock.monotonic_ms() < self._away_until_ms and not (self._is_unmounted and is_elsewhere)

    def content(self) -> dict[str, bytes]:
        """All files."""
        if not self._is_local:
            return dict(self._objects.files)
        inodes = self._world.disk.files.items()
        return {f"file://{name}": bytes(inode.content) for name, inode in inodes if name.startswith(STORAGE + "/")}

    def log(self) -> FileCompletedStore:
        """The log of the job's checkpoints as it is: to read, whatever fails at present."""
        storage = MemoryFileSystem()
        storage.files = self.content()
        return FileCompletedStore(self.root, self._world.graph.job_id, 0, storage, "")

    def replace(self, uri: str, content: bytes) -> None:
        """Change a file behind everybody's back."""
        if self._is_local:
            self._world.disk.files[uri.removeprefix("file://")].content[:] = content
        else:
            self._objects.files[uri] = content

    # --- CheckpointFileSystem -----------------------------------------------------------------------------------------

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        world = self._world
        before, after = _points_of(uri, world.current.is_jobmaster)
        content = data if isinstance(data, bytes) else b"".join(data)
        late = world.reach(before, uri, refuses=_refusal(errno.ENOSPC, uri))
        if late is not None and late.action is Action.LAND_LATE:
            if not self._is_local:
                world.at(world.clock.monotonic_ms() + late.ms, lambda: self.land(uri, content))
            world.kill(world.current)
            raise ProcessEndedError
        self._require(uri)
        self._files.write_new(uri, content)
        if world.current.is_jobmaster and parent_of(uri).endswith("/completed") and self._is_newest(uri):
            if b"chk-" in content:
                self.at_last_record = self.content()
            if b"savepoint-" in content:
                self._look_for_a_drain()
        # it is there, and whoever wrote it does not know
        world.reach(after, uri, refuses=_refusal(errno.EIO, uri))

    def _is_newest(self, uri: str) -> bool:
        """Return whether an entry of the log counts: a replaced JobMaster may write one under a number that is free
        again."""
        return name_of(uri) == f"entry-{self.log().last_entry().number:010d}"

    def _look_for_a_drain(self) -> None:
        """Once the savepoint of a drained job is recorded the job has ended, even if its JobMaster never says so."""
        newest = self.log().retained()[-1]
        with contextlib.suppress(DamagedSnapshotError):
            if SnapshotFiles(self._files).load(newest.location).options.after is AfterSnapshot.DRAIN:
                self._world.drain_is_recorded = True
                # it may be the only record of what the job has read: nothing need come behind it
                self.at_last_record = self.content()

    def land(self, uri: str, content: bytes) -> None:
        """A write that was on its way when its process ended arrives."""
        # as on every storage that refuses to replace a file; what has been deleted meanwhile comes back
        files = self._objects.files
        is_refused = uri in files
        self._world.tell(f"late write of {uri}: {'refused' if is_refused else 'lands'}")
        if not is_refused:
            files[uri] = content

    def read(self, uri: str) -> bytes:
        self._before_read(uri)
        return self._files.read(uri)

    def read_range(self, uri: str, offset: int, length: int) -> bytes:
        self._before_read(uri)
        return self._files.read_range(uri, offset, length)

    def pieces(self, uri: str) -> Iterator[bytes]:
        self._before_read(uri)
        return self._files.pieces(uri)

    def exists(self, uri: str) -> bool:
        return self._is_there(uri) and self._files.exists(uri)

    def list(self, uri: str) -> list[DirectoryEntry]:
        return self._files.list(uri) if self._is_there(uri) else []

    def make_directory(self, uri: str) -> None:
        self._require(uri)
        self._files.make_directory(uri)

    def delete_file(self, uri: str) -> None:
        if self._is_there(uri):
            self._files.delete_file(uri)

    def delete_directory(self, uri: str) -> None:
        if self._is_there(uri):
            self._files.delete_directory(uri)

    def local_path(self, uri: str) -> Path | None:
        # no path of this machine leads there
        return None

    def _before_read(self, uri: str) -> None:
        world = self._world
        point = Point.READ if world.current.is_jobmaster else Point.RESTORE
        world.reach(point, uri, refuses=_refusal(errno.EACCES, uri))
        if self.is_away and point is Point.RESTORE:
            self.num_refused["restore"] += 1
        self._require(uri)

    def _require(self, uri: str) -> None:
        """Raises OSError while the storage is away."""
        if not self._is_there(uri):
            raise _refusal(errno.ENOENT, uri)

    def _is_there(self, uri: str) -> bool:
        """Return whether the storage is available; raises OSError if that shows as an error."""
        self._world.check_alive()
        if not self.is_away:
            return True
        if self._world.current.is_taking_over:
            self.num_refused["take-over"] += 1
        if not self._is_unmounted:
            raise _refusal(errno.EIO, uri)
        return False


def _refusal(code: int, uri: str) -> OSError:
    # OSError gives the class that belongs to the code
    return OSError(code, f"{REFUSAL}: {os.strerror(code)}", uri)


def _points_of(uri: str, is_jobmaster: bool) -> tuple[Point, Point]:
    if not is_jobmaster:
        return Point.UPLOAD, Point.UPLOADED
    if name_of(uri) == "_metadata":
        return Point.METADATA, Point.METADATA_WRITTEN
    return Point.RECORD, Point.RECORDED
