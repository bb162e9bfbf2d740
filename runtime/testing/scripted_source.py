"""ScriptedSource: a source that does exactly what a list says: records, watermarks, pauses, crashes.

Each list is a split, which ends where the list ends. A plain value in it is a record without event time:

    ScriptedSource(["a", record("b", 5), watermark(4), crash("power cut"), "c"])

Watermarks reach the stream if it is read with `WatermarkStrategy.no_watermarks()`, and beside those of any other
strategy. A restored job continues after the last record that the snapshot covers. Readers belong to their slot's
thread.
Source: Bytewax, TestingSource (the idea of faults as data); Flink, MockSource.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.common.execution_kind import ExecutionKind
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import DEFAULT_BATCH_ROWS, NO_TIMESTAMP, Mark, RecordBatch
from runtime.operators.source import (
    Boundedness,
    ReaderContext,
    ReadStatus,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)
from runtime.testing.script_marks import MarksInDirectory, MarksInProcess, ScriptMarks

__all__ = [
    "ScriptStep",
    "ScriptedCheckpoint",
    "ScriptedCrash",
    "ScriptedFailure",
    "ScriptedPause",
    "ScriptedRecord",
    "ScriptedSource",
    "ScriptedWatermark",
    "crash",
    "idle",
    "pause",
    "record",
    "until_checkpoint",
    "watermark",
]

_FOR_EVER_MS = 3_600_000
"""Time that a reader that waits for ever sleeps at a time. It could be anything above a second: nobody wakes it."""


@dataclass(frozen=True, slots=True)
class ScriptedRecord:
    """Emit a record; made by `record`."""

    value: Any
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptedWatermark:
    """Emit a watermark; made by `watermark`."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class ScriptedPause:
    """Wait; made by `pause` and `idle`."""

    ms: int | None
    is_idle: bool


@dataclass(frozen=True, slots=True)
class ScriptedFailure:
    """Fail; made by `crash`."""

    why: str
    times: int


@dataclass(frozen=True, slots=True)
class ScriptedCheckpoint:
    """Wait for a checkpoint; made by `until_checkpoint`."""

    checkpoint_id: int


ScriptStep = ScriptedRecord | ScriptedWatermark | ScriptedPause | ScriptedFailure | ScriptedCheckpoint


class ScriptedCrash(Exception):
    """Raised by a reader at a `crash` in its script."""


def record(value: Any, timestamp: int | None = None) -> ScriptedRecord:
    """Emit a record, with an event time in ms or without one."""
    return ScriptedRecord(value, timestamp)


def watermark(timestamp: int) -> ScriptedWatermark:
    """Emit a watermark, ms; one that does not rise is left out, as the engine does with any."""
    return ScriptedWatermark(timestamp)


def pause(ms: int | None = None) -> ScriptedPause:
    """Emit nothing for that long, ms of wall-clock time; None = for ever, which makes the source unbounded.

    A restore in the middle of it begins the wait anew.
    """
    return ScriptedPause(_checked_ms(ms), is_idle=False)


def idle(ms: int | None = None) -> ScriptedPause:
    """Pause like `pause`, while the split counts as idle: event time does not wait for it."""
    return ScriptedPause(_checked_ms(ms), is_idle=True)


def crash(why: str = "as the script says", times: int = 1) -> ScriptedFailure:
    """Raise ScriptedCrash the first `times` times that this place is reached in the life of the source.

    Restarts of the job, and jobs that are started again with the same ScriptedSource object, are of the same life.

    Raises:
        ValueError: `times` is not positive.
    """
    if times < 1:
        raise ValueError(f"a crash happens once or more often, not {times} times")
    return ScriptedFailure(why, times)


def until_checkpoint(checkpoint_id: int) -> ScriptedCheckpoint:
    """Emit nothing until the job's checkpoint of that id, or a later one, has completed; ids begin at 1."""
    return ScriptedCheckpoint(checkpoint_id)


def _checked_ms(ms: int | None) -> int | None:
    if ms is not None and ms < 0:
        raise ValueError(f"time does not go back: {ms} ms")
    return ms


class ScriptedSource(Source):
    """Reads scripts, each a split.

    Args:
        splits: each a list of records and of what `record`, `watermark`, `pause`, `idle`, `crash` and
            `until_checkpoint` make. Splits are assigned in order to the subtasks that request one.
        type_info: type of the records; the values are converted to it here. None: they stay Python objects.
        directory: where crashes that have happened are remembered, on a file system that all slots share. None: in
            this process, which does on a MiniCluster; on Spark a script that crashes needs a directory.
        splits_at_once: how many splits a subtask holds open and reads in turn.
        batch_rows: most records that are read at a time.

    Raises:
        TypeError: a value does not fit the type; the message says which.
        ValueError: there is no split, or a number is not positive.
    """

    def __init__(
        self,
        *splits: Iterable[Any],
        type_info: TypeInformation | None = None,
        directory: str | Path | None = None,
        splits_at_once: int = 1,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        if not splits:
            raise ValueError("a scripted source needs at least one split")
        if splits_at_once < 1 or batch_rows < 1:
            raise ValueError(f"must be positive: splits_at_once={splits_at_once}, batch_rows={batch_rows}")
        self._type_info = type_info
        self._scripts = [self._steps(index, split) for index, split in enumerate(splits)]
        source_id = uuid.uuid4().hex
        self._marks: ScriptMarks = (
            MarksInProcess(source_id) if directory is None else MarksInDirectory(Path(directory).absolute() / source_id)
        )
        self._batch_rows = batch_rows
        self.splits_at_once = splits_at_once
        ends = not any(isinstance(step, ScriptedPause) and step.ms is None for steps in self._scripts for step in steps)
        self.boundedness = Boundedness.BOUNDED if ends else Boundedness.CONTINUOUS_UNBOUNDED

    def _steps(self, index: int, split: Iterable[Any]) -> list[ScriptStep]:
        coerce = None if self._type_info is None else self._type_info.coercer()
        steps: list[ScriptStep] = []
        for element in split:
            step = element if isinstance(element, ScriptStep) else ScriptedRecord(element)
            if coerce is not None and isinstance(step, ScriptedRecord):
                try:
                    step = ScriptedRecord(coerce(step.value), step.timestamp)
                except (TypeError, OverflowError) as error:
                    raise type(error)(f"element {len(steps)} of split {index}: {error}") from error
            steps.append(step)
        return steps

    def produced_type(self) -> TypeInformation | None:
        return self._type_info

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        ids = [str(index) for index in range(len(self._scripts))] if restored is None else restored
        return SplitQueue([SourceSplit(split_id) for split_id in ids], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        script = self._scripts[int(split.split_id)]
        reader = _ScriptReader(split.split_id, script, position or 0, self._marks, context)
        reader.batch_rows, reader.type_info = self._batch_rows, self._type_info
        return reader

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class _ScriptReader(SplitReader):
    batch_rows: int
    type_info: TypeInformation | None

    def __init__(
        self,
        split_id: str,
        script: Sequence[ScriptStep],
        position: int | Sequence[int],
        marks: ScriptMarks,
        context: ReaderContext,
    ) -> None:
        self._split_id = split_id
        self._script = script
        # in micro-batches a pause goes on in the next reader: (place in the script, end of the pause)
        self._in_passes = ExecutionKind.of(context.configuration) is ExecutionKind.MICRO_BATCH
        self._position, *until = [position] if isinstance(position, int) else position
        self._marks = marks
        self._clock = context.clock
        #: end of the pause at the position, once it has begun
        self._paused_until_ms: int | None = until[0] if until else None
        self._next_read_ms: int | None = None
        self._awaits_checkpoints = any(isinstance(step, ScriptedCheckpoint) for step in script)

    @property
    def position(self) -> Any:
        if self._in_passes and self._paused_until_ms is not None:
            return [self._position, self._paused_until_ms]
        return self._position

    def next_read_ms(self) -> int | None:
        return self._next_read_ms

    def look(self) -> ReadStatus | None:
        # a crash is a batch's, and a checkpoint comes with one only
        self._next_read_ms = None
        step = self._script[self._position] if self._position < len(self._script) else None
        if isinstance(step, ScriptedPause) and self._has_to_wait(step):
            return ReadStatus.IDLE if step.is_idle else ReadStatus.NOTHING_YET
        return None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        self._next_read_ms = None
        while self._position < len(self._script):
            step = self._script[self._position]
            if isinstance(step, ScriptedRecord | ScriptedWatermark):
                return self._next_batch(min(max_rows, self.batch_rows))
            if isinstance(step, ScriptedFailure):
                if self._marks.strike(f"{self._split_id}-{self._position}", step.times):
                    raise ScriptedCrash(step.why)
            elif isinstance(step, ScriptedCheckpoint):
                if self._marks.last_completed() < step.checkpoint_id:
                    return ReadStatus.NOTHING_YET
            elif self._has_to_wait(step):
                return ReadStatus.IDLE if step.is_idle else ReadStatus.NOTHING_YET
            self._position += 1
        return ReadStatus.END_OF_SPLIT

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._awaits_checkpoints:
            self._marks.complete(checkpoint_id)

    def _next_batch(self, max_rows: int) -> RecordBatch:
        """Return the records from here on, and the watermarks between and right behind them."""
        values: list[Any] = []
        timestamps: list[int] = []
        marks: list[Mark] = []
        script, position = self._script, self._position
        while position < len(script):
            step = script[position]
            if isinstance(step, ScriptedWatermark):
                marks.append(Mark(len(values), step.timestamp))
            elif isinstance(step, ScriptedRecord) and len(values) < max_rows:
                values.append(step.value)
                timestamps.append(NO_TIMESTAMP if step.timestamp is None else step.timestamp)
            else:
                break
            position += 1
        self._position = position
        has_times = any(timestamp != NO_TIMESTAMP for timestamp in timestamps)
        return RecordBatch.of_values(values, timestamps if has_times else None, marks, self.type_info)

    def _has_to_wait(self, step: ScriptedPause) -> bool:
        now_ms = self._clock.now_ms()
        if step.ms is None:
            self._next_read_ms = now_ms + _FOR_EVER_MS
            return True
        if self._paused_until_ms is None:
            self._paused_until_ms = now_ms + step.ms
        if now_ms < self._paused_until_ms:
            self._next_read_ms = self._paused_until_ms
            return True
        self._paused_until_ms = None
        return False
