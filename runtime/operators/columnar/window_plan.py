"""WindowPlan: defines what a columnar window keeps of its rows, how that merges, and what the window emits when it
fires.

Aggregates keep partials, top-N its best rows, a join all rows of both sides; panes, segments, sessions, lateness and
snapshots are the same for all of them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.operators.columnar.dense_groups import DenseAggregates
from runtime.state.state_meta import StatePart


class WindowPlan(Protocol):
    """Frames in, frames out; a *partial* is a kept row, of which a key may have several."""

    @property
    def keys(self) -> list[str]:
        """Return the columns of the key."""

    @property
    def input_columns(self) -> list[str]:
        """Return the columns of the records that are needed."""

    @property
    def needs_order(self) -> bool:
        """Return whether rows carry their place in the order of arrival."""

    @property
    def merges_anywhere(self) -> bool:
        """Return whether partials may be computed before the exchange."""

    @property
    def empty_partials(self) -> pl.DataFrame:
        """Return an empty frame of partials, for their schema."""

    @property
    def partial_type(self) -> RowTypeInfo:
        """Return the type of partials with their keys, as they travel and are saved."""

    @property
    def state_content(self) -> str:
        """Return what partials are of, as far as their type does not tell; "" = it tells."""

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the parts of partials with the expressions that they are computed from; () = there is nothing to
        tell."""

    @property
    def output_type(self) -> RowTypeInfo:
        """Return the type of the results."""

    @property
    def arrays(self) -> DenseAggregates | None:
        """Return a maker of partials for keys that are integers close together; None if there is none."""

    def rows(self, frame: pl.DataFrame, sequence: int) -> pl.DataFrame:
        """Return the needed columns of rows.

        Args:
            frame: has `input_columns`.
            sequence: how many rows came before.
        """

    def aggregated(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return partials of rows, for each key, in no order of keys.

        Args:
            rows: as `rows` gives them.
            within: columns that further divide rows of the same key.
        """

    def merged(self, partials: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Return partials merged from partials, likewise."""

    def results(self, merged: pl.DataFrame, **context: int) -> pl.DataFrame:
        """Return the results of merged partials; `context` has the window's start and end. A plan with `arrays` also
        takes partials of several windows, which have these as columns.
        """


class PlanSpec(Protocol):
    """Describes a plan; travels to the slots, where the plan is made anew."""

    @property
    def input_type(self) -> TypeInformation:
        """Return the type of the records."""

    def plan(self) -> WindowPlan:
        """Return the plan."""
