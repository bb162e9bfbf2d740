"""Nexmark's persons, auctions and bids as Parquet files, generated once per size, for every engine."""

from __future__ import annotations

from pathlib import Path
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bids import ROW_GROUP_ROWS, made_once
from runtime.connectors.nexmark import NexmarkConfig, NexmarkKind, NexmarkSource
from runtime.core.arrow import arrow_schema


class NexmarkFiles(NamedTuple):
    """Paths of the events of each kind."""

    persons: Path
    auctions: Path
    bids: Path


def nexmark_files(directory: Path, events: int) -> NexmarkFiles:
    """Return the files with that many events of all kinds: 1 person, 3 auctions and 46 bids in every 50."""
    config = NexmarkConfig(events=events, seed=1)
    persons, auctions, bids = [
        _file(directory / f"nexmark-{events}-{kind.value}.parquet", NexmarkSource(kind, config))
        for kind in (NexmarkKind.PERSONS, NexmarkKind.AUCTIONS, NexmarkKind.BIDS)
    ]
    return NexmarkFiles(persons, auctions, bids)


def _file(path: Path, source: NexmarkSource) -> Path:
    def write(file: IO[bytes]) -> None:
        row_type, count = source.produced_type(), source.count
        assert row_type is not None and count is not None
        with pq.ParquetWriter(file, arrow_schema(row_type), compression="zstd") as writer:
            for start in range(0, count, ROW_GROUP_ROWS):
                batch = source.generate(start, min(count, start + ROW_GROUP_ROWS)).arrow()
                writer.write_table(pa.Table.from_batches([batch]), row_group_size=ROW_GROUP_ROWS)

    return made_once(path, write)
