"""Records of a keyed stream with their keys, as `execute_and_collect` gives them to the program.

Source: PyFlink, where a keyed stream's records are rows of key and value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row
from runtime.operators.functions import key_function

__all__ = ["WithKey", "type_with_key"]


@dataclass(frozen=True)
class WithKey:
    """Turns a record into the row of its key and itself.

    Args:
        key_selector: a KeySelector or a callable.
    """

    key_selector: Any

    def __call__(self, record: Any) -> Row:
        return Row(key_function(self.key_selector)(record), record)


def type_with_key(key_selector: Any, record_type: TypeInformation | None) -> RowTypeInfo:
    """Return the type of WithKey's rows; a key or record without a type stays the Python object that it is."""
    key_type = getattr(key_selector, "key_type", None)
    known = key_type if isinstance(key_type, TypeInformation) else None
    return Types.ROW([known or Types.PICKLED_BYTE_ARRAY(), record_type or Types.PICKLED_BYTE_ARRAY()])
