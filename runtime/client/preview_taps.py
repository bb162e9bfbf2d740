"""What a preview puts into a job: sources that end early, and taps that write down what passes.

All of it runs in one process and one thread, so that what a tap has seen, and how many rows are left to a source, are
kept here by number: operators reach the slots as bytes.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from runtime.client.preview_samples import GivenSource, instant_text
from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation
from runtime.common.types import Row
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.clock import Clock
from runtime.operators.sink import Sink, SinkWriter, WriterContext
from runtime.operators.source import (
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

FIRST_ROWS: Final = 150
RESERVOIR_ROWS: Final = 50
"""Further rows that are shown, chosen among all later ones with the same chance."""
MAX_CELL_CHARS: Final = 16 << 10
MAX_PORT_CHARS: Final = 128 << 10
"""Of the sample of one port, as JSON; further rows are left out."""
MAX_WHOLE_CHARS: Final = 8 << 20
"""Of a port that is to be shown whole."""
MAX_DEPTH: Final = 8
MAX_ITEMS: Final = 1000
_MAX_SAFE: Final = 2**53 - 1
_ids = itertools.count()


class Shown(NamedTuple):
    """A row that is shown."""

    value: Any
    """As JSON."""
    time_ms: int | None
    """Its event time."""
    watermark: int | None
    """That had come before it."""


@dataclass
class Tap:
    """Counts the rows that pass a port, and keeps some of them."""

    tap_id: int
    node: str | None
    port: str
    rows: int = 0
    first: list[Shown] = field(default_factory=list)
    later: list[Shown] = field(default_factory=list)
    columns: list[list[str]] | None = None
    watermark: int | None = None
    limit: int = FIRST_ROWS
    """First rows that are kept; if they are more than usual, they are all that are kept."""
    version: int = 0
    """Grows with every change."""
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    @classmethod
    def create(cls, node: str | None, port: str, limit: int = FIRST_ROWS) -> Tap:
        """Make a tap, and know it by its number."""
        tap = cls(next(_ids), node, port, limit=limit)
        _TAPS[tap.tap_id] = tap
        return tap

    def take(self, batch: RecordBatch) -> None:
        """Count rows, and keep some."""
        if batch.num_rows == 0:
            return
        self.version += 1
        if self.columns is None and batch.type_info is not None:
            self.columns = _columns(batch.type_info)
        values, times = batch.values(), batch.timestamps()
        # what a mark inside of the batch says comes between its rows
        for start, stop, watermark in batch.segments():
            for index in range(start, stop):
                time_ms = NO_TIMESTAMP if times is None else times[index]
                self._keep(values[index], None if time_ms == NO_TIMESTAMP else time_ms)
            if watermark is not None:
                self.advance(watermark)

    def advance(self, watermark: int) -> None:
        """Note a watermark."""
        # the last one says only that there is nothing more
        if abs(watermark) < _MAX_SAFE:
            self.watermark = watermark
            self.version += 1

    def _keep(self, value: Any, time_ms: int | None) -> None:
        self.rows += 1
        if len(self.first) < self.limit:
            self.first.append(Shown(to_json(value), time_ms, self.watermark))
        elif self.limit > FIRST_ROWS:
            return
        elif len(self.later) < RESERVOIR_ROWS:
            self.later.append(Shown(to_json(value), time_ms, self.watermark))
        else:
            place = self.draw.randrange(self.rows - FIRST_ROWS)
            if place < RESERVOIR_ROWS:
                self.later[place] = Shown(to_json(value), time_ms, self.watermark)

    def to_json(self) -> dict[str, Any]:
        """Return the frame of the port."""
        chars = MAX_PORT_CHARS if self.limit == FIRST_ROWS else MAX_WHOLE_CHARS
        shown = _fitting([*self.first, *self.later], chars)
        return {
            "node": self.node,
            "port": self.port,
            "rows": self.rows,
            "sample": [row.value for row in shown],
            "times": [row.time_ms for row in shown],
            "watermarks": [row.watermark for row in shown],
            "columns": self.columns,
            "watermark": self.watermark,
        }


_TAPS: dict[int, Tap] = {}


class TapSink(Sink):
    """Gives what comes to a tap of this process, and drops it.

    Args:
        tap_id: the tap's number.
    """

    def __init__(self, tap_id: int) -> None:
        self.tap_id = tap_id

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _TapWriter(_TAPS[self.tap_id])


class _TapWriter(SinkWriter):
    def __init__(self, tap: Tap) -> None:
        self._tap = tap

    def write(self, batch: RecordBatch) -> None:
        self._tap.take(batch)

    def write_watermark(self, watermark: int) -> None:
        if watermark != self._tap.watermark:
            self._tap.advance(watermark)


class SourcesEnd:
    """Ends the sources of a preview in any case, so that the job still finishes with what they have emitted.

    Args:
        deadline_s: of the preview, as `time.monotonic`.
        cpu_s: limit of this process's CPU time.
        share: of the time, and of the CPU time, that is left when a source is first asked: sources end then.
        is_simulated: whether waiting takes no time.
    """

    def __init__(self, deadline_s: float, cpu_s: float, share: float, is_simulated: bool) -> None:
        self._deadline_s = deadline_s
        self._cpu_limit_s = cpu_s
        self._share = share
        self._is_simulated = is_simulated
        self._at_s = math.inf
        self._at_cpu_s = math.inf

    def begin(self) -> None:
        """Let the time of the sources begin: what was slow before, such as the opening of operators, is not theirs."""
        if self._at_s == math.inf:
            now, used_s = time.monotonic(), time.process_time()
            self._at_s = now + self._share * (self._deadline_s - now)
            self._at_cpu_s = used_s + self._share * (self._cpu_limit_s - used_s)

    @property
    def has_come(self) -> bool:
        return time.monotonic() >= self._at_s or time.process_time() >= self._at_cpu_s

    def shortened_ms(self, wait_ms: float) -> float:
        """Return a time to wait that is not longer than until the end; at least 1 ms."""
        if self._is_simulated or self._at_s == math.inf:
            return wait_ms
        left_ms = 0.0 if self.has_come else 1_000 * (self._at_s - time.monotonic())
        return max(1.0, min(wait_ms, left_ms))


@dataclass
class _Budget:
    """Holds how many rows a source may still emit, and when it ends."""

    rows: int
    end: SourcesEnd
    name: str
    is_cut: bool = False
    """Whether it was ended before its own end."""

    @property
    def is_over(self) -> bool:
        return self.rows <= 0 or self.end.has_come


_BUDGETS: dict[int, _Budget] = {}


def limited_sources() -> list[str]:
    """Return the nodes whose sources were ended before their own end."""
    return sorted({budget.name for budget in _BUDGETS.values() if budget.is_cut})


def is_given(source: Source) -> bool:
    """Return whether a source emits rows that the preview was given."""
    return isinstance(source, GivenSource)


class LimitedSource(Source):
    """A source that ends after some rows.

    Args:
        source: the source.
        rows: of all its splits together.
        end: when it ends in any case.
        name: of its node.
    """

    def __init__(self, source: Source, rows: int, end: SourcesEnd, name: str) -> None:
        self._source = source
        self._budget_id = next(_ids)
        _BUDGETS[self._budget_id] = _Budget(rows, end, name)
        self.splits_at_once = source.splits_at_once
        self.dead_letter_tag = source.dead_letter_tag

    def produced_type(self) -> TypeInformation | None:
        return self._source.produced_type()

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return _LimitedEnumerator(self._source.create_enumerator(parallelism, restored), _BUDGETS[self._budget_id])

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        reader = self._source.create_reader(split, position, context)
        return _LimitedReader(reader, _BUDGETS[self._budget_id], context.clock)

    def split_to_json(self, split: SourceSplit) -> Any:
        return self._source.split_to_json(split)

    def split_from_json(self, value: Any) -> SourceSplit:
        return self._source.split_from_json(value)


class _LimitedEnumerator(SplitEnumerator):
    def __init__(self, enumerator: SplitEnumerator, budget: _Budget) -> None:
        self._enumerator = enumerator
        self._budget = budget

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        found = self._enumerator.next_split(subtask_index)
        if found is NoSplit.LATER:
            # it may be long before there is one to be read
            self._budget.end.begin()
        if self._budget.is_over and found is not NoSplit.NEVER:
            self._budget.is_cut = True
            return NoSplit.NEVER
        return found

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._enumerator.add_splits_back(splits)

    def snapshot(self) -> Any:
        return self._enumerator.snapshot()

    def discovery_delay_ms(self) -> int | None:
        delay_ms = self._enumerator.discovery_delay_ms()
        return None if delay_ms is None else math.ceil(self._budget.end.shortened_ms(delay_ms))

    def discover(self) -> bool:
        # those that were told to wait ask again, and hear of the end
        return self._enumerator.discover() or self._budget.is_over

    def is_discovering(self) -> bool:
        return self._enumerator.is_discovering()

    def close(self) -> None:
        self._enumerator.close()


class _LimitedReader(SplitReader):
    def __init__(self, reader: SplitReader, budget: _Budget, clock: Clock) -> None:
        self._reader = reader
        self._budget = budget
        self._clock = clock

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        self._budget.end.begin()
        if self._budget.is_over:
            # whether this was all of it is known only now; what comes is dropped, and so is what fails
            try:
                is_all = self._reader.read(1) is ReadStatus.END_OF_SPLIT
            except Exception:
                is_all = False
            self._budget.is_cut |= not is_all
            return ReadStatus.END_OF_SPLIT
        found = self._reader.read(min(max_rows, self._budget.rows))
        if isinstance(found, RecordBatch):
            self._budget.rows -= found.num_rows
        return found

    def prepare(self) -> bool:
        return self._reader.prepare()

    @property
    def position(self) -> Any:
        return self._reader.position

    def next_read_ms(self) -> int | None:
        at_ms = self._reader.next_read_ms()
        if at_ms is None:
            return None
        now_ms = self._clock.now_ms()
        return now_ms + math.ceil(self._budget.end.shortened_ms(at_ms - now_ms))

    def pending_records(self) -> int | None:
        return self._reader.pending_records()

    def take_dead_letters(self) -> RecordBatch | None:
        return self._reader.take_dead_letters()

    def close(self) -> None:
        self._reader.close()


def to_json(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON that a browser can show; rows become objects, with their kind if they take one back."""
    if isinstance(value, Row):
        names = value._fields or [f"f{index}" for index in range(len(value))]
        made = {name: to_json(item, depth + 1) for name, item in zip(names, value, strict=False)}
        kind = value.get_row_kind()
        return made if kind.name == "INSERT" else {**made, "$kind": kind.name}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MAX_SAFE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value[: MAX_CELL_CHARS // 2].hex()
    if isinstance(value, Instant):
        return instant_text(value)
    if depth < MAX_DEPTH and isinstance(value, (list, tuple)):
        return [to_json(item, depth + 1) for item in value[:MAX_ITEMS]]
    if depth < MAX_DEPTH and isinstance(value, dict):
        return {str(key): to_json(item, depth + 1) for key, item in itertools.islice(value.items(), MAX_ITEMS)}
    try:
        text = value if isinstance(value, str) else str(value)
    except Exception as error:
        # the user's own __str__
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    more = len(text) - MAX_CELL_CHARS
    return text if more <= 0 else f"{text[:MAX_CELL_CHARS]}… and {more} more characters"


def _fitting(rows: Sequence[Shown], chars: int) -> list[Shown]:
    left = chars
    kept = []
    for row in rows:
        left -= len(json.dumps(row.value))
        if left < 0:
            break
        kept.append(row)
    return kept


def _columns(type_info: TypeInformation) -> list[list[str]] | None:
    names = getattr(type_info, "get_field_names", None)
    types = getattr(type_info, "field_types", None)
    if names is None or types is None:
        return [["value", type_info.type_string()]]
    return [[name, kind.type_string()] for name, kind in zip(names(), types, strict=True)]
