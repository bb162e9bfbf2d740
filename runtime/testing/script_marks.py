"""Marks that a scripted source keeps for the life of its job: its crashes, and the checkpoints that have completed.

A restart must find it, and so must a reader in another process. So it is kept outside of the job: in this process, for
a MiniCluster, or as empty files of a directory that all slots share. Source readers call it on their slot's thread.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Protocol

from runtime.operators.source import SourceError

__all__ = ["MarksInDirectory", "MarksInProcess", "ScriptMarks"]


class ScriptMarks(Protocol):
    """The memory of one source."""

    def strike(self, place: str, times: int) -> bool:
        """Return whether something that happens at a place the first `times` times happens now; counts if so."""

    def complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint has completed."""

    def last_completed(self) -> int:
        """Return the highest id of a completed checkpoint; 0 if there is none."""


class _Life:
    def __init__(self) -> None:
        self.strikes: defaultdict[str, int] = defaultdict(int)
        self.completed = 0


#: by source; a source of which the job has ended is a few bytes
_LIVES: defaultdict[str, _Life] = defaultdict(_Life)


class MarksInProcess:
    """Kept in the process that made the source.

    Args:
        source_id: of the source; unique.
    """

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id
        self._pid = os.getpid()

    def strike(self, place: str, times: int) -> bool:
        strikes = self._life().strikes
        if strikes[place] >= times:
            return False
        strikes[place] += 1
        return True

    def complete(self, checkpoint_id: int) -> None:
        life = self._life()
        life.completed = max(life.completed, checkpoint_id)

    def last_completed(self) -> int:
        return self._life().completed

    def _life(self) -> _Life:
        if os.getpid() != self._pid:
            raise SourceError(
                "a script with crash() or until_checkpoint() runs in another process than the one that wrote it, which "
                "cannot tell how often it has crashed: give ScriptedSource a directory, such as pytest's tmp_path"
            )
        return _LIVES[self._source_id]


class MarksInDirectory:
    """Kept as empty files.

    Args:
        directory: of a file system that all slots share; made when it is first written to.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def strike(self, place: str, times: int) -> bool:
        return any(self._create(f"crash-{place}-{number}") for number in range(times))

    def complete(self, checkpoint_id: int) -> None:
        self._create(f"checkpoint-{checkpoint_id}")

    def last_completed(self) -> int:
        return max((int(path.name.rpartition("-")[2]) for path in self._directory.glob("checkpoint-*")), default=0)

    def _create(self, name: str) -> bool:
        """Return whether this call has made the file; exactly one of several does."""
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            (self._directory / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
