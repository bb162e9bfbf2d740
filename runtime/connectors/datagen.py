"""DataGeneratorSource: generates records from their index, by a function or field by field.

The same index always gives the same record, whatever the parallelism and however often the job was restored. Source:
Flink, the datagen connector and DataGeneratorSource.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.field_generators import FieldGenerator
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch
from runtime.operators.source import SourceError


class DataGeneratorSource(IndexSource):
    """Emits `generator(index)` for the indexes 0, 1, …

    Args:
        generator: index → value; must depend on nothing but the index.
        count: number of records; None = no end.
        rows_per_second: of all subtasks together; None = as fast as possible.
        type_info: type of the records, which are converted to it; None: they stay Python objects.

    Raises:
        ValueError: a number is out of range.
    """

    split_format = "indexes of generated records"

    def __init__(
        self,
        generator: Callable[[int], Any],
        count: int | None = None,
        rows_per_second: float | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(count, rows_per_second)
        self._generator = generator
        self._type_info = type_info

    @staticmethod
    def of_fields(
        fields: Mapping[str, FieldGenerator],
        count: int | None = None,
        rows_per_second: float | None = None,
        seed: int = 0,
    ) -> FieldGeneratorSource:
        """Return a source of rows whose fields are generated on their own, whole columns at a time.

        Args:
            fields: name → generator (`sequence`, `random_int`, …), in the order of the row's fields.
            count: number of records; None = until the first sequence ends, or no end.
            rows_per_second: as above.
            seed: other seeds give other random values.

        Raises:
            ValueError: a number is out of range, or there is no field.
        """
        return FieldGeneratorSource(fields, count, rows_per_second, seed)

    def produced_type(self) -> TypeInformation | None:
        return self._type_info

    def generate(self, start: int, stop: int) -> RecordBatch:
        indexes = iter(range(start, stop))
        try:
            values = list(map(self._generator, indexes))
            coerce = None if self._type_info is None else self._type_info.coercer()
            if coerce is not None:
                indexes = iter(range(start, stop))
                values = [coerce(value) for value, _ in zip(values, indexes, strict=True)]
        except Exception as error:
            failed = stop - operator.length_hint(indexes) - 1
            raise SourceError(f"the generator failed at index {failed}: {type(error).__name__}: {error}") from error
        return RecordBatch.of_values(values, type_info=self._type_info)


class FieldGeneratorSource(IndexSource):
    """Emits rows of generated fields; made by `DataGeneratorSource.of_fields`."""

    split_format = "indexes of generated records"

    def __init__(
        self, fields: Mapping[str, FieldGenerator], count: int | None, rows_per_second: float | None, seed: int
    ) -> None:
        if not fields:
            raise ValueError("a generated row needs at least one field")
        limits = [limit for limit in (f.max_count for f in fields.values()) if limit is not None]
        super().__init__(min([*limits, count] if count is not None else limits, default=None), rows_per_second)
        self._fields = dict(fields)
        self._seed = seed
        self._type = RowTypeInfo([f.type_info for f in fields.values()], list(fields))

    def produced_type(self) -> TypeInformation | None:
        return self._type

    def generate(self, start: int, stop: int) -> RecordBatch:
        indexes = np.arange(start, stop, dtype=np.int64)
        columns = [f.column(indexes, self._seed * 1009 + i) for i, f in enumerate(self._fields.values())]
        return RecordBatch.of_arrow(pa.RecordBatch.from_arrays(columns, names=list(self._fields)), self._type)
