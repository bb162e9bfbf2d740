"""Files of what slots print: in order, acknowledged when written, capped."""

from __future__ import annotations

import errno
import io
import threading
from pathlib import Path

from pytest_django import Settings

from backend.cluster.job_logs import JobLogs, SlotLogWriter, copy_logs_of_home, job_log_directory
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.status import ExceptionEntry
from runtime.task.messages import FailureInfo
from tests.support.waiting import wait_until


def deliver(logs: JobLogs, channel: str, text: str, slot: int = 0, attempt: int = 0) -> int:
    """Deliver and wait for the acknowledgement."""
    taken, sizes = threading.Event(), []

    def acknowledge(size: int) -> None:
        sizes.append(size)
        taken.set()

    logs.deliver(SlotId(slot), Attempt(attempt), channel, text.encode(), acknowledge)
    assert taken.wait(5)
    return sizes[0]


def test_stdout_and_log_of_each_slot_and_attempt_have_a_file_of_their_own(tmp_path: Path) -> None:
    writer = SlotLogWriter()
    logs = JobLogs(writer, tmp_path)
    assert deliver(logs, "stdout", "one\n") == 4
    deliver(logs, "stdout", "two\n")
    deliver(logs, "log", "warned\n", slot=1, attempt=2)
    logs.close()
    writer.close()
    assert (tmp_path / "attempt-0/slot-0.out").read_text() == "one\ntwo\n"
    assert (tmp_path / "attempt-2/slot-1.log").read_text() == "warned\n"


def test_failures_stand_in_the_log_of_their_slot_once(tmp_path: Path) -> None:
    writer = SlotLogWriter()
    logs = JobLogs(writer, tmp_path)
    bad = FailureInfo("task map (1/2): ValueError: bad", "Traceback\nValueError: bad", slot=SlotId(1))
    first = ExceptionEntry(Attempt(0), 250.0, bad, ())
    symptom = ExceptionEntry(Attempt(3), 900.0, FailureInfo("connection broken"), ())
    logs.note_failures([first], 1_000_000.0)
    logs.note_failures([first, symptom], 1_000_000.0)
    logs.close()
    writer.close()
    [line, *trace] = (tmp_path / "attempt-0/slot-1.log").read_text().splitlines()
    assert line.endswith(",250 ERROR job - attempt 0 failed: task map (1/2): ValueError: bad")
    assert trace == ["Traceback", "ValueError: bad"]
    assert "attempt 3 failed: connection broken" in (tmp_path / "attempt-3/slot-0.log").read_text()


def test_a_job_that_fails_for_ever_has_its_newest_failures_remembered_only(tmp_path: Path) -> None:
    writer = SlotLogWriter()
    logs = JobLogs(writer, tmp_path)
    failures = [ExceptionEntry(Attempt(n), float(n), FailureInfo("bad"), ()) for n in range(100)]
    for end in range(1, 101):
        logs.note_failures(failures[max(0, end - 16) : end], 0.0)
    logs.close()
    writer.close()
    assert len(logs._failures) == 16
    assert all(path.read_text().count("bad") == 1 for path in tmp_path.rglob("*.log"))


def test_a_file_over_its_cap_is_moved_aside_once(tmp_path: Path) -> None:
    writer = SlotLogWriter(max_file_bytes=10)
    logs = JobLogs(writer, tmp_path)
    for text in ("aaaaaaaa\n", "bbbbbbbb\n", "cccccccc\n"):
        deliver(logs, "stdout", text)
    writer.close()
    assert (tmp_path / "attempt-0/slot-0.out").read_text() == "cccccccc\n"
    assert (tmp_path / "attempt-0/slot-0.out.1").read_text() == "bbbbbbbb\n"


def test_a_collect_sinks_output_does_not_hold_the_job_up(tmp_path: Path) -> None:
    writer = SlotLogWriter()
    assert deliver(JobLogs(writer, tmp_path), "collect:1", "data") == 4
    writer.close()
    assert not list(tmp_path.iterdir())


class SlowWriter(SlotLogWriter):
    """Its disk answers nothing until it is told to."""

    def __init__(self, max_buffer_bytes: int) -> None:
        self.answers = threading.Event()
        super().__init__(patience_s=0.1, max_buffer_bytes=max_buffer_bytes)

    def _append(self, path: Path, payload: bytes) -> None:
        assert self.answers.wait(10)
        super()._append(path, payload)


def test_a_disk_that_does_not_answer_holds_up_no_job_and_the_log_tells_what_is_missing(tmp_path: Path) -> None:
    writer = SlowWriter(max_buffer_bytes=100)
    logs = JobLogs(writer, tmp_path)
    # each is acknowledged, whether it waits or is dropped
    for n in range(25):
        assert deliver(logs, "stdout", f"line {n:03}\n") == 9
    writer.answers.set()
    logs.close()
    # a writer that is closed waits for no disk
    path = tmp_path / "attempt-0/slot-0.out"
    wait_until(lambda: path.exists() and path.read_text().endswith("written]\n"), 10, "the last line")
    writer.close()
    lines = (tmp_path / "attempt-0/slot-0.out").read_text().splitlines()
    missing = "[14 lines are missing: the storage of logs could not be written]"
    assert lines == [*(f"line {n:03}" for n in range(11)), missing]


def test_a_disk_that_works_again_is_told_what_it_refused(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").write_text("a file where the directory should be")
    writer = SlotLogWriter()
    logs = JobLogs(writer, tmp_path)
    deliver(logs, "stdout", "lost\nlost\n")
    (tmp_path / "attempt-0").unlink()
    deliver(logs, "stdout", "kept\n")
    logs.close()
    writer.close()
    lines = (tmp_path / "attempt-0/slot-0.out").read_text().splitlines()
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


def test_a_disk_that_refuses_does_not_hold_the_job_up(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").write_text("a file where the directory should be")
    writer = SlotLogWriter()
    assert deliver(JobLogs(writer, tmp_path), "stdout", "lost\n") == 5
    writer.close()


class SlowCloser(SlotLogWriter):
    """Its disk answers nothing when a job's files are closed, as a network share does that has gone away."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        super().__init__(patience_s=0.1)

    def _tell_missing(self, directory: Path) -> None:
        assert self.answers.wait(30)
        super()._tell_missing(directory)


def test_a_disk_that_does_not_close_the_files_of_a_job_holds_up_no_other_job(tmp_path: Path) -> None:
    writer = SlowCloser()
    JobLogs(writer, tmp_path / "ended").close()
    assert deliver(JobLogs(writer, tmp_path / "other"), "stdout", "line\n") == 5
    closing = threading.Thread(target=writer.close)
    closing.start()
    closing.join(5)
    is_closed = not closing.is_alive()
    writer.answers.set()
    closing.join(5)
    assert is_closed


def test_a_disk_that_is_full_when_a_file_is_closed_holds_up_no_job(tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def close(self) -> None:
            super().close()
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    writer = SlotLogWriter()
    writer._files[tmp_path / "ended" / "attempt-0" / "slot-0.out"] = Full()
    JobLogs(writer, tmp_path / "ended").close()
    assert deliver(JobLogs(writer, tmp_path / "other"), "stdout", "line\n") == 5
    writer.close()
    assert (tmp_path / "other" / "attempt-0" / "slot-0.out").read_text() == "line\n"
