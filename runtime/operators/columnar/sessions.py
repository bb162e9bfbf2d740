"""Sessions as columns: which rows of a key follow each other within a gap, and which sessions touch.

Rows are grouped by key and distance, sessions by key and overlap, each with one sort by time and one running maximum.
Used by the task's thread.
"""

from __future__ import annotations

import polars as pl

from runtime.operators.columnar.aggregates import SEQUENCE, AggregatePlan
from runtime.operators.columnar.panes import NEVER, Times

START = "__start"
END = "__end"
"""Exclusive: the time of the last row and the gap."""
_TIME = "__time"
_NUMBER = "__number"
_BOUNDS = [pl.col(START).min(), pl.col(END).max()]


class SessionStore:
    """The open sessions of one operator: a row for each, with its key, its partials, START and END.

    Args:
        plan: what is aggregated.
        gap_ms: rows farther apart are in different sessions.
    """

    def __init__(self, plan: AggregatePlan, gap_ms: int) -> None:
        self._plan = plan
        self._gap_ms = gap_ms
        bounds = [pl.lit(None, pl.Int64).alias(START), pl.lit(None, pl.Int64).alias(END)]
        self.empty = plan.empty_partials.with_columns(bounds)
        self._open = self.empty
        #: no session ends before
        self.next_end = NEVER

    @property
    def sessions(self) -> pl.DataFrame:
        """All open sessions."""
        return self._open

    def of_keys(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The open sessions of some keys, with the other columns of `keys` beside them."""
        return self._open.join(keys, on=self._plan.keys, how="inner", nulls_equal=True)

    def add_rows(self, rows: pl.DataFrame, times: Times) -> None:
        """Let rows open sessions, and lengthen and join those that they touch.

        Args:
            rows: as `AggregatePlan.rows` gives them.
            times: of the rows.
        """
        keys = self._plan.keys
        by_time = rows.with_columns(pl.Series(_TIME, times)).sort(_TIME)
        is_first = (pl.col(_TIME).diff() > self._gap_ms).fill_null(True)
        by_time = by_time.with_columns(is_first.cast(pl.Int64).cum_sum().over(keys).alias(_NUMBER))
        if self._plan.needs_order:
            by_time = by_time.sort(SEQUENCE)
        bounds = [pl.col(_TIME).min().alias(START), (pl.col(_TIME).max() + self._gap_ms).alias(END)]
        made = by_time.group_by([*keys, _NUMBER]).agg([*self._plan.of_rows, *bounds]).drop(_NUMBER)
        self.add(made)

    def add(self, sessions: pl.DataFrame) -> None:
        """Join sessions with those that they touch."""
        keys = self._plan.keys
        sessions = sessions.select(self.empty.columns)
        if self._open.height:
            new_keys = sessions.select(keys)
            touched = self._open.join(new_keys, on=keys, how="semi", nulls_equal=True)
            if touched.height:
                untouched = self._open.join(new_keys, on=keys, how="anti", nulls_equal=True)
                sessions = pl.concat([untouched, self._joined(pl.concat([touched, sessions]))])
            else:
                sessions = pl.concat([self._open, sessions])
        self._keep(sessions)

    def take_due(self, watermark: int) -> pl.DataFrame:
        """The sessions that a watermark has passed, by their end; they are not open any more."""
        is_due = pl.col(END) - 1 <= watermark
        due = self._open.filter(is_due).sort(END)
        if due.height:
            self._keep(self._open.filter(~is_due))
        return due

    def _joined(self, sessions: pl.DataFrame) -> pl.DataFrame:
        keys = self._plan.keys
        by_start = sessions.sort(START)
        end_before = pl.col(END).cum_max().shift(1)
        is_first = (pl.col(START) > end_before).fill_null(True)
        by_start = by_start.with_columns(is_first.cast(pl.Int64).cum_sum().over(keys).alias(_NUMBER))
        merged = by_start.group_by([*keys, _NUMBER]).agg([*self._plan.of_partials, *_BOUNDS])
        return merged.select(self.empty.columns)

    def _keep(self, sessions: pl.DataFrame) -> None:
        self._open = sessions
        lowest = sessions.get_column(END).min()
        self.next_end = lowest if isinstance(lowest, int) else NEVER
