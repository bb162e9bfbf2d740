"""ShuffledPasses: runs passes as Spark does, level by level with rows that are shuffled and sorted, in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from runtime.execution.attempt_passes import AttemptPasses
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.levels import FRAME, SCHEMA, SORTED_BY, Level, LevelRun, commit, nothing, partitions_of
from runtime.execution.passes.plan import PassPlan, TaskPrinted
from runtime.execution.passes.remote_pass import RemotePass, Reports
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
            partitions = [[nothing()] for _ in range(partitions_of(levels[0].plan.deployments))]
            for number, level in enumerate(levels):
                emitted: list[pa.RecordBatch] = []
                for partition, batches in enumerate(partitions):
                    emitted += LevelRun(_copied(level), partition).run(iter(batches))
                table = pa.Table.from_batches(emitted, SCHEMA)
                if number + 1 == len(levels):
                    return _reports(table)
                partitions = _shuffled(table, partitions_of(levels[number + 1].plan.deployments))
            raise AssertionError("a pass has a level")

        return _done(run)

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        def run() -> Reports:
            batches = [b for task in range(len(plan.deployments)) for b in commit(_copied(plan), task, is_over)]
            return _reports(pa.Table.from_batches(batches, SCHEMA))

        return _done(run)

    def abandon(self) -> None:
        """Do nothing: nothing is left of a level that has run."""


class ShuffledPasses(AttemptPasses):
    """Makes such passes for a host."""

    def __init__(self, host: SlotHost) -> None:
        self._host = host

    def begin(self, plan: PassPlan) -> JobPass:
        return ShuffledPass(plan, self._print)

    def _print(self, printed: TaskPrinted) -> None:
        self._host.client_of(printed.task).send(printed.channel, printed.payload)


def _shuffled(table: pa.Table, partitions: int) -> list[list[pa.RecordBatch]]:
    places = [consumer % partitions for consumer in table.column("consumer").to_pylist()]
    by_place = []
    for partition in range(partitions):
        rows = table.take([index for index, place in enumerate(places) if place == partition])
        # small batches: what is behind a task's frames begins in the middle of one
        by_place.append(rows.sort_by([(column, "ascending") for column in SORTED_BY]).to_batches(max_chunksize=3))
    return by_place


def _reports(table: pa.Table) -> Reports:
    rows = [row for row in table.to_pylist() if row["kind"] != FRAME]
    return [row["payload"] for row in sorted(rows, key=lambda row: (row["vertex"], row["producer"], row["sequence"]))]


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
