"""The newest lines that a slot has printed, for Flink's clients, who seek them at the slot's TaskManager. Waits for the
storage of logs; `backend.live.logs` pages through whole logs."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from backend.cluster.job_logs import job_log_directory, log_name
from backend.cluster.log_segments import files_of, read_only, segments


@dataclass(frozen=True, slots=True)
class SlotOutput:
    """The printed output of a slot."""

    text: str
    """The newest whole lines."""
    size: int
    """Bytes that are kept."""
    changed_at: int
    """Epoch ms; 0: it has printed nothing."""


def read_slot_output(job_id: str, attempt: int, slot: int, limit: int) -> SlotOutput:
    """Return the newest lines of up to `limit` bytes that a slot has printed in an attempt of a job."""
    log = (job_log_directory(job_id) / log_name(attempt, slot, "out")).resolve()
    # links lead nowhere: neither directories on the way nor the files may be some
    if not log.is_relative_to(job_log_directory(job_id).resolve()):
        return SlotOutput("", 0, 0)
    parts = segments(log, [(path, size) for path, size in files_of(log) if not path.is_symlink()])
    data = b""
    changed_at = 0
    for part in reversed(parts):
        # a leader may delete the oldest meanwhile
        with suppress(FileNotFoundError), read_only(part.path) as file:
            changed_at = max(changed_at, os.fstat(file.fileno()).st_mtime_ns // 1_000_000)
            size = part.end - part.start
            missing = min(size, limit - len(data))
            file.seek(size - missing)
            data = file.read(missing) + data
        if len(data) >= limit:
            break
    size = sum(part.end - part.start for part in parts)
    if size > len(data):
        data = data[data.find(b"\n") + 1 :]
    return SlotOutput(data.decode(errors="replace"), size, changed_at)
