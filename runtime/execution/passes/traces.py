"""The trace of a pass that was a batch: what it has read and written, and where its time went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.plan import TaskOutcome
from runtime.task.messages import TaskDeployment


@dataclass
class PhaseTimes:
    """Times of the phases of a pass, ms."""

    plan: float
    """Until its first task began."""
    run: float = 0.0
    store: float = 0.0
    commit: float = 0.0


def trace_of(run: JobPass, times: PhaseTimes, redact: Callable[[str], str]) -> BatchTrace:
    """Return the trace of a pass that is complete.

    Args:
        run: the pass.
        times: of its phases.
        redact: takes secrets out of the ids of splits, which may be addresses.
    """
    plan = run.plan
    deployments = {deployment.task: deployment for deployment in plan.deployments}

    def count(metric: str, *, at_sources: bool = False) -> int:
        return sum(_count(deployments[task], metric, outcome, at_sources) for task, outcome in run.outcomes.items())

    trace = BatchTrace(
        region=plan.deployments[0].vertex.vertex_id,
        number=run.number,
        kind=plan.kind.value,
        time_ms=plan.now_ms,
        num_read=count("numRecordsOut", at_sources=True),
        num_written=count("numRecordsSend"),
        num_splits=sum(len(outcome.splits) for outcome in run.outcomes.values()),
        has_caught_up=run.has_caught_up,
        plan_ms=times.plan,
        run_ms=times.run,
        store_ms=times.store,
        commit_ms=times.commit,
        spark_ms={},
        positions=[position for outcome in run.outcomes.values() for position in outcome.positions],
    ).bounded()
    return replace(trace, positions=[replace(p, split=redact(p.split)) for p in trace.positions])


def _count(deployment: TaskDeployment, metric: str, outcome: TaskOutcome, at_sources: bool) -> int:
    """Return what operators of a task have counted in a pass; of sources alone, or of all that have such a metric."""
    operators = deployment.vertex.operators
    if at_sources:
        operators = () if deployment.in_edges else operators[:1]
    counts = (outcome.metrics.get(f"{operator.operator_id}.{metric}", 0) for operator in operators)
    return sum(count for count in counts if isinstance(count, int))
