"""The references do the whole work: the hand-written loops agree with a single Polars query."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from benchmarks.bids import chunk, ndjson_bids, parquet_bids
from benchmarks.digest import EMPTY, Digest, digest_of, digest_of_numbers
from benchmarks.reference import bid_loops, files, memory
from benchmarks.reference.windows import Windows, WindowShape, merged

ROWS = 40_000


@pytest.fixture(scope="module")
def bids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ndjson_bids(tmp_path_factory.mktemp("bids"), ROWS)


@pytest.fixture(scope="module")
def columns(bids: Path) -> Path:
    return parquet_bids(bids.parent, ROWS)


def test_bids_are_the_same_for_the_same_seed(bids: Path, tmp_path: Path) -> None:
    assert ndjson_bids(tmp_path, ROWS).read_bytes() == bids.read_bytes()
    assert ndjson_bids(tmp_path, ROWS, seed=2).read_bytes() != bids.read_bytes()


def test_both_formats_hold_the_same_bids(bids: Path, columns: Path) -> None:
    assert pl.read_ndjson(bids).equals(pl.read_parquet(columns))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_hold_every_line_once(bids: Path, count: int) -> None:
    parts = files.parts_of(bids, count)
    assert b"".join(line for part in parts for line in files.lines(part)) == bids.read_bytes()
    assert b"".join(block for part in parts for block in files.blocks(part)) == bids.read_bytes()


@pytest.mark.parametrize("start", range(6))
def test_a_line_belongs_to_the_part_in_which_it_starts(tmp_path: Path, start: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nbb\n\n")
    before = list(files.lines(files.Part(path, 0, start)))
    after = list(files.lines(files.Part(path, start, 6)))
    assert before + after == [b"a\n", b"bb\n", b"\n"]


@pytest.mark.parametrize("work", bid_loops.WORKS)
@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_loops_by_hand_agree_with_one_query(work: str, kind: str, bids: Path, columns: Path) -> None:
    path = bids if kind == "ndjson" else columns
    parts = files.parts_of(path, 2)
    # without processes: what they do is called here
    found = [bid_loops._part(work, part) for part in parts if part.start < part.stop]
    if work in bid_loops.ROW_WISE:
        digest = sum((piece for piece in found if isinstance(piece, Digest)), EMPTY)
    else:
        digest = merged([piece for piece in found if not isinstance(piece, Digest)], bid_loops.WINDOWED[work])
    assert digest == bid_loops._query(work, path)
    assert digest.rows > 0


@pytest.mark.parametrize("cuts", [[0, 5_000, 20_000], [0, 1, 19_999, 20_000], [0, 3_000, 3_001, 9_000, 20_000]])
def test_windows_do_not_depend_on_where_the_input_is_cut(cuts: list[int]) -> None:
    frame = chunk(0, 20_000, 1).with_columns(pl.int_range(20_000).alias("ts"))
    shape = WindowShape(4_000, 1_000)
    results = []
    for start, stop in pairwise(cuts):
        windows = Windows(shape)
        for at in range(start, stop, 700):
            windows.add(frame.slice(at, min(700, stop - at)))
        results.append(windows.result())
    assert merged(results, shape) == digest_of(bid_loops.windowed(frame.lazy(), shape).collect())


def test_a_digest_does_not_depend_on_order_or_pieces() -> None:
    frame = chunk(0, 1_000, 1)
    whole = digest_of(frame)
    assert digest_of(frame.reverse()) == whole
    assert digest_of(frame.head(300)) + digest_of(frame.slice(300)) == whole
    assert digest_of(frame.with_columns(pl.col("price").cast(pl.Int32))) == whole
    assert digest_of(frame.with_columns(pl.col("price") + 1)) != whole
    assert digest_of(pl.concat([frame, frame.head(1)])).rows == 1_001


def test_running_counts_are_known_from_the_totals() -> None:
    pool = memory.Pool(100)
    rows = memory.pool_rows(pool) * 2
    keys = [key for batch in memory.batches_of(pool) for key, _ in batch] * 2
    totals = [keys.count(key) for key in range(100)]
    assert memory.count_by_hand(pool, rows) == memory.counted(totals)
    assert digest_of_numbers([1, 2, 3]) == memory.counted([3])
