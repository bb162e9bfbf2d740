"""Failover: decides how a job reacts to a failure. Pure.

The answer says whether the job goes on, when, with which graph, and whether only a region of it restarts.

Source: Flink, ExecutionFailureHandler, FailureHandlingResult, RestartPipelinedRegionFailoverStrategy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from runtime.core.ids import SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.operations import JobOperations
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.regions import RegionRestarts
from runtime.jobmaster.restart_strategy import RestartStrategy
from runtime.task.messages import FailureInfo


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """Says how to react to a failure."""

    cause: FailureInfo
    """The failure's cause, with anything there is to add."""
    restart_at_ms: float | None
    """Earliest time of the next attempt; None = there will be none."""
    is_planned: bool = False
    """Whether the next attempt does not result from the job's own failure."""
    graph: JobGraph | None = None
    """The graph to go back to; None = the same."""
    region: Region | None = None
    """Region that restarts alone while the others go on; None = the whole job restarts."""


class Failover:
    """Decides about the failures of one job.

    Args:
        strategy: asked if nothing else decides.
        restarts_regions: whether a region that fails restarts alone, where it can.
        checkpoints: of the job; told of a damaged one.
        operations: of the job; told of a rescaling that was not carried out.
        journal: of the machine.
    """

    def __init__(
        self,
        strategy: RestartStrategy,
        restarts_regions: bool,
        checkpoints: JobCheckpoints,
        operations: JobOperations,
        journal: Journal,
    ) -> None:
        self._strategy = strategy
        self._restarts_regions = restarts_regions
        self._checkpoints = checkpoints
        self._operations = operations
        self._journal = journal

    def decide(
        self, cause: FailureInfo, slot: SlotId | None, run: AttemptRun, regions: RegionRestarts, is_working: bool
    ) -> RestartDecision:
        """Decide about a failure; once for each, since the restart strategy counts them.

        Args:
            cause: what broke.
            slot: where; None = not in one slot.
            run: the attempt.
            regions: of the attempt.
            is_working: whether the job runs, in part at least.
        """
        restores = regions.is_restoring(slot) or self._checkpoints.settings.is_micro_batch
        if cause.is_damaged_snapshot and not restores:
            # a slot that has restored has read all of it: the broken file is a copy on that machine
            cause = replace(cause, is_damaged_snapshot=False)
        goes_alone = is_working and self._may_fail_alone(cause, run)
        decision = self._decide(cause, run.phase)
        if slot is None or not goes_alone or decision.restart_at_ms is None:
            return decision
        return replace(decision, region=run.execution.region_of(slot))

    def after_lost_leader(self, cause: FailureInfo) -> RestartDecision:
        """Decide about a job of which nothing could be adopted.

        That is not a failure of the job: one with checkpoints goes on from the newest, whatever its strategy.
        """
        if self._checkpoints.settings.is_enabled or self._checkpoints.can_restore:
            return RestartDecision(cause, self._journal.now_ms)
        return self._decide(cause, Phase.RECONCILING)

    def can_restart_alone(self, regions: Collection[int], run: AttemptRun) -> bool:
        """Return whether these regions can be restarted while the others go on."""
        return not regions or (self._restarts_regions and len(regions) < len(run.regions))

    def _may_fail_alone(self, cause: FailureInfo, run: AttemptRun) -> bool:
        """Return whether a part of the job can be restarted while the others go on."""
        # what later checkpoints build on would be missing in the one before the damaged one
        is_of_job = cause.is_fatal or cause.is_damaged_snapshot
        can_restart = self._restarts_regions and len(run.regions) > 1 and run.phase is Phase.STARTED
        return can_restart and not is_of_job and self._operations.may_be_interrupted

    def _decide(self, cause: FailureInfo, phase: Phase) -> RestartDecision:
        now_ms = self._journal.now_ms
        damage = self._checkpoints.take_damage(cause)
        if damage:
            # not the job's own failure: the older checkpoint is tried at once, and the restart strategy is not asked
            return RestartDecision(cause, now_ms, is_planned=True)
        if damage is False:
            return RestartDecision(_noting(cause, "there is no older checkpoint to restore"), None)
        if cause.is_fatal:
            return RestartDecision(cause, None)
        # the slots for a new parallelism did not come, and the job runs with the old one instead
        previous = self._operations.give_up_rescale(cause.message) if phase is Phase.REQUESTING else None
        if previous is not None:
            return RestartDecision(cause, now_ms, is_planned=True, graph=previous)
        if phase is Phase.COMMITTING and not self._operations.may_commit_again:
            # what is committed is visible: running again would write it twice
            note = "while output was being committed, some of which may be visible; the job is not restarted"
            return RestartDecision(_noting(cause, note), None)
        delay_ms = self._strategy.on_failure(now_ms)
        return RestartDecision(cause, None if delay_ms is None else now_ms + delay_ms)


def _noting(cause: FailureInfo, note: str) -> FailureInfo:
    return replace(cause, message=f"{cause.message} ({note})")
