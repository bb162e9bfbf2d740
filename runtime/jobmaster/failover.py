"""Decisions about a job's failure: whether there is another attempt, when, and with which graph. Pure.

Source: Flink, ExecutionFailureHandler, FailureHandlingResult.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.phases import Phase
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


def decide_restart(
    cause: FailureInfo, phase: Phase, now_ms: float, checkpoints: JobCheckpoints, strategy: RestartStrategy
) -> RestartDecision:
    """Decide about a failure; once for each, since the restart strategy counts them.

    Args:
        cause: what broke.
        phase: of the attempt.
        now_ms: monotonic.
        checkpoints: of the job; told of a damaged one, and of a rescaling that did not come about.
        strategy: asked if nothing else decides.
    """
    damage = checkpoints.take_damage(cause)
    if damage:
        # not the job's own failure: the older checkpoint is tried at once, and the restart strategy is not asked
        return RestartDecision(cause, now_ms, is_planned=True)
    if damage is False:
        return RestartDecision(_noting(cause, "there is no older checkpoint to restore"), None)
    if cause.is_fatal:
        return RestartDecision(cause, None)
    # the slots for a new parallelism did not come, and the job runs with the old one instead
    previous = checkpoints.give_up_rescale(cause.message) if phase is Phase.REQUESTING else None
    if previous is not None:
        return RestartDecision(cause, now_ms, is_planned=True, graph=previous)
    if phase is Phase.COMMITTING and not checkpoints.may_commit_again:
        # what is committed is visible: running again would write it twice
        note = "while output was being committed, some of which may be visible; the job is not restarted"
        return RestartDecision(_noting(cause, note), None)
    delay_ms = strategy.on_failure(now_ms)
    return RestartDecision(cause, None if delay_ms is None else now_ms + delay_ms)


def _noting(cause: FailureInfo, note: str) -> FailureInfo:
    return replace(cause, message=f"{cause.message} ({note})")
