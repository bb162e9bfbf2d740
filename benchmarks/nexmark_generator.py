"""Measures the generation of Nexmark's events in one process: as columns, and as rows of Python values.

python -m benchmarks.nexmark_generator [--rows 5000000]
"""

from __future__ import annotations

import argparse
import time

from runtime.connectors.nexmark import NexmarkConfig, NexmarkKind, NexmarkSource
from runtime.core.batch import DEFAULT_BATCH_ROWS


def rate_of(kind: NexmarkKind, rows: int, as_rows: bool) -> float:
    """Records per second."""
    source = NexmarkSource(kind, NexmarkConfig(seed=1))
    # makes the pools of texts
    source.generate(0, DEFAULT_BATCH_ROWS)
    started = time.perf_counter()
    for start in range(0, rows, DEFAULT_BATCH_ROWS):
        batch = source.generate(start, min(rows, start + DEFAULT_BATCH_ROWS))
        if as_rows:
            batch.values()
    return rows / (time.perf_counter() - started)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the Nexmark generator.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    options = parser.parse_args(arguments)
    for kind in NexmarkKind:
        columns = rate_of(kind, options.rows, as_rows=False)
        rows = rate_of(kind, options.rows // 10, as_rows=True)
        print(f"{kind.value:10}{columns / 1e6:8.2f} M/s columns{rows / 1e6:8.2f} M/s rows", flush=True)


if __name__ == "__main__":
    main()
