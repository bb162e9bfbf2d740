"""Checks of row types that formats share."""

from __future__ import annotations

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.operators.sink import SinkError


def checked_row_type(row_type: object) -> RowTypeInfo:
    """Return the row type itself.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(row_type, RowTypeInfo):
        raise TypeError(f"a row type is needed, from Types.ROW_NAMED(names, types), not {row_type!r}")
    return row_type


def check_fits(row_type: RowTypeInfo, input_type: TypeInformation | None) -> None:
    """Refuse a stream whose records are known to be of another type than the files.

    Raises:
        SinkError: they are.
    """
    if input_type is not None and input_type != row_type:
        raise SinkError(f"the files have the row type {row_type}, the records are {input_type}")
