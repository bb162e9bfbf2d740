"""The newest lines of the log of a jobmanager or TaskManager, in Redis: REST shows them wherever the process runs.

Logging must wait for nothing, so lines are kept in this process until its reporter writes them. The whole log of a
process is where its standard error goes. Lines have the form of those of slots (`runtime.task.log_records`), so that
the log of a job can have them, too.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import redis

from backend.audit.redaction import RedactingFilter
from backend.cluster import bus
from runtime.core.clock import SYSTEM_CLOCK
from runtime.task.log_records import record_text

PART_CHARS: Final = 16 << 10
"""Size at which the next part of the log begins. Smaller: more parts; larger: more is written again for each line."""
PARTS: Final = 32
"""Parts that are kept. Fewer: a traceback takes the place of all else; more: each process needs the memory twice."""
MAX_UNWRITTEN: Final = 4_000
"""Records that wait while Redis is away; the oldest ones go."""
MAX_RECORD_CHARS: Final = 8 << 10
"""Of a record; the rest of a longer one is in the process's standard error."""
BYTES_PER_MS: Final = 1_000
"""Offsets in a log begin with the time at which its process does: one that comes back under its id goes on behind what
it has said before. More: they grow beyond what JSON keeps; less: a talkative process overtakes itself."""
#: of a part, before its lines: offset in the log
_POSITION: Final = re.compile(rb"@(\d{1,16})\n")


@dataclass(frozen=True, slots=True)
class ProcessText:
    """Newest lines of the log of a process."""

    start: int
    """Offset of the first byte."""
    data: bytes = b""

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.start + len(self.data)


class RecentLog(logging.Handler):
    """Keeps the newest lines of this process, and writes them to Redis.

    Any thread may log; `write` is the reporter's.

    Args:
        process: id of this process.
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._key = bus.PROCESS_LOG_KEY.format(process)
        self._guard = threading.Lock()
        #: guarded by it
        self._unwritten: deque[str] = deque(maxlen=MAX_UNWRITTEN)
        #: oldest first, each with its offset; the reporter's
        self._parts: deque[str] = deque(maxlen=PARTS)
        #: offset after the last part; the reporter's
        self._end = SYSTEM_CLOCK.now_ms() * BYTES_PER_MS
        #: whether Redis had all parts after the last write
        self._is_written = False
        self.setFormatter(logging.Formatter("%(name)s - %(message)s"))
        self.addFilter(RedactingFilter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if len(text) > MAX_RECORD_CHARS:
            text = f"{text[:MAX_RECORD_CHARS]} … ({len(text) - MAX_RECORD_CHARS} more characters)"
        text = record_text(record.created, record.levelno, None, text)
        with self._guard:
            self._unwritten.append(f"{text}\n")

    def write(self) -> None:
        """Write what was logged since.

        Raises:
            redis.RedisError: it was not written; the next call writes it.
        """
        with self._guard:
            lines = list(self._unwritten)
            self._unwritten.clear()
        added = self._append(lines)
        try:
            if not self._parts:
                return
            if not self._is_written or added >= PARTS or not self._write_end(added, has_news=bool(lines)):
                self._write_all()
            self._is_written = True
        except redis.RedisError:
            self._is_written = False
            raise

    def _append(self, lines: Iterable[str]) -> int:
        """Append to the parts; return how many parts were begun."""
        added = 0
        for line in lines:
            if self._parts and len(self._parts[-1]) < PART_CHARS:
                self._parts[-1] += line
            else:
                self._parts.append(f"@{self._end}\n{line}")
                added += 1
            self._end += len(line.encode(errors="replace"))
        return added

    def _write_end(self, added: int, *, has_news: bool) -> bool:
        """Write the parts that were begun, and the one before, which may have grown; False: Redis has lost the log."""
        last, *begun = list(self._parts)[-added - 1 :]
        with bus.client().pipeline(transaction=True) as pipeline:
            if has_news:
                pipeline.lset(self._key, -1, last)
            if begun:
                pipeline.rpush(self._key, *begun)
                pipeline.ltrim(self._key, -PARTS, -1)
            pipeline.expire(self._key, bus.PROCESS_LOG_EXPIRY_S)
            try:
                *_, is_there = pipeline.execute()
            except redis.ResponseError:
                return False
        return bool(is_there)

    def _write_all(self) -> None:
        with bus.client().pipeline(transaction=True) as pipeline:
            pipeline.delete(self._key)
            if self._parts:
                pipeline.rpush(self._key, *self._parts)
                pipeline.expire(self._key, bus.PROCESS_LOG_EXPIRY_S)
            pipeline.execute()


def read_process_log(process: str) -> str:
    """Return the newest lines of a process's log; "" if there is none, or Redis does not answer."""
    return read_process_text(process).data.decode(errors="replace")


def read_process_text(process: str, since: int = 0) -> ProcessText:
    """Return the newest lines of a process's log and where they are in it; none if Redis does not answer.

    Args:
        process: its id.
        since: offset; if the last parts begin before it, they are all that is read.
    """
    key = bus.PROCESS_LOG_KEY.format(process)
    try:
        with bus.reader().connected() as connection:
            # redis's types cannot tell that this client waits
            parts: list[str] = connection.lrange(key, -2, -1) if since else []  # type: ignore[assignment]
            text = _joined(parts)
            if not parts or text.start > since:
                text = _joined(connection.lrange(key, 0, -1))  # type: ignore[arg-type]
            return text
    except redis.RedisError as error:
        logging.getLogger(__name__).warning("the log of a process cannot be read: %s", error)
        return ProcessText(0)


def _joined(parts: Iterable[str]) -> ProcessText:
    start, data = 0, bytearray()
    for part in parts:
        text = part.encode(errors="replace")
        match = _POSITION.match(text)
        if match is not None and not data:
            start = int(match[1])
        data += text if match is None else text[match.end() :]
    return ProcessText(start, bytes(data))
