"""LedScaling: observes elastic jobs and the cluster's slots, and has done what the scheduler decides.

Used by the jobmanager's loop, at every poll. See `elasticity` for the rules.
"""

from __future__ import annotations

from backend.cluster.elasticity import ElasticJob, RigidWait, SlotsSeen, decide
from backend.cluster.led_jobs import LedJobs
from backend.cluster.resource_manager import ResourceManager
from runtime.core.clock import Clock


class LedScaling:
    """The elastic jobs of one leader.

    Args:
        jobs: the jobs that run here.
        resources: the cluster's slots.
        clock: for waits.
    """

    def __init__(self, jobs: LedJobs, resources: ResourceManager, clock: Clock) -> None:
        self._jobs = jobs
        self._resources = resources
        self._clock = clock
        #: job → since when it could have had more, monotonic ms
        self._since_ms: dict[str, float] = {}

    def poll(self) -> None:
        """Decide, and act."""
        runners, counts = self._jobs.runners, self._resources.slots()
        seen: dict[str, ElasticJob] = {}
        for job_id, runner in list(runners.items()):
            with self._jobs.contained(runner):
                elastic = runner.elastic(counts.held.get(job_id, (0, 0)))
                if elastic is not None:
                    seen[job_id] = elastic
        waiting = [
            RigidWait(job_id, count, runners[job_id].job.created_at, has_run)
            for job_id, (count, has_run) in counts.lacking.items()
            if job_id in runners and job_id not in seen
        ]
        promised = sum(draining for job_id, (_, draining) in counts.held.items() if job_id not in seen)
        slots = SlotsSeen(counts.free, counts.total, promised)
        decided = decide(list(seen.values()), waiting, slots, self._clock.monotonic_ms(), self._since_ms)
        self._since_ms = dict(decided.since_ms)
        # before anything is requested anew: what is decided for one job is not granted to another one
        self._resources.claim({verdict.job_id: verdict.claim for verdict in decided.verdicts})
        for verdict in decided.verdicts:
            runner = runners[verdict.job_id]
            with self._jobs.contained(runner):
                runner.scale(verdict, seen[verdict.job_id].standing)
