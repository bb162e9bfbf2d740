"""EntryLog: a log of small sealed files in one directory, `entry-<number>`, of which only the newest counts.

An entry is created exclusively under the next number, so appending is a compare-and-set: of two writers that saw the
same last entry one gets the number, and the other then reads the winner's. The file system must refuse to create a file
twice: local ones, HDFS and shared mounts do; object stores, through pyarrow, only if the two do not write at the same
moment. Any thread; one call at a time.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Final

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.locations import join
from runtime.checkpoint.sealed import seal, unseal
from runtime.checkpoint.state_files import DEFAULT_RETRIES, Retries, write_once
from runtime.state.handles import DamagedSnapshotError

_ENTRY: Final = re.compile(r"entry-([0-9]{10})")
_KEPT_BEHIND: Final = 2
"""Number of older entries that are kept for examination; only the newest one matters."""


class EntryLog:
    """The log in one directory.

    Args:
        directory: its URI; made by the first entry.
        kind: of its documents, see `sealed`.
        version: of its documents.
        files: the file system.
        retries: of failed operations.
    """

    def __init__(
        self, directory: str, kind: str, version: int, files: CheckpointFileSystem, retries: Retries = DEFAULT_RETRIES
    ) -> None:
        self.directory = directory
        self._kind = kind
        self._version = version
        self._files = files
        self._retries = retries

    def last(self) -> tuple[int, dict[str, Any]] | None:
        """Return number and document of the newest entry; None: there is none.

        Raises:
            DamagedSnapshotError: it is corrupt.
            OSError: the storage cannot be reached.
        """
        while True:
            numbers = self._numbers()
            if not numbers:
                return None
            newest = numbers[-1]
            try:
                return newest, self._read(newest)
            except FileNotFoundError:
                # newer ones have been appended in the meantime, and this one was removed
                if self._numbers()[-1:] == [newest]:
                    raise

    def append(self, number: int, document: dict[str, Any]) -> bool:
        """Create the entry of that number, the one after the last; returns False if somebody else has.

        Raises:
            OSError: the outcome is unknown; the same call again tells.
        """
        # the number is in the document, too, so that no two entries are equal
        data = seal(self._kind, self._version, {"number": number, **document})
        try:
            write_once(self._files, self._uri(number), data, self._retries)
        except FileExistsError:
            return False
        # removal may wait: an extra entry does no harm
        with contextlib.suppress(OSError):
            for older in self._numbers():
                if older < number - _KEPT_BEHIND:
                    self._files.delete_file(self._uri(older))
        return True

    def _numbers(self) -> list[int]:
        entries = self._retries.call(lambda: self._files.list(self.directory))
        matches = (_ENTRY.fullmatch(entry.name) for entry in entries)
        return sorted(int(match[1]) for match in matches if match)

    def _uri(self, number: int) -> str:
        return join(self.directory, f"entry-{number:010d}")

    def _read(self, number: int) -> dict[str, Any]:
        location = self._uri(number)
        data = self._retries.call(lambda: self._files.read(location))
        try:
            return unseal(self._kind, self._version, data, location)
        except CheckpointStorageError as error:
            raise DamagedSnapshotError(location, str(error)) from error
