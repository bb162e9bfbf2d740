"""Appends what slots print and log to a log per job, attempt, slot and kind, in logs/jobs/ of the cluster's storage.

A storage that is not a directory cannot be appended to: the logs are then in TIDEMARK_HOME. One thread writes for all
jobs, so that a slow disk delays output (its window is not acknowledged) but no JobMaster. A disk that does not answer,
or refuses, holds up nobody: output is acknowledged unwritten, whatever exceeds a buffer is dropped, and a line in the
log says how many lines are missing.

What a slot sends again after a change of leader is written once: a log knows how much of the slot's output it has
(`appended_log`).
"""

from __future__ import annotations

import logging
import queue
import shutil
import tempfile
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from backend.cluster.appended_log import AppendedLog, LogTakenError
from backend.cluster.checkpoint_home import cluster_storage
from runtime.checkpoint.locations import is_local, local_path
from runtime.core.ids import Attempt, SlotId
from runtime.core.well_formed import well_formed
from runtime.jobmaster.status import ExceptionEntry
from runtime.task.log_records import record_text

logger = logging.getLogger(__name__)

#: channel of the control stream → suffix of the log file
SUFFIXES = {"stdout": "out", "log": "log"}
#: per slot and kind there is at most twice as much
MAX_SEGMENT_BYTES = 64 << 20
#: open logs, of three files each; more could reach the usual limit of 1024 descriptors with many jobs
MAX_OPEN_LOGS = 128

#: a write that takes longer holds up no output any more. Shorter: busy disks make the buffer grow without need
PATIENCE_S = 2.0
#: output of all slots that waits for the disk; more is dropped
MAX_BUFFER_BYTES = 64 << 20

Acknowledge = Callable[[], None]


def job_log_directory(job_id: str) -> Path:
    """Return the directory of a job's log files."""
    return log_directory() / job_id


def copy_logs_of_home() -> None:
    """Copy logs that an earlier release kept in TIDEMARK_HOME to where they are now, job by job.

    Several processes may do so at once: each copies to a draft of its own, and the first to finish a job names it.

    Raises:
        OSError: they cannot be copied; the next call goes on.
    """
    old, new = Path(settings.TIDEMARK_HOME) / "logs" / "jobs", log_directory()
    if old == new or not old.is_dir():
        return
    new.mkdir(parents=True, exist_ok=True)
    for job in old.iterdir():
        if not job.is_dir():
            continue
        target = new / job.name
        if not target.exists():
            _copy_once(job, target)
        for left in new.glob(f".{job.name}*"):
            # by a process that was killed, or that is not needed any more
            shutil.rmtree(left, ignore_errors=True)


def _copy_once(source: Path, target: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        shutil.copytree(source, draft, symlinks=True, dirs_exist_ok=True)
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not target.exists():
            raise
        # another process has copied them


def log_directory() -> Path:
    """Return the directory of the logs of all jobs."""
    storage = cluster_storage().logs
    return local_path(storage) if is_local(storage) else Path(settings.TIDEMARK_HOME) / "logs" / "jobs"


def log_name(attempt: int, slot: int, kind: str) -> str:
    """Return the name of a log relative to the job's directory; `kind` is "out" or "log"."""
    return f"attempt-{attempt}/slot-{slot}.{kind}"


@dataclass(slots=True)
class _Text:
    log: Path
    payload: bytes
    position: int | None
    """Number of bytes that the slot had sent before; None: it is not the slot's."""
    acknowledge: Acknowledge | None
    """None: it is acknowledged."""
    dropped: int = 0
    """Number of lines that were dropped right before it."""
    dropped_behind: list[Acknowledge] = field(default_factory=list)
    """Of what was dropped right after it."""

    def taken(self) -> list[Acknowledge]:
        """Return what is to be called now that it is written, or need not be waited for; once."""
        first, self.acknowledge = self.acknowledge, None
        behind, self.dropped_behind = self.dropped_behind, []
        return behind if first is None else [first, *behind]


class SlotLogWriter:
    """Appends to the logs of all jobs; `put` may be called by any thread.

    Args:
        epoch: of the leader.
        max_segment_bytes: maximum size of a file; a log has at most twice as much.
        patience_s: time that a write may take before output is acknowledged unwritten.
        max_buffer_bytes: maximum size of what waits to be written.
    """

    def __init__(
        self,
        epoch: int,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
        patience_s: float = PATIENCE_S,
        max_buffer_bytes: int = MAX_BUFFER_BYTES,
    ) -> None:
        self._epoch = epoch
        self._max_segment_bytes = max_segment_bytes
        self._patience_s = patience_s
        self._max_buffer_bytes = max_buffer_bytes
        self._queue: queue.SimpleQueue[_Text | Path | None] = queue.SimpleQueue()
        #: guards what follows
        self._lock = threading.Lock()
        #: what is not written, oldest first
        self._waiting: deque[_Text] = deque()
        self._waiting_bytes = 0
        #: log → the newest of its texts that wait
        self._newest: dict[Path, _Text] = {}
        self._writing_since: float | None = None
        #: log → lines that found no room in the buffer since its last text that did
        self._dropped: dict[Path, int] = {}
        #: log → lines that could not be written; used by the thread only
        self._failed: dict[Path, int] = {}
        #: job's directory → bytes that were written since they were asked for
        self._written: dict[Path, int] = {}
        self._closed = threading.Event()
        #: used by the thread only; least recently written first
        self._logs: OrderedDict[Path, AppendedLog] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="slot-logs", daemon=True)
        self._thread.start()
        self._watch = threading.Thread(target=self._relieve, name="slot-logs-watch", daemon=True)
        self._watch.start()

    def put(self, log: Path, payload: bytes, position: int | None, acknowledge: Acknowledge) -> None:
        """Append to a log, unless it has the payload already.

        Args:
            log: its path, without what names its files.
            payload: whole lines.
            position: number of bytes of the slot's output before it; None: it is not the slot's.
            acknowledge: called once, by any thread: the output need not be kept, nor what was put before it.
        """
        text = _Text(log, payload, position, acknowledge)
        with self._lock:
            is_taken = self._waiting_bytes + len(payload) <= self._max_buffer_bytes or not self._waiting
            if is_taken:
                text.dropped = self._dropped.pop(log, 0)
                self._waiting.append(text)
                self._newest[log] = text
                self._waiting_bytes += len(payload)
                self._queue.put(text)
            else:
                self._dropped[log] = self._dropped.get(log, 0) + _lines(payload)
                before = self._newest.get(log)
                if before is not None and before.acknowledge is not None:
                    # not ahead of what waits to be written: whoever sends that again must not have forgotten it
                    before.dropped_behind.append(acknowledge)
                    return
        if not is_taken:
            acknowledge()

    def is_written(self, directory: Path) -> bool:
        """Return whether nothing that was put to logs in a directory waits unacknowledged."""
        with self._lock:
            return not any(
                log.is_relative_to(directory) and text.acknowledge is not None for log, text in self._newest.items()
            )

    def grown(self, size: int) -> list[str]:
        """Return the jobs to whose logs at least so many bytes were written since they were last returned."""
        with self._lock:
            found = [directory for directory, written in self._written.items() if written >= size]
            for directory in found:
                del self._written[directory]
        return [directory.name for directory in found]

    def close_directory(self, directory: Path) -> None:
        """Close the logs in a directory; nothing more follows for them."""
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
                for log in [log for log in self._logs if log.is_relative_to(item)]:
                    # network shares report a full disk here
                    self._forget(log)
                with self._lock:
                    self._writing_since = None
                    self._written.pop(item, None)
                continue
            self._write(item)
            with self._lock:
                self._writing_since = None
                self._waiting.popleft()
                self._waiting_bytes -= len(item.payload)
                if self._newest.get(item.log) is item:
                    del self._newest[item.log]
                taken = item.taken()
            for acknowledge in taken:
                acknowledge()
        with self._lock:
            self._writing_since = time.monotonic()
        for log in list(self._logs):
            self._forget(log)

    def _write(self, text: _Text) -> None:
        try:
            try:
                self._write_new(text)
            except OSError:
                # it may have been appended, and only that is not known
                self._forget(text.log)
                self._write_new(text)
        except OSError as error:
            # the job must not hang because its output cannot be stored
            logger.warning("%s cannot be written: %s", text.log, error)
            self._forget(text.log)
            self._failed[text.log] = self._failed.get(text.log, 0) + text.dropped + _lines(text.payload)
        except LogTakenError as error:
            # the slot, if it is still there, sends it to the leader who has the log
            logger.warning("%s", error)
            self._forget(text.log)

    def _write_new(self, text: _Text) -> None:
        """Write what the log does not have yet, and before it how much is missing."""
        log = self._open(text.log)
        if text.position is None:
            if text.dropped:
                # told before the slot's next output, or at the end
                self._failed[text.log] = self._failed.get(text.log, 0) + text.dropped
                text.dropped = 0
            self._append(log, text.payload, log.position)
            return
        missing, missing_bytes = self._failed.get(text.log, 0) + text.dropped, log.resume(text.position)
        if missing:
            self._append(log, _about(missing, "line"), max(log.position, text.position))
        elif missing_bytes:
            self._append(log, _about(missing_bytes, "byte"), text.position)
        self._failed.pop(text.log, None)
        text.dropped = 0
        end = text.position + len(text.payload)
        if log.position < end:
            self._append(log, text.payload[log.position - text.position :], end)

    def _append(self, log: AppendedLog, payload: bytes, position: int) -> None:
        log.append(payload, position)
        with self._lock:
            self._written[log.job_directory] = self._written.get(log.job_directory, 0) + len(payload)

    def _relieve(self) -> None:
        """Acknowledge what waits for a write that takes too long."""
        while not self._closed.wait(self._patience_s / 4):
            if not self._is_stuck():
                continue
            taken: list[Acknowledge] = []
            with self._lock:
                for text in self._waiting:
                    taken += text.taken()
            for acknowledge in taken:
                acknowledge()

    def _is_stuck(self) -> bool:
        with self._lock:
            return self._writing_since is not None and time.monotonic() - self._writing_since > self._patience_s

    def _tell_missing(self, directory: Path) -> None:
        """Write what is missing at the end of a directory's logs, to which nothing is added any more."""
        with self._lock:
            dropped = {log: self._dropped.pop(log) for log in list(self._dropped) if log.is_relative_to(directory)}
        for path in [path for path in self._failed if path.is_relative_to(directory)]:
            dropped[path] = dropped.get(path, 0) + self._failed.pop(path)
        for path, log in list(self._logs.items()):
            if path.is_relative_to(directory) and log.lost_bytes:
                # the slot has not sent again what its machine has lost
                self._tell(path, log.lost_bytes, "byte")
        for path, missing in dropped.items():
            self._tell(path, missing, "line")

    def _tell(self, path: Path, missing: int, unit: str) -> None:
        try:
            log = self._open(path)
            self._append(log, _about(missing, unit), log.position)
        except (OSError, LogTakenError) as error:
            logger.warning("%s lacks its last %d %ss: %s", path, missing, unit, error)

    def _open(self, path: Path) -> AppendedLog:
        log = self._logs.get(path)
        if log is None:
            log = self._logs[path] = AppendedLog(path, self._epoch, self._max_segment_bytes)
            if len(self._logs) > MAX_OPEN_LOGS:
                self._forget(next(iter(self._logs)))
        self._logs.move_to_end(path)
        return log

    def _forget(self, path: Path) -> None:
        """Close a log that failed, or has not been written for long: the next write opens it again."""
        log = self._logs.pop(path, None)
        if log is not None:
            with suppress(OSError):
                log.close()


def _lines(payload: bytes) -> int:
    return max(1, payload.count(b"\n"))


def _about(missing: int, unit: str) -> bytes:
    what = f"1 {unit} is" if missing == 1 else f"{missing} {unit}s are"
    return f"[{what} missing: the storage of logs could not be written]\n".encode()


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
            message = f"job - attempt {entry.attempt} failed: "
            message += "\n".join(filter(None, (cause.message, cause.traceback)))
            at_s = (entry.timestamp_ms + offset_ms) / 1000.0
            text = record_text(at_s, logging.ERROR, cause.task, message) + "\n"
            slot = SlotId(0) if cause.slot is None else cause.slot
            path = self._directory / log_name(entry.attempt, slot, "log")
            self._writer.put(path, well_formed(text).encode(), None, lambda: None)

    def note(self, attempt: int, text: str, now_ms: float) -> None:
        """Write a line of the cluster to the log of an attempt's first slot."""
        line = record_text(now_ms / 1000.0, logging.WARNING, None, f"job - {text}") + "\n"
        self._writer.put(self._directory / log_name(attempt, 0, "log"), well_formed(line).encode(), None, lambda: None)

    def deliver(
        self, slot: SlotId, attempt: Attempt, channel: str, position: int, payload: bytes, acknowledge: Acknowledge
    ) -> None:
        suffix = SUFFIXES.get(channel)
        if suffix is None:
            # a collect sink's output, which nobody reads in a session cluster
            acknowledge()
            return
        self._writer.put(self._directory / log_name(attempt, slot, suffix), payload, position, acknowledge)

    @property
    def are_written(self) -> bool:
        """True if nothing that was delivered waits to be written."""
        return self._writer.is_written(self._directory)

    def close(self) -> None:
        self._writer.close_directory(self._directory)
