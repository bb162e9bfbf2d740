"""SparkPass: a pass whose tasks run in Spark's workers: a stage per level, joined by shuffles, one action for all.

What the tasks report comes back with the action's result. The host's thread; actions run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.execution.passes.levels import FRAME, SORTED_BY, Level, partitions_of
from runtime.execution.passes.plan import PassPlan, TaskPrinted
from runtime.execution.passes.remote_pass import RemotePass, Reports
from runtime.execution.passes.stage_functions import Commit, RunLevel
from runtime.execution.spark_query import Work, map_rows

Submit = Callable[[Work], "Future[Any]"]


class SparkPass(RemotePass):
    """One pass on Spark.

    Args:
        plan: what its tasks are told.
        submit: runs an action where the pass belongs: in the query's batch, or beside it.
        submit_beside: runs one that follows the job's last batch.
        take_print: is given what tasks print.
        wake: has the host look again; any thread.
        on_abandon: is called when the pass is given up.
    """

    def __init__(
        self,
        plan: PassPlan,
        submit: Submit,
        submit_beside: Submit,
        take_print: Callable[[TaskPrinted], None],
        wake: Callable[[], None],
        on_abandon: Callable[[], None],
    ) -> None:
        super().__init__(plan, take_print, wake)
        self._submit = submit
        self._submit_beside = submit_beside
        self._on_abandon = on_abandon
        self._is_abandoned = False

    @property
    def place(self) -> str:
        return "Spark"

    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        partitions = [partitions_of(level.plan.deployments) for level in levels]
        functions = [RunLevel(level) for level in levels]

        def act(session: SparkSession) -> Reports:
            frame = beginning(session, partitions[0])
            for number, function in enumerate(functions):
                if number:
                    frame = frame.repartitionById(partitions[number], "consumer").sortWithinPartitions(*SORTED_BY)
                frame = map_rows(frame, function)
            return _reports(frame)

        return self._submit(act)

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        function, partitions = Commit(plan, is_over), len(plan.deployments)

        def act(session: SparkSession) -> Reports:
            return _reports(map_rows(beginning(session, partitions), function))

        return self._submit_beside(act) if is_over else self._submit(act)

    def abandon(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._on_abandon()


def beginning(session: SparkSession, partitions: int) -> DataFrame:
    """Return one row for each partition of a level without input."""
    return session.range(0, partitions, 1, partitions).selectExpr(
        "0 AS consumer",
        "-1 AS level",
        "0 AS vertex",
        "false AS is_late",
        "0L AS sequence",
        "0 AS edge",
        "0 AS producer",
        "3 AS kind",
        "X'' AS payload",
    )


def _reports(frame: DataFrame) -> Reports:
    rows = frame.where(frame.kind != FRAME).select("vertex", "producer", "sequence", "payload").collect()
    rows.sort(key=lambda row: (row.vertex, row.producer, row.sequence))
    return [bytes(row.payload) for row in rows]
