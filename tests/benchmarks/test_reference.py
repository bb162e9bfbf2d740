"""The benchmark's data is reproducible and its reference loops agree with each other, wherever the file is cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from benchmarks import reference
from benchmarks.bids import bids_file, chunk

ROWS = 5_000


@pytest.fixture(scope="module")
def bids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bids_file(tmp_path_factory.mktemp("bids"), ROWS, 1)


def test_bids_are_the_same_for_the_same_seed(bids: Path, tmp_path: Path) -> None:
    assert bids_file(tmp_path, ROWS, 1).read_bytes() == bids.read_bytes()
    assert bids_file(tmp_path, ROWS, 2).read_bytes() != bids.read_bytes()


def test_a_bid_takes_about_a_hundred_bytes(bids: Path) -> None:
    assert 90 <= bids.stat().st_size / ROWS <= 115


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_hold_every_line_once(bids: Path, count: int) -> None:
    parts = reference.parts_of(bids, count)
    assert b"".join(line for part in parts for line in reference.lines(part)) == bids.read_bytes()
    assert b"".join(block for part in parts for block in reference.blocks(part)) == bids.read_bytes()


@pytest.mark.parametrize("start", range(6))
def test_a_line_belongs_to_the_part_in_which_it_starts(tmp_path: Path, start: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbb\n\n")
    before = list(reference.lines(reference.Part(path, 0, start)))
    after = list(reference.lines(reference.Part(path, start, 6)))
    assert before + after == [b"a\n", b"bb\n", b"\n"]


@pytest.mark.parametrize("case", ["filter", "count"])
def test_loops_agree(bids: Path, case: str) -> None:
    frame = chunk(0, ROWS, 1)
    counts = Counter(frame["auction"].to_list()) if case == "count" else Counter()
    kept = frame.filter(pl.col("auction") % reference.AUCTION_MODULUS == 0).height
    for loop in ("python", "polars"):
        merged: Counter[int] = Counter()
        rows_in = rows_out = 0
        for part in reference.parts_of(bids, 2):
            rows, out, partial = reference.LOOPS[case, loop](part)
            rows_in, rows_out = rows_in + rows, rows_out + out
            merged.update(partial)
        assert rows_in == ROWS
        assert rows_out == (ROWS if case == "count" else kept)
        assert merged == counts


def test_loops_run_in_processes_of_their_own(bids: Path) -> None:
    outcome = reference.run("count", "python", bids, 2)
    assert outcome.rows_in == outcome.rows_out == outcome.counts.total() == ROWS
    assert outcome.seconds > 0
