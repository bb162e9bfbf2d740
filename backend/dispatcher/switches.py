"""Switches of the execution: a running job of an uploaded program goes on in micro-batches, or continuously again.

The web process plans the program for the other execution, so that what would be refused is refused while the job still
runs, and records the switch. The leading jobmanager stops the job with a savepoint and submits the new one from there:
`led_switches`. Arguments and options are the job's own, secrets among them: what was planned is sealed in the row.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.module_loading import import_string

from backend.accounts.errors import Conflict
from backend.accounts.roles import Role
from backend.accounts.services import check_still_may
from backend.cluster import services
from backend.cluster.models import Artifact, Job
from backend.cluster.new_jobs import check_options
from backend.cluster.planned_jobs import PlannedJob, kept_of
from backend.cluster.replacement_machine import OPEN_STATES
from backend.cluster.services import now_ms
from backend.cluster.snapshot_users import Need, savepoints_of_stop
from backend.cluster.withheld import Given, UnsealedError, given_of, sealed, unsealed
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.programs import ProgramRequest, extract
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind
from runtime.core.ids import VertexId
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.rescaling import RescaleError, rescaled

logger = logging.getLogger(__name__)

EXECUTIONS: Final = (ExecutionKind.MICRO_BATCH.value, ExecutionKind.CONTINUOUS.value)
Obstacle = Callable[[str], str | None]
"""Returns why an app above the Dispatcher's does not let it switch the execution of a job; None: it does."""
_RECOVERY: Final = (options.RECOVERY_PATH.key, *options.RECOVERY_PATH.deprecated_keys)


@dataclass(frozen=True, slots=True)
class _Planned:
    """Holds graph, arguments and options of the new job; the rest it takes over from the old one."""

    graph: Mapping[str, Any]
    args: list[str]
    configuration: Mapping[str, str]
    submission: Mapping[str, Any]


def switch(job: Job, execution: str, user: Any, key: str, has_left: Callable[[], bool]) -> ExecutionSwitch:
    """Have a job go on in another execution; one that is under way to the same is returned.

    Args:
        job: the job.
        execution: one of EXECUTIONS.
        user: who asks.
        key: requests of this user with the same key, even concurrent ones, make one switch.
        has_left: returns whether the client is gone; see `extract`.

    Raises:
        Conflict: the job cannot be switched, or not now; the key belongs to another switch.
        BadRequest: the program cannot be executed so.
        PlanningBusy, ClientLeft, StorageProblem, SubmissionRefused: as `extract`. Nothing was done.
        AuthenticationFailed, PermissionDenied: the user's access has ended meanwhile; nothing was done.
    """
    known = _known_switch(job, execution, user, key)
    if known is not None:
        return known
    artifact, given = _switchable(job, execution)
    planned = _plan(artifact, given, execution, has_left)
    # that takes seconds: another request may have been faster
    known = _known_switch(job, execution, user, key)
    if known is not None:
        return known
    now = now_ms()
    state = ExecutionSwitch.State.CHECKED
    row = ExecutionSwitch(
        state=state,
        state_times={state: now},
        old_job_id=job.id,
        execution=execution,
        idempotency_key=key,
        created_by=user,
        created_at=now,
    )
    row.planned = sealed(_seal_name(row), json.dumps(asdict(planned)))
    try:
        with transaction.atomic():
            check_still_may(user, Role.DEVELOPER)
            job.state = Job.objects.select_for_update().values_list("state", flat=True).get(id=job.id)
            _refuse_unless_running(job)
            row.save(force_insert=True)
    except IntegrityError:
        known = _known_switch(job, execution, user, key)
        if known is None:
            raise
        return known
    logger.info("%s switches job %s to the execution %s, as job %s", user, job.id, execution, row.job_id)
    return row


def newest_switch(job_id: str) -> ExecutionSwitch | None:
    """Return the newest switch that a job was, or is, part of, as the old or the new one; None: there is none."""
    is_part = Q(old_job_id=job_id) | Q(job_id=job_id) | Q(rollback_job_id=job_id)
    rows = ExecutionSwitch.objects.filter(is_part).select_related("created_by").defer("planned")
    return rows.order_by("-created_at", "-id").first()


def switches_that_keep(directories: Collection[str]) -> Mapping[str, Need]:
    """Return the open switches whose new job, or a rollback, is to start from one of the savepoints in some
    directories, by those.
    """
    found: dict[str, Need] = {}
    for row in ExecutionSwitch.objects.filter(state__in=OPEN_STATES).defer("planned"):
        need = Need(row.old_job_id, f"the switch of job {row.old_job_id} to the execution {row.execution}")
        kept = savepoints_of_stop(row.stop_id) | ({row.savepoint} if row.savepoint else set())
        found |= {directory: need for directory in kept if directory in directories}
    return found


def planned_job(row: ExecutionSwitch, savepoint: str) -> PlannedJob:
    """Return the new job of a switch, which starts from the savepoint that the old one has left.

    Raises:
        UnsealedError: what was planned cannot be read.
        JobUnknownError: there is no old job.
    """
    planned = _Planned(**json.loads(unsealed(_seal_name(row), row.planned)))
    old = Job.objects.filter(id=row.old_job_id).select_related("artifact", "submitted_by").first()
    if old is None:
        raise services.JobUnknownError(row.old_job_id)
    graph = _as_parallel(job_graph_from_json(dict(planned.graph)), old.vertex_parallelism)
    job = PlannedJob(
        job_graph_to_json(graph),
        old.artifact,
        planned.args,
        planned.configuration,
        planned.submission,
        old.submitted_by,
        kept_of(old, graph),
    )
    return job.starting_from(savepoint)


def _known_switch(job: Job, execution: str, user: Any, key: str) -> ExecutionSwitch | None:
    """Return the switch that a request is for; None: a new one.

    Raises:
        Conflict: see `switch`.
    """
    known = ExecutionSwitch.objects.filter(created_by=user, idempotency_key=key).first()
    if known is not None:
        if (known.old_job_id, known.execution) != (job.id, execution):
            raise Conflict("The key belongs to another switch: use a new one.")
        return known
    open_ones = ExecutionSwitch.objects.filter(state__in=OPEN_STATES)
    under_way = open_ones.filter(old_job_id=job.id).first()
    if under_way is not None and under_way.execution != execution:
        raise Conflict(f"The job is being switched to the execution {under_way.execution}: wait until that has ended.")
    if under_way is None and open_ones.filter(job_id=job.id).exists():
        raise Conflict("The job was switched just now, and has not shown yet that it runs: wait until it has.")
    return under_way


def _switchable(job: Job, execution: str) -> tuple[Artifact, Given]:
    """Return a job's program, and what it was submitted with.

    Raises:
        Conflict: the job cannot be switched.
    """
    _refuse_unless_running(job)
    for name in settings.TIDEMARK_SWITCH_OBSTACLES:
        obstacle: Obstacle = import_string(name)
        why = obstacle(job.id)
        if why is not None:
            raise Conflict(why)
    try:
        given = given_of(job)
    except UnsealedError as error:
        raise Conflict(str(error)) from error
    present = ExecutionKind.of(_configuration(given.graph["configuration"]))
    if present is ExecutionKind.BATCH:
        raise Conflict("The job is executed as a batch, which ends with its input: it cannot be switched.")
    if present.value == execution:
        raise Conflict(f"The execution of job {job.id} is {execution} already.")
    if job.artifact is None:
        raise Conflict("The program of the job has been deleted: upload it, and run it from a savepoint of the job.")
    return job.artifact, given


def _refuse_unless_running(job: Job) -> None:
    if job.is_terminal:
        raise Conflict(str(services.JobEndedError(job)))
    if job.state != "RUNNING":
        raise Conflict(f"Job {job.id} is {job.state}: only a running job is switched.")


def _plan(artifact: Artifact, given: Given, execution: str, has_left: Callable[[], bool]) -> _Planned:
    """Plan a job's program for another execution.

    Raises:
        Conflict, BadRequest, PlanningBusy, ClientLeft, StorageProblem, SubmissionRefused: see `switch`.
    """
    wanted = ProgramRequest(
        args=list(given.args),
        entry=given.submission.get("entry"),
        parallelism=given.submission.get("parallelism"),
        configuration={**given.submission.get("configuration", {}), options.EXECUTION_MODE.key: execution},
    )
    extracted = extract(artifact, wanted, has_left)
    options_of_graph = extracted.graph.configuration
    if ExecutionKind.of(_configuration(options_of_graph)).value != execution:
        raise Conflict(
            f"The program chooses its execution itself: change {options.EXECUTION_MODE.key} there, and run it from a "
            "savepoint of the job."
        )
    try:
        check_options(extracted.graph)
        # it starts from a savepoint that is not there yet
        services.check_locations({key: value for key, value in options_of_graph.items() if key not in _RECOVERY})
    except (ConfigurationError, services.ClusterError) as error:
        raise BadRequest(str(error)) from error
    return _Planned(
        extracted.graph_json,
        list(wanted.args),
        {**options_of_graph, **wanted.configuration},
        {"entry": wanted.entry, "parallelism": wanted.parallelism, "configuration": dict(wanted.configuration)},
    )


def _as_parallel(graph: JobGraph, parallelism: Mapping[str, int]) -> JobGraph:
    """Return a graph with the parallelisms that a job had last, as far as they fit."""
    known = {vertex.vertex_id for vertex in graph.vertices}
    wanted = {VertexId(name): number for name, number in parallelism.items() if name in known}
    try:
        return rescaled(graph, wanted)
    except RescaleError as error:
        logger.warning("job %s starts with the parallelisms of its program: %s", graph.job_id, error)
        return graph


def _configuration(given: Mapping[str, str]) -> Configuration:
    return Configuration.from_dict(dict(given))


def _seal_name(row: ExecutionSwitch) -> str:
    """Return what the seal of a row's column is for."""
    return f"switch {row.id}"
