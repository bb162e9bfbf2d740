"""Appends what slots print and log to one file per job, attempt and slot, under logs/jobs/ of TIDEMARK_HOME.

One thread writes for all jobs, so that a slow disk delays output (its window is not acknowledged) but no JobMaster. A
file that would exceed its cap is moved to `<name>.1` and started anew.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.status import ExceptionEntry

logger = logging.getLogger(__name__)

#: channel of the control stream → suffix of the log file
SUFFIXES = {"stdout": "out", "log": "log"}
#: per slot and kind there are at most two files of this size
MAX_FILE_BYTES = 64 << 20
#: open files; more could reach the usual limit of 1024 descriptors with many jobs
MAX_OPEN_FILES = 128

Acknowledge = Callable[[int], None]


def job_log_directory(home: Path, job_id: str) -> Path:
    """Return the directory of a job's log files."""
    return home / "logs" / "jobs" / job_id


def log_file_name(attempt: int, slot: int, kind: str) -> str:
    """Return the name of a log file relative to the job's directory; `kind` is "out" or "log"."""
    return f"attempt-{attempt}/slot-{slot}.{kind}"


@dataclass(frozen=True, slots=True)
class _Text:
    path: Path
    payload: bytes
    acknowledge: Acknowledge


class SlotLogWriter:
    """Appends to the files of all jobs; `put` may be called by any thread.

    Args:
        max_file_bytes: maximum size of a file.
    """

    def __init__(self, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._max_file_bytes = max_file_bytes
        self._queue: queue.SimpleQueue[_Text | Path | None] = queue.SimpleQueue()
        #: used by the thread only; least recently written first
        self._files: OrderedDict[Path, BinaryIO] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="slot-logs", daemon=True)
        self._thread.start()

    def put(self, path: Path, payload: bytes, acknowledge: Acknowledge) -> None:
        """Append to a file; `acknowledge` is called with the size once it is written or has failed."""
        self._queue.put(_Text(path, payload, acknowledge))

    def close_directory(self, directory: Path) -> None:
        """Close the files of a directory; nothing more follows for them."""
        self._queue.put(directory)

    def close(self) -> None:
        """Write what is queued, then end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, Path):
                for path in [path for path in self._files if path.is_relative_to(item)]:
                    self._files.pop(path).close()
                continue
            try:
                self._append(item.path, item.payload)
            except OSError as error:
                # the job must not hang because its output cannot be stored
                logger.warning("%s cannot be written: %s", item.path, error)
            item.acknowledge(len(item.payload))
        for file in self._files.values():
            file.close()

    def _append(self, path: Path, payload: bytes) -> None:
        file = self._files.get(path)
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._files[path] = path.open("ab", buffering=0)
            if len(self._files) > MAX_OPEN_FILES:
                self._files.popitem(last=False)[1].close()
        self._files.move_to_end(path)
        if file.tell() + len(payload) > self._max_file_bytes and file.tell():
            self._files.pop(path).close()
            path.replace(path.with_name(f"{path.name}.1"))
            file = self._files[path] = path.open("ab", buffering=0)
        file.write(payload)


class JobLogs:
    """Log files of one job; implements `runtime.jobmaster.client_outputs.Outputs`."""

    def __init__(self, writer: SlotLogWriter, directory: Path) -> None:
        self._writer = writer
        self._directory = directory
        #: attempt and cause of the newest failures that are written
        self._failures: set[tuple[Attempt, str]] = set()

    def note_failures(self, entries: Iterable[ExceptionEntry], offset_ms: float) -> None:
        """Write new failures to the log of the slot in which they occurred, or of the first slot.

        Args:
            entries: the newest failures of the job, oldest first. If the cause of one changes, it is written again.
            offset_ms: wall-clock time minus the entries' monotonic time.
        """
        written, self._failures = self._failures, set()
        for entry in entries:
            cause = entry.cause
            known = (entry.attempt, cause.message)
            self._failures.add(known)
            if known in written:
                continue
            written.add(known)
            at = datetime.fromtimestamp((entry.timestamp_ms + offset_ms) / 1000.0, UTC).astimezone()
            text = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03} ERROR job - attempt {entry.attempt} failed: "
            text += "\n".join(filter(None, (cause.message, cause.traceback))) + "\n"
            slot = SlotId(0) if cause.slot is None else cause.slot
            path = self._directory / log_file_name(entry.attempt, slot, "log")
            self._writer.put(path, text.encode(), lambda _: None)

    def deliver(self, slot: SlotId, attempt: Attempt, channel: str, payload: bytes, acknowledge: Acknowledge) -> None:
        suffix = SUFFIXES.get(channel)
        if suffix is None:
            # a collect sink's output, which nobody reads in a session cluster
            acknowledge(len(payload))
            return
        self._writer.put(self._directory / log_file_name(attempt, slot, suffix), payload, acknowledge)

    def close(self) -> None:
        self._writer.close_directory(self._directory)
