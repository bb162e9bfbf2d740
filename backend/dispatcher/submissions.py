"""Running an uploaded program as a job: what the REST route does, and Django's admin when it restores one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from rest_framework import exceptions

from backend.accounts.errors import Conflict
from backend.accounts.ownership import check_restore
from backend.accounts.roles import Role
from backend.accounts.services import check_still_may
from backend.cluster import services
from backend.cluster.models import Artifact, Job
from backend.dispatcher import artifacts
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.programs import ProgramRequest, extract
from runtime.client.extract import ExtractedJob
from runtime.common import options
from runtime.common.config_options import ConfigurationError

logger = logging.getLogger(__name__)


def _check_rights(user: services.User, locations: services.CheckedLocations) -> None:
    """Check again what the submitter may do: planning has taken seconds."""
    check_still_may(user, Role.DEVELOPER)
    check_restore(user, locations)


def find_artifact(jar_id: str) -> Artifact:
    """Return the artifact that a client names.

    Raises:
        NotFound: there is none.
    """
    found = artifacts.find(jar_id)
    if found is None:
        raise exceptions.NotFound(f"File {jar_id} does not exist.")
    return found


def run_program(
    artifact: Artifact, wanted: ProgramRequest, user: services.User, has_left: Callable[[], bool]
) -> tuple[Job, ExtractedJob]:
    """Extract a program's job and submit it; return both.

    Args:
        artifact: the program.
        wanted: how it is to be run.
        user: the submitter.
        has_left: returns whether the client is gone; see `extract`.

    Raises:
        BadRequest: the program defines no job, or one with options that are wrong.
        Conflict: a job has the id that the client chose, or the snapshot is needed by another job.
        NotTheOwner: the snapshot is somebody else's, and owners count.
        AuthenticationFailed, PermissionDenied: the submitter's access has ended while the program was planned.
        PlanningBusy, ClientLeft, StorageProblem, SubmissionRefused: as `extract`.
    """
    if wanted.job_id is not None and Job.objects.filter(id=wanted.job_id).exists():
        raise Conflict(str(services.JobExistsError(wanted.job_id)))
    if wanted.restore:
        is_claim = wanted.restore[options.RECOVERY_CLAIM_MODE.key] == "claim"
        check_restore(user, services.CheckedLocations(wanted.restore[options.RECOVERY_PATH.key], is_claim))
    extracted = extract(artifact, wanted, has_left)
    graph = extracted.graph_json
    graph = {**graph, "configuration": {**graph["configuration"], **wanted.restore}}
    configuration = {**extracted.graph.configuration, **wanted.configuration, **wanted.restore}
    submission = {
        "entry": wanted.entry,
        "parallelism": wanted.parallelism,
        "configuration": dict(wanted.configuration),
    }
    try:
        job = services.submit_job(
            graph,
            artifact,
            wanted.args,
            configuration,
            user,
            submission,
            wanted.job_id,
            check=partial(_check_rights, user),
        )
    except ConfigurationError as error:
        raise BadRequest(str(error)) from error
    except (
        services.SnapshotNeededError,
        services.SnapshotDisposedError,
        services.JobExistsError,
        services.ProgramDeletedError,
        services.TooManyJobsError,
    ) as error:
        raise Conflict(str(error)) from error
    logger.info("%s runs %s (%s) as job %s", user, artifact.file_name, artifact.id, job.id)
    return job, extracted
