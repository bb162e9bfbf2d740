"""Logs of slots on the disk: appends are all or nothing, whatever fails and whenever its writer is killed."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from backend.cluster.appended_log import AppendedLog, LogTakenError
from backend.cluster.log_segments import MARK_BYTES, Mark
from tests.cluster.log_reading import read_log
from tests.cluster.stack import ROOT

LIMIT = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "attempt-0" / "slot-0.out"


def append(log: AppendedLog, *texts: str) -> None:
    for text in texts:
        log.append(text.encode(), log.position + len(text.encode()))


@contextmanager
def opened(path: Path, epoch: int, max_bytes: int = LIMIT) -> Iterator[AppendedLog]:
    log = AppendedLog(path, epoch, max_bytes)
    try:
        yield log
    finally:
        log.close()


def go_on(path: Path, sent: str, acknowledged: int, epoch: int) -> None:
    """What another leader does: the slot sends again what is not acknowledged."""
    with opened(path, epoch) as log:
        assert log.position >= acknowledged
        append(log, sent[log.position :])


def test_a_log_is_continued_by_its_leader_and_by_the_next_one(path: Path) -> None:
    with opened(path, 1) as log:
        append(log, "one\n")
    with opened(path, 1) as log:
        assert log.position == 4
        append(log, "two\n")
    with opened(path, 4) as log:
        assert log.position == 8
        append(log, "three\n")
        log.append(b"[a note that the slot did not write]\n", log.position)
    with opened(path, 5) as log:
        assert log.position == 14
        append(log, "four\n")
    assert read_log(path) == "one\ntwo\nthree\n[a note that the slot did not write]\nfour\n"


def test_a_log_of_an_earlier_release_is_continued(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("older\n")
    with opened(path, 3) as log:
        append(log, "newer\n")
    assert read_log(path) == "older\nnewer\n"


def test_what_a_replaced_leader_writes_counts_for_nobody(path: Path) -> None:
    with opened(path, 1, max_bytes=8) as old:
        append(old, "one\n")
        with opened(path, 2) as new:
            append(new, "2\n")
            append(old, "two\n")
            with pytest.raises(LogTakenError):
                append(old, "three\n")
            append(new, "3\n")
        assert read_log(path) == "one\n2\n3\n"
    with opened(path, 3) as next_one:
        assert next_one.position == 8
    with pytest.raises(LogTakenError):
        AppendedLog(path, 2, LIMIT)


@pytest.mark.parametrize("torn", [1, 5, 9])
def test_an_append_that_was_torn_by_a_kill_is_repeated_as_a_whole(path: Path, torn: int) -> None:
    sent = "one\ntwo and three\n"
    with opened(path, 1) as log:
        append(log, sent[:4])
    [segment] = path.parent.glob("*.e1.0")
    with segment.open("ab") as file:
        file.write(sent[4 : 4 + torn].encode())
    go_on(path, sent, 4, epoch=1 if torn == 5 else 2)
    assert read_log(path) == sent


def test_a_torn_mark_is_as_if_it_had_not_been_written(path: Path) -> None:
    sent = "one\ntwo\nthree\n"
    with opened(path, 1) as log:
        append(log, "one\n", "two\n")
    [mark] = path.parent.glob("*.mark")
    for size in range(16):
        # the second place is next
        with mark.open("r+b") as file:
            file.seek(MARK_BYTES)
            file.write(Mark(3, 14, 14).to_bytes()[:size])
        with opened(path, 1) as log:
            assert log.position == 8
        # the first one's copy
        with mark.open("r+b") as file:
            file.write(b" " * MARK_BYTES)
            file.seek(0)
            file.write(Mark(2, 8, 8).to_bytes())
    go_on(path, sent, 8, epoch=2)
    assert read_log(path) == sent


def test_a_log_that_was_lost_with_its_machine_goes_on_where_it_ends(path: Path) -> None:
    with opened(path, 1) as log:
        append(log, "one\n", "two\n")
    [segment] = path.parent.glob("*.e1.0")
    os.truncate(segment, 6)
    for epoch, position, lost_bytes in ((1, 8, 2), (2, 10, 0)):
        with opened(path, epoch) as log:
            assert (log.position, log.lost_bytes) == (position, lost_bytes)
            append(log, f"{epoch}\n")
    assert read_log(path) == "one\ntw1\n2\n"


def failing(calls: list[int], n: int, real: Callable[..., Any], effect: str) -> Callable[..., Any]:
    def call(*given: Any, **how: Any) -> Any:
        calls[0] += 1
        if calls[0] != n:
            return real(*given, **how)
        if effect == "half" and real is os.pwrite:
            file, data, offset = given
            real(file, data[: len(data) // 2], offset)
        elif effect == "done" or real is os.close:
            done = real(*given, **how)
            if real is os.open:
                os.close(done)
        raise OSError(errno.EIO, "Input/output error")

    return call


@pytest.mark.parametrize("effect", ["nothing", "half", "done"])
@pytest.mark.parametrize("n", range(1, 33))
def test_whatever_call_fails_the_log_has_all_that_was_appended_once(
    path: Path, n: int, effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {number}\n" for number in range(5)]
    calls, epoch = [0], 1
    log: AppendedLog | None = None
    for name in ("open", "pwrite", "ftruncate", "close"):
        monkeypatch.setattr(f"backend.cluster.appended_log.os.{name}", failing(calls, n, getattr(os, name), effect))
    for line in lines:
        while True:
            position = len("".join(lines[: lines.index(line)]))
            try:
                if log is None:
                    # the same leader opens it again; every second one is another leader
                    epoch += n % 2
                    log = AppendedLog(path, epoch, max_segment_bytes=16)
                if log.position < position + len(line):
                    log.append(line.encode(), position + len(line))
                break
            except OSError:
                if log is not None:
                    with suppress(OSError):
                        log.close()
                    log = None
    assert calls[0] >= min(n, 15)
    if log is not None:
        with suppress(OSError):
            log.close()
    assert read_log(path).endswith("line 3\nline 4\n")
    assert "".join(lines).endswith(read_log(path))


def test_a_full_disk_takes_nothing_of_an_append(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path, 1) as log:
        append(log, "x" * 4_000 + "\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_100, hard))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    append(log, "y" * 200 + "\n")
            # there is room for less
            append(log, "z\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        append(log, "y" * 200 + "\n")
    assert read_log(path).split() == ["x" * 4_000, "z", "y" * 200]


KILLED = """
import sys
from pathlib import Path
from backend.cluster.appended_log import AppendedLog
path, epoch, sent = Path(sys.argv[1]), int(sys.argv[2]), "".join(f"line {n:06}\\n" for n in range(100_000)).encode()
log = AppendedLog(path, epoch, 1 << 20)
print(log.position, flush=True)
while True:
    log.append(sent[log.position : log.position + 36], log.position + 36)
"""


def test_writers_that_are_killed_one_after_the_other_leave_every_line_once(path: Path) -> None:
    for epoch in range(1, 6):
        command = [sys.executable, "-c", KILLED, str(path), str(epoch)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            before = int(writer.stdout.readline())
            while len(read_log(path)) < before + 2_000:
                pass
            writer.send_signal(signal.SIGKILL)
    with opened(path, 9) as log:
        position = log.position
        append(log, "the end\n")
    numbers = [int(line.removeprefix("line ")) for line in read_log(path).splitlines()[:-1]]
    assert numbers == list(range(position // 12))
    assert position >= 10_000
