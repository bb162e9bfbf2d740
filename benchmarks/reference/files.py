"""Splits a file among processes: the lines that start in a range of bytes, or a range of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq

#: Bytes parsed at a time by Polars. Below ~4 MiB the fixed cost per call shows; above, memory grows and nothing is won.
BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """[start, stop) of a file: bytes of NDJSON, rows of Parquet."""

    path: Path
    start: int
    stop: int


def parts_of(path: Path, count: int) -> list[Part]:
    """The file cut into `count` parts of about equal size."""
    if path.suffix == ".parquet":
        metadata = pq.read_metadata(path)
        groups = [0]
        for index in range(metadata.num_row_groups):
            groups.append(groups[-1] + metadata.row_group(index).num_rows)
        bounds = [groups[metadata.num_row_groups * part // count] for part in range(count + 1)]
    else:
        size = path.stat().st_size
        bounds = [size * part // count for part in range(count + 1)]
    return [Part(path, start, stop) for start, stop in pairwise(bounds)]


def lines(part: Part) -> Iterator[bytes]:
    """The part's lines, in order."""
    with part.path.open("rb", buffering=1 << 20) as file:
        position = _seek_line(file, part.start)
        for line in file:
            if position >= part.stop:
                return
            position += len(line)
            yield line


def blocks(part: Part) -> Iterator[bytes]:
    """The part's lines, in order, many at a time."""
    with part.path.open("rb") as file:
        position = _seek_line(file, part.start)
        while position < part.stop:
            block = file.read(min(BLOCK_BYTES, part.stop - position))
            if not block:
                return
            block += file.readline() if not block.endswith(b"\n") else b""
            position += len(block)
            yield block


def _seek_line(file: BinaryIO, start: int) -> int:
    """Go to the first line that starts at or after `start`; returns its position."""
    if start > 0:
        # from the byte before: it is a line's end exactly if a line starts at `start`
        file.seek(start - 1)
        file.readline()
    return file.tell()
