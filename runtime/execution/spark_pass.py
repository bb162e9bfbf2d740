"""SparkPass: a pass whose tasks run in Spark's workers: a stage per level, joined by shuffles, one action for all.

What the tasks report comes back with the action's result; of a batch, which may take hours, the host learns of each
task as soon as it has ended. The host's thread; actions run elsewhere.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import RDD, Accumulator, SparkContext

from runtime.execution.passes.levels import REPORTS, Level, Row, partitions_of, reports_of
from runtime.execution.passes.outcomes import Outcomes, handed_on
from runtime.execution.passes.plan import PassKind, PassPlan, TaskOutcome, TaskPrinted
from runtime.execution.passes.remote_pass import RemotePass, Reports, first_line
from runtime.execution.passes.stage_functions import Commit, RunLevel, is_report, partition_of
from runtime.execution.spark_query import Work
from runtime.execution.spark_session import is_local

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
        take_ended: is given the outcomes of tasks of a batch before all have ended, some of them again; any thread.
        wake: has the host look again; any thread.
        on_abandon: is called when the pass is given up.
        filed_in: a directory for frames where all workers are on this machine; made and deleted here.
    """

    def __init__(
        self,
        plan: PassPlan,
        submit: Submit,
        submit_beside: Submit,
        take_print: Callable[[TaskPrinted], None],
        take_ended: Callable[[Sequence[TaskOutcome]], None],
        wake: Callable[[], None],
        on_abandon: Callable[[], None],
        filed_in: Path,
    ) -> None:
        super().__init__(plan, take_print, wake)
        self._submit = submit
        self._submit_beside = submit_beside
        self._take_ended = take_ended
        self._on_abandon = on_abandon
        self._filed_in = filed_in
        self._is_abandoned = False

    @property
    def place(self) -> str:
        return "Spark"

    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        partitions = [partitions_of(level.plan.deployments) for level in levels]

        def act(context: SparkContext) -> Reports:
            filed_in = self._filed_in if len(levels) > 1 and is_local(context.master) else None
            with sharing(filed_in):
                if self.plan.kind is not PassKind.BOUNDED:
                    return run(context, filed_in, None)
                with handed_on(context, self._ended) as ended:
                    return run(context, filed_in, ended)

        def run(context: SparkContext, filed_in: Path | None, ended: Accumulator[Outcomes] | None) -> Reports:
            functions = [RunLevel(replace(level, filed_in=filed_in), ended) for level in levels]
            # executors are lost with the output of stages that have ended, workers of this machine are not
            may_lose_output = self.plan.kind is PassKind.BOUNDED and not is_local(context.master)
            begin = beginning_anew if may_lose_output else beginning
            rows = begin(context, partitions[0]).mapPartitions(functions[0])
            for number, function in enumerate(functions[1:], 1):
                # not sorted by Spark, which would compress what it has no room for: that costs more than the tasks
                rows = rows.partitionBy(partitions[number], partition_of).mapPartitions(function)
            return self._collected(rows.filter(is_report))

        return self._submit(act)

    def _ended(self, reports: bytes) -> None:
        self._take_ended([report for report in REPORTS.decode(reports) if isinstance(report, TaskOutcome)])

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        function, partitions = Commit(plan, is_over), len(plan.deployments)

        def act(context: SparkContext) -> Reports:
            return self._collected(beginning(context, partitions).mapPartitions(function).filter(is_report))

        return self._submit_beside(act) if is_over else self._submit(act)

    def _collected(self, rows: RDD[Row]) -> Reports:
        """Return the reports; of a batch, also if Spark has lost some workers. What has ended is not run again: Spark
        keeps the output of a stage for the rows that are collected twice. Commits are all repeated, as sinks allow.
        """
        for _ in range(MAX_LOSSES if self.plan.kind is PassKind.BOUNDED else 0):
            try:
                return reports_of(rows.collect())
            except Exception as error:
                if self._is_abandoned:
                    raise
                self.was_repeated = True
                logger.warning("Spark has lost tasks of a batch, and runs them again: %s", first_line(error))
        return reports_of(rows.collect())

    def abandon(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self._on_abandon()


@contextmanager
def sharing(directory: Path | None) -> Iterator[None]:
    """Make a directory, and delete it in the end; None: do nothing."""
    if directory is None:
        yield
        return
    directory.mkdir()
    try:
        yield
    finally:
        # who still runs finds no place to write to, and nobody wants what it writes
        shutil.rmtree(directory, ignore_errors=True)


def beginning(context: SparkContext, partitions: int) -> RDD[int]:
    """Return one number for each partition of a level without input."""
    return context.parallelize(range(partitions), partitions)


def beginning_anew(context: SparkContext, partitions: int) -> RDD[Any]:
    """Return such rows of which Spark knows that whatever is computed from them differs from run to run: of a stage
    whose output is lost in part it then computes all again, and all that has read it.

    Otherwise records would be lost and others doubled: they are dealt out batch by batch, and how long a batch is
    depends on time. No call says so; a sample, here the whole, of rows that have been shuffled has that property.
    """
    pairs = context.parallelize([(number, number) for number in range(partitions)], partitions)
    shuffled = pairs.partitionBy(partitions, int)
    return RDD(shuffled._jrdd.sample(False, 1.0, 0), context, shuffled._jrdd_deserializer)
