"""Sessions as columns: finds the rows of a key that follow each other within a gap, and the sessions that touch.

Rows are grouped by key and distance, sessions by key and overlap, each with one sort by time and one running maximum.
Used by the task's thread.
"""

from __future__ import annotations

import polars as pl

from runtime.operators.columnar.aggregates import AggregatePlan
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.panes import NEVER, Times
from runtime.operators.columnar.partials import SEQUENCE

START = "__start"
END = "__end"
"""Exclusive end: the time of the last row plus the gap."""
FIRED = "__fired"
"""Whether the session has fired, and no row has joined since."""
_TIME = "__time"
_NUMBER = "__number"
#: a session that rows have joined fires again
_BOUNDS = [pl.col(START).min(), pl.col(END).max(), pl.col(FIRED).all()]


def sessions_of_rows(plan: AggregatePlan, rows: pl.DataFrame, times: Times, gap_ms: int) -> pl.DataFrame:
    """Return the sessions of rows: keys, partials, START and END; those of a key do not touch.

    Args:
        rows: as `plan.rows` gives them.
        times: of the rows.
        gap_ms: rows farther apart are in different sessions.
    """
    by_time = rows.with_columns(pl.Series(_TIME, times)).sort(_TIME)
    is_first = (pl.col(_TIME).diff() > gap_ms).fill_null(True)
    by_time = by_time.with_columns(is_first.cast(pl.Int64).cum_sum().over(plan.keys).alias(_NUMBER))
    if plan.needs_order:
        by_time = by_time.sort(SEQUENCE)
    bounds = [pl.col(_TIME).min().alias(START), (pl.col(_TIME).max() + gap_ms).alias(END)]
    return plan.aggregated(by_time, [_NUMBER], bounds).drop(_NUMBER)


class SessionStore:
    """The sessions of one operator: a row for each, with its key, its partials, START, END and FIRED.

    Args:
        plan: what is aggregated.
        lateness_ms: how far the watermark may have passed a session that still accepts rows.
    """

    def __init__(self, plan: AggregatePlan, lateness_ms: int) -> None:
        self._plan = plan
        self._lateness_ms = lateness_ms
        bounds = [pl.lit(None, pl.Int64).alias(START), pl.lit(None, pl.Int64).alias(END)]
        self.empty = plan.empty_partials.with_columns(*bounds, pl.lit(None, pl.Boolean).alias(FIRED))
        self._sessions = self.empty
        #: no session fires or is dropped before this watermark + 1
        self.next_end = NEVER

    @property
    def sessions(self) -> pl.DataFrame:
        """Return all sessions that accept rows."""
        return self._sessions

    def of_keys(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the sessions of some keys, joined with the other columns of `keys`."""
        return joined(self._sessions, keys, self._plan.keys)

    def add_new(self, sessions: pl.DataFrame, *, may_touch: bool) -> None:
        """Join sessions of new rows with those that they touch.

        Args:
            sessions: keys, partials, START and END.
            may_touch: whether they may touch each other.
        """
        self.add(sessions.with_columns(pl.lit(False).alias(FIRED)), may_touch=may_touch)

    def add(self, sessions: pl.DataFrame, *, may_touch: bool = False) -> None:
        """Join sessions with those that they touch."""
        keys = self._plan.keys
        sessions = sessions.select(self.empty.columns)
        touched = untouched = self.empty
        if self._sessions.height:
            new_keys = sessions.select(keys)
            touched = self._sessions.join(new_keys, on=keys, how="semi", nulls_equal=True)
            untouched = self._sessions
            if touched.height:
                untouched = self._sessions.join(new_keys, on=keys, how="anti", nulls_equal=True)
        if touched.height or may_touch:
            sessions = self._joined(pl.concat([touched, sessions]))
        self._keep(pl.concat([untouched, sessions]) if untouched.height else sessions)

    def take_due(self, watermark: int) -> pl.DataFrame:
        """Return the sessions that fire at a watermark, ordered by their end; those that accept no more rows are
        dropped."""
        has_passed = pl.col(END) - 1 <= watermark
        due = self._sessions.filter(has_passed & ~pl.col(FIRED)).sort(END)
        kept = self._sessions.filter(pl.col(END) - 1 + self._lateness_ms > watermark)
        if self._lateness_ms:
            kept = kept.with_columns(has_passed.alias(FIRED))
        self._keep(kept)
        return due

    def fire_again(self, key: pl.DataFrame, time: int) -> pl.DataFrame:
        """Return the session of a key that a row at `time` has joined; it counts as fired.

        Args:
            key: one row with the columns of the key.
        """
        of_key = self._sessions.with_row_index(_NUMBER).join(key, on=self._plan.keys, how="semi", nulls_equal=True)
        session = of_key.filter((pl.col(START) <= time) & (pl.col(END) > time))
        rows = session.drop_in_place(_NUMBER)
        self._keep(self._sessions.with_columns(pl.col(FIRED) | pl.int_range(pl.len()).is_in(rows.implode())))
        return session

    def _joined(self, sessions: pl.DataFrame) -> pl.DataFrame:
        by_start = sessions.sort(START)
        end_before = pl.col(END).cum_max().shift(1)
        is_first = (pl.col(START) > end_before).fill_null(True)
        by_start = by_start.with_columns(is_first.cast(pl.Int64).cum_sum().over(self._plan.keys).alias(_NUMBER))
        return self._plan.merged(by_start, [_NUMBER], _BOUNDS).select(self.empty.columns)

    def _keep(self, sessions: pl.DataFrame) -> None:
        self._sessions = sessions
        ends = pl.when(pl.col(FIRED)).then(pl.col(END) + self._lateness_ms).otherwise(pl.col(END))
        lowest = sessions.select(ends.min()).item()
        self.next_end = lowest if isinstance(lowest, int) else NEVER
