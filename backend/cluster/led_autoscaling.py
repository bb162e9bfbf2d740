"""LedAutoscaling: has the autoscalers of the leader's jobs decide, records their decisions, and has them acted on.

Used by the jobmanager's loop, at every poll. An autoscaler says what a job should have; the scheduler of elastic jobs
(`elasticity`) rescales it. A decision is recorded before it is acted on, so that a new leader knows the cooldown.
"""

from __future__ import annotations

import logging

from django.db import Error as DatabaseFailure

from backend.cluster.containment import Containment
from backend.cluster.job_autoscaling import changes_of
from backend.cluster.job_runner import JobRunner
from backend.cluster.led_jobs import LedJobs
from backend.cluster.scaling_history import ScalingHistory
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

SWITCHES_MS = 10_000.0
"""Interval at which the switches are read even if no notice of a change has come: the bus may have lost it."""


class LedAutoscaling:
    """The autoscalers of one leader.

    Args:
        jobs: the jobs that run here.
        history: reads and writes rows.
        clock: for the times in rows.
        containment: contains failures: an autoscaler that fails costs no job anything.
    """

    def __init__(self, jobs: LedJobs, history: ScalingHistory, clock: Clock, containment: Containment) -> None:
        self._jobs = jobs
        self._history = history
        self._clock = clock
        self._containment = containment
        #: when the switches are read next, monotonic ms
        self._look_ms = 0.0

    def look(self) -> None:
        """Read at the next poll whether users have switched autoscalers."""
        self._look_ms = 0.0

    def poll(self) -> None:
        """Ask all autoscalers."""
        running = {job_id: runner for job_id, runner in self._jobs.runners.items() if not runner.job.is_terminal}
        if not running:
            return
        if self._clock.monotonic_ms() >= self._look_ms:
            switches = self._history.switches(running)
            self._look_ms = self._clock.monotonic_ms() + SWITCHES_MS
            for job_id, runner in running.items():
                runner.autoscaling.switch(switches.get(job_id))
        for job_id, runner in running.items():
            with self._containment.of(f"the autoscaler of job {job_id}"):
                self._ask(runner)
            runner.scaling.room, runner.scaling.target = runner.autoscaling.room, runner.autoscaling.target

    def _ask(self, runner: JobRunner) -> None:
        autoscaling, job_id = runner.autoscaling, runner.job.id
        if not autoscaling.is_on:
            return
        if not autoscaling.knows_past:
            autoscaling.recall(self._history.past(job_id))
        snapshot = runner.status()
        done = autoscaling.come_about(snapshot)
        if done is not None:
            self._history.came_about(done.scaling_id, done.cost_ms)
            autoscaling.note_cost(done)
        scaling = runner.scaling
        decision = autoscaling.decide(snapshot, scaling.requirements, scaling.why, runner.live_vertices)
        if not decision.parallelism:
            return
        logger.info("job %s: the autoscaler decides: %s", job_id, decision.reason)
        changes = changes_of(decision, runner.scaling.graph)
        try:
            scaling_id = self._history.record(job_id, decision.reason, changes, self._clock.now_ms())
        except DatabaseFailure:
            # it may have been recorded all the same
            autoscaling.forget()
            raise
        autoscaling.noted(scaling_id)
