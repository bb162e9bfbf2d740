"""Isolator: hides from the other holders of a batch what one of them does to its records.

Between tasks records are always copied, as a network between processes does by itself: an operator may keep what it has
emitted, and a broadcast record reaches several. Inside a chain they are copied unless objects are reused. Columns and
values of immutable types are shared. One isolator per channel or output, used by its thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.serializers import deep_copier


class Isolator:
    """Copies batches.

    Args:
        type_info: of batches that do not say their type; None = Python objects.
    """

    __slots__ = ("_copier", "_copier_type", "_default_type")

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._default_type = type_info
        self._copier_type = type_info
        self._copier: Callable[[list[Any]], list[Any]] | None = deep_copier(type_info)

    def isolated(self, batch: RecordBatch) -> RecordBatch:
        """Return the same records, sharing nothing that can change.

        A batch that has columns goes on as columns only: values made from them are then the new holder's alone.

        Raises:
            SerializationError: a record without a type is neither immutable nor can it be pickled.
        """
        type_info = batch.type_info
        if batch.has_arrow and type_info is not None:
            shared = RecordBatch.of_arrow(batch.arrow(), type_info, batch.timestamps_array(), batch.marks)
            shared.keys = batch.keys
            return shared
        if type_info is None:
            type_info = self._default_type
        if type_info is not self._copier_type:
            self._copier_type = type_info
            self._copier = deep_copier(type_info)
        if self._copier is None:
            return batch
        values = batch.values()
        copies = self._copier(values)
        if copies is values:
            return batch
        copied = batch.with_values(copies, batch.type_info)
        copied.keys = batch.keys
        return copied
