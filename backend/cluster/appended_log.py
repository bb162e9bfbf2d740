"""AppendedLog: a log of a slot, opened by the leader of an epoch. One thread.

An append that fails half-way is undone when the log is opened again. One during which the process is killed does not
count: the next leader continues from the newest mark (`log_segments`). Nothing is synced to the disk: if its machine is
lost, a log may end before or after its mark, or have none. What is missing is known once the slot says from which
position it sends again (`resume`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from backend.cluster.log_segments import MARK_BYTES, Mark, files_of, mark_path, marks, segment_path, segments
from backend.cluster.log_times import TimesWriter, times_path
from runtime.core.clock import SYSTEM_CLOCK


class LogTakenError(Exception):
    """A later leader writes the log."""


class AppendedLog:
    """One log.

    Args:
        log: its path, to which the names of its files are added; directories are made.
        epoch: of the leader.
        max_segment_bytes: a segment that would become larger is followed by another one; what lies more than that
            before the beginning of the newest segment is deleted.

    Raises:
        OSError: it cannot be opened.
        LogTakenError: a later leader has opened it.
    """

    def __init__(self, log: Path, epoch: int, max_segment_bytes: int) -> None:
        self._log = log
        self._epoch = epoch
        self._max_segment_bytes = max_segment_bytes
        self._segment_file: int | None = None
        self._mark_file: int | None = None
        self._times: TimesWriter | None = None
        self._start = 0
        log.parent.mkdir(parents=True, exist_ok=True)
        files = self._files()
        written = marks(log, files)
        newest = (Mark.whole(written[of].read_bytes()) for of in sorted(written, reverse=True))
        #: the newest mark, and the one before it
        whole = next((whole for whole in newest if whole), [])
        mark = whole[0] if whole else None
        known = segments(log, files)
        end = known[-1].end if known else 0
        self._mark = Mark(0, end, 0) if mark is None else Mark(mark.number, min(mark.end, end), mark.position)
        #: number of bytes that the log has lost at its end, with the machine that wrote it; 0 once that is settled
        self.lost_bytes = 0 if mark is None else mark.end - self._mark.end
        #: what follows holds until the slot's output is resumed. Number of bytes after the mark: of an append that was
        #: torn, or acknowledged by a leader whose last mark was lost
        self._unmarked_bytes = end - self._mark.end
        self._has_no_mark = mark is None
        #: number of bytes of the slot's output that are in the log's remains
        self._remaining = _position_at(self._mark.end, whole)
        #: which of the two places of the mark's file is written next: never the only one with the newest mark
        self._place = 0
        try:
            if known and known[-1].epoch == epoch:
                self._start = known[-1].start
                self._segment_file = os.open(known[-1].path, os.O_RDWR)
                # what is left of an append that did not reach its mark
                os.ftruncate(self._segment_file, self._mark.end - self._start)
                self._unmarked_bytes = 0
                self._times = TimesWriter(known[-1].path, is_new=False)
            self._mark_file = os.open(mark_path(log, epoch), os.O_RDWR | os.O_CREAT, 0o644)
            self._keep_marks(whole)
        except BaseException:
            with suppress(OSError):
                self.close()
            raise
        with suppress(OSError):
            for of, path in written.items():
                if of < epoch:
                    path.unlink(missing_ok=True)

    @property
    def job_directory(self) -> Path:
        """Directory of all logs of its job."""
        return self._log.parent.parent

    @property
    def position(self) -> int:
        """Number of bytes of the slot's output that were appended, or are known to be missing."""
        return self._mark.position

    def resume(self, position: int) -> int:
        """Note from which position the slot sends: it has forgotten earlier output, which a leader has acknowledged.

        Must be called before the slot's output is appended; further calls only report what is missing.

        Args:
            position: number of bytes of the slot's output before what it sends.

        Returns:
            Number of bytes of the slot's output before that, which are neither in the log nor known to be missing.

        Raises:
            OSError: the mark cannot be written.
        """
        mark = self._mark
        if self._has_no_mark:
            # all that was acknowledged may be there, and the rest is sent again
            mark = Mark(mark.number + 1, mark.end, min(position, mark.end))
        elif self.lost_bytes:
            mark = Mark(mark.number + 1, mark.end, self._remaining)
        elif position > mark.position and self._unmarked_bytes:
            taken = min(position - mark.position, self._unmarked_bytes)
            mark = Mark(mark.number + 1, mark.end + taken, mark.position + taken)
        if mark is not self._mark:
            self._write_mark(mark)
        self._has_no_mark, self._unmarked_bytes, self.lost_bytes = False, 0, 0
        return max(0, position - self._mark.position)

    def append(self, payload: bytes, position: int) -> None:
        """Append to the log: all or nothing.

        Args:
            payload: what to append.
            position: number of bytes of the slot's output up to which nothing more is to be appended.

        Raises:
            OSError: it was not appended, or that is unknown until somebody opens the log again.
            LogTakenError: it was not appended, and never will be.
        """
        size = self._mark.end - self._start
        if self._segment_file is None or size > max(0, self._max_segment_bytes - len(payload)):
            self._begin_segment()
            size = 0
        assert self._segment_file is not None
        left = memoryview(payload)
        try:
            while left:
                # a full disk takes only a part
                left = left[os.pwrite(self._segment_file, left, size + len(payload) - len(left)) :]
        except OSError:
            with suppress(OSError):
                # readers should not see it; the next append overwrites it anyway
                os.ftruncate(self._segment_file, size)
            raise
        if self._times is not None:
            self._times.note(self._mark.end, SYSTEM_CLOCK.now_ms())
        self._write_mark(Mark(self._mark.number + 1, self._mark.end + len(payload), position))

    def close(self) -> None:
        """Close the files.

        Raises:
            OSError: the disk did not take what was appended; a network share may report that late.
        """
        segment_file, self._segment_file = self._segment_file, None
        mark_file, self._mark_file = self._mark_file, None
        times, self._times = self._times, None
        if times is not None:
            times.close()
        try:
            if segment_file is not None:
                os.close(segment_file)
        finally:
            if mark_file is not None:
                os.close(mark_file)

    def _write_mark(self, mark: Mark) -> None:
        assert self._mark_file is not None
        if os.pwrite(self._mark_file, mark.to_bytes(), self._place * MARK_BYTES) < MARK_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._mark = mark
        self._place = 1 - self._place

    def _keep_marks(self, whole: Sequence[Mark]) -> None:
        """Copy the previous leader's marks into this leader's file, until the slot's output is resumed."""
        if self.lost_bytes:
            for mark in whole:
                self._write_mark(mark)
            # in memory, the log is as long as what is left of it; and the newest mark is not overwritten next
            self._mark, self._place = Mark(whole[0].number, whole[0].end - self.lost_bytes, whole[0].position), 1
        elif not self._has_no_mark or not self._mark.end:
            self._write_mark(self._mark)

    def _files(self) -> list[tuple[Path, int]]:
        files = files_of(self._log)
        newest = max(marks(self._log, files), default=0)
        if newest > self._epoch:
            raise LogTakenError(f"{self._log} is written by the leader of epoch {newest}")
        return files

    def _begin_segment(self) -> None:
        files = self._files()
        full, self._segment_file = self._segment_file, None
        if full is not None:
            os.close(full)
        if self._times is not None:
            self._times.close()
        path = segment_path(self._log, self._epoch, self._mark.end)
        self._segment_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._start = self._mark.end
        self._times = TimesWriter(path, is_new=True)
        with suppress(OSError):
            for segment in segments(self._log, files):
                if segment.end <= self._start - self._max_segment_bytes:
                    segment.path.unlink(missing_ok=True)
                    times_path(segment.path).unlink(missing_ok=True)


def _position_at(end: int, newest: Sequence[Mark]) -> int:
    """Return how many bytes of the slot's output are in a log whose end does not match its last marks.

    Args:
        end: of what is left of the log, at most that of the newest mark.
        newest: the newest mark and, if it is known, the one before it.
    """
    if not newest:
        return 0
    last = newest[0]
    if len(newest) == 1 or end == last.end:
        return max(0, last.position - (last.end - end))
    before = newest[1]
    # between the two is a single append: of the slot's output, or of a note, which holds none of it
    return max(0, min(last.position, before.position + end - before.end))
