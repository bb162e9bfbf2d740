"""Spark as a host of passes sees it: a query that begins batches, and actions whose stages run in workers.

Real is what a stage runs (`levels`) and what takes its reports (`RemotePass`). Simulated are workers, each a process
that runs one partition of a level or one commit, the shuffles between levels, and the query. A worker whose work is not
wanted any more may go on with it: nobody hears of it, but what it writes is there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from runtime.checkpoint.state_files import Retries
from runtime.core.clock import Clock
from runtime.execution import spark_passes
from runtime.execution.passes import levels, task_run
from runtime.execution.passes.levels import Level, LevelRun, Row, commit, partitions_of, reports_of
from runtime.execution.passes.plan import PassPlan
from runtime.execution.passes.remote_pass import Reports
from runtime.execution.passes.stage_functions import is_report, partition_of
from runtime.execution.spark_pass import SparkPass
from runtime.execution.spark_query import QueryBatch, QueryFacts
from tests.simulation import active
from tests.simulation.faults import Point
from tests.simulation.hosts import HostProcess
from tests.simulation.process import Process

T = TypeVar("T")
_LOST = "a worker was lost"
_START_MS = 10.0
"""How long it takes a worker, or a query, to begin."""

Run = Callable[[], Iterator[Row]]
Answer = Callable[["list[Row] | None"], None]


class SparkWorker(Process):
    """A worker that runs one partition.

    Args:
        owner: the host that has asked for it.
        name: for the story.
        point: is passed when it begins.
        run: its work.
        answer: is given what came of it; None: the worker was lost.
    """

    def __init__(self, owner: HostProcess, name: str, point: Point, run: Run, answer: Answer) -> None:
        super().__init__(owner.world, name)
        self._point = point
        self._run = run
        self._answer = answer
        self._has_answered = False

    def step(self) -> None:
        self.world.reach(self._point, self.name)
        rows = list(self._run())
        self.is_dead = True
        self.world.database.forget_open(self.transactions)
        self.world.disk.ended(self)
        if not self.is_isolated:
            self._tell(rows)

    def ended(self) -> None:
        self._tell(None)

    @property
    def is_isolated(self) -> bool:
        return self._is_isolated

    @is_isolated.setter
    def is_isolated(self, value: bool) -> None:
        self._is_isolated = value
        if value:
            # Spark gives up what it hears nothing of for some time
            self.world.at(self.world.clock.monotonic_ms() + self.world.lease_ms, lambda: self._tell(None))

    def cancel(self) -> None:
        """End it, if it can be reached."""
        if not self.is_isolated:
            self.world.kill(self)

    def _tell(self, rows: list[Row] | None) -> None:
        if not self._has_answered:
            self._has_answered = True
            self._answer(rows)


class _Action:
    """One action of Spark's: stages one after the other, whose last one's reports are its result.

    Args:
        owner: the host that has asked for it.
        point: is passed by each worker.
        stages: by stage and partition, what runs there, given its rows.
    """

    def __init__(
        self, owner: HostProcess, point: Point, stages: Sequence[Sequence[Callable[[Iterator[Row]], Iterator[Row]]]]
    ) -> None:
        self.future: Future[Reports] = _SimulatedFuture()
        self._owner = owner
        self._world = owner.world
        self._point = point
        self._stages = stages
        self._workers: list[SparkWorker] = []
        self._begin(0, [[] for _ in stages[0]])

    def _begin(self, stage: int, partitions: Sequence[list[Row]]) -> None:
        done: dict[int, list[Row]] = {}
        for number, (function, rows) in enumerate(zip(self._stages[stage], partitions, strict=True)):

            def run(function: Any = function, rows: list[Row] = rows) -> Iterator[Row]:
                return function(iter(rows))

            def answer(rows: list[Row] | None, number: int = number) -> None:
                if self.future.done():
                    self._world.num_passes["answered too late"] += rows is not None
                elif rows is None:
                    self._end(lambda: self.future.set_exception(RuntimeError(_LOST)))
                else:
                    done[number] = rows
                    if len(done) == len(partitions):
                        self._go_on(stage, [row for _, of in sorted(done.items()) for row in of])

            worker = SparkWorker(self._owner, f"worker {number} of level {stage}", self._point, run, answer)
            worker.due_ms = self._world.clock.monotonic_ms() + self._world.delay_ms(_START_MS)
            worker.name = f"{worker.name} of {self._owner.name}"
            self._owner.workers.append(worker)
            self._world.add(worker)

    def _go_on(self, stage: int, emitted: list[Row]) -> None:
        if self._owner.is_dead:
            return
        if stage + 1 < len(self._stages):
            self._begin(stage + 1, _shuffled(emitted, len(self._stages[stage + 1])))
            return
        reports = reports_of(filter(is_report, emitted))
        self._end(lambda: self.future.set_result(reports))

    def _end(self, say: Callable[[], None]) -> None:
        owner = self._owner

        def arrive() -> None:
            if not self.future.done():
                self._world.reach(Point.REPORTED, owner.name)
                say()

        self._world.tell_thread(owner, arrive)


class SimulatedPass(SparkPass):
    """A pass whose actions run in simulated workers."""

    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        stages = [[_level_run(level, number) for number in range(_partitions_of(level))] for level in levels]
        return _Action(_owner(), Point.LEVEL, stages).future

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        commits = [_commit_of(plan, number, is_over) for number in range(len(plan.deployments))]
        return _Action(_owner(), Point.REPEAT, [commits]).future

    def abandon(self) -> None:
        if not self._is_abandoned:
            # what one of its tasks has reported may be why
            _owner().cancel()
        super().abandon()


class SimulatedQuery:
    """A query in place of `BatchQuery`: it calls with each batch, and begins the next one when that is over."""

    def __init__(
        self,
        context: object,
        facts: QueryFacts,
        on_batch: Callable[[QueryBatch], None],
        on_end: Callable[[str | None], None],
    ) -> None:
        self._owner = _owner()
        self._facts = facts
        self._on_batch = on_batch
        self._on_end = on_end
        self._has_more = True
        self._is_stopped = False
        self._number = -1
        #: whether it asks for a batch until there is one
        self._is_asking = False
        self._begin_soon(_START_MS)

    def say_more(self, has_more: bool) -> None:
        self._has_more = has_more
        if has_more and self._is_asking:
            self._is_asking = False
            self._begin_soon(float(self._facts.interval_ms))

    def stop(self) -> None:
        self._is_stopped = True
        self._owner.cancel()

    def over(self, error: str | None) -> None:
        """Its batch is over."""

        def hear() -> None:
            if self._is_stopped:
                return
            self._owner.world.reach(Point.BATCH_OVER, self._owner.name)
            if error is not None or not (self._has_more or self._facts.trigger == "processing-time"):
                self._on_end(error)
            elif not self._has_more:
                self._is_asking = True
            else:
                self._begin_soon(float(self._facts.interval_ms))

        self._owner.world.later(self._owner, hear)

    def _begin_soon(self, most_ms: float) -> None:
        self._owner.world.later(self._owner, self._begin, most_ms)

    def _begin(self) -> None:
        if not self._is_stopped:
            self._owner.world.reach(Point.BATCH, self._owner.name)
            self._number += 1
            self._on_batch(_SimulatedBatch(self._number, self))


class _SimulatedBatch(QueryBatch):
    """One call of the query."""

    def __init__(self, number: int, query: SimulatedQuery) -> None:
        super().__init__(number, None, {})
        self._query = query

    def finish(self, error: str | None = None) -> None:
        self._query.over(error)


class _SimulatedFuture(Future[T]):
    """A result for which a process waits by letting the world go on."""

    def result(self, timeout: float | None = None) -> T:
        if not self.done():
            active.world().wait(self.done)
        return super().result(0)


class _SimulatedEvent:
    """An event for which a process waits by letting some time pass."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout_s: float) -> None:
        world = active.world()
        until_ms = world.clock.monotonic_ms() + 1_000 * timeout_s
        world.at(until_ms, _nothing)
        world.wait(lambda: self._is_set or world.clock.monotonic_ms() >= until_ms)


class _WorldClock:
    """The clock of the simulation that runs."""

    def now_ms(self) -> int:
        return active.world().clock.now_ms()

    def monotonic_ms(self) -> float:
        return active.world().clock.monotonic_ms()


_CLOCK: Clock = _WorldClock()


@contextmanager
def installed() -> Iterator[None]:
    """Passes use the clock and the files of the simulation that runs, and Spark is the one of this module."""
    replaced: list[tuple[Any, str, Any]] = [
        (spark_passes, "BatchQuery", SimulatedQuery),
        (spark_passes, "SparkPass", SimulatedPass),
        (levels, "SYSTEM_CLOCK", _CLOCK),
        (task_run, "default_file_system", lambda: active.world().files),
        (task_run, "DEFAULT_RETRIES", Retries((0.0, 0.0), pause=lambda _: None)),
        (task_run, "threading", SimpleNamespace(Event=_SimulatedEvent)),
    ]
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    try:
        for module, name, value in replaced:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in originals:
            setattr(module, name, value)


def _owner() -> HostProcess:
    owner = active.world().current
    assert isinstance(owner, HostProcess)
    return owner


def _partitions_of(level: Level) -> int:
    return partitions_of(level.plan.deployments)


def _level_run(level: Level, partition: int) -> Callable[[Iterator[Row]], Iterator[Row]]:
    packed = pickle.dumps(level)
    return lambda rows: LevelRun(pickle.loads(packed), partition).run(rows)


def _commit_of(plan: PassPlan, task: int, is_over: bool) -> Callable[[Iterator[Row]], Iterator[Row]]:
    packed = pickle.dumps(plan)
    return lambda _: commit(pickle.loads(packed), task, is_over)


def _shuffled(emitted: list[Row], partitions: int) -> list[list[Row]]:
    by_place: list[list[Row]] = [[] for _ in range(partitions)]
    for row in emitted:
        by_place[partition_of(row[0]) % partitions].append(row)
    return by_place


def _nothing() -> None:
    """Do nothing: the time has come."""
