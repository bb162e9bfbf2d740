"""A source of one's own: splits, an enumerator that deals them out, and a reader with a position in its split.

The source counts down from several numbers; each start is a split that any subtask may read. A position is what the
reader would go on from after a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.common import TypeInformation, Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import (
    ReaderContext,
    ReadStatus,
    RecordBatch,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitQueue,
    SplitReader,
)


@dataclass(frozen=True, slots=True)
class Countdown(SourceSplit):
    """From `start` down to 1."""

    start: int


class CountdownSource(Source):
    """Several countdowns.

    Args:
        starts: where they begin.
    """

    def __init__(self, *starts: int) -> None:
        self.starts = starts

    def produced_type(self) -> TypeInformation:
        return Types.LONG()

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        left = self.starts if restored is None else restored
        return SplitQueue([self.split_from_json(start) for start in left], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, Countdown)
        return CountdownReader(split.start if position is None else position)

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, Countdown)
        return split.start

    def split_from_json(self, value: Any) -> SourceSplit:
        return Countdown(f"from {value}", value)


class CountdownReader(SplitReader):
    """Reads one countdown; `next` is the number that comes next."""

    def __init__(self, next: int) -> None:
        self.next = next

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self.next < 1:
            return ReadStatus.END_OF_SPLIT
        numbers = list(range(self.next, max(0, self.next - max_rows), -1))
        self.next -= len(numbers)
        return RecordBatch.of_values(numbers, type_info=Types.LONG())

    @property
    def position(self) -> int:
        return self.next


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_source(CountdownSource(3, 5), WatermarkStrategy.no_watermarks(), "countdowns").print()
    env.execute("custom source")


if __name__ == "__main__":
    main()
