"""The database of a simulated cluster: Django over SQLite in memory, whose calls fail, are late or go unanswered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import OperationalError, connection

from backend.cluster.models import Artifact, Checkpoint, Job, JobException, LeaderEpoch, Operation, TaskManager
from tests.cluster.failing_database import calls_pass
from tests.control_plane.scenario import Action, Point

if TYPE_CHECKING:
    from tests.control_plane.world import World

_WRITES = ("INSERT", "UPDATE", "DELETE")
#: longest time that a call takes by itself
_LATENCY_MS = 4.0


class Database:
    """All calls to the database, whoever makes them.

    Args:
        world: the simulation.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.away_until_ms = 0.0
        #: statements that write, of the transaction that is open
        self._writes: list[str] = []

    @property
    def is_away(self) -> bool:
        return self._world.clock.monotonic_ms() < self.away_until_ms

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Empty the database, and have all calls pass through here while the block lasts."""
        for model in (Checkpoint, JobException, Operation, Job, Artifact, TaskManager, LeaderEpoch):
            model._default_manager.all().delete()
        with calls_pass(self._call):
            yield

    def _call(self, what: str, carry_out: Callable[[], Any]) -> Any:
        world = self._world
        process = world.scheduler.process
        if process is None:
            # the simulation looks
            return carry_out()
        is_free = not connection.in_atomic_block and what != "COMMIT"
        if is_free:
            world.edge()
            world.scheduler.sleep(world.random.random() * _LATENCY_MS)
            world.edge()
            self._writes.clear()
        world.check_alive()
        if self.is_away:
            raise OperationalError(f"the database is away: {what:.60}")
        text = f"COMMIT {'; '.join(self._writes)}" if what == "COMMIT" else what
        if what.startswith("BEGIN"):
            text = f"BEGIN of {world.scheduler.thread}"
        fault = world.passes(Point.SQL, text) if process in world.leaders else None
        if fault is not None and fault.action is Action.LATE and is_free:
            world.befall(fault)
        is_begin = what.startswith("BEGIN")
        if fault is not None and fault.action is Action.KILL and (is_begin or not fault.ms):
            if what == "COMMIT":
                # its connection ends with it
                connection.connection.rollback()
            world.befall(fault)
        if fault is not None and fault.action is Action.FREEZE and is_begin:
            # nobody stands still in a transaction: another process could not write
            world.befall(fault)
            world.edge()
            # meanwhile another one may have ended in the middle of a transaction
            self._writes.clear()
        if fault is not None and fault.action is Action.FAIL:
            raise OperationalError(f"the connection is lost: {what:.60}")
        if what.startswith(_WRITES):
            self._writes.append(what)
        result = carry_out()
        if what == "COMMIT" or is_free:
            self._committed()
        if fault is not None and fault.action is Action.LOSE_ANSWER and not is_begin:
            raise OperationalError(f"the answer is lost: {what:.60}")
        if fault is not None and fault.action in (Action.KILL, Action.FREEZE) and not is_begin:
            world.befall(fault)
        return result

    def _committed(self) -> None:
        if self._writes:
            self._world.oracle.written(self._writes)
            self._writes.clear()
