"""The simulated storage: a MemoryFileSystem that outlives every process, with passages and late writes."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING

from runtime.checkpoint.locations import name_of, parent_of
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.simulation.faults import Action, Point, ProcessEndedError

if TYPE_CHECKING:
    from tests.simulation.world import World

ROOT = "s3://sim/checkpoints"
SAVEPOINTS = "s3://sim/savepoints"


class SimulatedFiles(MemoryFileSystem):
    """The file system that all processes share.

    Every operation of a process that has ended ends that process again; reads and writes are passages of points.
    """

    def __init__(self, world: World) -> None:
        super().__init__(self._before)
        self._world = world
        #: all files as they were when a checkpoint was recorded last
        self.at_last_record: dict[str, bytes] = {}

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        world = self._world
        before, after = _points_of(uri, world.current.is_jobmaster)
        content = data if isinstance(data, bytes) else b"".join(data)
        late = world.reach(before, uri, refuses=OSError(errno.EIO, "refused", uri))
        if late is not None and late.action is Action.LAND_LATE:
            world.at(world.clock.monotonic_ms() + late.ms, lambda: self.land(uri, content))
            world.kill(world.current)
            raise ProcessEndedError
        super().write_new(uri, content)
        if world.current.is_jobmaster and parent_of(uri).endswith("/completed") and b"chk-" in content:
            self.at_last_record = dict(self.files)
        world.reach(after, uri)

    def land(self, uri: str, content: bytes) -> None:
        """A write that was on its way when its process ended arrives."""
        # as on every storage that refuses to replace a file; what has been deleted meanwhile comes back
        is_refused = uri in self.files
        self._world.tell(f"late write of {uri}: {'refused' if is_refused else 'lands'}")
        if not is_refused:
            self.files[uri] = content

    def _before(self, operation: str, uri: str) -> None:
        world = self._world
        world.check_alive()
        if operation in ("read", "read_range", "pieces") and not world.current.is_jobmaster:
            world.reach(Point.RESTORE, uri, refuses=OSError(errno.EIO, "refused", uri))


def _points_of(uri: str, is_jobmaster: bool) -> tuple[Point, Point]:
    if not is_jobmaster:
        return Point.UPLOAD, Point.UPLOADED
    if name_of(uri) == "_metadata":
        return Point.METADATA, Point.METADATA_WRITTEN
    return Point.RECORD, Point.RECORDED
