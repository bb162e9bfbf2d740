"""Mistakes in how slots come over to another JobMaster, each with a seed of `adoption_scenario_of` that finds it.

What stands for a mistake is in the text of the violation; the same seed is clean without it.
"""

from __future__ import annotations

from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.jobmaster.adoption import Adoption
from runtime.jobmaster.life_cycle import JobMasterMachine
from runtime.jobmaster.operations import JobOperations
from runtime.operators.source_coordinator import SourceCoordinator
from runtime.operators.source_operator import SourceOperator
from runtime.task.control_session import AdoptionOffer, ControlSession
from tests.simulation.control import OLD_EPOCH
from tests.simulation.mutations import Mutation
from tests.simulation.progress import NOT_ENDED

NOT_ADOPTED = "was not adopted"

ADOPTION_MUTATIONS = (
    Mutation(
        "a slot still listens to the JobMaster that it has left",
        ControlSession,
        "_come_over",
        "old.drop()",
        "poll, link.poll = link.poll, lambda: poll() or (old.poll() if old._inbox and not old.lost else None)",
        seeds=(15,),
        found_as=OLD_EPOCH,
    ),
    Mutation(
        "a slot comes over to a JobMaster of a lower epoch",
        ControlSession,
        "offer",
        "if offer.epoch <= self._epoch:",
        "if False:",
        seeds=(24,),
        found_as="goes back to",
    ),
    Mutation(
        "whoever asks a slot to come over need not know its token",
        AdoptionOffer,
        "opened",
        "if not hmac.compare_digest(_mac(offer._body(), token), mac):",
        "if False:",
        seeds=(12,),
        found_as="does not know its token",
    ),
    Mutation(
        "slots without a JobMaster end at once",
        ControlSession,
        "_wait_for_adoption",
        "if self._clock.monotonic_ms() - since_ms > timeout_ms:",
        "if True:",
        seeds=(4,),
        found_as=NOT_ADOPTED,
    ),
    Mutation(
        "a region is adopted although a slot of it has not come over",
        Adoption,
        "conclude",
        "for slot in self._run.slots.missing():",
        "for slot in ():",
        seeds=(3,),
        found_as="a slot is not live in phase Phase.STARTED",
    ),
    Mutation(
        "checkpoints that slots report as begun are not given up",
        CheckpointCoordinator,
        "_on_adopted",
        "self._actions.append(NotifyAborted(checkpoint_id))",
        "pass",
        seeds=(0,),
        found_as="not told how checkpoints",
    ),
    Mutation(
        "the checkpoint that is recorded is given up like the others",
        CheckpointCoordinator,
        "_on_adopted",
        "newest = CheckpointId(0) if point is None else point.checkpoint_id",
        "newest = CheckpointId(0)",
        seeds=(24,),
        found_as="is complete and given up",
    ),
    Mutation(
        "a checkpoint is triggered before slots hear how the earlier ones ended",
        JobMasterMachine,
        "_conclude_adoption",
        "self._checkpoints.adopted(self._adoption.pending, self._adoption.last_seen)",
        "self._advance()\n    self._checkpoints._coordinator._due_ms = self._journal.now_ms\n"
        "    self._checkpoints.tick()\n"
        "    self._checkpoints.adopted(self._adoption.pending, self._adoption.last_seen)",
        seeds=(8,),
        found_as="before it knows how the earlier ones ended",
    ),
    Mutation(
        "ids of checkpoints that slots have heard of are used again",
        CheckpointCoordinator,
        "_on_adopted",
        "max(self._next_id, event.last_seen + 1, *(n + 1 for n in event.pending))",
        "self._next_id",
        seeds=(1,),
        found_as="is asked for checkpoint",
    ),
    Mutation(
        "adopted readers do not ask again for what was lost with the JobMaster",
        SourceOperator,
        "resync",
        "if not self._no_more:",
        "if False:",
        seeds=(2,),
        found_as=NOT_ENDED,
    ),
    Mutation(
        "a reader whose assignment was lost gets another split",
        SourceCoordinator,
        "_resync",
        "if number is None or split is None or (known.received is not None and number <= known.received):",
        "if True:",
        seeds=(8,),
        found_as="lost",
    ),
    Mutation(
        "a job that was committing takes the checkpoint at its end once more",
        JobOperations,
        "commit_adopted",
        "self._final_is_complete = self._takes_final",
        "pass",
        seeds=(0,),
        found_as=NOT_ENDED,
    ),
)
