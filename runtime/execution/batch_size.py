"""BatchSize: how many records a batch reads at most, so that its cost beside them is little of its time. Pure.

A batch costs some tenths of a second, however small it is: its stages start, its tasks open and write their state.
Records cost from a tenth of a microsecond, by column, to a hundred. So time says how large a batch should be.
"""

from __future__ import annotations

from typing import Final

FIRST_ROWS: Final = 1_000_000
MOST_ROWS: Final = 64_000_000
"""Records of a subtask in any batch: a batch by column then takes some ten seconds."""
QUICK_MS, SLOW_MS = 5_000.0, 20_000.0
"""Times of batches that are small and large. Below 2 s, a fixed cost of 0.5 s is a quarter of the batch; above a
minute, a restart, a savepoint or a stop waits long."""


class BatchSize:
    """The most records that each subtask of a source reads for the next batch.

    Args:
        fixed_rows: what the user wants; None: it follows from the time that batches take.
        grows: whether it may become larger than at first; what is kept in memory should not.
    """

    def __init__(self, fixed_rows: int | None, grows: bool) -> None:
        self._is_fixed = fixed_rows is not None
        self._grows = grows
        self.rows = FIRST_ROWS if fixed_rows is None else fixed_rows

    def batch_over(self, num_read: int, took_ms: float, has_caught_up: bool) -> None:
        """Take note of a batch.

        Args:
            num_read: records that it has read, of all subtasks together.
            took_ms: how long it took.
            has_caught_up: whether it has read all there was.
        """
        if self._is_fixed:
            return
        most = MOST_ROWS if self._grows else FIRST_ROWS
        if took_ms > SLOW_MS:
            self.rows = max(1, min(self.rows, num_read) // 2)
        elif took_ms < QUICK_MS and not has_caught_up:
            self.rows = min(2 * self.rows, most)
