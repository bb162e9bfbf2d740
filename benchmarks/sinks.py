"""Sinks that digest a job's output instead of keeping it, so that every timed run is checked, too.

Each subtask leaves one JSON file in the run's directory when its input has ended; `read_results` adds them up. They do
the same per record as the reference loops (`benchmarks.digest`).
"""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.digest import EMPTY, Digest, digest_of, digest_of_numbers, total
from runtime.common.types import Row, RowKind
from runtime.core.batch import RecordBatch
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class ResultSink(Sink):
    """A sink whose writers each leave one JSON value.

    Args:
        directory: where; exists.
        name: tells the sinks of a job apart.
    """

    def __init__(self, directory: Path, name: str = "result") -> None:
        self._directory = directory
        self._name = name

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return self.writer(self._directory / f"{self._name}-{context.subtask_index}.json")

    @abstractmethod
    def writer(self, path: Path) -> ResultWriter:
        """The writer that leaves its value in that file."""


class ResultWriter(SinkWriter):
    """Leaves what `result` says when the input has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cpu_started = time.process_time()

    @abstractmethod
    def result(self) -> Any:
        """A JSON value."""

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            left = {"result": self.result(), "pid": os.getpid(), "cpu": time.process_time() - self._cpu_started}
            self._path.write_text(json.dumps(left), encoding="utf-8")


def read_results(directory: Path, name: str = "result") -> list[Any]:
    """Return the values that the writers of a sink have left."""
    return [_left(path)["result"] for path in sorted(directory.glob(f"{name}-*.json"))]


def read_cpu_seconds(directory: Path) -> float:
    """Return the CPU seconds of the processes with sinks from the opening of the sinks to the end of the input."""
    processes: dict[int, float] = {}
    for left in map(_left, directory.glob("*.json")):
        processes[left["pid"]] = max(processes.get(left["pid"], 0.0), left["cpu"])
    return sum(processes.values())


def _left(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_digest(directory: Path, name: str = "result") -> Digest:
    """The digest of all that a DigestSink or NumbersSink took."""
    return total(Digest(*found) for found in read_results(directory, name))


class DigestSink(ResultSink):
    """Digests rows of columns."""

    def writer(self, path: Path) -> ResultWriter:
        return _DigestWriter(path)


class _DigestWriter(ResultWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._digest = EMPTY

    def write(self, batch: RecordBatch) -> None:
        self._digest = self._digest + digest_of(pl.DataFrame(batch.arrow()))

    def result(self) -> Any:
        return self._digest


class NumbersSink(ResultSink):
    """Digests Python ints."""

    def writer(self, path: Path) -> ResultWriter:
        return _NumbersWriter(path)


class _NumbersWriter(ResultWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._digest = EMPTY

    def write(self, batch: RecordBatch) -> None:
        self._digest = self._digest + digest_of_numbers(batch.values())

    def result(self) -> Any:
        return self._digest


class SumSink(ResultSink):
    """Adds up Python ints; leaves their count and sum."""

    def writer(self, path: Path) -> ResultWriter:
        return _SumWriter(path)


class _SumWriter(ResultWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._digest = EMPTY

    def write(self, batch: RecordBatch) -> None:
        self._digest = self._digest + Digest(batch.num_rows, sum(batch.values()))

    def result(self) -> Any:
        return self._digest


class LastSink(ResultSink):
    """Keeps the last record of each key, the outcome of a stream of updates; records are tuples or rows, key first."""

    def accepts_changelog(self) -> bool:
        return True

    def writer(self, path: Path) -> ResultWriter:
        return _LastWriter(path)


class _LastWriter(ResultWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._last: dict[Any, list[Any]] = {}

    def write(self, batch: RecordBatch) -> None:
        for value in batch.values():
            # a retracted value is replaced by the next one
            if not isinstance(value, Row) or value.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                self._last[value[0]] = list(value)

    def result(self) -> Any:
        return list(self._last.values())


class LatencySink(ResultSink):
    """Measures how long ago records were made: they are tuples whose last field is that time in ns since the epoch.

    Args:
        directory: where the results go.
        warm_up_s: records made so soon after the first are left out.
    """

    def __init__(self, directory: Path, warm_up_s: float) -> None:
        super().__init__(directory)
        self._warm_up_s = warm_up_s

    def writer(self, path: Path) -> ResultWriter:
        return _LatencyWriter(path, self._warm_up_s)


class _LatencyWriter(ResultWriter):
    def __init__(self, path: Path, warm_up_s: float) -> None:
        super().__init__(path)
        self._warm_up_ns = int(warm_up_s * 1e9)
        self._made: list[npt.NDArray[np.int64]] = []
        self._latencies: list[npt.NDArray[np.int64]] = []

    def write(self, batch: RecordBatch) -> None:
        made = batch.arrow().column(batch.arrow().num_columns - 1).to_numpy()
        self._latencies.append(time.time_ns() - made)
        self._made.append(made)

    def result(self) -> Mapping[str, Any]:
        """Rows, and latencies in µs by how many records had them."""
        if not self._made:
            return {"rows": 0, "micros": [], "counts": []}
        made, latencies = np.concatenate(self._made), np.concatenate(self._latencies)
        late_enough = latencies[made >= int(made.min()) + self._warm_up_ns] // 1000
        micros, counts = np.unique(late_enough, return_counts=True)
        return {"rows": len(made), "micros": micros.tolist(), "counts": counts.tolist()}


def percentiles_ms(results: Sequence[Mapping[str, Any]], percents: Sequence[float]) -> list[float]:
    """Percentiles of the latencies of all subtasks together, ms."""
    micros = np.concatenate([np.array(found["micros"], dtype=np.int64) for found in results])
    counts = np.concatenate([np.array(found["counts"], dtype=np.int64) for found in results])
    order = np.argsort(micros, kind="stable")
    reached = np.cumsum(counts[order])
    ranks = [min(int(np.searchsorted(reached, percent / 100 * reached[-1])), len(order) - 1) for percent in percents]
    return [float(micros[order[rank]]) / 1000 for rank in ranks]


class FirstRecordSink(ResultSink):
    """Records when the first record arrived, in seconds since the epoch."""

    def writer(self, path: Path) -> ResultWriter:
        return _FirstRecordWriter(path)


class _FirstRecordWriter(ResultWriter):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._first: float | None = None

    def write(self, batch: RecordBatch) -> None:
        if self._first is None:
            self._first = time.time()

    def result(self) -> Any:
        return self._first
