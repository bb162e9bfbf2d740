"""Files of what slots print: in order, acknowledged when written, capped."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from backend.cluster.appended_log import AppendedLog
from backend.cluster.job_logs import JobLogs, SlotLogWriter, copy_logs_of_home, job_log_directory
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.status import ExceptionEntry
from runtime.task.log_records import head_of
from runtime.task.messages import FailureInfo
from tests.cluster.log_reading import read_log
from tests.support.waiting import wait_until


class Sender:
    """A slot that counts what it sends on each channel."""

    def __init__(self, logs: JobLogs, slot: int = 0, attempt: int = 0) -> None:
        self._logs = logs
        self._slot, self._attempt = SlotId(slot), Attempt(attempt)
        self._sent: dict[str, int] = {}

    def send(self, text: str, channel: str = "stdout", position: int | None = None) -> threading.Event:
        """Send; the event is set by the acknowledgement."""
        taken = threading.Event()
        payload = text.encode()
        position = self._sent.get(channel, 0) if position is None else position
        self._sent[channel] = position + len(payload)
        self._logs.deliver(self._slot, self._attempt, channel, position, payload, taken.set)
        return taken

    def deliver(self, text: str, channel: str = "stdout", position: int | None = None) -> None:
        """Send, and wait for the acknowledgement."""
        assert self.send(text, channel, position).wait(5)


def test_stdout_and_log_of_each_slot_and_attempt_have_a_file_of_their_own(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path)
    sender = Sender(logs)
    sender.deliver("one\n")
    sender.deliver("two\n")
    Sender(logs, slot=1, attempt=2).deliver("warned\n", "log")
    logs.close()
    writer.close()
    assert read_log(tmp_path / "attempt-0/slot-0.out") == "one\ntwo\n"
    assert read_log(tmp_path / "attempt-2/slot-1.log") == "warned\n"


def test_failures_stand_in_the_log_of_their_slot_once(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path)
    bad = FailureInfo("task map (1/2): ValueError: bad", "Traceback\nValueError: bad", slot=SlotId(1))
    first = ExceptionEntry(Attempt(0), 250.0, bad, ())
    symptom = ExceptionEntry(Attempt(3), 900.0, FailureInfo("connection broken"), ())
    logs.note_failures([first], 1_000_000.0)
    logs.note_failures([first, symptom], 1_000_000.0)
    logs.close()
    writer.close()
    [line, *trace] = read_log(tmp_path / "attempt-0/slot-1.log").splitlines()
    head, _, message = line.partition(" job - ")
    assert (message, head[-10:]) == ("attempt 0 failed: task map (1/2): ValueError: bad", " ERROR [-]")
    assert (told := head_of(line.encode())) is not None and told.time_ms == 1_000_250
    assert trace == ["Traceback", "ValueError: bad"]
    assert "attempt 3 failed: connection broken" in read_log(tmp_path / "attempt-3/slot-0.log")


def test_a_failure_that_utf_8_does_not_have_stands_in_the_log(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path)
    logs.note_failures([ExceptionEntry(Attempt(0), 0.0, FailureInfo("bad \ud800 record"), ())], 0.0)
    logs.close()
    writer.close()
    assert "bad \ufffd record" in read_log(tmp_path / "attempt-0/slot-0.log")


def test_a_job_that_fails_for_ever_has_its_newest_failures_remembered_only(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path)
    failures = [ExceptionEntry(Attempt(n), float(n), FailureInfo("bad"), ()) for n in range(100)]
    for end in range(1, 101):
        logs.note_failures(failures[max(0, end - 16) : end], 0.0)
    logs.close()
    writer.close()
    assert len(logs._failures) == 16
    assert all(read_log(tmp_path / f"attempt-{n}/slot-0.log").count("bad") == 1 for n in range(100))


def test_a_log_over_its_cap_loses_its_oldest_files(tmp_path: Path) -> None:
    writer = SlotLogWriter(1, max_segment_bytes=10)
    sender = Sender(JobLogs(writer, tmp_path))
    for text in ("aaaaaaaa\n", "bbbbbbbb\n", "cccccccc\n", "dddddddd\n"):
        sender.deliver(text)
    writer.close()
    assert read_log(tmp_path / "attempt-0/slot-0.out") == "bbbbbbbb\ncccccccc\ndddddddd\n"
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.out.*") if path.suffix not in (".mark", ".times")]
    assert sizes == [9, 9, 9]


def test_a_collect_sinks_output_does_not_hold_the_job_up(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    Sender(JobLogs(writer, tmp_path)).deliver("data", "collect:1")
    writer.close()
    assert not list(tmp_path.iterdir())


class SlowWriter(SlotLogWriter):
    """Its disk answers nothing until it is told to."""

    def __init__(self, max_buffer_bytes: int, patience_s: float = 0.1) -> None:
        self.answers = threading.Event()
        super().__init__(1, patience_s=patience_s, max_buffer_bytes=max_buffer_bytes)

    def _append(self, log: AppendedLog, payload: bytes, position: int) -> None:
        assert self.answers.wait(10)
        super()._append(log, payload, position)


def test_a_disk_that_does_not_answer_holds_up_no_job_and_the_log_tells_what_is_missing(tmp_path: Path) -> None:
    writer = SlowWriter(max_buffer_bytes=100)
    logs = JobLogs(writer, tmp_path)
    # each is acknowledged, whether it waits or is dropped
    sender = Sender(logs)
    for n in range(25):
        sender.deliver(f"line {n:03}\n")
    writer.answers.set()
    logs.close()
    # a writer that is closed waits for no disk
    path = tmp_path / "attempt-0/slot-0.out"
    wait_until(lambda: read_log(path).endswith("written]\n"), 10, "the last line")
    writer.close()
    lines = read_log(path).splitlines()
    missing = "[14 lines are missing: the storage of logs could not be written]"
    assert lines == [*(f"line {n:03}" for n in range(11)), missing]


def test_what_was_dropped_right_before_the_failure_of_the_job_is_told(tmp_path: Path) -> None:
    writer = SlowWriter(max_buffer_bytes=100, patience_s=60)
    logs = JobLogs(writer, tmp_path)
    sender, other = Sender(logs), Sender(logs, slot=1)
    first = other.send("x" * 90 + "\n", "log")
    dropped = sender.send("dropped, dropped\n" * 2, "log")
    assert dropped.wait(5)
    writer.answers.set()
    assert first.wait(5)
    logs.note_failures([ExceptionEntry(Attempt(0), 0.0, FailureInfo("bad", slot=SlotId(0)), ())], 0.0)
    logs.close()
    writer.close()
    text = read_log(tmp_path / "attempt-0/slot-0.log")
    assert "failed: bad\n" in text
    assert text.count("[2 lines are missing: the storage of logs could not be written]\n") == 1


def test_a_disk_that_works_again_is_told_what_it_refused(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").write_text("a file where the directory should be")
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path)
    sender = Sender(logs)
    sender.deliver("lost\nlost\n")
    (tmp_path / "attempt-0").unlink()
    sender.deliver("kept\n")
    logs.close()
    writer.close()
    lines = read_log(tmp_path / "attempt-0/slot-0.out").splitlines()
    assert lines == ["[2 lines are missing: the storage of logs could not be written]", "kept"]


def test_logs_are_in_a_storage_that_is_a_directory_and_those_of_a_home_are_copied_there(
    tmp_path: Path, settings: Settings
) -> None:
    settings.TIDEMARK_HOME = tmp_path / "home"
    old = tmp_path / "home" / "logs" / "jobs" / "a" / "attempt-0" / "slot-0.out"
    old.parent.mkdir(parents=True)
    old.write_text("printed\n")
    settings.TIDEMARK_STORAGE_DIR = "s3://bucket/tidemark"
    assert job_log_directory("a") == old.parent.parent
    settings.TIDEMARK_STORAGE_DIR = str(tmp_path / "storage")
    for _ in range(2):
        copy_logs_of_home()
        copied = job_log_directory("a") / "attempt-0" / "slot-0.out"
        assert copied.is_relative_to(tmp_path / "storage") and copied.read_text() == "printed\n"
    assert [path.name for path in job_log_directory("a").parent.iterdir()] == ["a"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_logs_that_two_processes_copy_at_once_are_copied_whole(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    settings.TIDEMARK_HOME, settings.TIDEMARK_STORAGE_DIR = tmp_path / "home", str(tmp_path / "storage")
    for job in "abc":
        for slot in range(3):
            old = tmp_path / "home" / "logs" / "jobs" / job / "attempt-0" / f"slot-{slot}.out"
            old.parent.mkdir(parents=True, exist_ok=True)
            old.write_text(f"{job} {slot}\n")
    directory = job_log_directory("a").parent
    (directory / ".a.killed").mkdir(parents=True)
    real = shutil.copytree

    def copytree(source: Path, draft: Path, **how: Any) -> None:
        monkeypatch.setattr(shutil, "copytree", real)
        if when == "after":
            real(source, draft, **how)
        # the other process comes, does all of it, and leaves
        copy_logs_of_home()
        if when == "before":
            real(source, draft, **how)

    monkeypatch.setattr(shutil, "copytree", copytree)
    copy_logs_of_home()
    assert sorted(path.name for path in directory.iterdir()) == ["a", "b", "c"]
    for job in "abc":
        for slot in range(3):
            assert (directory / job / "attempt-0" / f"slot-{slot}.out").read_text() == f"{job} {slot}\n"


def test_a_disk_that_refuses_does_not_hold_the_job_up(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").write_text("a file where the directory should be")
    writer = SlotLogWriter(1)
    Sender(JobLogs(writer, tmp_path)).deliver("lost\n")
    writer.close()


class SlowCloser(SlotLogWriter):
    """Its disk answers nothing when a job's files are closed, as a network share does that has gone away."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        super().__init__(1, patience_s=0.1)

    def _tell_missing(self, directory: Path) -> None:
        assert self.answers.wait(30)
        super()._tell_missing(directory)


def test_a_disk_that_does_not_close_the_files_of_a_job_holds_up_no_other_job(tmp_path: Path) -> None:
    writer = SlowCloser()
    JobLogs(writer, tmp_path / "ended").close()
    Sender(JobLogs(writer, tmp_path / "other")).deliver("line\n")
    closing = threading.Thread(target=writer.close)
    closing.start()
    closing.join(5)
    is_closed = not closing.is_alive()
    writer.answers.set()
    closing.join(5)
    assert is_closed


def test_a_disk_that_is_full_when_a_file_is_closed_holds_up_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.close

    def close(file: int) -> None:
        real(file)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    writer = SlotLogWriter(1)
    ended = JobLogs(writer, tmp_path / "ended")
    Sender(ended).deliver("line\n")
    with monkeypatch.context() as patched:
        patched.setattr("backend.cluster.appended_log.os.close", close)
        ended.close()
        Sender(JobLogs(writer, tmp_path / "other")).deliver("line\n")
    writer.close()
    assert read_log(tmp_path / "other/attempt-0/slot-0.out") == "line\n"


# --- another leader ---------------------------------------------------------------------------------------------------


def test_what_is_sent_again_to_another_leader_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "attempt-0/slot-0.out"
    old, new = SlotLogWriter(1), SlotLogWriter(2)
    sender = Sender(JobLogs(old, tmp_path))
    for line in ("one\n", "two\n", "three\n"):
        sender.deliver(line)
    # the acknowledgements of the last two were lost; a slot may also join what it sends in another way
    sender = Sender(JobLogs(new, tmp_path))
    sender.deliver("two\n", position=4)
    sender.deliver("three\nfour\n")
    sender.deliver("five\n")
    # the old leader thaws in the midst of a write
    Sender(JobLogs(old, tmp_path)).deliver("four\nother\n", position=14)
    sender.deliver("six\n")
    old.close()
    new.close()
    assert read_log(path).split() == ["one", "two", "three", "four", "five", "six"]
    assert [file.name for file in sorted(path.parent.iterdir())] == [
        "slot-0.out.e1.0",
        "slot-0.out.e1.0.times",
        "slot-0.out.e2.14",
        "slot-0.out.e2.14.times",
        "slot-0.out.e2.mark",
    ]


def test_a_leader_that_was_replaced_cannot_open_a_log_again(tmp_path: Path) -> None:
    new, old = SlotLogWriter(2), SlotLogWriter(1)
    Sender(JobLogs(new, tmp_path)).deliver("one\n")
    # it is not held up, and whoever has the slot has its output
    Sender(JobLogs(old, tmp_path)).deliver("two\n", position=4)
    new.close()
    old.close()
    assert read_log(tmp_path / "attempt-0/slot-0.out") == "one\n"


def test_output_that_its_leader_had_acknowledged_and_not_written_is_told_to_be_missing(tmp_path: Path) -> None:
    old = SlowWriter(max_buffer_bytes=100)
    sender = Sender(JobLogs(old, tmp_path))
    sender.deliver("lost with its leader\n")
    new = SlotLogWriter(2)
    sender = Sender(JobLogs(new, tmp_path))
    for _ in range(2):
        sender.deliver("kept\n", position=21)
    new.close()
    lines = read_log(tmp_path / "attempt-0/slot-0.out").splitlines()
    assert lines == ["[21 bytes are missing: the storage of logs could not be written]", "kept"]
    old.answers.set()
    old.close()


def without_its_end(log: Path, marks: bytes) -> None:
    os.truncate(log.with_name(f"{log.name}.e1.0"), 10)


def without_its_marks(log: Path, marks: bytes) -> None:
    log.with_name(f"{log.name}.e1.mark").unlink()


def with_empty_marks(log: Path, marks: bytes) -> None:
    os.truncate(log.with_name(f"{log.name}.e1.mark"), 0)


def with_marks_of_before(log: Path, marks: bytes) -> None:
    log.with_name(f"{log.name}.e1.mark").write_bytes(marks)


def missing(size: int) -> str:
    return f"[{size} bytes are missing: the storage of logs could not be written]"


POWER_LOSSES = [
    pytest.param(without_its_end, 8, ["line 1", "line 2", "line 3", "next"], id="the end, which comes again"),
    pytest.param(
        without_its_end, 14, ["line 1", "lin" + missing(4), "line 3", "next"], id="the end, of which a part comes"
    ),
    pytest.param(without_its_end, 21, ["line 1", "lin" + missing(11), "next"], id="the end, which is acknowledged"),
    pytest.param(without_its_marks, 21, ["line 1", "line 2", "line 3", "next"], id="all marks"),
    pytest.param(with_empty_marks, 21, ["line 1", "line 2", "line 3", "next"], id="what is in the marks"),
    pytest.param(with_marks_of_before, 21, ["line 1", "line 2", "line 3", "next"], id="the last marks"),
    pytest.param(with_marks_of_before, 14, ["line 1", "line 2", "line 3", "next"], id="the last marks, and an answer"),
    pytest.param(with_marks_of_before, 7, ["line 1", "line 2", "line 3", "next"], id="the last marks, and all answers"),
]


@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize(("power_is_lost", "acknowledged", "lines"), POWER_LOSSES)
def test_only_what_is_missing_is_told_after_a_power_loss(
    power_is_lost: Callable[[Path, bytes], None], acknowledged: int, lines: list[str], leaders: int, tmp_path: Path
) -> None:
    path = tmp_path / "attempt-0" / "slot-0.out"
    sent = "line 1\nline 2\nline 3\n"
    acknowledged = min(acknowledged, len(sent))
    first = SlotLogWriter(1)
    sender = Sender(JobLogs(first, tmp_path))
    sender.deliver("line 1\n")
    marks = path.with_name("slot-0.out.e1.mark").read_bytes()
    sender.deliver("line 2\n")
    sender.deliver("line 3\n")
    first.close()
    power_is_lost(path, marks)
    for epoch in range(2, 1 + leaders):
        # it is killed before the slot sends anything
        AppendedLog(path, epoch, 1 << 20).close()
    second = SlotLogWriter(1 + leaders)
    sender = Sender(JobLogs(second, tmp_path))
    sender.deliver(sent[acknowledged:] + "next\n", position=acknowledged)
    second.close()
    assert read_log(path).splitlines() == lines


def test_what_was_lost_with_its_machine_and_never_comes_again_is_told_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "attempt-0" / "slot-0.log"
    first = SlotLogWriter(1)
    Sender(JobLogs(first, tmp_path)).deliver("line 1\nline 2\n", "log")
    first.close()
    os.truncate(path.with_name("slot-0.log.e1.0"), 7)
    second = SlotLogWriter(2)
    logs = JobLogs(second, tmp_path)
    second.put(path, b"a note\n", None, lambda: None)
    logs.close()
    second.close()
    assert read_log(path).splitlines() == ["line 1", "a note", missing(7)]


def test_nothing_that_waits_is_acknowledged_with_what_was_dropped_behind_it(tmp_path: Path) -> None:
    writer = SlowWriter(max_buffer_bytes=10, patience_s=60)
    sender = Sender(JobLogs(writer, tmp_path))
    waiting = sender.send("it waits\n")
    dropped = [sender.send("dropped\n") for _ in range(3_000)]
    logs = JobLogs(writer, tmp_path)
    assert not waiting.is_set() and not any(event.is_set() for event in dropped)
    assert not logs.are_written
    writer.answers.set()
    assert waiting.wait(5) and all(event.wait(5) for event in dropped)
    assert logs.are_written
    sender.deliver("kept\n")
    writer.close()
    lines = read_log(tmp_path / "attempt-0/slot-0.out").splitlines()
    assert lines == [
        "it waits",
        "[3000 lines are missing: the storage of logs could not be written]",
        "kept",
    ]
