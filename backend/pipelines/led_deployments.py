"""LedDeployments: moves deployments on that replace a job. Part of the leading jobmanager's poll.

It observes SQL only, and each step is one transaction that holds the leader's epoch: what is done and the state that
says so are there together, or neither. A submission waits until the storage says that its directories are allowed, and
the deployment's message names that storage; a new job gives way to the old one if that takes too long. The requests
that outlive a transaction (a stop, a cancellation) have ids that were chosen before, so that asking again is asking for
the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from backend.cluster import services as cluster_services
from backend.cluster.ages import Ages
from backend.cluster.checkpoint_home import check_location
from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import Checkpoint, CheckpointStatistics, Job, Operation
from backend.cluster.withheld import UnsealedError, given_of
from backend.pipelines.deployment_machine import (
    START_PATIENCE_MS,
    Action,
    BeginRollback,
    CancelNew,
    Check,
    DeploymentSeen,
    Fail,
    FinishRollback,
    JobSeen,
    Settle,
    Stop,
    Submit,
    next_action,
    refused_at_submission,
)
from backend.pipelines.deployments import check_locations, submit
from backend.pipelines.models import OPEN_STATES, Deployment
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.core.clock import Clock
from runtime.graph.codec import GraphFormatError, job_graph_from_json, job_graph_to_json
from runtime.jobmaster.rescaling import RescaleError, rescaled

logger = logging.getLogger(__name__)

#: begins the line of a deployment's message that names the storage that it waits for
_WAITS = "it waits: "
_REFUSALS = (ConfigurationError, GraphFormatError, RescaleError, UnsealedError, cluster_services.ClusterError)


class LedDeployments:
    """The open deployments of one leader.

    Args:
        leadership: fences all writes.
        clock: for the times in rows, and the ages of what they describe.
        containment: contains failures.
        check: checks the directories that a job names.
    """

    def __init__(
        self,
        leadership: Leadership,
        clock: Clock,
        containment: Containment,
        check: CheckLocation = check_location,
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._containment = containment
        self._check = check
        #: of the present states of deployments and jobs; of a job that runs again it begins anew
        self._ages: Ages[tuple[str, str, int]] = Ages(clock)
        #: states that this poll has seen
        self._seen: set[tuple[str, str, int]] = set()

    def poll(self) -> None:
        """Move every open deployment on by one step, if one is due."""
        found = Deployment.objects.filter(state__in=OPEN_STATES).select_related("previous", "created_by")
        rows = list(found.defer("graph", "previous__graph").order_by("created_at"))
        unobserved = {row.id: row for row in rows}
        self._seen.clear()
        for row in rows:
            with self._containment.of(f"deployment {row.id}"):
                action = next_action(self._observe(row))
                del unobserved[row.id]
                if action is not None:
                    self._act(row, action)
        # what could not be looked at goes on ageing
        names = {name for row in unobserved.values() for name in _names_of(row)}
        self._ages.keep(self._seen | {key for key in self._ages.known() if key[0] in names})

    def needed_jobs(self) -> Collection[str]:
        """Return the jobs of deployments that are under way, and of those that they replace."""
        rows = Deployment.objects.filter(state__in=OPEN_STATES)
        found = rows.values_list("job_id", "rollback_job_id", "previous__job_id", "previous__rollback_job_id")
        return {job_id for ids in found for job_id in ids if job_id}

    def _observe(self, row: Deployment) -> DeploymentSeen:
        stop = Operation.objects.filter(trigger_id=row.stop_id, state=Operation.State.COMPLETED).first()
        return DeploymentSeen(
            row.state,
            self._age_ms(row.id, row.state, row.state_times.get(row.state, 0)),
            None if row.previous is None else self._job(row.previous.job_id),
            None if stop is None else stop.result or {},
            str(row.restore.get("savepoint", "")),
            self._job(row.job_id),
        )

    def _job(self, job_id: str) -> JobSeen | None:
        job = cluster_services.list_jobs().filter(id=job_id).defer("graph", "document", "plan").first()
        if job is None:
            return None
        own = Checkpoint.objects.filter(job_id=job_id, is_savepoint=False).exists()
        counted = CheckpointStatistics.objects.filter(job_id=job_id).first()
        running_ms = self._age_ms(job.id, job.state, job.state_times["RUNNING"]) if job.state == "RUNNING" else None
        return JobSeen(
            job.state,
            job.restarts,
            _last_failure(job),
            running_ms,
            own or (counted is not None and counted.record.get("completed", 0) > 0),
            job.waiting_for,
        )

    def _age_ms(self, name: str, state: str, entered: int) -> int:
        """Return for how long this leader has seen a deployment or a job in its state; `entered` only identifies it."""
        key = (name, state, entered)
        self._seen.add(key)
        return self._ages.of(key)

    def _act(self, row: Deployment, action: Action) -> None:
        match action:
            case Check():
                self._enter(row, Deployment.State.CHECKED)
            case Stop():
                self._stop(row)
            case Submit(location):
                self._submit(row, location)
            case Settle():
                self._enter(row, Deployment.State.RUNNING)
            case BeginRollback(why):
                self._enter(row, Deployment.State.ROLLING_BACK, why)
            case CancelNew():
                self._cancel_new(row)
            case FinishRollback(location):
                self._finish_rollback(row, location)
            case Fail(why):
                self._enter(row, Deployment.State.FAILED, _both(_reasons(row), why))

    def _enter(self, row: Deployment, state: Deployment.State, message: str | None = None, **values: Any) -> None:
        with self._leadership.fenced():
            self._record(row, state, message, **values)

    def _record(self, row: Deployment, state: Deployment.State, message: str | None = None, **values: Any) -> None:
        """Write a state, in a transaction that holds the leader's epoch."""
        times = row.state_times | {state: self._clock.now_ms()}
        values |= {"state": state, "state_times": times}
        if message is not None:
            values["message"] = message
        mine = Deployment.objects.filter(id=row.id, state=row.state)
        if mine.update(**values) == 1:
            logger.info("deployment %s: %s %s", row.id, state, message or "")

    def _stop(self, row: Deployment) -> None:
        assert row.previous is not None
        job = cluster_services.get_job(row.previous.job_id)
        parameters = {"target_directory": None, "drain": False, "format": "CANONICAL"}
        with self._leadership.fenced():
            try:
                cluster_services.request_operation(
                    job, Operation.Kind.STOP, parameters, row.created_by, trigger_id=row.stop_id
                )
            except (cluster_services.JobEndedError, cluster_services.OperationOpenError) as error:
                self._record(row, Deployment.State.FAILED, str(error))
                return
            self._record(row, Deployment.State.STOPPING)

    def _submit(self, row: Deployment, location: str) -> None:
        restore = {**row.restore, "savepoint": location}
        start = (row.restore.get("location") or location) if row.restore.get("keeps_state", True) else ""
        try:
            locations = check_locations(row, start, self._check)
            with self._leadership.fenced():
                submit(row, start, locations)
                self._record(row, Deployment.State.SUBMITTED, _reasons(row), restore=restore)
        except _REFUSALS as error:
            self._refuse(row, str(error), restore)
        except StorageSilentError as silent:
            # of when it was waited for first; another leader begins anew
            if self._age_ms(row.id, "waits for a storage", 0) > START_PATIENCE_MS:
                self._refuse(row, str(silent), restore)
            else:
                self._tell_wait(row, silent)

    def _refuse(self, row: Deployment, why: str, restore: dict[str, Any]) -> None:
        refused = refused_at_submission(why)
        assert isinstance(refused, BeginRollback)
        self._enter(row, Deployment.State.ROLLING_BACK, refused.why, restore=restore)

    def _tell_wait(self, row: Deployment, silent: StorageSilentError) -> None:
        """Have a deployment say which storage it waits for."""
        message = _both(_reasons(row), f"{_WAITS}{silent}")
        if message == row.message:
            return
        logger.warning("deployment %s waits: %s", row.id, silent)
        with self._leadership.fenced():
            Deployment.objects.filter(id=row.id, state=row.state).update(message=message)

    def _cancel_new(self, row: Deployment) -> None:
        job = cluster_services.get_job(row.job_id)
        with self._leadership.fenced():
            try:
                cluster_services.request_operation(
                    job, Operation.Kind.CANCEL, {}, row.created_by, trigger_id=row.cancel_id
                )
            except cluster_services.JobEndedError:
                # seen at the next poll
                return

    def _finish_rollback(self, row: Deployment, location: str) -> None:
        previous = row.previous
        old = None if previous is None else Job.objects.filter(id=previous.job_id).first()
        if previous is None or old is None:
            self._enter(row, Deployment.State.FAILED, _both(_reasons(row), "the old job is no longer known"))
            return
        given = {
            options.RECOVERY_PATH.key: location,
            options.RECOVERY_CLAIM_MODE.key: "no_claim",
            options.IGNORE_UNCLAIMED_STATE.key: "false",
        }
        try:
            before = given_of(old)
            graph = rescaled(job_graph_from_json(before.graph), old.vertex_parallelism)
            graph_json = job_graph_to_json(graph)
            configuration = {**graph_json["configuration"], **given}
            locations = cluster_services.check_locations(configuration, self._check)
            with self._leadership.fenced():
                cluster_services.submit_job(
                    {**graph_json, "configuration": configuration},
                    old.artifact,
                    before.args,
                    {**before.configuration, **given},
                    old.submitted_by,
                    before.submission,
                    row.rollback_job_id,
                    locations,
                    is_limited=False,
                )
                Deployment.objects.filter(id=previous.id).update(job_id=row.rollback_job_id)
                self._record(row, Deployment.State.ROLLED_BACK, _reasons(row))
        except _REFUSALS as error:
            why = f"the old graph was refused, too: {error}; its savepoint is {location}"
            self._enter(row, Deployment.State.FAILED, _both(_reasons(row), why))
        except StorageSilentError as silent:
            # for as long as it takes: there is nothing else that could run
            self._tell_wait(row, silent)


def _last_failure(job: Job) -> str:
    if job.failure:
        return str(job.failure.get("message", ""))
    newest = cluster_services.list_exceptions(job).first()
    return "" if newest is None else newest.message


def _both(before: str, why: str) -> str:
    return f"{before}\n{why}" if before else why


def _reasons(row: Deployment) -> str:
    """Return the message of a deployment without what it waits for."""
    return "\n".join(line for line in row.message.splitlines() if not line.startswith(_WAITS))


def _names_of(row: Deployment) -> tuple[str, ...]:
    """Return the ids of a deployment and of its jobs."""
    return (row.id, row.job_id, *(() if row.previous is None else (row.previous.job_id,)))
