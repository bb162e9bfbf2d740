"""Functions that Spark's workers run for a pass.

They are imported before workers are forked, so nothing of the driver's is here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from runtime.execution.passes.levels import Level, LevelRun, commit
from runtime.execution.passes.plan import PassPlan


class RunLevel:
    """The function of a stage: runs the partition's tasks of a level.

    Args:
        level: what to run.
    """

    def __init__(self, level: Level) -> None:
        self._level = pickle.dumps(level, protocol=pickle.HIGHEST_PROTOCOL)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from LevelRun(pickle.loads(self._level), _partition()).run(batches)


class Commit:
    """The function of a stage whose partitions commit what one task restores each.

    Args:
        plan: with those tasks.
        is_over: whether the job has finished.
    """

    def __init__(self, plan: PassPlan, is_over: bool) -> None:
        self._plan = pickle.dumps(plan, protocol=pickle.HIGHEST_PROTOCOL)
        self._is_over = is_over

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from commit(pickle.loads(self._plan), _partition(), self._is_over)


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())
