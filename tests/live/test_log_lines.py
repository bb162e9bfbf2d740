"""Search in log files, and the numbers of their lines."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader, FileIO
from itertools import count, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.log_segments import Segment, files_of, segments
from backend.live import log_lines
from backend.live.line_counts import line_ends_before
from backend.live.log_lines import MAX_TEXT_CHARS, Found, Match
from backend.live.log_text import LogText


def search(path: Path, query: str, **options: Any) -> Found:
    with LogText([Segment(path, 0, 0, path.stat().st_size)]) as text:
        return log_lines.search(text, query, **options)


def line_at(stream: BinaryIO, offset: int) -> int:
    return line_ends_before(stream, offset) + 1


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """2.4 MB, a hundred thousand lines; every ten thousandth is an error."""
    path = tmp_path / "slot-0.log"
    lines = (f"line {n:06d} {'Error: größe' if n % 10_000 == 0 else 'all is well'}" for n in range(1, 100_001))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_all_of_a_file_is_searched(log: Path) -> None:
    found = search(log, "ERROR: GRÖßE")
    assert found.is_complete and found.searched_to == log.stat().st_size
    assert [match.line for match in found.matches] == list(range(10_000, 100_001, 10_000))
    content = log.read_bytes()
    for match in found.matches:
        assert content[match.offset :].startswith(match.text.encode()) and content[match.offset - 1] == ord("\n")


def test_case_counts_if_it_is_to(log: Path) -> None:
    assert search(log, "error", is_case_sensitive=True).matches == []
    assert len(search(log, "Error", is_case_sensitive=True).matches) == 10


def test_a_search_goes_on_where_the_last_one_stopped(log: Path) -> None:
    lines, start = [], 0
    while True:
        found = search(log, "Error", start=start, limit=3)
        lines += [match.line for match in found.matches]
        if found.is_complete:
            break
        start = found.searched_to
    assert lines == list(range(10_000, 100_001, 10_000))


def test_a_search_that_takes_too_long_says_how_far_it_came(log: Path) -> None:
    seconds = count(0, 3)
    found = search(log, "Error", monotonic=lambda: next(seconds))
    assert not found.is_complete and 0 < found.searched_to < log.stat().st_size
    rest = search(log, "Error", start=found.searched_to)
    assert [m.line for m in (*found.matches, *rest.matches)] == list(range(10_000, 100_001, 10_000))


def test_a_long_line_is_shown_where_the_text_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 5_000 + "needle" + "y" * 3_000)
    [match] = search(path, "needle").matches
    assert "needle" in match.text and len(match.text) == MAX_TEXT_CHARS and match.line == 1


@given(st.lists(st.sampled_from(["ab", "b", "", "aab", "ä"]), max_size=8), st.booleans())
def test_matches_are_the_lines_that_have_the_text(lines: list[str], has_end: bool) -> None:
    content = "\n".join(lines) + ("\n" if has_end else "")
    expected, offset = [], 0
    for number, line in enumerate(content.split("\n"), 1):
        if "ab" in line:
            expected.append(Match(number, offset, line))
        offset += len(line.encode()) + 1
    with tempfile.NamedTemporaryFile() as file:
        file.write(content.encode())
        file.flush()
        assert search(Path(file.name), "ab").matches == expected


def test_lines_are_counted_in_files_that_grow_and_in_those_that_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one line\n" * 300_000)
    with path.open("rb") as stream:
        assert line_at(stream, 9 * 250_000) == 250_001
    with path.open("ab") as growing:
        growing.write(b"one line\n" * 100_000)
    with path.open("rb") as stream:
        assert line_at(stream, 9 * 400_000) == 400_001
    # the same inode, and larger than before
    path.write_bytes(b"another, longer line\n" * 300_000)
    with path.open("rb") as stream:
        assert line_at(stream, 21 * 250_000) == 250_001


class SlowFile(BufferedReader):
    """A file whose reads wait until they are allowed, but for the first one."""

    def __init__(self, path: Path) -> None:
        super().__init__(FileIO(path))
        self.is_read, self.may_read = threading.Event(), threading.Event()
        self._reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += 1
        if self._reads > 1:
            self.is_read.set()
            assert self.may_read.wait(10)
        return super().read(size)


def test_a_file_that_is_counted_holds_up_nobody_who_counts_another_one(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text("a\nb\nc\n")
    with SlowFile(log) as slow, ThreadPoolExecutor(1) as pool:
        counting = pool.submit(line_at, slow, 2 << 20)
        assert slow.is_read.wait(5)
        with other.open("rb") as stream:
            assert line_at(stream, 4) == 3
        slow.may_read.set()
        assert counting.result(10) > 80_000


@given(st.lists(st.sampled_from(["ab\n", "b", "\n", "a\nb\n", "ä"]), max_size=9), st.integers(1, 4), st.integers(0, 9))
def test_a_log_of_several_files_is_searched_and_read_as_one(parts: list[str], epochs: int, deleted: int) -> None:
    content = "".join(parts).encode()
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "slot-0.out"
        cuts = [len(content) * n // epochs for n in range(epochs + 1)]
        for epoch, (start, end) in enumerate(pairwise(cuts), 1):
            # each goes on after it was replaced
            (log.parent / f"{log.name}.e{epoch}.{start}").write_bytes(content[start:end] + b"late" * (epoch < epochs))
        whole = log.parent / "whole"
        whole.write_bytes(content)
        with LogText(segments(log, files_of(log))) as text:
            assert text.read(0, 1 << 20) == content
            assert log_lines.search(text, "a") == search(whole, "a")
            offset = min(deleted, len(content))
            assert text.line_at(offset) == content[:offset].count(b"\n") + 1
            line = content[offset:].partition(b"\n")
            assert text.read_line(offset, 1 << 20) == line[0] + line[1]
