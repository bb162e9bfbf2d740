"""Places in user code and in sinks at which a running job can be told to fail, whatever process it runs in.

A fault is armed by a file `<place>.<action>.<n>` in a directory that all processes see; whoever reaches the place first
claims the file and does what it says, once. A file whose action begins with "all-" is done by everybody.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.layout import METADATA, writer_of_directory, writer_of_file
from runtime.checkpoint.locations import to_uri
from runtime.checkpoint.state_files import default_file_system
from runtime.core.ids import JobId
from runtime.operators.sink import CommitTally, Committer, Sink, SinkWriter, Sweeper, WriterContext

HANG_S = 60.0
SLOW_S = 2.0
DAMAGE_KINDS = ("flip", "truncate", "drop")
CLOCK_JUMPS_S = {"clock-ahead": 3600.0, "clock-back": -3600.0}


class InjectedError(Exception):
    """A failure that was asked for."""


@dataclass(frozen=True, slots=True)
class FaultPoints:
    """The armed faults of one run.

    Args:
        directory: of the files that arm them.
        checkpoints: directory of all checkpoints, for those that damage one.
        program: file that holds the pid of the program, for those that end it.
    """

    directory: str
    checkpoints: str
    program: str

    def arm(self, place: str, action: str, count: int = 1) -> None:
        """Have the next `count` who reach the place do it."""
        for index in range(count):
            (Path(self.directory) / f"{place}.{action}.{index}").write_text("")

    def disarm(self) -> None:
        """Forget what nobody has claimed."""
        for path in Path(self.directory).iterdir():
            if not path.name.endswith(".hit"):
                path.unlink(missing_ok=True)

    def hits(self) -> list[str]:
        """Return the faults since the last call."""
        found = sorted(path.name for path in Path(self.directory).glob("*.hit"))
        for name in found:
            (Path(self.directory) / name).unlink(missing_ok=True)
        return found

    def reach(self, place: str) -> None:
        """Fail here, if that is asked for."""
        for name in os.listdir(self.directory):  # noqa: PTH208 - once for every record
            if name.startswith(place + ".") and not name.endswith(".hit"):
                self._act(name)

    def _act(self, name: str) -> None:
        place, action, _ = name.split(".")
        path = Path(self.directory) / name
        if action.startswith("all-"):
            self._damage_and_die(path, action.removeprefix("all-"))
            return
        try:
            path.rename(path.with_name(f"{name}.{os.getpid()}.hit"))
        except FileNotFoundError:
            return
        match action:
            case "raise":
                raise InjectedError(f"injected at {place}")
            case "exit":
                os._exit(3)
            case "system-exit":
                raise SystemExit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(HANG_S)
            case "slow":
                time.sleep(SLOW_S)
            case "cut":
                cut_connections()
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "clock-ahead" | "clock-back":
                jump_clock(CLOCK_JUMPS_S[action])
            case _:
                raise ValueError(f"unknown action {action}")

    def _damage_and_die(self, path: Path, kind: str) -> None:
        """Damage the newest checkpoint before anything of it is committed, and end the process.

        The file says from which checkpoint on: what is older may have been committed elsewhere already.
        """
        done = path.with_name("damage.done.hit")
        if not done.exists():
            try:
                job, least = path.read_text().split()
            except FileNotFoundError:
                # disarmed meanwhile
                return
            newest = newest_checkpoint(self.checkpoints, job)
            if newest is None or newest[0] < int(least):
                return
            try:
                # only one of the processes does it, and the others wait until it is done
                path.with_name("damage.claimed.hit").open("x").close()
            except FileExistsError:
                while not done.exists():
                    time.sleep(0.01)
            else:
                draft = path.with_name("damage.draft.hit")
                draft.write_text(damage(newest[1], kind))
                draft.replace(done)
            if kind == "metadata":
                with suppress(ProcessLookupError):
                    os.kill(int(Path(self.program).read_text()), signal.SIGKILL)
        # whoever comes by later may be about to commit what is damaged, and not know it yet
        os.kill(os.getpid(), signal.SIGKILL)


def newest_checkpoint(root: str, job: str) -> tuple[int, Path] | None:
    """Number and directory of the newest completed checkpoint of a job, as its log says."""
    store = FileCompletedStore(to_uri(root), JobId(job), 0, default_file_system(), "onlooker")
    retained = store.last_entry().retained
    if not retained:
        return None
    return int(retained[-1].checkpoint_id), Path(retained[-1].location.removeprefix("file://"))


def damage(directory: Path, kind: str) -> str:
    """Damage a checkpoint that nobody else's files depend on; what was done.

    Args:
        directory: of the checkpoint.
        kind: flip | truncate | drop one of its state files, or metadata.
    """
    if kind == "metadata":
        target = directory / METADATA
        kind = "flip"
    else:
        own = [path for path in directory.iterdir() if path.name != METADATA and path.is_file()]
        writer = writer_of_directory(directory.name)
        shared = directory.parent / "shared"
        own += [p for p in (shared.iterdir() if shared.exists() else ()) if writer_of_file(p.name) == writer]
        if not own:
            return "nothing to damage"
        target = max(own, key=lambda path: path.stat().st_size)
    data = bytearray(target.read_bytes())
    target.unlink()
    if kind == "flip":
        data[len(data) // 2] ^= 1
        target.write_bytes(bytes(data))
    elif kind == "truncate":
        target.write_bytes(bytes(data[: len(data) // 2]))
    return f"{kind} {target}"


def cut_connections() -> None:
    """Break every TCP connection that this process has with another one."""
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_ESTABLISHED and connection.fd >= 0:
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fd)) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)


def jump_clock(seconds: float) -> None:
    """Have this process see another wall-clock time from now on, as if the machine's clock had been set."""
    time_ns, now = time.time_ns, time.time
    ahead_ns = int(seconds * 1e9)
    time.time_ns = lambda: time_ns() + ahead_ns
    time.time = lambda: now() + seconds


class FaultySink(Sink):
    """A sink with fault points around its two phases: prepare, prepared, commit, mid-commit, committed."""

    def __init__(self, inner: Sink, points: FaultPoints) -> None:
        self._inner = inner
        self._points = points
        self.state_format = inner.state_format

    def keeps_state(self) -> bool:
        return self._inner.keeps_state()

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _FaultyWriter(self._inner.create_writer(context, restored), self._points)

    def create_committer(self) -> Committer | None:
        committer = self._inner.create_committer()
        return None if committer is None else _FaultyCommitter(committer, self._points)

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        return self._inner.create_sweeper(context)


class _FaultyWriter(SinkWriter):
    def __init__(self, inner: SinkWriter, points: FaultPoints) -> None:
        self._inner = inner
        self._points = points

    def write(self, batch: Any) -> None:
        self._inner.write(batch)

    def write_watermark(self, watermark: int) -> None:
        self._inner.write_watermark(watermark)

    def is_available(self) -> bool:
        return self._inner.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._inner.flush(end_of_input)

    def prepare_savepoint(self, checkpoint_id: int) -> None:
        self._inner.prepare_savepoint(checkpoint_id)

    def prepare_commit(self) -> Sequence[Any]:
        self._points.reach("prepare")
        prepared = self._inner.prepare_commit()
        self._points.reach("prepared")
        return prepared

    def snapshot_state(self) -> Sequence[Any]:
        return self._inner.snapshot_state()

    def committed(self, committables: Sequence[Any]) -> None:
        self._inner.committed(committables)

    def close(self) -> None:
        self._inner.close()


class _FaultyCommitter(Committer):
    def __init__(self, inner: Committer, points: FaultPoints) -> None:
        self._inner = inner
        self._points = points

    def commit(self, committables: Sequence[Any]) -> CommitTally | None:
        self._points.reach("commit")
        already = retried = 0
        for committable in committables:
            tally = self._inner.commit([committable])
            if tally is not None:
                already, retried = already + tally.already_committed, retried + tally.retried
            self._points.reach("mid-commit")
        self._points.reach("committed")
        return CommitTally(already, retried)

    def check(self, committables: Sequence[Any]) -> None:
        self._inner.check(committables)

    def close(self) -> None:
        self._inner.close()
