"""A database with two-phase commit that outlives every process of the simulated cluster, and the sink's way to it.

It notices by itself what must never happen: a transaction that is to be committed and is gone, and one that is written
to after it was prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.core.batch import RecordBatch
from runtime.operators.sink import WriterContext
from runtime.operators.two_phase_commit import TwoPhaseCommitFunction
from tests.simulation import active
from tests.simulation.faults import Point


class DatabaseError(Exception):
    """The database refuses."""


@dataclass
class Database:
    """Transactions by id. Rows become visible in the order of the commits."""

    open: dict[str, list[Any]] = field(default_factory=dict)
    prepared: dict[str, list[Any]] = field(default_factory=dict)
    committed: dict[str, list[Any]] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    #: what must never happen, in words
    violations: list[str] = field(default_factory=list)

    def begin(self, transaction: str) -> None:
        if transaction in self.open or transaction in self.prepared or transaction in self.committed:
            self.violations.append(f"transaction {transaction} was begun twice")
        self.open[transaction] = []

    def write(self, transaction: str, rows: list[Any]) -> None:
        if transaction not in self.open:
            raise DatabaseError(f"{transaction} is not open")
        self.open[transaction].extend(rows)

    def prepare(self, transaction: str) -> None:
        if transaction not in self.open:
            raise DatabaseError(f"{transaction} is not open")
        self.prepared[transaction] = self.open.pop(transaction)

    def commit(self, transaction: str) -> None:
        if transaction in self.committed:
            return
        if transaction not in self.prepared:
            how = "was aborted" if transaction in self.aborted else "is not there"
            self.violations.append(f"transaction {transaction} is to be committed and {how}")
            raise DatabaseError(f"{transaction} {how}")
        self.committed[transaction] = self.prepared.pop(transaction)

    def abort(self, transaction: str) -> None:
        if transaction in self.committed:
            self.violations.append(f"transaction {transaction} is to be aborted and is visible")
            raise DatabaseError(f"{transaction} is committed")
        self.open.pop(transaction, None)
        self.prepared.pop(transaction, None)
        self.aborted.add(transaction)

    def forget_open(self, transactions: list[str]) -> None:
        """The connection that had begun them is gone."""
        for transaction in transactions:
            if self.open.pop(transaction, None) is not None:
                self.aborted.add(transaction)


class DatabaseFunction(TwoPhaseCommitFunction[str]):
    """Writes into the database of the simulation that runs."""

    def open(self, context: WriterContext) -> None:
        active.world().reach(Point.OPEN)

    def begin(self, transaction_id: str) -> str:
        world = active.world()
        world.database.begin(transaction_id)
        world.current.transactions.append(transaction_id)
        return transaction_id

    def write(self, transaction: str, batch: RecordBatch) -> None:
        world = active.world()
        world.reach(Point.WRITE)
        world.database.write(transaction, batch.values())
        # slower than what comes before: channels fill
        world.clock.advance(world.scenario.record_ms * batch.num_rows / 2)

    def pre_commit(self, transaction: str) -> None:
        world = active.world()
        world.reach(Point.PRE_COMMIT)
        world.database.prepare(transaction)
        world.tell(f"prepared {transaction}")
        world.reach(Point.PREPARED)

    def commit(self, transaction: str) -> None:
        world = active.world()
        world.reach(Point.COMMIT)
        world.database.commit(transaction)
        world.tell(f"committed {transaction}")
        world.reach(Point.COMMITTED)

    def abort(self, transaction: str) -> None:
        world = active.world()
        world.reach(Point.CLOSE)
        world.database.abort(transaction)
        world.tell(f"aborted {transaction}")

    def list_unfinished(self, prefix: str) -> Mapping[str, str]:
        return {name: name for name in active.world().database.prepared if name.startswith(prefix)}
