"""RowPairs: makes one row of a left and a right one, for joins that call a function. Used by the task's thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import Row, row_of
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.two_input_functions import ProcessJoinFunction


@dataclass
class RowPairs(ProcessJoinFunction):
    """The columns of the left row, then of the right one; these are null if there is none.

    Args:
        sides: both sides of the join.
    """

    sides: JoinSides

    @property
    def output_type(self) -> RowTypeInfo:
        """Return the type of the results."""
        return self.sides.output_type

    def process_element(self, left: Row, right: Row | None, ctx: ProcessJoinFunction.Context) -> Iterator[Row]:
        nothing = (None,) * len(self.sides.types[1].field_names)
        values = (*left._values, *(nothing if right is None else right._values))
        yield row_of(values, self.sides.output_type.field_names)
