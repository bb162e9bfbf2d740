"""SparkPass: a pass whose tasks run in Spark's workers: a stage per level, joined by shuffles, one action for all.

What the tasks report comes back with the action's result. The host's thread; actions run elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.execution.passes.levels import FRAME, SORTED_BY, Level, partitions_of
from runtime.execution.passes.plan import PassKind, PassPlan, TaskPrinted
from runtime.execution.passes.remote_pass import RemotePass, Reports, first_line
from runtime.execution.passes.stage_functions import Commit, RunLevel
from runtime.execution.spark_query import Work, map_rows

logger = logging.getLogger(__name__)

Submit = Callable[[Work], "Future[Any]"]
MAX_LOSSES = 3
"""How often tasks of a batch that Spark has lost are run again before the whole batch begins anew."""


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
            return self._collected(_report_rows(frame))

        return self._submit(act)

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        function, partitions = Commit(plan, is_over), len(plan.deployments)

        def act(session: SparkSession) -> Reports:
            return _reports(_report_rows(map_rows(beginning(session, partitions), function)))

        return self._submit_beside(act) if is_over else self._submit(act)

    def _collected(self, rows: DataFrame) -> Reports:
        """Return the reports; of a batch, also if Spark has lost some workers. What has ended is not run again: Spark
        keeps the output of a stage for the frame that was collected.
        """
        for _ in range(MAX_LOSSES if self.plan.kind is PassKind.BOUNDED else 0):
            try:
                return _reports(rows)
            except Exception as error:
                if self._is_abandoned:
                    raise
                self.was_repeated = True
                logger.warning("Spark has lost tasks of a batch, and runs them again: %s", first_line(error))
        return _reports(rows)

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


def _report_rows(frame: DataFrame) -> DataFrame:
    return frame.where(frame.kind != FRAME).select("vertex", "producer", "sequence", "payload")


def _reports(frame: DataFrame) -> Reports:
    rows = frame.collect()
    rows.sort(key=lambda row: (row.vertex, row.producer, row.sequence))
    return [bytes(row.payload) for row in rows]
