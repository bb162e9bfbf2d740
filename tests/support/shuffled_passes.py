"""ShuffledPasses: runs passes as Spark does, level by level with rows that are shuffled, in this process."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from runtime.execution.attempt_passes import LocalPasses
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.levels import Level, LevelRun, Row, commit, partitions_of, reports_of
from runtime.execution.passes.plan import PassPlan, TaskPrinted
from runtime.execution.passes.remote_pass import RemotePass, Reports
from runtime.execution.passes.stage_functions import is_report, partition_of
from runtime.execution.slot_host import SlotHost

T = TypeVar("T")


class ShuffledPass(RemotePass):
    """A pass whose levels run at once."""

    def __init__(self, plan: PassPlan, take_print: Callable[[TaskPrinted], None]) -> None:
        super().__init__(plan, take_print, lambda: None)

    @property
    def place(self) -> str:
        return "a shuffle"

    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        def run() -> Reports:
            partitions: list[list[Row]] = [[] for _ in range(partitions_of(levels[0].plan.deployments))]
            for number, level in enumerate(levels):
                emitted: list[Row] = []
                for partition, rows in enumerate(partitions):
                    emitted += LevelRun(_copied(level), partition).run(iter(rows))
                if number + 1 == len(levels):
                    return reports_of(filter(is_report, emitted))
                partitions = _shuffled(emitted, partitions_of(levels[number + 1].plan.deployments))
            raise AssertionError("a pass has a level")

        return _done(run)

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        def run() -> Reports:
            rows = [row for task in range(len(plan.deployments)) for row in commit(_copied(plan), task, is_over)]
            return reports_of(filter(is_report, rows))

        return _done(run)

    def abandon(self) -> None:
        """Do nothing: nothing is left of a level that has run."""


class ShuffledPasses(LocalPasses):
    """Makes such passes for a host."""

    def __init__(self, host: SlotHost) -> None:
        super().__init__(host)
        self._host = host

    def make(self, plan: PassPlan) -> JobPass:
        return ShuffledPass(plan, self._print)

    def _print(self, printed: TaskPrinted) -> None:
        self._host.client_of(printed.task).send(printed.channel, printed.payload)


def _shuffled(emitted: list[Row], partitions: int) -> list[list[Row]]:
    by_place: list[list[Row]] = [[] for _ in range(partitions)]
    for row in emitted:
        by_place[partition_of(row[0]) % partitions].append(_copied(row))
    return [_in_another_order(rows) for rows in by_place]


def _in_another_order(rows: list[Row]) -> list[Row]:
    """Return rows as they come from several places: in whatever order, and in the same when a test is run again."""
    random.Random(len(rows)).shuffle(rows)
    return rows


def _copied(value: T) -> T:
    """Return the value as another process gets it."""
    copied: T = pickle.loads(pickle.dumps(value))
    return copied


def _done(run: Callable[[], Reports]) -> Future[Reports]:
    future: Future[Reports] = Future()
    try:
        future.set_result(run())
    except Exception as error:
        future.set_exception(error)
    return future
