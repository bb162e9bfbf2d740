"""Deployments: a version is compiled, becomes an ordinary program with a job graph, and a job as an upload does.

Where no job of the pipeline runs, the web process that takes the request submits the job in the transaction that
records the deployment. Else the leading jobmanager replaces the job that runs: `led_deployments`. Requests with one key
make one deployment, so a double click makes one job. Blocking, for seconds; any thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from backend.accounts.ownership import check_restore
from backend.accounts.roles import Role
from backend.accounts.services import check_still_may
from backend.cluster import services as cluster_services
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import TERMINAL_STATES, Artifact, Job
from backend.cluster.planned_jobs import PlannedJob
from backend.cluster.services import CheckedLocations, now_ms
from backend.cluster.snapshot_users import Need, SnapshotUses, savepoints_of_stop
from backend.cluster.storage_calls import ask_location, check_in_time
from backend.dispatcher import artifacts
from backend.dispatcher.programs import ProgramRequest, extract
from backend.pipelines.building import compiled, operators_of, outputs_of
from backend.pipelines.documents import check
from backend.pipelines.models import OPEN_STATES, Deployment, Pipeline, Version
from backend.pipelines.services import ArchivedError, KeyTakenError, PipelineError, PipelineUnknownError
from runtime.checkpoint.compatibility import CompatibilityReport, compatibility
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import name_of, parent_of
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode
from runtime.client.extract import ExtractedJob
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.graph.job_graph import JobGraph
from runtime.pipeline.problems import Problem
from runtime.state.handles import DamagedSnapshotError

logger = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^a-z0-9]+")


class NotDeployableError(PipelineError):
    """The version is unfinished, or has errors.

    Attributes:
        problems: those that are in the way.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = [problem for problem in problems if problem.is_blocking]
        first = self.problems[0].message if self.problems else "it is not finished"
        super().__init__(f"The version cannot be deployed: {first}.")


class DeploymentOpenError(PipelineError):
    """Another deployment of the pipeline is under way."""

    def __init__(self, deployment: Deployment | None) -> None:
        which = "" if deployment is None else f" of version {deployment.version.number}, in state {deployment.state},"
        super().__init__(f"Another deployment{which} is under way: wait until it has ended.")


class OtherRunsError(PipelineError):
    """Raised when another deployment runs than the one that was to be replaced."""

    def __init__(self, running: Deployment | None) -> None:
        super().__init__(
            "The job that was to be replaced has ended by now: the version would start without its state."
            if running is None
            else f"Version {running.version.number} of the pipeline runs by now, and is not what was to be replaced: "
            "look at what becomes of its state first."
        )


class StateRefusedError(PipelineError):
    """The version cannot take over the state of the job that runs, or of the snapshot that was chosen.

    Attributes:
        report: why.
    """

    def __init__(self, report: CompatibilityReport, whose: str) -> None:
        super().__init__(
            f"The state of the {whose} does not fit the version."
            if not report.is_restorable
            else f"The version would leave state of the {whose} behind."
        )
        self.report = report


class DeploymentRefusedError(PipelineError):
    """The cluster refuses the job: an option is wrong, or the snapshot is in use."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Choice of the state that a job begins with."""

    keeps_state: bool = True
    """Whether the job goes on from `location`, or else from the savepoint of the one that it replaces."""
    allows_loss: bool = False
    """Whether state of operators that the version does not have may be left behind."""
    location: str = ""
    """A snapshot to start from, whatever runs; empty: the savepoint of the job that is replaced, or nothing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Names what a client has seen to run."""

    deployment_id: str | None
    """Of the deployment that is to be replaced; None: nothing runs."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A version that has become a program with a job graph."""

    artifact: Artifact
    extracted: ExtractedJob
    operators: Mapping[str, str] = field(default_factory=dict)
    """Operator id → node."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Node → output → what its stream is made of."""


def plan(version: Version, user: User, has_left: Callable[[], bool]) -> Planned:
    """Compile a version, store its program, and extract its job graph in a child process.

    Args:
        version: the version.
        user: recorded as who has uploaded the program.
        has_left: returns whether the client is gone.

    Raises:
        NotDeployableError: it has problems.
        backend.dispatcher.errors.BadRequest: the program fails.
        backend.dispatcher.programs.PlanningBusy, backend.cluster.program_files.StorageProblem: not now.
    """
    program = compiled(check(version.value).document, version.number)
    if not program.is_deployable:
        raise NotDeployableError(program.problems)
    name = f"{file_stem(version.pipeline.name)}-v{version.number}.py"
    source = program.source.encode()
    with TemporaryUploadedFile(name, "text/x-python", len(source), "utf-8") as upload:
        upload.write(source)
        upload.flush()
        artifact = artifacts.store(upload, user)
    extracted = extract(artifact, ProgramRequest(), has_left, list(program.streams.values()))
    return Planned(artifact, extracted, operators_of(program, extracted.graph_json), outputs_of(program, extracted))


def report_of(running: Deployment | None, graph: JobGraph, location: str = "") -> CompatibilityReport | None:
    """Return what would become of the state in a snapshot; None: there is none yet.

    Args:
        running: the deployment whose job runs; None: none.
        graph: of the version that is to begin with the state.
        location: of the snapshot; empty: the latest checkpoint of the running job.

    Raises:
        DeploymentRefusedError: the snapshot cannot be read, at least not just now.
    """
    what = "snapshot"
    if not location and running is not None:
        newest = cluster_services.list_checkpoints(cluster_services.get_job(running.job_id)).first()
        location = "" if newest is None else newest.location
        what = "latest checkpoint of the running job"
    if not location:
        return None
    try:
        files = cluster_storage().signed_files()
        metadata = ask_location(location, lambda: files.load(location))
    except (CheckpointStorageError, DamagedSnapshotError, OSError) as error:
        raise DeploymentRefusedError(f"The {what} cannot be read: {error}") from error
    return compatibility(metadata, graph)


def running_deployment(pipeline: Pipeline) -> Deployment | None:
    """Return the deployment whose job has not ended, however many have failed since; None: none."""
    rows = pipeline.deployments.exclude(state__in=("COMPILED", "CHECKED", "STOPPING")).select_related("version")
    unended = Job.objects.exclude(state__in=TERMINAL_STATES).values("id")
    return rows.filter(job_id__in=unended).defer("graph").order_by("-created_at").first()


def known_deployment(user: User, key: str) -> Deployment | None:
    """Return the deployment that a user has asked for with a key."""
    return Deployment.objects.select_related("version", "pipeline").filter(created_by=user, idempotency_key=key).first()


def deploy(
    pipeline: Pipeline,
    version: Version,
    user: User,
    key: str,
    restore: Restore,
    has_left: Callable[[], bool],
    seen: Seen | None = None,
) -> Deployment:
    """Deploy a version; a job of the pipeline that runs is replaced.

    Args:
        pipeline: the pipeline.
        version: one of its versions.
        user: who asks.
        key: requests of this user with the same key, even concurrent ones, make one deployment.
        restore: what becomes of state.
        has_left: returns whether the client is gone.
        seen: nothing else is replaced; None: whatever runs is.

    Raises:
        KeyTakenError: the key belongs to a deployment of another version, or with another choice of state.
        PipelineUnknownError, ArchivedError, NotDeployableError, DeploymentOpenError, OtherRunsError, StateRefusedError,
            DeploymentRefusedError: nothing was done. See `plan` for others.
        AuthenticationFailed, PermissionDenied: the user's access has ended meanwhile; nothing was done.
    """
    known = known_deployment(user, key)
    if known is not None:
        return _same(known, version, restore)
    if pipeline.archived_at is not None:
        raise ArchivedError(pipeline)
    try:
        return _deploy(pipeline, version, user, key, restore, has_left, seen)
    except (IntegrityError, DeploymentOpenError, OtherRunsError):
        # what is in the way may be what a request with the same key has made meanwhile
        known = known_deployment(user, key)
        if known is not None:
            return _same(known, version, restore)
        _refuse_open(pipeline)
        raise


def _deploy(
    pipeline: Pipeline,
    version: Version,
    user: User,
    key: str,
    restore: Restore,
    has_left: Callable[[], bool],
    seen: Seen | None,
) -> Deployment:
    _refuse_open(pipeline)
    _refuse_other(running_deployment(pipeline), seen)
    planned = plan(version, user, has_left)
    previous = running_deployment(pipeline)
    # planning takes seconds
    _refuse_other(previous, seen)
    report = None
    location = restore.location if restore.keeps_state else ""
    if restore.keeps_state:
        report = report_of(previous, planned.extracted.graph, location)
        if report is not None and (not report.is_restorable or (report.loses_state and not restore.allows_loss)):
            raise StateRefusedError(report, "snapshot" if location else "running job")
    try:
        # before the transaction: nobody can write while it waits for a storage
        job = _job(planned.extracted.graph_json, planned.artifact, user)
        job = job.starting_from(location, allows_loss=restore.allows_loss)
        locations = None if previous is not None else job.check_locations()
        snapshot = locations or named_snapshot(job.configuration)
        check_restore(user, snapshot)
        if previous is not None and location:
            _refuse_ending(snapshot.snapshot, previous)
        with transaction.atomic():
            check_still_may(user, Role.OPERATOR if pipeline.deployments.exists() else Role.DEVELOPER)
            _refuse_archived(pipeline)
            # storages take their time: a job that began meanwhile would run beside this one
            _refuse_other(running_deployment(pipeline), Seen(None if previous is None else previous.id))
            return _record(pipeline, version, user, key, restore, planned, previous, report, locations)
    except (ConfigurationError, cluster_services.ClusterError) as error:
        raise DeploymentRefusedError(str(error)) from error


def _record(
    pipeline: Pipeline,
    version: Version,
    user: User,
    key: str,
    restore: Restore,
    planned: Planned,
    previous: Deployment | None,
    report: CompatibilityReport | None,
    locations: CheckedLocations | None,
) -> Deployment:
    now = now_ms()
    state = Deployment.State.SUBMITTED if previous is None else Deployment.State.COMPILED
    deployment = Deployment(
        pipeline=pipeline,
        version=version,
        previous=previous,
        state=state,
        state_times={state: now},
        restore=_chosen(restore),
        report=None if report is None else report.to_json(),
        operators=dict(planned.operators),
        outputs=dict(planned.outputs),
        artifact=planned.artifact,
        graph=dict(planned.extracted.graph_json),
        idempotency_key=key,
        created_by=user,
        created_at=now,
    )
    deployment.save(force_insert=True)
    if locations is not None:
        job = planned_job(deployment, restore.location if restore.keeps_state else "")
        job.submit(deployment.job_id, locations, is_limited=True)
    logger.info("%s deploys version %d of pipeline %s as job %s", user, version.number, pipeline.id, deployment.job_id)
    return deployment


def _refuse_ending(directory: str, previous: Deployment) -> None:
    """Refuse a snapshot that is deleted with the job that is replaced.

    Raises:
        DeploymentRefusedError: it is.
    """
    need = SnapshotUses.read(check_in_time).hindering_restore(directory)
    if need is not None and need.job_id == previous.job_id and name_of(parent_of(directory)) == need.job_id:
        raise DeploymentRefusedError(
            f"{directory} is deleted when version {previous.version.number} is stopped: keep the state of the running "
            "job, or take a savepoint, and start from that"
        )


def named_snapshot(configuration: Mapping[str, str]) -> CheckedLocations:
    """Return the snapshot that options name, whether or not somebody needs it now: the job starts later."""
    restore = CheckpointSettings.from_configuration(Configuration.from_dict(dict(configuration))).restore
    if restore is None:
        return CheckedLocations()
    try:
        return CheckedLocations(check_in_time(restore.path), restore.claim_mode is ClaimMode.CLAIM)
    except CheckpointStorageError as error:
        raise ConfigurationError(
            options.RECOVERY_PATH.key, restore.path, f"what the cluster allows: {error}"
        ) from error


def planned_job(deployment: Deployment, location: str) -> PlannedJob:
    """Return a deployment's job as it is submitted.

    Args:
        deployment: the deployment.
        location: of the snapshot to start from; empty: none.
    """
    job = _job(deployment.graph, deployment.artifact, deployment.created_by)
    return job.starting_from(location, allows_loss=bool(deployment.restore.get("allows_loss")))


def _job(graph: Mapping[str, Any], artifact: Artifact | None, user: cluster_services.User) -> PlannedJob:
    submission: dict[str, Any] = {"entry": None, "parallelism": None, "configuration": {}}
    return PlannedJob(graph, artifact, [], graph["configuration"], submission, user)


def deployments_that_keep(directories: Collection[str]) -> Mapping[str, Need]:
    """Return the open deployments whose new job, or a rollback, is to start from one of the savepoints in some
    directories, by those.
    """
    found: dict[str, Need] = {}
    rows = Deployment.objects.filter(state__in=OPEN_STATES).select_related("pipeline", "version", "previous")
    for row in rows.defer("graph", "report", "version__document", "previous__graph"):
        job_id = row.job_id if row.previous is None else row.previous.job_id
        need = Need(job_id, f"the deployment of version {row.version.number} of pipeline {row.pipeline.name}")
        found |= {directory: need for directory in _savepoints_of(row) if directory in directories}
    return found


def _savepoints_of(deployment: Deployment) -> set[str]:
    """Return where the savepoint of the job that is replaced is, or will be, and the snapshot to begin with."""
    chosen = (deployment.restore.get("savepoint"), deployment.restore.get("location"))
    return savepoints_of_stop(deployment.stop_id) | {str(location) for location in chosen if location}


def list_deployments(pipeline: Pipeline) -> QuerySet[Deployment]:
    """Return a pipeline's deployments without their graphs, newest first."""
    rows = pipeline.deployments.select_related("version", "created_by", "previous__version")
    return rows.defer("graph", "version__document", "previous__version__document").order_by("-created_at")


def newest_and_running(pipeline: Pipeline, number: int) -> list[Deployment]:
    """Return the newest deployments of a pipeline, newest first, and the one that runs if it is older than those.

    Args:
        pipeline: the pipeline.
        number: of the newest ones.
    """
    rows = list(list_deployments(pipeline)[:number])
    if len(rows) == number:
        running = running_deployment(pipeline)
        if running is not None and running not in rows:
            rows.append(running)
    return rows


def newest_deployments(pipelines: Iterable[Pipeline]) -> Mapping[str, Deployment]:
    """Return the newest deployment of each pipeline, with what lists show of it, by the pipeline's id."""
    shown = ("pipeline", "state", "job_id", "created_at", "version__number", "version__semantic_hash")
    rows = Deployment.objects.filter(pipeline__in=list(pipelines)).order_by("created_at")
    return {row.pipeline_id: row for row in rows.select_related("version").only(*shown)}


def deployment_of_job(job_id: str) -> Deployment | None:
    """Return the deployment that a job is of; None: it is of none."""
    rows = Deployment.objects.filter(job_id=job_id).select_related("version", "pipeline", "created_by", "previous")
    return rows.defer("graph").first()


def switch_obstacle(job_id: str) -> str | None:
    """Return why the execution of a job is not switched by the Dispatcher; None: it was not drawn."""
    if not Deployment.objects.filter(job_id=job_id).exists():
        return None
    return "The job was drawn: choose the execution mode in its pipeline's settings, and redeploy it."


def jobs_of(pipeline: Pipeline, number: int) -> list[tuple[Deployment, Job]]:
    """Return the newest deployments of a pipeline that have a job, newest first, with it.

    Args:
        pipeline: the pipeline.
        number: of deployments that are looked at.
    """
    rows = list(list_deployments(pipeline)[:number])
    jobs = Job.objects.defer("graph", "document", "plan").in_bulk([row.job_id for row in rows])
    return [(row, jobs[row.job_id]) for row in rows if row.job_id in jobs]


def job_states(deployments: Iterable[Deployment]) -> Mapping[str, str]:
    """Return job id → state of the jobs of deployments, as far as there are any."""
    ids = [row.job_id for row in deployments]
    return dict(Job.objects.filter(id__in=ids).values_list("id", "state"))


def file_stem(name: str) -> str:
    """Return a file's name for a pipeline's."""
    return _UNSAFE.sub("-", name.lower()).strip("-")[:80] or "pipeline"


def _chosen(restore: Restore) -> dict[str, Any]:
    return {
        "keeps_state": restore.keeps_state,
        "allows_loss": restore.allows_loss,
        "location": restore.location if restore.keeps_state else "",
    }


def _same(known: Deployment, version: Version, restore: Restore) -> Deployment:
    # the leader adds to what was chosen
    if known.version_id != version.pk or {**known.restore, **_chosen(restore)} != known.restore:
        raise KeyTakenError
    return known


def _refuse_open(pipeline: Pipeline) -> None:
    open_one = pipeline.deployments.filter(state__in=OPEN_STATES).select_related("version").defer("graph").first()
    if open_one is not None:
        raise DeploymentOpenError(open_one)


def _refuse_archived(pipeline: Pipeline) -> None:
    """Refuse a pipeline that was archived or deleted while its version was planned; keep it from being so until the
    transaction has ended.
    """
    row = Pipeline.objects.select_for_update().filter(id=pipeline.id).first()
    if row is None:
        raise PipelineUnknownError(pipeline.id)
    if row.archived_at is not None:
        raise ArchivedError(row)


def _refuse_other(running: Deployment | None, seen: Seen | None) -> None:
    if seen is not None and seen.deployment_id != (None if running is None else running.id):
        raise OtherRunsError(running)
