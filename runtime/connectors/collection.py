"""CollectionSource: a list from the program itself as a bounded source, read by one subtask in order.

The records travel inside the job. Source: PyFlink, StreamExecutionEnvironment.from_collection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReaderContext, ReadStatus, Source, SourceSplit, SplitEnumerator, SplitReader


@dataclass(frozen=True, slots=True)
class CollectionSplit(SourceSplit):
    """The whole list."""


class CollectionSource(Source):
    """Emits the values of a list.

    Args:
        values: the records.
        type_info: their type; the values are converted to it here. None: they stay Python objects.

    Raises:
        TypeError: a value does not fit the type; the message has its index.
        OverflowError: a number is beyond the type's range; likewise.
    """

    split_format = "a list"

    def __init__(self, values: Iterable[Any], type_info: TypeInformation | None = None) -> None:
        self._values = list(values)
        self._type_info = type_info
        coerce = None if type_info is None else type_info.coercer()
        if coerce is not None:
            for index, value in enumerate(self._values):
                try:
                    self._values[index] = coerce(value)
                except (TypeError, OverflowError) as error:
                    raise type(error)(f"element {index} of the collection: {error}") from error

    def __len__(self) -> int:
        return len(self._values)

    def produced_type(self) -> TypeInformation | None:
        return self._type_info

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        splits = [CollectionSplit("collection")] if restored is None else [CollectionSplit(i) for i in restored]
        return SplitQueue(splits, self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return _CollectionReader(self._values, 0 if position is None else position, self._type_info)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return CollectionSplit(value)


class _CollectionReader(SplitReader):
    def __init__(self, values: list[Any], position: int, type_info: TypeInformation | None) -> None:
        self._values = values
        self._position = position
        self._type_info = type_info

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        rows = self._values[self._position : self._position + max_rows]
        if not rows:
            return ReadStatus.END_OF_SPLIT
        self._position += len(rows)
        return RecordBatch.of_values(rows, type_info=self._type_info)

    @property
    def position(self) -> Any:
        return self._position
