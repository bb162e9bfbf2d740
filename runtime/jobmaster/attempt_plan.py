"""AttemptPlan: the number of a job's attempt, and when and with which parallelisms the next one begins. Pure.

Attempts are numbered through, with those of regions that restart alone. One that no failure has led to, because the job
is rescaled, moved, or given other slots, is planned: it is not counted as a restart, and may wait for its slots.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.core.ids import Attempt, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.failover import RestartDecision
from runtime.jobmaster.rescaling import RescaleError, rescaled


class AttemptPlan:
    """The attempts of one job.

    Args:
        graph: the job.
        first_attempt: number of the first attempt.
        is_planned: whether it follows from a change of JobMasters, and may wait for its slots.
    """

    def __init__(self, graph: JobGraph, first_attempt: Attempt, *, is_planned: bool = False) -> None:
        #: the job with its parallelisms
        self.graph = graph
        #: the newest attempt; below the first one until that begins
        self.attempt = Attempt(first_attempt - 1)
        #: attempts that were no plan, and of regions
        self.restarts = 0
        #: earliest time of the next attempt; None = there will be none
        self.restart_at_ms: float | None = None
        #: whether the current attempt does not follow from a failure
        self.follows_plan = False
        #: whether the next attempt does not
        self._is_planned = is_planned
        #: the job with the parallelisms that its next attempt is to have; None: with those that it has
        self._offered: JobGraph | None = None

    def offer(self, parallelism: Mapping[VertexId, int]) -> JobGraph | None:
        """Note the parallelisms of the next attempt, in place of those noted before.

        Returns:
            The job with them; None: it has them, or cannot have them.
        """
        try:
            offered = rescaled(self.graph, parallelism)
        except RescaleError:
            # what the job restores has other max parallelisms; it runs with what it has
            return None
        self._offered = offered if offered != self.graph else None
        return self._offered

    def follow(self, decision: RestartDecision) -> None:
        """Take over what a failure leads to."""
        self.restart_at_ms, self._is_planned = decision.restart_at_ms, decision.is_planned
        self.graph = decision.graph or self.graph

    def redeploy(self, graph: JobGraph, now_ms: float) -> None:
        """Plan an attempt with these parallelisms, whatever was offered before."""
        self.graph, self._offered = graph, None
        self.restart_at_ms = now_ms
        self._is_planned = True

    def begin(self, is_restart: bool) -> None:
        """Begin the next attempt, of the whole job.

        Args:
            is_restart: whether there was one before, or was to be.
        """
        self.attempt = Attempt(self.attempt + 1)
        self.restart_at_ms = None
        self.restarts += is_restart and not self._is_planned
        self.follows_plan, self._is_planned = self._is_planned, False
        self.graph, self._offered = self._offered or self.graph, None

    def begin_region(self) -> None:
        """Begin the next attempt, of a region that restarts alone."""
        self.attempt = Attempt(self.attempt + 1)
        self.restarts += 1
