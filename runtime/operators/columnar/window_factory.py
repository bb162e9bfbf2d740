"""The factory of window operators by column. Travels to the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.common.typeinfo import RowTypeInfo
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.operators.columnar.early_windows import EarlyProcessingTimeWindowOperator, EarlyWindowOperator
from runtime.operators.columnar.processing_time_windows import ProcessingTimeWindowOperator
from runtime.operators.columnar.window_aggregate import STATE_NAME, WindowAggregateOperator, WindowAggregateSpec
from runtime.state.state_meta import DeclaredStates, StatePart


@dataclass(frozen=True)
class WindowAggregateOperatorFactory:
    """Window aggregate; see WindowAggregateSpec."""

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    spec: WindowAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.plan.output_type

    @property
    def declared_states(self) -> DeclaredStates:
        return self.spec.declared_states(STATE_NAME)

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read: all, if rows may be late, since late rows are shown as they are."""
        return frozenset(self.spec.plan.input_columns) if self.spec.is_processing_time else None

    @property
    def state_content(self) -> str:
        """Return what the partials in its state are of."""
        return self.spec.plan.state_content

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the same with the expressions."""
        return self.spec.plan.state_parts

    @property
    def window_type(self) -> str:
        """Return the window type of its state: partials of panes of another width cannot be restored."""
        panes = self.spec.panes
        text = f"panes of {panes.width_ms} ms" + (f" from {panes.offset_ms} ms" if panes.offset_ms else "")
        return f"{text} of processing time" if self.spec.is_processing_time else text

    def create(self) -> WindowAggregateOperator:
        spec = self.spec
        if spec.is_processing_time:
            return (
                ProcessingTimeWindowOperator(spec) if spec.early_ms is None else EarlyProcessingTimeWindowOperator(spec)
            )
        return WindowAggregateOperator(spec) if spec.early_ms is None else EarlyWindowOperator(spec)
