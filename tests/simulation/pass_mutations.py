"""Mistakes in how passes are run, committed and gone on from, each found by seeds or scenarios of `passes`.

What stands for a mistake is in the text of the violation; the same scenario is clean without it.
"""

from __future__ import annotations

from runtime.execution.batch_sources import BatchSources
from runtime.execution.passes.plan import PassKind
from runtime.execution.slot_host import SlotHost
from runtime.execution.spark_passes import SparkPasses
from runtime.jobmaster.failover import Failover
from runtime.operators.two_phase_commit import TransactionIds
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.mutations import Mutation
from tests.simulation.passes import pass_scenario_of
from tests.simulation.progress import HANGS
from tests.simulation.scenario import Passes, Scenario
from tests.simulation.world import DAMAGED_AGAIN

#: long enough for several batches
_HERE = Scenario(1, passes=Passes.HERE, max_rows=8)
_ELSEWHERE = Scenario(1, passes=Passes.ELSEWHERE, max_rows=8)


def _elsewhere(*faults: Fault) -> Scenario:
    return Scenario(1, passes=Passes.ELSEWHERE, max_rows=8, faults=faults)


PASS_MUTATIONS = (
    Mutation(
        "a batch commits before its snapshot is complete",
        SlotHost,
        "_acknowledge",
        "checkpoint_id = plan.barrier.checkpoint_id",
        "checkpoint_id = plan.barrier.checkpoint_id; self._restore_from(batch.run); "
        "list(batch.run.commit(checkpoint_id, self._restores))",
        scenarios=(
            Scenario(1, passes=Passes.HERE, max_rows=8, faults=(Fault(Point.METADATA, 2, Action.KILL_DRIVER),)),
        ),
        found_as="duplicated",
    ),
    Mutation(
        "a batch begins where the one before it began",
        SlotHost,
        "_complete",
        "self._restore_from(batch.run)",
        "self._restores = {**self._restores}",
        scenarios=(_HERE,),
        found_as="duplicated",
    ),
    Mutation(
        "splits that a complete batch has read are given again",
        BatchSources,
        "confirm",
        "self._coordinators[known].confirm(list(numbers))",
        "pass",
        scenarios=(_HERE,),
        found_as="duplicated",
    ),
    Mutation(
        "sources' coordinators take their snapshots before the batch is dealt out",
        BatchSources,
        "deal",
        "coordinator.deal_ahead(self._ahead[known])\n    return coordinator.snapshot()",
        "taken = coordinator.snapshot()\n    coordinator.deal_ahead(self._ahead[known])\n    return taken",
        scenarios=(_elsewhere(Fault(Point.NOTIFY, 1, Action.KILL_DRIVER)),),
        found_as="duplicated",
    ),
    Mutation(
        "transactions are numbered alike in all passes",
        TransactionIds,
        "__init__",
        "context.pass_number * _TRANSACTIONS_OF_A_PASS",
        "0",
        scenarios=(_ELSEWHERE,),
        found_as="was begun twice",
    ),
    Mutation(
        "a savepoint is a batch",
        PassKind,
        "of",
        "cls.SNAPSHOT if options.is_savepoint else cls.DATA",
        "cls.DATA",
        scenarios=(_elsewhere(Fault(Point.PROCESS, 60, Action.SAVEPOINT)),),
        hangs=True,
        found_as=HANGS,
    ),
    Mutation(
        "what one slot hears of a checkpoint undoes what another one has begun",
        SlotHost,
        "_complete",
        "batch.then != self._acknowledge",
        "batch.then == self._committed",
        scenarios=(pass_scenario_of(0),),
        hangs=True,
        found_as=HANGS,
    ),
    Mutation(
        "a query is not told that its batch is over",
        SparkPasses,
        "completed",
        "self._finish()",
        "pass",
        scenarios=(_ELSEWHERE,),
        hangs=True,
        found_as=HANGS,
    ),
    Mutation(
        "a checkpoint that a batch cannot restore is restored again",
        Failover,
        "decide",
        "or self._checkpoints.settings.is_micro_batch",
        "",
        scenarios=(
            Scenario(
                1,
                passes=Passes.HERE,
                num_retained=3,
                max_rows=8,
                faults=(Fault(Point.NOTIFY, 9, Action.DAMAGE, 1),),
            ),
        ),
        hangs=True,
        found_as=DAMAGED_AGAIN,
    ),
)
