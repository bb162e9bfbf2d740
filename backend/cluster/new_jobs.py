"""Rows of new jobs: what is recorded of a graph that is submitted. Nothing is saved here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from backend.audit.redaction import HIDDEN
from backend.cluster.database_clock import now_ms
from backend.cluster.elasticity import Patience
from backend.cluster.job_requirements import requirements_to_json
from backend.cluster.job_tags import tags_of_option
from backend.cluster.live_document import planned_document
from backend.cluster.models import Artifact, Job
from backend.cluster.withheld import Given, withhold
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind, runs_in_passes
from runtime.core.ids import Attempt
from runtime.graph.codec import job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.graph.plan import job_plan
from runtime.jobmaster.autoscaler_options import AutoscalerSettings
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.jobmaster.requirements import default_requirements


def check_options(graph: JobGraph) -> None:
    """Refuse options that the cluster cannot carry out.

    Raises:
        ConfigurationError: an option of the execution, of the scheduler or of the autoscaler.
    """
    configuration = Configuration.from_dict(dict(graph.configuration))
    if not settings.TIDEMARK_MICRO_BATCHES and runs_in_passes(configuration, blocks_by_default=False):
        key, accepted = options.EXECUTION_MODE.key, "continuous"
        if ExecutionKind.of(configuration) is ExecutionKind.BATCH:
            key, accepted = options.BATCH_SHUFFLE_MODE.key, "all_exchanges_pipelined"
        reason = "this is switched off on this cluster (TIDEMARK_MICRO_BATCHES)"
        raise ConfigurationError(key, graph.configuration[key], f"{accepted}; {reason}")
    AutoscalerSettings.of(configuration)
    Patience.of(configuration)


def new_job(
    graph: JobGraph,
    artifact: Artifact | None,
    args: Sequence[str],
    configuration: Mapping[str, str],
    submission: Mapping[str, Any],
    user_id: int | None,
) -> Job:
    """Return the row of a job that no jobmanager has taken yet; the arguments are those of `services.submit_job`.

    Raises:
        ConfigurationError: the option of tags is malformed.
    """
    now = now_ms()
    shown, withheld = withhold(graph.job_id, Given(job_graph_to_json(graph), list(args), configuration, submission))
    tags = tags_of_option(Configuration.from_dict(dict(graph.configuration)).get(options.PIPELINE_TAGS))
    if shown.graph["configuration"].get(options.PIPELINE_TAGS.key) == HIDDEN:
        # everybody sees them, and one quotes a secret
        tags = []
    job = Job(
        id=graph.job_id,
        name=graph.name,
        state="INITIALIZING",
        state_times={"INITIALIZING": now},
        created_at=now,
        submitted_by_id=user_id,
        artifact=artifact,
        program_args=list(shown.args),
        configuration=dict(shown.configuration),
        submission=dict(shown.submission),
        withheld=withheld,
        tags=tags,
        graph=dict(shown.graph),
        plan=job_plan(graph),
        parallelism=max(vertex.parallelism for vertex in graph.vertices),
        requirements=requirements_to_json(default_requirements(graph), graph),
        slots_required=ExecutionGraph(graph, Attempt(0)).slot_count,
        waiting_for="no JobManager has taken the job yet",
    )
    job.document = planned_document(job, graph, now)
    return job
