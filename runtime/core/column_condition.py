"""ColumnCondition: a condition on one column that a source may apply before it reads a row. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A comparison of a column with a constant; null is not equal to, below or above anything."""

    column: str
    comparison: str
    """One of =, <, <=, >, >=."""
    value: int | str
    """A number for a column of whole numbers, a text for one of texts, which are compared by their code points."""

    def excludes(self, least: int | str, greatest: int | str) -> bool:
        """Return whether it holds for no value in [least, greatest]."""
        # all of the column's type
        value: Any = self.value
        low: Any = least
        high: Any = greatest
        match self.comparison:
            case "=":
                return bool(value < low or value > high)
            case "<":
                return bool(low >= value)
            case "<=":
                return bool(low > value)
            case ">":
                return bool(high <= value)
            case _:
                return bool(high < value)
