"""ApplicationLog: which job an application runs, under which epoch, and which process runs it.

    <root>/application-<id>/entry-<number>        an EntryLog; its last entry counts
    <root>/application-<id>/beat-<epoch>-<count>  the newest sign of life of the process that runs it

The application's job has the usual directory beside it. A process that takes the application over appends an entry, as
it does before each further attempt; the one that it replaced can append nothing then. Any thread; one call at a time.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, Final

from runtime.checkpoint.entry_log import EntryLog
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.locations import join
from runtime.checkpoint.settings import ClaimMode
from runtime.checkpoint.state_files import DEFAULT_RETRIES, Retries, write_once
from runtime.core.ids import Attempt, JobId

_KIND: Final = "tidemark-application"
_VERSION: Final = 1
_ENTRY: Final = re.compile(r"entry-([0-9]{10})")
_BEAT: Final = re.compile(r"beat-([0-9]+)-([0-9]+)")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that runs, or ran, an application."""

    token: str
    """Random; no two holders have the same."""
    host: str
    pid: int
    process: str
    """Tells the process from any other on all machines; empty: its system offers nothing for that."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class ApplicationEntry:
    """State of an application, complete in every entry."""

    number: int
    """0-based; it only grows."""
    job_id: JobId | None
    """The application's job, ended or not; None: the former one was forgotten."""
    epoch: int
    """1-based; grows with every take-over, whatever the job."""
    attempt: Attempt
    """The highest attempt of the job that may have begun."""
    restore_path: str
    """URI of the snapshot that the job began from; empty: none."""
    claim_mode: ClaimMode | None
    """Ownership of that snapshot; None: an earlier release began the job, and has not recorded it."""
    holder: Holder | None
    """None: no process runs the job."""
    leftovers: tuple[JobId, ...] = ()
    """Jobs that were forgotten and whose directories may still be there."""


class Standing(enum.Enum):
    """Standing of a process with the log after it appended an entry."""

    HOLDS = enum.auto()
    REPLACED = enum.auto()
    GONE = enum.auto()
    """There is no entry at all."""


class ApplicationLog:
    """The log of one application.

    Args:
        root: URI of the checkpoint directory.
        application_id: the application; letters, digits, `_`, `.` and `-`.
        files: the file system.
        retries: of failed operations.
    """

    def __init__(
        self, root: str, application_id: str, files: CheckpointFileSystem, retries: Retries = DEFAULT_RETRIES
    ) -> None:
        self.directory = join(root, f"application-{application_id}")
        self._log = EntryLog(self.directory, _KIND, _VERSION, files, retries)
        self._files = files
        self._retries = retries

    def last(self) -> ApplicationEntry | None:
        """Return the newest entry; None: there is none.

        Raises:
            DamagedSnapshotError: it is corrupt.
            OSError: the storage cannot be reached.
        """
        last = self._log.last()
        return None if last is None else _decoded(*last)

    def append(self, entry: ApplicationEntry) -> bool:
        """Append an entry under its number, the one after the last; returns False if another process has.

        Raises:
            OSError: the outcome is unknown; the same call again tells.
        """
        if not self._log.append(entry.number, _encoded(entry)):
            return False
        # the numbers of entries that were removed are free again
        last = self._log.last()
        return last is not None and last[0] == entry.number

    def newest_beat(self) -> str:
        """Return the name of the newest sign of life; empty: there is none yet.

        Raises:
            OSError: the storage cannot be reached.
        """
        names = [entry.name for entry in self._files.list(self.directory)]
        matches = [match for match in map(_BEAT.fullmatch, names) if match]
        return max(matches, key=lambda match: (int(match[1]), int(match[2])))[0] if matches else ""

    def beat(self, entry: ApplicationEntry, count: int) -> Standing:
        """Give a sign of life as the process that appended the entry, unless it has been replaced.

        Args:
            entry: the last one that the process has appended.
            count: grows with each call.

        Raises:
            OSError: the storage cannot be reached.
        """
        names = [found.name for found in self._files.list(self.directory)]
        numbers = [int(match[1]) for match in map(_ENTRY.fullmatch, names) if match]
        if not numbers:
            return Standing.GONE
        if max(numbers) != entry.number:
            return Standing.REPLACED
        name = f"beat-{entry.epoch}-{count}"
        write_once(self._files, join(self.directory, name), name.encode(), self._retries)
        for older in names:
            if _BEAT.fullmatch(older) and older != name:
                self._files.delete_file(join(self.directory, older))
        return Standing.HOLDS


def _encoded(entry: ApplicationEntry) -> dict[str, Any]:
    holder = entry.holder
    return {
        "job_id": entry.job_id,
        "epoch": entry.epoch,
        "attempt": entry.attempt,
        "restore_path": entry.restore_path,
        "claim_mode": None if entry.claim_mode is None else entry.claim_mode.value,
        "holder": None if holder is None else [holder.token, holder.host, holder.pid, holder.process],
        "leftovers": list(entry.leftovers),
    }


def _decoded(number: int, saved: dict[str, Any]) -> ApplicationEntry:
    return ApplicationEntry(
        number,
        None if saved["job_id"] is None else JobId(saved["job_id"]),
        saved["epoch"],
        Attempt(saved["attempt"]),
        saved["restore_path"],
        # earlier releases write neither this nor the leftovers
        ClaimMode(saved["claim_mode"]) if saved.get("claim_mode") else None,
        None if saved["holder"] is None else Holder(*saved["holder"]),
        tuple(map(JobId, saved.get("leftovers", ()))),
    )
