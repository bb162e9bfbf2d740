"""Samples of a job's metrics: the series that are kept, how a sample is packed, and curves of many samples. Pure.

A series is one number of a vertex, "v.<vertex id>.<metric>", or of an edge, "e.<edge id>.<metric>". A packed sample is
the numbers alone, column after column: watermarks as float64, because they are epoch ms, and all others as float32; NaN
stands for a number that nobody knows. Its `Layout`, which is stored once, names the columns, so that a reader of
another release understands it. It is not compressed, so that Redis can cut out of many samples what a reader wants:
reading all of them takes longer than the answer to a user may.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.jobmaster.task_figures import JobFigures, SubtaskFigures, number_of

Numbers = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Row = dict[str, float | None]

_WATERMARK: Final = "watermark"
_OF_VERTEX_DOCUMENT: Final = (
    "records_in_per_second",
    "records_out_per_second",
    "bytes_in_per_second",
    "bytes_out_per_second",
    "busy",
    "idle",
    "back_pressured",
    _WATERMARK,
)
VERTEX_METRICS: Final = (
    *_OF_VERTEX_DOCUMENT,
    "watermark_lag",
    "behind",
    "pending_records",
    "late_records_per_second",
    "event_time_lag",
    "state_size",
)
"""As in the live document; then ms behind the clock, as long as sources are live, and behind the newest watermark of
the sources, records that sources have not read yet, records dropped as late, the largest `currentEmitEventTimeLag` of
the subtasks, and bytes in the latest checkpoint."""
EDGE_METRICS: Final = ("records_per_second", "bytes_per_second", "queued_buffers", "queued_bytes", _WATERMARK)
"""As in the live document."""

MAX_COLUMNS: Final = 1 << 20
"""More are no layout of ours."""
LARGEST: Final = 1e18
"""Greater magnitudes are no measurements: see `number_of`."""
_WIDE_BYTES: Final = 8
_NARROW_BYTES: Final = 4
#: no series is called so
_TIME: Final = "time"
_MIDDLE: Final = "middle"
#: what a reader is told of a float32
_DECIMALS: Final = 3
#: a curve is broken where so many samples in a row are missing
_MISSING: Final = 3


class MalformedSampleError(Exception):
    """Stored bytes are no sample, or no layout."""


def vertex_series(vertex_id: str, metric: str) -> str:
    """Return the name of a series of a vertex."""
    return f"v.{vertex_id}.{metric}"


def edge_series(edge_id: str, metric: str) -> str:
    """Return the name of a series of an edge."""
    return f"e.{edge_id}.{metric}"


def known_series(document: Mapping[str, Any]) -> set[str]:
    """Return the names of all series of the job with this live document."""
    return {vertex_series(v["id"], metric) for v in document.get("vertices", ()) for metric in VERTEX_METRICS} | {
        edge_series(edge, metric) for edge in document.get("edges", {}) for metric in EDGE_METRICS
    }


def sample_row(document: Mapping[str, Any], figures: JobFigures | None, checkpoints: CheckpointsSnapshot) -> Row:
    """Return the numbers of a moment, by the names of their series; always of the same series for one job.

    Args:
        document: the job's live document.
        figures: what its diagnosis rests on; None: nothing was measured.
        checkpoints: of the job.
    """
    time = document["event_time"]
    subtasks = {} if figures is None else {vertex.vertex_id: vertex.subtasks for vertex in figures.vertices}
    completed = checkpoints.latest_completed
    stored = {} if completed is None else completed.vertices
    row: Row = {}
    for vertex in document["vertices"]:
        vertex_id, metrics = vertex["id"], vertex["metrics"]
        watermark = number_of(metrics[_WATERMARK])
        newest = number_of(time.get("newest_of", {}).get(vertex_id, time.get("newest")))
        state = stored.get(vertex_id)
        row |= {vertex_series(vertex_id, metric): number_of(metrics[metric]) for metric in _OF_VERTEX_DOCUMENT}
        more = (
            number_of(metrics["watermark_lag"]) if vertex_id in time.get("live", {}) else None,
            # sources are looked at once a second: a vertex may be further by now
            None if newest is None or watermark is None else max(0.0, newest - watermark),
            *_of_subtasks(subtasks.get(vertex_id, ())),
            None if state is None else float(state.total("state_bytes")),
        )
        names = VERTEX_METRICS[len(_OF_VERTEX_DOCUMENT) :]
        row |= {vertex_series(vertex_id, metric): value for metric, value in zip(names, more, strict=True)}
    for edge, metrics in document["edges"].items():
        row |= {edge_series(edge, metric): number_of(metrics[metric]) for metric in EDGE_METRICS}
    return row


def _of_subtasks(subtasks: Sequence[SubtaskFigures]) -> tuple[float | None, float | None, float | None]:
    pending = [float(subtask.pending) for subtask in subtasks if subtask.pending is not None]
    lags = [subtask.event_time_lag_ms for subtask in subtasks if subtask.event_time_lag_ms is not None]
    late = sum(subtask.late for subtask in subtasks) if subtasks else None
    return sum(pending) if pending else None, late, max(lags, default=None)


@dataclass(frozen=True)
class Layout:
    """The columns of a packed sample: names of series, those of float64 first."""

    wide: tuple[str, ...]
    narrow: tuple[str, ...]

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Layout:
        """Return the layout for such rows."""
        wide = tuple(name for name in row if _is_wide(name))
        return cls(wide, tuple(name for name in row if not _is_wide(name)))

    @classmethod
    def from_text(cls, text: str) -> Layout:
        """Read a layout.

        Raises:
            MalformedSampleError: it is none.
        """
        try:
            read = json.loads(text)
            wide, narrow = tuple(read["wide"]), tuple(read["narrow"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise MalformedSampleError(f"not a layout: {error!r}") from error
        layout = cls(wide, narrow)
        if len(wide) + len(narrow) > MAX_COLUMNS or not all(isinstance(name, str) for name in (*wide, *narrow)):
            raise MalformedSampleError("not a layout: its columns are no names")
        if len(layout.columns) < len(wide) + len(narrow):
            raise MalformedSampleError("not a layout: two of its columns have the same name")
        return layout

    @cached_property
    def text(self) -> str:
        """Return the layout as it is stored."""
        return json.dumps({"wide": self.wide, "narrow": self.narrow}, separators=(",", ":"))

    @cached_property
    def id(self) -> str:
        """Return what samples name it by; equal layouts have the same one."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @cached_property
    def columns(self) -> dict[str, int]:
        """Return name → column."""
        return {name: column for column, name in enumerate((*self.wide, *self.narrow))}

    def numbers(self, row: Mapping[str, float | None]) -> Numbers:
        """Return the numbers of a row in the order of the columns; NaN: unknown."""
        return np.array([row[name] for name in self.columns], dtype=np.float64)

    @property
    def size(self) -> int:
        """Return the number of bytes of a packed sample."""
        return _WIDE_BYTES * len(self.wide) + _NARROW_BYTES * len(self.narrow)

    def pack(self, numbers: Numbers) -> bytes:
        """Pack numbers in the order of the columns; their magnitudes are at most `LARGEST`."""
        wide, narrow = numbers[: len(self.wide)], numbers[len(self.wide) :]
        return wide.astype("<f8").tobytes() + narrow.astype("<f4").tobytes()

    def cut(self, names: Sequence[str]) -> Cut:
        """Return what is to be cut out of samples to know these series, which need not be in the layout."""
        return Cut(self, tuple(names))

    def place(self, column: int) -> tuple[int, int]:
        """Return where a column begins and ends, bytes."""
        narrow = max(0, column - len(self.wide))
        begin = _WIDE_BYTES * (column - narrow) + _NARROW_BYTES * narrow
        return begin, begin + (_WIDE_BYTES if column < len(self.wide) else _NARROW_BYTES)


class Cut:
    """Some columns of the samples of one layout.

    Args:
        layout: of the samples.
        names: of the series that are wanted.
    """

    def __init__(self, layout: Layout, names: tuple[str, ...]) -> None:
        self.layout = layout
        self._names = names
        found = sorted({layout.columns[name] for name in names if name in layout.columns})
        self.ranges: list[tuple[int, int]] = []
        """Bytes of a sample, begin and end, that are wanted; ascending."""
        offsets: dict[str, int] = {}
        length = 2 * _WIDE_BYTES
        columns = list(layout.columns)
        for column in found:
            begin, end = layout.place(column)
            if self.ranges and self.ranges[-1][1] == begin:
                self.ranges[-1] = (self.ranges[-1][0], end)
            else:
                self.ranges.append((begin, end))
            offsets[columns[column]] = length
            length += end - begin
        formats = {name: "<f8" if layout.columns[name] < len(layout.wide) else "<f4" for name in offsets}
        self._record = np.dtype(
            {
                "names": [_TIME, _MIDDLE, *offsets],
                "formats": ["<f8", "<f8", *formats.values()],
                "offsets": [0, _WIDE_BYTES, *offsets.values()],
                "itemsize": length,
            }
        )

    def rows(self, records: bytes) -> tuple[Whole, Whole, Numbers]:
        """Return times, middles and rows of samples; a row has one number for each name.

        Args:
            records: for each sample its time and the middle of the times that it is of, epoch ms as float64, and the
                ranges that were cut out of it.

        Raises:
            MalformedSampleError: that is not what they are.
        """
        if len(records) % self._record.itemsize:
            raise MalformedSampleError(f"not records of {self._record.itemsize} bytes each")
        table = np.frombuffer(records, self._record)
        rows: Numbers = np.full((len(table), len(self._names)), np.nan)
        with np.errstate(invalid="ignore"):
            # damaged bits may be a signalling NaN
            for column, name in enumerate(self._names):
                if name in self.layout.columns:
                    rows[:, column] = table[name]
        times, middles = (table[name].astype(np.int64) for name in (_TIME, _MIDDLE))
        return times, middles, np.where(np.abs(rows) <= LARGEST, rows, np.nan)


class Mean:
    """Averages rows of one layout; numbers that are not known do not count."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._sums: Numbers = np.zeros(len(layout.columns))
        self._counts: Whole = np.zeros(len(layout.columns), dtype=np.int64)

    def add(self, numbers: Numbers) -> None:
        """Take in a row."""
        known = ~np.isnan(numbers)
        self._sums += np.where(known, numbers, 0.0)
        self._counts += known

    def numbers(self) -> Numbers:
        """Return the averages."""
        return _quotient(self._sums, self._counts)


@dataclass(frozen=True, slots=True)
class Curves:
    """Series over time."""

    times: list[int]
    """Epoch ms, ascending."""
    series: list[list[float | None]]
    """Their numbers at these times, in the order in which they were asked for."""


def curves(times: Whole, rows: Numbers, intervals: Whole, step_ms: int) -> Curves:
    """Average samples over steps, which begin at multiples of the step, so that the same ones are averaged next time.

    A step without samples has no point, since a sample may be late. Where several samples in a row are missing, a point
    without numbers follows the last one. A sample counts for as long as its interval is: the average of a minute is of
    twelve samples.

    Args:
        times: of the samples, epoch ms, ascending.
        rows: their numbers, one column for each series; NaN: unknown.
        intervals: time between each sample and the next one, if none is missing, ms.
        step_ms: the step.
    """
    if not len(times):
        return Curves([], [[] for _ in range(rows.shape[1])])
    steps = times // step_ms
    first = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    weights = np.where(np.isnan(rows), 0, intervals[:, np.newaxis])
    sums = np.add.reduceat(np.where(weights > 0, rows, 0.0) * weights, first)
    means = _quotient(sums, np.add.reduceat(weights, first))
    # the difference to the first time of a step is small: no sum of times overflows
    passed = times - np.repeat(times[first], np.diff(np.append(first, len(times))))
    middle = times[first] + np.add.reduceat(passed * intervals, first) // np.add.reduceat(intervals, first)
    usual = np.maximum(intervals[first], step_ms)
    after = np.flatnonzero(np.diff(middle) > _MISSING * usual[:-1])
    middle = np.insert(middle, after + 1, middle[after] + usual[after])
    means = np.insert(means, after + 1, np.nan, axis=0)
    columns = np.round(means, _DECIMALS).T.tolist()
    # NaN is not equal to itself
    return Curves(middle.tolist(), [[value if value == value else None for value in column] for column in columns])


def _is_wide(name: str) -> bool:
    return name.endswith(f".{_WATERMARK}")


def _quotient(sums: Numbers, counts: Whole) -> Numbers:
    quotient: Numbers = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=quotient, where=counts > 0)
    return quotient
