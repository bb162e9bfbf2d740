"""The columns of a join's results: those of the left record, then those of the right one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.operators.columnar.expressions import RESERVED, ColumnExpressionError
from runtime.operators.columnar.frames import fields_of

SUFFIX = "_right"


@dataclass(frozen=True)
class JoinSides:
    """Describes both sides of a join, and the names of their columns in its results.

    Args:
        types: of the left and the right records.
        keys: the columns by which either side is keyed; equally many, of equal types.
        suffix: appended to the name of a right column that the left side has, too.

    Raises:
        ColumnExpressionError: a name is reserved, or taken even with the suffix.
        TypeError: the records have no named columns, or the keys differ in type.
    """

    types: tuple[RowTypeInfo, RowTypeInfo]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    suffix: str = SUFFIX

    def __post_init__(self) -> None:
        for type_info in self.types:
            if not isinstance(type_info, RowTypeInfo):
                raise TypeError(f"a join by column needs records of type Types.ROW_NAMED, not {type_info}")
        left, right = (
            [fields_of(type_info)[key] for key in keys] for type_info, keys in zip(self.types, self.keys, strict=True)
        )
        if left != right:
            raise TypeError(
                f"the streams are keyed by {left} and {right}: make the types the same, as with_columns() "
                "and CAST(… AS …) do"
            )
        names = [*self.output_names(0), *self.output_names(1)]
        for name in names:
            if name.startswith(RESERVED):
                raise ColumnExpressionError(name, "the name of this column is reserved")
            if names.count(name) > 1:
                raise ColumnExpressionError(name, "both sides have a column of this name: choose another suffix")

    def output_names(self, side: int) -> list[str]:
        """Return the names of a side's columns in the results, in their order."""
        names = list(self.types[side].field_names)
        if side == 0:
            return names
        taken = set(self.types[0].field_names)
        return [name + self.suffix if name in taken else name for name in names]

    def renamed(self, side: int) -> dict[str, str]:
        """Map each column to its column in the results."""
        return dict(zip(self.types[side].field_names, self.output_names(side), strict=True))

    def key_names(self, side: int) -> list[str]:
        """Return the names of a side's key columns in the results."""
        return [self.renamed(side)[key] for key in self.keys[side]]

    @property
    def key_types(self) -> Sequence[TypeInformation]:
        """Return the types of the key's columns."""
        return [fields_of(self.types[0])[key] for key in self.keys[0]]

    @property
    def output_type(self) -> RowTypeInfo:
        """Return the type of the results."""
        types = [*self.types[0].field_types, *self.types[1].field_types]
        return RowTypeInfo(types, [*self.output_names(0), *self.output_names(1)])
