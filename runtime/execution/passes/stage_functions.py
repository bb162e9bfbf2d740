"""Functions that Spark's workers run for a pass.

They are imported before workers are forked, so nothing of the driver's is here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark import Accumulator, TaskContext

from runtime.execution.passes.levels import FILED, FRAME, REPORTS, Level, LevelRun, Place, Row, commit
from runtime.execution.passes.outcomes import Outcomes
from runtime.execution.passes.plan import PassKind, PassPlan
from runtime.execution.worker_process import settle_worker


class RunLevel:
    """The function of a stage: runs the partition's tasks of a level.

    Args:
        level: what to run.
        ended: takes the outcomes of tasks as soon as their partition is over; None: nobody wants them earlier than all.
    """

    def __init__(self, level: Level, ended: Accumulator[Outcomes] | None = None) -> None:
        self._level = pickle.dumps(level, protocol=pickle.HIGHEST_PROTOCOL)
        self._ended = ended

    def __call__(self, rows: Iterator[Any]) -> Iterator[Row]:
        settle_worker()
        level: Level = pickle.loads(self._level)
        context = _context()
        if level.plan.kind is PassKind.BOUNDED:
            # what the same task has left behind in another run has other names
            level = replace(level, plan=replace(level.plan, number=1 + context.taskAttemptId()))
        # what the first level is given are numbers of its partitions
        run = LevelRun(level, context.partitionId())
        yield from run.run(() if level.number == 0 else rows)
        if self._ended is not None and run.outcomes:
            self._ended.add((REPORTS.encode(run.outcomes),))


class Commit:
    """The function of a stage whose partitions commit what one task restores each.

    Args:
        plan: with those tasks.
        is_over: whether the job has finished.
    """

    def __init__(self, plan: PassPlan, is_over: bool) -> None:
        self._plan = pickle.dumps(plan, protocol=pickle.HIGHEST_PROTOCOL)
        self._is_over = is_over

    def __call__(self, _: Iterator[Any]) -> Iterator[Row]:
        settle_worker()
        yield from commit(pickle.loads(self._plan), _context().partitionId(), self._is_over)


def partition_of(place: Place) -> int:
    """Return where a row goes."""
    return place.consumer


def is_report(row: Row) -> bool:
    """Return whether a row is for the driver."""
    return row[1][0] not in (FRAME, FILED)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
