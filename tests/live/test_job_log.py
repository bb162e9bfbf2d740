"""The logs of a job as one: by time, from either end, a part at a time, whatever its files look like."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cluster.appended_log import AppendedLog
from backend.cluster.log_segments import files_of, segments
from backend.cluster.log_times import INTERVAL_MS, TimesWriter, read_times, time_at, times_at, times_path
from backend.live.job_log import (
    MAX_CURSOR_CHARS,
    MAX_LOGS,
    CursorError,
    FoundEntries,
    LogCursor,
    lowered_texts,
    search_job_log,
)
from backend.live.log_scan import (
    FIRST_BLOCK_BYTES,
    MAX_BLOCK_BYTES,
    MAX_READY,
    BlockBuffer,
    Entry,
    LogScan,
    Wanted,
)
from backend.live.logs import LogFile
from runtime.core.ids import TaskId, VertexId
from runtime.task.log_records import record_text, written_levels

NOW_MS = 1_800_000_000_000
EVERYTHING = Wanted()
MAP, SINK = VertexId("a" * 32), VertexId("b" * 32)


def record(at_ms: int, text: str, level: int = logging.INFO, task: TaskId | None = None) -> str:
    return record_text(at_ms / 1000, level, task, f"demo - {text}") + "\n"


class Job:
    """Logs of a job in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._logs: dict[str, tuple[int, int, str]] = {}

    def path(self, attempt: int, slot: int, kind: str) -> Path:
        name = f"attempt-{attempt}/slot-{slot}.{kind}"
        self._logs[name] = (attempt, slot, kind)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, text: str | bytes, attempt: int = 0, slot: int = 0, kind: str = "log", at_ms: int = NOW_MS) -> Path:
        """Have a log that a leader has written at once, at a time."""
        path = self.path(attempt, slot, kind)
        file = path.with_name(f"{path.name}.e1.0")
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(file, (at_ms / 1000, at_ms / 1000))
        return file

    @property
    def files(self) -> list[LogFile]:
        made = []
        for name, (attempt, slot, kind) in self._logs.items():
            sizes = files_of(self.root / name)
            if not (parts := segments(self.root / name, sizes)):
                continue
            mtime = max(part.path.stat().st_mtime_ns for part in parts) // 1_000_000
            made.append(LogFile(name, attempt, slot, kind, parts[-1].end - parts[0].start, mtime, parts))
        return sorted(made, key=lambda file: (-file.attempt, file.slot, file.kind))

    def search(self, wanted: Wanted = EVERYTHING, *, newest: bool = True, **options: Any) -> FoundEntries:
        return search_job_log(self.files, wanted, is_backward=newest, now_ms=NOW_MS + 60_000, **options)

    def all(self, wanted: Wanted = EVERYTHING, *, newest: bool = True, limit: int = 200) -> list[Entry]:
        """What all requests find that follow each other."""
        entries: list[Entry] = []
        cursor = None
        for _ in range(10_000):
            found = self.search(wanted, newest=newest, cursor=cursor, limit=limit)
            entries += found.entries
            if found.is_complete:
                assert found.left_bytes == 0
                return entries
            assert found.cursor is not None
            cursor = LogCursor.of(str(found.cursor))
        raise AssertionError("it never ends")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def texts(entries: Iterable[Entry]) -> list[str]:
    return [entry.data.decode(errors="replace").partition(" - ")[2].rstrip("\n") for entry in entries]


def of_text(query: str) -> Wanted:
    return Wanted(lowered_texts(query))


def test_the_logs_of_all_slots_and_attempts_are_one_by_time(job: Job) -> None:
    job.write(record(1_000, "a") + record(4_000, "d"), slot=0)
    job.write(record(2_000, "b\nmore of it") + record(5_000, "e"), slot=1)
    job.write(record(3_000, "c") + record(9_000, "f"), attempt=1, slot=0)
    assert texts(job.all()) == ["f", "e", "d", "c", "b\nmore of it", "a"]
    assert texts(job.all(newest=False)) == ["a", "b\nmore of it", "c", "d", "e", "f"]
    assert texts(job.all(limit=1)) == ["f", "e", "d", "c", "b\nmore of it", "a"]


def test_level_vertex_and_time_are_those_of_the_record_and_not_of_its_text(job: Job) -> None:
    job.write(
        record(1_000, "a", logging.WARNING, TaskId(MAP, 0))
        + record(2_000, " ERROR  [bbbbbbbbbbbb#1] b")
        + record(3_000, "c", logging.ERROR, TaskId(SINK, 1))
        + record(4_000, "d", logging.CRITICAL)
    )
    errors = Wanted(levels=frozenset(level.encode() for level in written_levels("ERROR")))
    assert texts(job.all(errors)) == ["d", "c"]
    found = job.all(Wanted(vertex=b"b" * 12))
    assert [(entry.head.vertex, entry.head.subtask, entry.time_ms) for entry in found if entry.head] == [
        ("b" * 12, 1, 3_000)
    ]
    assert texts(job.all(Wanted(since_ms=2_001), newest=False)) == ["c", "d"]
    assert texts(job.all(Wanted(since_ms=2_001))) == ["d", "c"]


def test_a_text_is_found_in_any_line_of_a_record_and_in_any_case(job: Job) -> None:
    job.write(record(1_000, "a\nTraceback\nValueError: Größe") + record(2_000, "b"))
    assert texts(job.all(of_text("valueERROR: GRÖßE"))) == ["a\nTraceback\nValueError: Größe"]
    assert job.all(of_text("nowhere")) == []


def test_what_was_printed_is_merged_by_when_it_arrived(job: Job) -> None:
    path = job.path(0, 0, "out")
    log = AppendedLog(path, 1, 1 << 20)
    log.append(b"printed\n", 8)
    log.close()
    [stamp] = read_times(job.files[0].segments[0])
    at_ms = int(stamp[1])
    job.write(record(at_ms - 5_000, "before") + record(at_ms + 5_000, "after"), slot=1, at_ms=at_ms + 5_000)
    found = search_job_log(job.files, Wanted(), is_backward=False, now_ms=at_ms + 60_000).entries
    assert [entry.data.rstrip()[-7:] for entry in found] == [b" before", b"printed", b"- after"]
    assert found[1].time_ms == at_ms and found[1].head is None


def test_a_follower_sees_each_line_once_and_new_logs_from_their_begin(job: Job) -> None:
    path = job.path(0, 0, "log")
    log = AppendedLog(path, 1, 200)
    sent = 0

    def append(text: str) -> None:
        nonlocal sent
        sent += len(text.encode())
        log.append(text.encode(), sent)

    append(record(1_000, "a"))
    cursor = job.search().follow
    seen: list[list[str]] = []
    for number in range(4):
        append(record(2_000 + number, f"b{number} {'x' * 90}"))
        if number == 2:
            job.write(record(3_000, "another attempt"), attempt=1)
        found = job.search(newest=False, cursor=cursor)
        assert found.is_complete and found.cursor is not None
        cursor = LogCursor.of(str(found.cursor))
        seen.append([text.rstrip("x ") for text in texts(found.entries)])
    log.close()
    assert seen == [["b0"], ["b1"], ["b2", "another attempt"], ["b3"]]
    # while the oldest of it was deleted
    assert job.files[-1].segments[0].start > 0


def test_a_line_that_is_still_being_written_waits_for_its_end(job: Job) -> None:
    file = job.write(record(1_000, "whole") + "2026-07-", at_ms=NOW_MS + 59_000)
    found = job.search(newest=False)
    assert texts(found.entries) == ["whole"] and found.cursor is not None
    with file.open("ab") as growing:
        growing.write(b"01 12:00:00,000+00:00 INFO  [-] demo - late\n")
    assert texts(job.search(newest=False, cursor=found.cursor).entries) == ["late"]
    file.write_text(record(1_000, "whole").rstrip("\n"))
    os.utime(file, (NOW_MS / 1000, NOW_MS / 1000))
    # nobody has written it for a minute: it gets no end any more
    assert texts(job.search().entries) == ["whole"]


def test_a_request_searches_so_many_bytes_and_says_how_far_it_came(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 8 * MAX_BLOCK_BYTES
    monkeypatch.setattr("backend.live.job_log.MAX_SEARCHED_BYTES", limit)
    line = record(1_000, "x" * 900)
    filler = line * (limit // len(line) + 4_000)
    job.write(record(500, "needle") + filler)
    found = job.search(of_text("needle"))
    assert found.entries == [] and not found.is_complete and found.searched_to == 1_000
    assert limit <= found.size - found.left_bytes <= limit + MAX_BLOCK_BYTES
    again = job.search(of_text("needle"), cursor=found.cursor)
    assert texts(again.entries) == ["needle"] and again.is_complete and again.cursor is None


@pytest.mark.parametrize("newest", [True, False])
def test_requests_get_on_although_each_has_time_for_one_log_only(job: Job, newest: bool) -> None:
    for slot in range(20):
        job.write(record(1_000, f"{slot}") * 2, slot=slot)
    found, cursor = [], None
    for _ in range(40):
        seconds = count(0, 3)
        answer = job.search(newest=newest, cursor=cursor, monotonic=lambda of=seconds: next(of))
        found += texts(answer.entries)
        if answer.is_complete:
            break
        cursor = answer.cursor
    assert sorted(found) == sorted(2 * [f"{slot}" for slot in range(20)])


@pytest.mark.parametrize("newest", [True, False])
def test_a_long_record_is_one_whatever_its_block(job: Job, newest: bool) -> None:
    frames = "frame\n" * (2 * FIRST_BLOCK_BYTES // 6)
    job.write(record(1_000, "a") + record(2_000, f"b\n{frames}needle", logging.ERROR) + record(3_000, "c"))
    assert len(job.all(newest=newest)) == 3
    errors = Wanted(lowered_texts("needle"), frozenset([b"ERROR"]))
    [found] = job.all(errors, newest=newest)
    assert found.time_ms == 2_000 and len(found.data) > 2 * FIRST_BLOCK_BYTES
    job.write(f"bare {'x' * 100}\n" * 5_000, slot=1)
    assert len(job.all(newest=newest, limit=1_000)) == 5_003


@pytest.mark.parametrize("newest", [True, False])
def test_few_entries_are_held_of_each_log(job: Job, newest: bool) -> None:
    job.write("\n" * FIRST_BLOCK_BYTES, kind="out")
    found = job.search(newest=newest, limit=10)
    assert len(found.entries) == 10 and found.left_bytes == FIRST_BLOCK_BYTES - 10
    [file] = job.files
    scan = LogScan(file, file.size, Wanted(), is_backward=newest)
    scan.scan()
    offsets = []
    while scan.has_ready:
        offsets.append(scan.take().offset)
    assert len(offsets) == MAX_READY
    assert offsets == sorted(offsets, reverse=newest) and scan.left_bytes == FIRST_BLOCK_BYTES - MAX_READY


def test_what_comes_between_two_pages_is_found_by_the_follower_only(job: Job) -> None:
    quiet = job.write(record(1_000, "quiet"), at_ms=NOW_MS - 3_600_000)
    job.write(record(5_000, "a") + record(6_000, "b"), slot=1)
    first = job.search(limit=1)
    assert texts(first.entries) == ["b"]
    quiet.write_text(record(1_000, "quiet") + record(7_000, "awake"))
    job.write(record(8_000, "new"), attempt=1)
    assert texts(job.search(cursor=first.cursor).entries) == ["a", "quiet"]
    assert texts(job.search(newest=False, cursor=first.follow).entries) == ["awake", "new"]


def test_what_a_lost_leader_had_written_is_not_followed_twice(job: Job) -> None:
    kept, again = record(1_000, "a"), record(2_000, "b")
    job.write(kept + again)
    cursor = job.search(newest=False).cursor
    job.write(kept)
    shorter = job.search(newest=False, cursor=cursor)
    assert shorter.entries == [] and shorter.is_complete and shorter.left_bytes == 0
    job.write(kept + again + record(3_000, "c"))
    assert texts(job.search(newest=False, cursor=shorter.cursor).entries) == ["c"]


@pytest.mark.parametrize("newest", [True, False])
def test_a_time_that_is_far_off_hides_nothing_that_arrived_in_time(job: Job, newest: bool) -> None:
    filler = record(NOW_MS, "x" * 1_000) * (2 * FIRST_BLOCK_BYTES // 1_000)
    file = job.write(record(NOW_MS, "wanted") + filler + record(1, "of 1970") + filler)
    writer = TimesWriter(file, is_new=True)
    writer.note(0, NOW_MS - 10)
    writer.note(100, NOW_MS)
    writer.close()
    found = texts(job.all(Wanted(since_ms=NOW_MS - 1_000), newest=newest))
    assert found.count("wanted") == 1 and "of 1970" not in found


def test_a_leader_whose_clock_is_set_back_hides_nothing(job: Job) -> None:
    lines = [record(NOW_MS, f"{number}") for number in range(3)]
    file = job.write("".join(lines))
    writer = TimesWriter(file, is_new=True)
    for number, at_ms in enumerate((NOW_MS - 9_000_000, NOW_MS, NOW_MS - 5_000_000)):
        writer.note(sum(map(len, lines[:number])), at_ms)
    writer.close()
    assert texts(job.all(Wanted(since_ms=NOW_MS - 1_000), newest=False)) == ["0", "1", "2"]


def test_only_the_stamps_of_a_part_are_read(tmp_path: Path) -> None:
    path = tmp_path / "slot-0.out.e1.0"
    path.write_bytes(b"x" * 1_000)
    writer = TimesWriter(path, is_new=True)
    for number in range(100):
        writer.note(10 * number, 5_000 + number * INTERVAL_MS)
    writer.close()
    [segment] = segments(tmp_path / "slot-0.out", files_of(tmp_path / "slot-0.out"))
    whole = read_times(segment)
    for begin in range(0, 1_000, 7):
        part = read_times(segment, begin, begin + 25)
        assert len(part) <= 4
        assert times_at(part, range(begin, min(1_000, begin + 25))) == times_at(
            whole, range(begin, min(1_000, begin + 25))
        )


def test_a_slow_storage_ends_a_request_in_time(job: Job) -> None:
    job.write(record(1_000, "x" * 900) * 1_000)
    seconds = count(0, 3)
    found = job.search(of_text("needle"), monotonic=lambda: next(seconds))
    assert not found.is_complete and 0 < found.left_bytes < found.size


@pytest.mark.parametrize("newest", [True, False])
def test_files_that_vanish_or_shrink_meanwhile_are_passed_over(job: Job, newest: bool) -> None:
    kept = job.write(record(1_000, "kept"), slot=0)
    gone = job.write(record(2_000, "gone"), slot=1)
    shrunk = job.write(record(3_000, "shrunk") * 10, slot=2)
    files = job.files
    gone.unlink()
    shrunk.write_bytes(shrunk.read_bytes()[:100])
    found = search_job_log(files, Wanted(), is_backward=newest, now_ms=NOW_MS + 60_000)
    assert found.is_complete
    assert "kept" in texts(found.entries) and "gone" not in texts(found.entries)
    kept.unlink()
    kept.symlink_to(shrunk)
    passed_over = search_job_log(files, Wanted(), is_backward=newest, now_ms=NOW_MS + 60_000).entries
    assert {entry.file.slot for entry in passed_over} == {2}
    kept.unlink()
    assert search_job_log(files, Wanted(), is_backward=newest, now_ms=NOW_MS + 60_000).is_complete


@pytest.mark.parametrize("newest", [True, False])
def test_bytes_that_are_no_text_and_lines_without_end_are_searched_too(job: Job, newest: bool) -> None:
    job.write(b"\xff\xfe\x00" * 30 + b"\n" + record(1_000, "a").encode() + b"z" * (3 * MAX_BLOCK_BYTES) + b" needle")
    job.write(b"y" * (3 * MAX_BLOCK_BYTES) + b"\n" + b"needle\n", kind="out")
    found = job.all(of_text("needle"), newest=newest)
    assert len(found) == 2 and all(b"needle" in entry.data for entry in found)
    assert sum(len(entry.data) for entry in job.all(newest=newest)) == sum(file.size for file in job.files)


@pytest.mark.parametrize("newest", [True, False])
def test_a_clock_that_is_set_back_hides_and_repeats_nothing(job: Job, newest: bool) -> None:
    job.write("".join(record(at, f"a{at}") for at in (5_000, 9_000, 1_000, 7_000)), slot=0)
    job.write("".join(record(at, f"b{at}") for at in (4_000, 6_000, 8_000)), slot=1)
    whole = texts(job.all(newest=newest))
    assert sorted(whole) == ["a1000", "a5000", "a7000", "a9000", "b4000", "b6000", "b8000"]
    for limit in (1, 2, 3):
        assert sorted(texts(job.all(newest=newest, limit=limit))) == sorted(whole)
    assert sorted(texts(job.all(Wanted(since_ms=6_000), newest=newest))) == ["a7000", "a9000", "b6000", "b8000"]


Line = tuple[int, str]
LINES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["ab", "b", "ab\nb", "", "ä\nab"])), max_size=12)


@settings(max_examples=60)
@given(st.lists(LINES, min_size=1, max_size=4), st.integers(1, 4), st.booleans(), st.sampled_from(["", "ab"]))
def test_requests_that_follow_each_other_find_each_entry_once_in_order(
    logs: Sequence[Sequence[Line]], limit: int, newest: bool, query: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        job = Job(Path(directory))
        expected: list[tuple[int, int, str]] = []
        for slot, lines in enumerate(logs):
            at, content = 1_000, ""
            for number, (step, text) in enumerate(lines):
                at += step
                content += record(at, f"{number} {text}")
                if query in text:
                    expected.append((at, slot, f"{number} {text}"))
            if content:
                job.write(content, slot=slot)
        found = job.all(of_text(query) if query else Wanted(), newest=newest, limit=limit)
        told = [(entry.time_ms or 0, entry.file.slot, text) for entry, text in zip(found, texts(found), strict=True)]
        assert sorted(told) == sorted(expected)
        assert [at for at, _, _ in told] == sorted((at for at, _, _ in told), reverse=newest)
        for slot in range(len(logs)):
            own = [text for _, of, text in expected if of == slot]
            assert [text for _, of, text in told if of == slot] == (own[::-1] if newest else own)


@pytest.mark.parametrize("newest", [True, False])
def test_blocks_end_anywhere(job: Job, newest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number} {'x' * (number % 50)}" + "\nmore" * (number % 3) for number in range(300)]
    job.write("".join(record(1_000 + number, line) for number, line in enumerate(lines)))
    for size in (200, 333, 1_000):
        monkeypatch.setattr("backend.live.log_scan.FIRST_BLOCK_BYTES", size)
        monkeypatch.setattr("backend.live.log_scan.MAX_BLOCK_BYTES", 2 * size)
        assert texts(job.all(newest=newest, limit=70)) == (lines[::-1] if newest else lines)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("kind", ["log", "out"])
def test_blocks_that_are_passed_over_end_anywhere(
    job: Job, newest: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_hit(number: int) -> bool:
        return number % 97 == 5 or number in (0, 599)

    lines = [f"{number} {'x' * (number % 50)}{'needle' * is_hit(number)}" for number in range(600)]
    if kind == "log":
        # in a further line of the record, which is shown as a whole
        lines = [line.replace("x", "x\nmore ", number % 3) for number, line in enumerate(lines)]
        content = "".join(record(1_000 + number, line) for number, line in enumerate(lines))
    else:
        content = "".join(f"demo - {line}\n" for line in lines)
    job.write(content, kind=kind)
    expected = [line for number, line in enumerate(lines) if is_hit(number)]
    passed_over = 0
    may_have = BlockBuffer.may_have

    def counted(buffer: BlockBuffer, wanted: Wanted, end: int) -> bool:
        nonlocal passed_over
        result = may_have(buffer, wanted, end)
        passed_over += not result
        return result

    monkeypatch.setattr(BlockBuffer, "may_have", counted)
    for size in (250, 333, 1_000):
        monkeypatch.setattr("backend.live.log_scan.FIRST_BLOCK_BYTES", size)
        monkeypatch.setattr("backend.live.log_scan.MAX_BLOCK_BYTES", 2 * size)
        found = job.all(of_text("NEEDLE"), newest=newest, limit=3)
        assert texts(found) == (expected[::-1] if newest else expected)
    assert passed_over > 20


@pytest.mark.parametrize("newest", [True, False])
def test_the_time_to_which_was_searched_follows_what_is_passed_over(job: Job, newest: bool) -> None:
    """A log whose entries are passed over still gives way to another one whose entries come first."""
    hours = [record(at, "x" * 900) for at in range(6_000)]
    job.write("".join(hours) + record(6_000, "needle a"), slot=0)
    job.write(record(1, "needle b") + "".join(hours[2_000:4_000]) + record(4_000, "needle c"), slot=1)
    found = texts(job.search(of_text("needle"), newest=newest).entries)
    assert found == (["needle a", "needle c", "needle b"] if newest else ["needle b", "needle c", "needle a"])


def test_the_newest_lines_of_many_slots_cost_little(job: Job) -> None:
    for attempt in range(3):
        for slot in range(5):
            at = 1_000_000 * attempt
            job.write(record(at, "x" * 500) * 3_000, attempt=attempt, slot=slot, at_ms=at)
    found = job.search(limit=10)
    assert found.size - found.left_bytes <= 5 * FIRST_BLOCK_BYTES
    assert {entry.file.attempt for entry in found.entries} == {2}


def test_a_cursor_fits_into_an_address(job: Job) -> None:
    for number in range(MAX_LOGS + 10):
        job.write(record(1_000, "a") * 30, attempt=10 + number // 50, slot=number % 50, at_ms=NOW_MS + number)
    found = job.search(limit=5)
    assert found.num_left_out > 0 and found.num_logs + found.num_left_out == MAX_LOGS + 10
    for cursor in (found.cursor, found.follow):
        assert len(str(cursor)) <= MAX_CURSOR_CHARS and LogCursor.of(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "x", "%%%", "eJyLjgUAARUAuQ", "a" * (MAX_CURSOR_CHARS + 1), str(LogCursor(True, -1, {})), "ö"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorError):
        LogCursor.of(text)


def test_a_cursor_for_another_job_finds_something_and_breaks_nothing(job: Job) -> None:
    job.write(record(1_000, "a") * 3)
    strange = LogCursor(True, 0, {"attempt-0/slot-0.log": 1 << 50, "attempt-7/slot-0.log": 3, "../../etc/passwd": 5})
    assert texts(job.search(cursor=strange).entries) == ["a"] * 3
    middle = LogCursor(True, 0, {"attempt-0/slot-0.log": 70})
    assert job.search(cursor=middle).is_complete


def test_stamps_are_one_a_second_and_survive_what_happens_to_their_file(tmp_path: Path) -> None:
    path = tmp_path / "slot-0.out.e1.0"
    path.write_bytes(b"x" * 100)
    writer = TimesWriter(path, is_new=True)
    for offset in range(10):
        writer.note(10 * offset, 5_000 + offset * INTERVAL_MS // 2)
    writer.close()
    with times_path(path).open("ab") as torn:
        torn.write(b"torn")
    again = TimesWriter(path, is_new=False)
    again.note(90, 60_000)
    # the clock was set back
    again.note(95, 7_000)
    again.close()
    [segment] = segments(tmp_path / "slot-0.out", files_of(tmp_path / "slot-0.out"))
    stamps = read_times(segment)
    assert stamps.tolist() == [[0, 5000], [20, 6000], [40, 7000], [60, 8000], [80, 9000], [90, 60000], [95, 7000]]
    assert [time_at(stamps, offset) for offset in (0, 19, 20, 99)] == [5_000, 5_000, 6_000, 7_000]
    times_path(path).unlink()
    assert time_at(read_times(segment), 5) is None


def test_stamps_go_with_their_segment(job: Job) -> None:
    path = job.path(0, 0, "out")
    log = AppendedLog(path, 1, 50)
    for number in range(10):
        log.append(b"x" * 39 + b"\n", 40 * (number + 1))
    log.close()
    left = {file.name for file in path.parent.iterdir() if not file.name.endswith(".mark")}
    starts = sorted(part.start for part in job.files[0].segments)
    assert left == {f"{path.name}.e1.{start}{end}" for start in starts for end in ("", ".times")}
