"""JobScaling: the bounds of one job's parallelisms, and what is done so that the job is within them.

Used by the jobmanager's loop. The scheduler (`elasticity`) decides for all jobs together; this module shows it the job,
and carries out its verdict: an offer to the job's JobMaster, another request for the first slots, or a rescaling. What
a user asks for is recorded in the job's row once the job runs with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from backend.cluster.elasticity import ElasticJob, Patience, Standing, Verdict
from backend.cluster.job_requirements import changed, requirements_of, requirements_to_json
from backend.cluster.models import Job
from runtime.core.clock import Clock
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.requirements import (
    Bounds,
    Parallelism,
    Requirements,
    check_requirements,
    fitted,
    least_slots,
)
from runtime.jobmaster.rescaling import RescaleError, rescaled

logger = logging.getLogger(__name__)

RETRY_MS = 5_000
"""Time between two attempts to move or rescale a job: each takes a checkpoint."""

Asked = Future[RequestAnswered]


class JobScaling:
    """Scaling of one job.

    Args:
        job: its row.
        graph: its graph, with the parallelisms that it begins with here.
        patience: its times.
        driver: of its JobMaster.
        reserve: requests slots for the first attempt with this graph, unless those requested before were granted.
        clock: for retries and cooldowns.
    """

    def __init__(
        self,
        job: Job,
        graph: JobGraph,
        patience: Patience,
        driver: JobMasterDriver,
        reserve: Callable[[JobGraph], None],
        clock: Clock,
    ) -> None:
        self._job = job
        self._driver = driver
        self._reserve = reserve
        self._clock = clock
        self._patience = patience
        #: with the parallelisms that it has, as last observed
        self.graph = graph
        #: parallelism that an autoscaler wants, by vertex; None: there is none
        self.target: Parallelism | None = None
        #: bounds while an autoscaler chooses the parallelisms and the job has none of its own; None: there is none
        self.room: Requirements | None = None
        #: why it runs with less than it wants; empty: it does not
        self.why = ""
        #: bounds that a user asked for, and the rescaling to them
        self._asked: tuple[Requirements, Asked] | None = None
        #: whether the bounds that a user asked for stay when they leave no room: an autoscaler keeps them, too
        self._is_bound = False
        self._change: Asked | None = None
        self._changed_ms = clock.monotonic_ms()
        #: what it is being rescaled to; None: nothing else than it has
        self._next: JobGraph | None = None

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def requirements(self) -> Requirements:
        """Return the bounds, with those that are about to be its own."""
        if self._asked is not None:
            return self._asked[0]
        if self.room is not None and not self._job.requirements:
            return self.room
        return requirements_of(self._job, self.graph)

    @property
    def is_elastic(self) -> bool:
        """Return whether the scheduler has something to decide about it."""
        bounds = self.requirements
        return any(bounds[v.vertex_id] != Bounds(v.parallelism, v.parallelism) for v in self.graph.vertices)

    @property
    def least_slots(self) -> int | None:
        """Return how many slots it needs in all for its lower bounds; None: it is not elastic."""
        return least_slots(self.graph, self.requirements) if self.is_elastic else None

    @property
    def is_changing(self) -> bool:
        """Return whether it is being moved or rescaled, or could not be a moment ago."""
        if self._change is None:
            return False
        return not self._change.done() or self._clock.monotonic_ms() - self._changed_ms < RETRY_MS

    def seen(self, is_waiting: bool, running_ms: float | None, held: tuple[int, int], *, has_begun: bool) -> ElasticJob:
        """Return the observation of the job.

        Args:
            is_waiting: whether it has requested slots that are not granted.
            running_ms: since when it has been RUNNING, monotonic; None: it does not run.
            has_begun: whether it has a JobMaster that runs: else its first slots have not been granted.
            held: numbers of its slots on TaskManagers that stay, and on those that are draining.
        """
        standing = Standing.CHANGES
        if is_waiting:
            standing = Standing.WAITS
        elif running_ms is not None and not self.is_changing:
            standing = Standing.RUNS
        return ElasticJob(
            self._job.id,
            self.graph if self._next is None else self._next,
            self.requirements,
            standing,
            self._patience,
            self._job.created_at,
            "RUNNING" in self._job.state_times,
            not has_begun,
            held[0],
            held[1],
            max(running_ms or 0.0, self._changed_ms),
            self.target,
        )

    # --- what is done -------------------------------------------------------------------------------------------------

    def observed(self, parallelism: Parallelism) -> None:
        """Note the parallelisms that the job has, and what has come of a change."""
        if any(v.parallelism != parallelism.get(v.vertex_id, v.parallelism) for v in self.graph.vertices):
            self.graph = rescaled(self.graph, parallelism)
        self._settle()

    def follow(self, verdict: Verdict, standing: Standing, *, has_begun: bool) -> None:
        """Do what the scheduler has decided.

        Args:
            verdict: about this job.
            standing: as it was observed.
            has_begun: as it was observed.
        """
        self.why, parallelism = verdict.why, verdict.parallelism
        if parallelism is None:
            return
        if standing is Standing.RUNS and verdict.is_due:
            self._rescale(parallelism, verdict)
        elif standing is not Standing.WAITS or verdict.is_due:
            self._driver.offer(parallelism)
            if not has_begun:
                self.graph = rescaled(self.graph, parallelism)
                self._reserve(self.graph)

    def move(self) -> None:
        """Have the job go on from a checkpoint on other slots."""
        self._begin(self._driver.move(), "moved")

    def ask(self, given: Mapping[str, Any], available: int, *, is_waiting: bool) -> Asked:
        """Change the bounds, as a user has asked: at once if the job waits for slots, else it is rescaled first.

        Args:
            given: parameters of the operation.
            available: number of slots that the job can have now, with those that it has.
            is_waiting: whether it has requested slots that are not granted.

        Raises:
            RescaleError: the job cannot run within these bounds, or there are too few slots.
        """
        self._settle()
        # the room of an autoscaler is not what a user has given
        before = requirements_of(self._job, self.graph) if self._asked is None else self._asked[0]
        requirements = changed(before, given)
        check_requirements(self.graph, requirements)
        is_bound = "lower" in given or bool(self._job.requirements)
        if is_waiting:
            # the latest request counts; a rescaling that waits for its slots gets its parallelisms
            self._asked = self._next = None
            self._job.requirements = requirements_to_json(requirements, self.graph, is_bound=is_bound)
            done: Asked = Future()
            done.set_result(RequestAnswered(""))
            return done
        if self._change is not None and not self._change.done():
            raise RescaleError("the job is being rescaled already")
        parallelism = fitted(self.graph, requirements, available, self.target)
        if parallelism is None:
            # it would be stopped, wait for slots for minutes, and return to the old parallelism
            needed = least_slots(self.graph, requirements)
            raise RescaleError(f"the job would need {needed} slots, but only {available} are available")
        # a person waits for it: the cooldown is for what the scheduler and the autoscaler decide
        asked = self._driver.rescale(parallelism, at_once=True)
        self._asked, self._is_bound = (requirements, asked), is_bound
        self._next = rescaled(self.graph, parallelism)
        self._begin(asked, "rescaled")
        return asked

    def _settle(self) -> None:
        """Take what has come of a change into the job's row."""
        if self._change is not None and self._change.done():
            self._next = None
        if self._asked is not None and self._asked[1].done():
            (requirements, asked), self._asked = self._asked, None
            if asked.exception() is None:
                self._job.requirements = requirements_to_json(requirements, self.graph, is_bound=self._is_bound)

    def _rescale(self, parallelism: Parallelism, verdict: Verdict) -> None:
        logger.info("job %s is rescaled: %s", self._job.id, verdict.why or "to all that it wants")
        self._next = rescaled(self.graph, parallelism)
        self._begin(self._driver.rescale(parallelism, at_once=verdict.at_once), "rescaled")

    def _begin(self, change: Asked, what: str) -> None:
        self._change, self._changed_ms = change, self._clock.monotonic_ms()
        change.add_done_callback(lambda done: self._done(done, what))

    def _done(self, change: Asked, what: str) -> None:
        error = change.exception()
        if error is not None:
            logger.warning("job %s could not be %s: %s", self._job.id, what, error)
