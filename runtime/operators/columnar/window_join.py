"""Window joins by column: pairs of rows with equal keys in a window, and rows without a partner if requested.

As in Flink's JoinedStreams, both streams get the same type (a side's columns are null in the other's rows), and are
united, keyed and windowed; a window keeps the rows of both sides and joins them when it fires. Null keys are equal to
each other, as for every keyed operator. Pure, except for the operator that converts the streams, which is used by the
task's thread.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.aggregates import WINDOW_COLUMNS
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.frames import FrameReader, batch_of
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.windows import LONG
from runtime.operators.operator import OneInputOperator
from runtime.state.state_meta import NO_STATES, DeclaredStates

How = Literal["inner", "left", "right", "full"]
HOWS = ("inner", "left", "right", "full")
SIDE = "__side"
_KEY = "__k"
_THERE = ("__left", "__right")


@dataclass(frozen=True)
class WindowJoinSpec:
    """Describes a window join; a PlanSpec.

    Args:
        sides: both sides of the join.
        how: "inner" returns pairs; "left", "right" and "full" also rows of that side, or of both, without a partner.
        with_window: whether the results have window_start and window_end.

    Raises:
        ColumnExpressionError: a column of one of these names exists already.
        ValueError: `how` is something else.
    """

    sides: JoinSides
    how: How = "inner"
    with_window: bool = False

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise ValueError(f"a window join must be one of {', '.join(HOWS)}, not {self.how!r}")
        if self.with_window:
            for name in WINDOW_COLUMNS:
                if name in self.sides.output_type.field_names:
                    raise ColumnExpressionError(name, "there is a column of this name already")

    @property
    def key_columns(self) -> list[str]:
        """Return the key's columns in `input_type`."""
        return [f"{_KEY}{number}" for number in range(len(self.sides.keys[0]))]

    def values(self, side: int) -> dict[str, str]:
        """Map the columns of a side that are not in its key to columns of the results."""
        return {old: new for old, new in self.sides.renamed(side).items() if old not in self.sides.keys[side]}

    @property
    def input_type(self) -> RowTypeInfo:
        """Return the type of the united rows: the side, the key, the left columns, the right ones."""
        fields = {SIDE: BasicTypeInfo(BasicType.BYTE), **dict(zip(self.key_columns, self.sides.key_types, strict=True))}
        for side, type_info in enumerate(self.sides.types):
            known = dict(zip(type_info.field_names, type_info.field_types, strict=True))
            fields |= {new: known[old] for old, new in self.values(side).items()}
        return RowTypeInfo(list(fields.values()), list(fields))

    def plan(self) -> WindowJoinPlan:
        """Return the plan; the same object for equal specs."""
        return _plan_of(self)


class WindowJoinPlan:
    """Keeps all rows, and joins them at the end; a WindowPlan."""

    needs_order = False
    merges_anywhere = False
    arrays = None
    state_content = ""
    state_parts = ()

    def __init__(self, spec: WindowJoinSpec) -> None:
        self._spec = spec
        self.keys = spec.key_columns
        self.partial_type = spec.input_type
        self.empty_partials = FrameReader(spec.input_type).empty
        self.input_columns = list(self.empty_partials.columns)
        output_type = spec.sides.output_type
        self._context = list(WINDOW_COLUMNS) if spec.with_window else []
        self._output = [*output_type.field_names, *self._context]
        types = [*output_type.field_types, *[LONG] * len(self._context)]
        self.output_type = RowTypeInfo(types, self._output)
        self._sides = [[*self.keys, *spec.values(side).values(), pl.lit(True).alias(_THERE[side])] for side in (0, 1)]
        #: names of the key's columns on either side; null where that side has no row
        self._key_columns = [
            pl.when(_THERE[side]).then(key).alias(name)
            for side in (0, 1)
            for key, name in zip(self.keys, spec.sides.key_names(side), strict=True)
        ]

    def rows(self, frame: pl.DataFrame, sequence: int) -> pl.DataFrame:
        """Return the rows as they are."""
        return frame

    def aggregated(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return the rows as they are."""
        return rows

    def merged(self, partials: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return the rows as they are."""
        return partials

    def results(self, merged: pl.DataFrame, **context: int) -> pl.DataFrame:
        """Return the join of the rows of both sides."""
        left, right = (merged.filter(pl.col(SIDE) == side).select(self._sides[side]) for side in (0, 1))
        pairs = joined(left, right, self.keys, self._spec.how, in_order=True)
        bounds = [pl.lit(context[name], pl.Int64).alias(name) for name in self._context]
        return pairs.with_columns(*self._key_columns, *bounds).select(self._output)


class AlikeOperator(OneInputOperator):
    """Turns the rows of one side into those of `WindowJoinSpec.input_type`."""

    def __init__(self, spec: WindowJoinSpec, side: int) -> None:
        self._reader = FrameReader(spec.sides.types[side])
        self._output_type = spec.input_type
        keys = zip(spec.sides.keys[side], spec.key_columns, strict=True)
        own = {new: pl.col(old).alias(new) for old, new in [*keys, *spec.values(side).items()]}
        schema = FrameReader(spec.input_type).schema
        blank = {name: pl.lit(None, dtype).alias(name) for name, dtype in schema.items()}
        made = blank | own | {SIDE: pl.lit(side, pl.Int8).alias(SIDE)}
        self._columns = [made[name] for name in schema]
        self._names = list(schema)

    def process_batch(self, batch: RecordBatch) -> None:
        if not batch.num_rows:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        check_inserts(self.context, batch)
        frame = self._reader.read(batch).select(self._columns)
        self.output.collect(batch_of(frame, self._output_type, batch.timestamps_array(), batch.marks))


@dataclass(frozen=True)
class AlikeOperatorFactory:
    """Converts the rows of one side to the common type.

    Args:
        spec: of the join.
        side: 0 or 1.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    spec: WindowJoinSpec
    side: int

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.input_type

    def create(self) -> AlikeOperator:
        return AlikeOperator(self.spec, self.side)


@functools.lru_cache(maxsize=64)
def _plan_of(spec: WindowJoinSpec) -> WindowJoinPlan:
    return WindowJoinPlan(spec)
