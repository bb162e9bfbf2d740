"""LineBlocks: every line belongs to exactly one range, whatever the ranges, blocks and line ends."""

from __future__ import annotations

import bz2
import gzip
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.connectors.formats.line_blocks import LineBlocks, LineTooLongError, line_number, open_unpacked

CONTENT = st.lists(st.sampled_from([b"", b"a", b"\n", b"\r\n", b"bc", b"\n\n", "ü€".encode(), b"x" * 40])).map(b"".join)


@contextmanager
def file_of(content: bytes, suffix: str = "") -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"data{suffix}"
        path.write_bytes(content)
        yield str(path)


def blocks_of(
    path: str, start: int, end: int | None, position: int | None, block_bytes: int
) -> list[tuple[int, bytes]]:
    blocks = LineBlocks(path, start, end, position, block_bytes)
    found = []
    while (block := blocks.next_block()) is not None:
        found.append((block.offset, block.data))
        assert blocks.offset == block.offset + len(block.data)
    blocks.close()
    return found


@settings(max_examples=150, deadline=None)
@given(content=CONTENT, cuts=st.lists(st.integers(0, 200), max_size=5), block_bytes=st.integers(1, 60))
def test_ranges_cover_every_line_exactly_once(content: bytes, cuts: list[int], block_bytes: int) -> None:
    bounds = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    with file_of(content) as path:
        found: list[tuple[int, bytes]] = []
        for start, end in itertools.pairwise(bounds):
            part = blocks_of(path, start, end, None, block_bytes)
            assert all(start <= offset < end for offset, _ in part)
            found += part
    assert b"".join(data for _, data in found) == content
    # blocks are whole lines
    assert all(data.endswith(b"\n") for _, data in found[:-1])


@settings(max_examples=100, deadline=None)
@given(content=CONTENT, block_bytes=st.integers(1, 60), pick=st.integers(0, 10**6))
def test_a_reader_goes_on_at_any_line(content: bytes, block_bytes: int, pick: int) -> None:
    starts = [0, *(i + 1 for i, byte in enumerate(content) if byte == 10)]
    position = starts[pick % len(starts)]
    with file_of(content) as path:
        rest = blocks_of(path, 0, len(content), position, block_bytes)
    assert b"".join(data for _, data in rest) == content[position:]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_compressed_files_are_read_whole_and_from_positions(suffix: str, tmp_path: Path) -> None:
    content = b"".join(b"line %d\n" % i for i in range(5000))
    pack: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    }
    path = tmp_path / f"data{suffix}"
    # two members one after the other are one file
    half = content.index(b"line 2500")
    path.write_bytes(pack[suffix](content[:half]) + pack[suffix](content[half:]))
    assert b"".join(data for _, data in blocks_of(str(path), 0, None, None, 1000)) == content
    assert b"".join(data for _, data in blocks_of(str(path), 0, None, half, 1000)) == content[half:]
    with open_unpacked(str(path)) as file:
        assert file.read(4) == b"line"


def test_line_numbers_count_from_one(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"a\nb\n\nc")
    assert [line_number(str(path), offset) for offset in (0, 2, 4, 5)] == [1, 2, 3, 4]


class CountedReads:
    """Counts the bytes that are read by `os.pread` while it is entered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self._counted)

    def _counted(self, file: int, size: int, offset: int) -> bytes:
        data = self._pread(file, size, offset)
        self.bytes += len(data)
        return data


def test_ranges_inside_one_long_line_read_no_further_than_their_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    size, ranges = 4 << 20, 16
    with file_of(b"x" * size) as path:
        reads = CountedReads(monkeypatch)
        bounds = [size * part // ranges for part in range(ranges + 1)]
        found = [blocks_of(path, start, end, None, 1 << 16) for start, end in itertools.pairwise(bounds)]
    assert [len(blocks) for blocks in found] == [1] + [0] * (ranges - 1)
    # the line itself twice, to find its end and to have it; of the other ranges, each byte once
    assert reads.bytes < 4 * size


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("block_bytes", [4, 64, 1 << 20])
def test_line_beyond_the_limit_is_refused_where_it_begins(suffix: str, block_bytes: int) -> None:
    content = b"short\n" + b"x" * 100 + b"\n" + b"y" * 101 + b"\nlast\n"
    with file_of(gzip.compress(content) if suffix else content, suffix) as path:
        blocks = LineBlocks(path, 0, None, None, block_bytes, max_line_bytes=100)
        with pytest.raises(LineTooLongError, match="more than 100 bytes") as raised:
            while blocks.next_block() is not None:
                pass
        blocks.close()
    assert raised.value.offset == len(b"short\n") + 101


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("block_bytes", [4, 64, 1 << 20])
def test_line_at_the_limit_is_read(suffix: str, block_bytes: int) -> None:
    content = b"short\n" + b"x" * 100 + b"\nlast" + b"y" * 96
    with file_of(gzip.compress(content) if suffix else content, suffix) as path:
        blocks = LineBlocks(path, 0, None, None, block_bytes, max_line_bytes=100)
        assert b"".join(block.data for block in iter(blocks.next_block, None)) == content
        blocks.close()


def test_line_beyond_the_limit_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with file_of(b"x" * (32 << 20)) as path:
        blocks = LineBlocks(path, 0, None, None, 1 << 16, max_line_bytes=1 << 20)
        reads = CountedReads(monkeypatch)
        with pytest.raises(LineTooLongError):
            blocks.next_block()
        blocks.close()
    assert reads.bytes < 4 << 20
