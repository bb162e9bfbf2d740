"""PlannedJob: all that a job is submitted with, as a value; and a job of the past as what it was submitted with.

What replaces jobs keeps one until the old job has stopped. Any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.cluster import services
from backend.cluster.location_checks import CheckLocation
from backend.cluster.models import Artifact, Job
from backend.cluster.services import CheckedLocations
from backend.cluster.storage_calls import check_in_time
from backend.cluster.withheld import given_of
from runtime.common import options
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.rescaling import rescaled


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job that is to be submitted; see `services.submit_job`.

    Attributes:
        graph: `runtime.graph.codec`'s JSON.
        artifact: the program that it was extracted from.
        args: of the program.
        configuration: the submitter's options.
        submission: see `Job.submission`.
        user: the submitter.
        kept: columns of its row that it takes over from the job in whose place it is.
    """

    graph: Mapping[str, Any]
    artifact: Artifact | None
    args: Sequence[str]
    configuration: Mapping[str, str]
    submission: Mapping[str, Any]
    user: services.User
    kept: Mapping[str, Any] = field(default_factory=dict)

    def starting_from(self, location: str, *, allows_loss: bool = False) -> PlannedJob:
        """Return it as a job that starts from a snapshot, which it does not own.

        Args:
            location: of the snapshot; empty: none.
            allows_loss: whether state of operators that the graph does not have may be left behind.
        """
        if not location:
            return self
        given = {
            options.RECOVERY_PATH.key: location,
            options.RECOVERY_CLAIM_MODE.key: "no_claim",
            options.IGNORE_UNCLAIMED_STATE.key: str(allows_loss).lower(),
        }
        graph = {**self.graph, "configuration": {**self.graph["configuration"], **given}}
        return replace(self, graph=graph, configuration={**self.configuration, **given})

    def check_locations(self, check: CheckLocation = check_in_time) -> CheckedLocations:
        """Check the locations that it names, before the transaction that submits it; see `services.check_locations`."""
        return services.check_locations(self.graph["configuration"], check)

    def submit(self, job_id: str, locations: CheckedLocations, *, is_limited: bool) -> Job:
        """Submit it, in a transaction; see `services.submit_job` for arguments and errors."""
        job = services.submit_job(
            self.graph,
            self.artifact,
            self.args,
            self.configuration,
            self.user,
            self.submission,
            job_id,
            locations,
            is_limited=is_limited,
        )
        if self.kept:
            Job.objects.filter(id=job.id).update(**self.kept)
        return job


def kept_of(job: Job, graph: JobGraph) -> dict[str, Any]:
    """Return the columns of a job that users have set while it ran, for the one that takes its place.

    Args:
        job: the old job.
        graph: of the new one. The old bounds of parallelisms are for a graph with the same vertices and parallelisms.
    """
    kept = {"tags": job.tags, "pinned_metrics": job.pinned_metrics, "autoscaler_enabled": job.autoscaler_enabled}
    had = {vertex["vertex_id"]: vertex["parallelism"] for vertex in job.graph["vertices"]} | job.vertex_parallelism
    is_same = had == {str(vertex.vertex_id): vertex.parallelism for vertex in graph.vertices}
    return kept | ({"requirements": job.requirements} if is_same else {})


def as_it_ran(job: Job) -> PlannedJob:
    """Return a job as it was submitted, with the parallelisms that it had last.

    Raises:
        backend.cluster.withheld.UnsealedError, runtime.graph.codec.GraphFormatError,
            runtime.jobmaster.rescaling.RescaleError: it cannot be read.
    """
    given = given_of(job)
    graph = rescaled(job_graph_from_json(dict(given.graph)), job.vertex_parallelism)
    return PlannedJob(
        job_graph_to_json(graph),
        job.artifact,
        given.args,
        given.configuration,
        given.submission,
        job.submitted_by,
        kept_of(job, graph),
    )
