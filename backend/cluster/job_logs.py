"""Appends what slots print and log to one file per job, attempt and slot, under logs/jobs/ of the cluster's storage.

A storage that is no directory cannot be appended to: the logs are then in TIDEMARK_HOME. One thread writes for all
jobs, so that a slow disk delays output (its window is not acknowledged) but no JobMaster. A disk that does not answer,
or refuses, holds up nobody: output is then acknowledged unwritten, what exceeds a buffer is dropped, and a line in the
log tells how many lines are missing. A file that would exceed its cap is moved to `<name>.1` and started anew.
"""

from __future__ import annotations

import logging
import queue
import shutil
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from backend.cluster.checkpoint_home import cluster_storage
from runtime.checkpoint.locations import is_local, local_path
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.status import ExceptionEntry

logger = logging.getLogger(__name__)

#: channel of the control stream → suffix of the log file
SUFFIXES = {"stdout": "out", "log": "log"}
#: per slot and kind there are at most two files of this size
MAX_FILE_BYTES = 64 << 20
#: open files; more could reach the usual limit of 1024 descriptors with many jobs
MAX_OPEN_FILES = 128

#: a write that takes longer holds up no output any more. Shorter: busy disks make the buffer grow without need
PATIENCE_S = 2.0
#: output of all slots that waits for the disk; more is dropped
MAX_BUFFER_BYTES = 64 << 20

Acknowledge = Callable[[int], None]


def job_log_directory(job_id: str) -> Path:
    """Return the directory of a job's log files."""
    return _log_directory() / job_id


def copy_logs_of_home() -> None:
    """Copy logs that an earlier release kept in TIDEMARK_HOME to where they are now, job by job.

    Raises:
        OSError: they cannot be copied; the next call goes on.
    """
    old, new = Path(settings.TIDEMARK_HOME) / "logs" / "jobs", _log_directory()
    if old == new or not old.is_dir():
        return
    new.mkdir(parents=True, exist_ok=True)
    for job in old.iterdir():
        if job.is_dir() and not (new / job.name).exists():
            draft = new / f".{job.name}"
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(job, draft, symlinks=True)
            draft.rename(new / job.name)


def _log_directory() -> Path:
    storage = cluster_storage().logs
    return local_path(storage) if is_local(storage) else Path(settings.TIDEMARK_HOME) / "logs" / "jobs"


def log_file_name(attempt: int, slot: int, kind: str) -> str:
    """Return the name of a log file relative to the job's directory; `kind` is "out" or "log"."""
    return f"attempt-{attempt}/slot-{slot}.{kind}"


@dataclass(slots=True)
class _Text:
    path: Path
    payload: bytes
    acknowledge: Acknowledge | None
    """None: it is acknowledged."""
    dropped: int = 0
    """Number of lines that were dropped right before it."""


class SlotLogWriter:
    """Appends to the files of all jobs; `put` may be called by any thread.

    Args:
        max_file_bytes: maximum size of a file.
        patience_s: time that a write may take before output is acknowledged unwritten.
        max_buffer_bytes: maximum size of what waits to be written.
    """

    def __init__(
        self,
        max_file_bytes: int = MAX_FILE_BYTES,
        patience_s: float = PATIENCE_S,
        max_buffer_bytes: int = MAX_BUFFER_BYTES,
    ) -> None:
        self._max_file_bytes = max_file_bytes
        self._patience_s = patience_s
        self._max_buffer_bytes = max_buffer_bytes
        self._queue: queue.SimpleQueue[_Text | Path | None] = queue.SimpleQueue()
        #: guards what follows
        self._lock = threading.Lock()
        #: what is not written, oldest first
        self._waiting: deque[_Text] = deque()
        self._waiting_bytes = 0
        self._writing_since: float | None = None
        #: file → lines that found no room in the buffer since its last text that did
        self._dropped: dict[Path, int] = {}
        #: file → lines that could not be written; used by the thread only
        self._failed: dict[Path, int] = {}
        self._closed = threading.Event()
        #: used by the thread only; least recently written first
        self._files: OrderedDict[Path, BinaryIO] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="slot-logs", daemon=True)
        self._thread.start()
        self._watch = threading.Thread(target=self._relieve, name="slot-logs-watch", daemon=True)
        self._watch.start()

    def put(self, path: Path, payload: bytes, acknowledge: Acknowledge) -> None:
        """Append to a file; `acknowledge` is called, by any thread, with the size: the output need not be kept."""
        text = _Text(path, payload, acknowledge)
        with self._lock:
            is_taken = self._waiting_bytes + len(payload) <= self._max_buffer_bytes or not self._waiting
            if is_taken:
                text.dropped = self._dropped.pop(path, 0)
                self._waiting.append(text)
                self._waiting_bytes += len(payload)
                self._queue.put(text)
            else:
                self._dropped[path] = self._dropped.get(path, 0) + _lines(payload)
        if not is_taken:
            acknowledge(len(payload))

    def close_directory(self, directory: Path) -> None:
        """Close the files of a directory; nothing more follows for them."""
        self._queue.put(directory)

    def close(self) -> None:
        """Write what is queued, then end; a disk that does not answer is not waited for."""
        self._queue.put(None)
        self._closed.set()
        self._watch.join()
        while self._thread.is_alive() and not self._is_stuck():
            self._thread.join(0.1)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            with self._lock:
                self._writing_since = time.monotonic()
            if isinstance(item, Path):
                self._tell_missing(item)
                for path in [path for path in self._files if path.is_relative_to(item)]:
                    # network shares report a full disk here
                    self._forget(path)
                with self._lock:
                    self._writing_since = None
                continue
            missing = self._failed.pop(item.path, 0) + item.dropped
            try:
                if missing:
                    self._append(item.path, _about(missing))
                    missing = 0
                self._append(item.path, item.payload)
            except OSError as error:
                # the job must not hang because its output cannot be stored
                logger.warning("%s cannot be written: %s", item.path, error)
                self._forget(item.path)
                self._failed[item.path] = missing + _lines(item.payload)
            with self._lock:
                self._writing_since = None
                self._waiting.popleft()
                self._waiting_bytes -= len(item.payload)
                acknowledge, item.acknowledge = item.acknowledge, None
            if acknowledge is not None:
                acknowledge(len(item.payload))
        with self._lock:
            self._writing_since = time.monotonic()
        for path in list(self._files):
            self._forget(path)

    def _relieve(self) -> None:
        """Acknowledge what waits for a write that takes too long."""
        while not self._closed.wait(self._patience_s / 4):
            if not self._is_stuck():
                continue
            taken: list[tuple[Acknowledge, int]] = []
            with self._lock:
                for text in self._waiting:
                    if text.acknowledge is not None:
                        taken.append((text.acknowledge, len(text.payload)))
                        text.acknowledge = None
            for acknowledge, size in taken:
                acknowledge(size)

    def _is_stuck(self) -> bool:
        with self._lock:
            return self._writing_since is not None and time.monotonic() - self._writing_since > self._patience_s

    def _tell_missing(self, directory: Path) -> None:
        """Write what is missing at the end of a directory's files, to which nothing is added any more."""
        with self._lock:
            dropped = {path: self._dropped.pop(path) for path in list(self._dropped) if path.is_relative_to(directory)}
        for path in [path for path in self._failed if path.is_relative_to(directory)]:
            dropped[path] = dropped.get(path, 0) + self._failed.pop(path)
        for path, missing in dropped.items():
            try:
                self._append(path, _about(missing))
            except OSError as error:
                logger.warning("%s misses its last %d lines: %s", path, missing, error)

    def _forget(self, path: Path) -> None:
        """Close a file that failed: the next write opens it again."""
        file = self._files.pop(path, None)
        if file is not None:
            with suppress(OSError):
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
        left = memoryview(payload)
        while left:
            # a full disk takes a part
            left = left[file.write(left) :]


def _lines(payload: bytes) -> int:
    return max(1, payload.count(b"\n"))


def _about(missing: int) -> bytes:
    lines = "1 line is" if missing == 1 else f"{missing} lines are"
    return f"[{lines} missing: the storage of logs could not be written]\n".encode()


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
