"""Cluster services for REST, WebSocket and supervisor. Any process, any thread; plain SQL and Redis.

Nothing here starts or stops anything: jobs and operations are rows, which the leading jobmanager carries out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import redis
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from backend.cluster import bus
from backend.cluster.checkpoint_document import DETAILS, TRACES, details_field
from backend.cluster.checkpoint_home import cluster_storage, with_cluster_options
from backend.cluster.cluster_document import cluster_document_from_rows
from backend.cluster.database_clock import now_ms as now_ms
from backend.cluster.freshness import Freshness, Source, as_of_the_beat
from backend.cluster.live_document import told_document
from backend.cluster.location_checks import CheckLocation
from backend.cluster.metric_history import read_history
from backend.cluster.metric_samples import Curves
from backend.cluster.models import (
    TERMINAL_STATES,
    Artifact,
    Checkpoint,
    Job,
    JobException,
    Operation,
    Scaling,
    TaskManager,
)
from backend.cluster.new_jobs import check_options, new_job
from backend.cluster.peek_document import SeenByPeek
from backend.cluster.rows_by_key import row_by_key
from backend.cluster.snapshot_users import Need, SnapshotUses, is_being_deleted, lock_snapshots
from backend.cluster.stack_document import VertexStacks
from backend.cluster.storage_calls import check_in_time
from backend.cluster.task_metrics import ACCUMULATORS, JOB_METRICS, Metrics, subtask_field
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode
from runtime.checkpoint.snapshot_files import snapshot_directory
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.ids import JobId, new_job_id
from runtime.graph.codec import job_graph_from_json
from runtime.graph.job_graph import JobGraph

logger = logging.getLogger(__name__)
#: a cluster document with an older last beat was left behind by a jobmanager that is gone
ABANDONED_MS = 10_000

User = AbstractBaseUser | AnonymousUser | None


class ClusterError(Exception):
    """Base of this module's errors; the message may be shown to the user."""


class JobUnknownError(ClusterError):
    """No job has this id."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id} not found")


class PreviewUnknownError(ClusterError):
    """No preview has this id, or it is too old."""

    def __init__(self, preview_id: str) -> None:
        super().__init__(f"Preview {preview_id[:40]} not found")


class JobEndedError(ClusterError):
    """The job has ended and cannot be changed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        super().__init__(f"Job {job.id} is already in state {job.state}")


class OperationUnknownError(ClusterError):
    """No operation has this trigger id."""

    def __init__(self, trigger_id: str) -> None:
        super().__init__(f"Operation not found under key: {trigger_id}")


class ProgramDeletedError(ClusterError):
    """A program was deleted while a job of it was submitted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has been deleted: upload it again.")


class TooManyJobsError(ClusterError):
    """The user has as many jobs that have not ended as one user may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"You have {limit} jobs that have not ended, as many as this cluster runs for one user "
            "(TIDEMARK_JOBS_PER_USER): cancel one, or wait until one has ended"
        )


class JobExistsError(ClusterError):
    """A job already has the id that the client chose: its request has been carried out before."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was already submitted.")


class TriggerTakenError(ClusterError):
    """Another operation has that trigger id."""

    def __init__(self, trigger_id: str) -> None:
        super().__init__(f"Trigger id {trigger_id} belongs to another operation")


class OperationOpenError(ClusterError):
    """The job was asked for the same with other parameters, and has not answered yet."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(
            f"Operation {operation.trigger_id} ({operation.kind}) of the job is not completed yet, and has other "
            "parameters: wait for its result, then ask again"
        )


class SnapshotNeededError(ClusterError):
    """Somebody needs the snapshot that a job is to start from, or owns it and may delete it at any time.

    A job that has not ended may have to restore from what it has started from, or taken; and if another one claims its
    savepoint, it would lose what its sinks have prepared since.
    """

    def __init__(self, location: str, need: Need) -> None:
        whose, advice = f"is needed by {need.who}, which has not ended", "restore from it with the claim mode NO_CLAIM"
        if need.is_owner:
            whose = f"belongs to {need.who}, which has not ended and may delete it, or files that it shares"
            advice = "take a savepoint of that job, and restore from that"
        super().__init__(f"{location} {whose}: {advice}")


class SnapshotDisposedError(ClusterError):
    """The snapshot that a job is to start from is being deleted."""

    def __init__(self, location: str) -> None:
        super().__init__(f"{location} is being deleted: restore from another snapshot")


@dataclass(frozen=True, slots=True)
class CheckedLocations:
    """The locations that a job names, as their storages have confirmed them."""

    snapshot: str = ""
    """Resolved URI of what it is to start from; empty: nothing."""
    claims: bool = False
    """Whether it is to own that."""
    uses: SnapshotUses | None = None
    """What other jobs were started from."""


def check_locations(configuration: Mapping[str, str], check: CheckLocation = check_in_time) -> CheckedLocations:
    """Check the locations that a job names, before the transaction that submits it: storages may take their time.

    Args:
        configuration: the options in the job's graph.
        check: checks a location.

    Raises:
        StorageSilentError: `check` has no answer yet.
        ConfigurationError: an option of checkpoints is malformed, or names a directory that is not allowed.
        SnapshotNeededError, SnapshotDisposedError: the job cannot start from that snapshot, or not like this.
    """
    checked = with_cluster_options(configuration, cluster_storage(), check)
    restore = CheckpointSettings.from_configuration(Configuration.from_dict(checked)).restore
    if restore is None:
        return CheckedLocations()
    claims = restore.claim_mode is ClaimMode.CLAIM
    # who only reads does not wait for storages of others
    found = CheckedLocations(restore.path, claims, SnapshotUses.read(check if claims else None))
    _refuse_snapshot(found)
    return found


def _refuse_snapshot(checked: CheckedLocations) -> None:
    """Refuse what a job is to start from if others are in the way; asks the database only."""
    if checked.uses is None:
        return
    directory = snapshot_directory(checked.snapshot)
    if is_being_deleted(directory):
        raise SnapshotDisposedError(directory)
    uses = checked.uses
    need = uses.hindering_claim(directory) if checked.claims else uses.hindering_restore(directory)
    if need is not None:
        raise SnapshotNeededError(directory, need)


def submit_job(
    graph_json: Mapping[str, Any],
    artifact: Artifact | None,
    args: Sequence[str],
    configuration: Mapping[str, str],
    user: User,
    submission: Mapping[str, Any] | None = None,
    job_id: str | None = None,
    locations: CheckedLocations | None = None,
    is_limited: bool = True,
    check: Callable[[CheckedLocations], object] = lambda _: None,
) -> Job:
    """Queue a job; a jobmanager takes it within a second.

    Args:
        graph_json: a graph in the format of `runtime.graph.codec`. Its job id is kept unless a job already has it.
        artifact: the program it was extracted from.
        args: the program's arguments, shown to users.
        configuration: the submitter's options, shown to users; those that apply are in the graph.
        user: the submitter.
        submission: see `Job.submission`.
        job_id: an id chosen by the client: requests with the same id, even concurrent ones, create one job.
        locations: of the graph's options, from `check_locations`; None: checks them, which a transaction must not.
        is_limited: whether it counts as one more of its user's jobs; False: it takes the place of another.
        check: is called with the locations in the transaction, before anything is done; what it raises goes through.

    Raises:
        StorageSilentError: a storage has not answered yet; nothing was done.
        runtime.graph.codec.GraphFormatError: the graph cannot be read.
        ConfigurationError: an option of checkpoints, of the scheduler, of the autoscaler or of tags is malformed, or
            names a directory that is not allowed.
        SnapshotNeededError: the job would claim a snapshot that somebody needs, or start from one that a job owns.
        SnapshotDisposedError: the job would start from a snapshot that is being deleted.
        JobExistsError: a job already has the client's id.
        ProgramDeletedError: the program has been deleted in the meantime.
        TooManyJobsError: the user has as many jobs as one may have.
    """
    graph = job_graph_from_json(dict(graph_json))
    try:
        locations = locations or check_locations(graph.configuration)
    except (SnapshotNeededError, SnapshotDisposedError):
        _refuse_known(job_id)
        raise
    if locations.snapshot:
        # wherever links lead by then: that is what was checked
        started = {options.RECOVERY_PATH.key: locations.snapshot}
        graph = replace(graph, configuration={**graph.configuration, **started})
    check_options(graph)
    if job_id is not None:
        graph = replace(graph, job_id=JobId(job_id))
    elif Job.objects.filter(id=graph.job_id).exists():
        graph = replace(graph, job_id=new_job_id())

    def insert(graph: JobGraph) -> Job:
        job = new_job(graph, artifact, args, configuration, submission or {}, _user_id(user))
        with transaction.atomic():
            check(locations)
            if artifact is not None:
                _keep(artifact)
            if is_limited:
                _refuse_too_many(user, job_id)
            if locations.uses is not None:
                lock_snapshots()
                _refuse_known(job_id)
                _refuse_snapshot(replace(locations, uses=locations.uses.renewed()))
            job.save(force_insert=True)
        return job

    try:
        job = insert(graph)
    except IntegrityError:
        if not Job.objects.filter(id=graph.job_id).exists():
            raise
        if job_id is not None:
            raise JobExistsError(job_id) from None
        # another request has submitted the same graph at this moment
        job = insert(replace(graph, job_id=new_job_id()))
    transaction.on_commit(lambda: _wake({"type": "job_submitted", "job": job.id}))
    return job


def _refuse_known(job_id: str | None) -> None:
    """Refuse a request that has been carried out: its own job would be in its way."""
    if job_id is not None and Job.objects.filter(id=job_id).exists():
        raise JobExistsError(job_id)


def _refuse_too_many(user: User, job_id: str | None) -> None:
    """Refuse a job beyond its submitter's limit; in a transaction, so that two of a user wait for each other."""
    limit: int = settings.TIDEMARK_JOBS_PER_USER
    user_id = _user_id(user)
    if not limit or user_id is None:
        return
    list(get_user_model().objects.select_for_update().filter(pk=user_id).values_list("pk"))
    _refuse_known(job_id)
    if Job.objects.filter(submitted_by_id=user_id).exclude(state__in=TERMINAL_STATES).count() >= limit:
        raise TooManyJobsError(limit)


def _keep(artifact: Artifact) -> None:
    """Lock a program's row, so that it is deleted before the job exists, or not as long as the job runs."""
    row = Artifact.objects.select_for_update().filter(id=artifact.id).first()
    if row is None or artifact.path not in row.files:
        raise ProgramDeletedError(artifact.file_name)


def request_cancel(job: Job, user: User) -> Operation:
    """Request the job's cancellation; a repeated request returns the same operation.

    Raises:
        JobEndedError: the job has ended.
    """
    return request_operation(job, Operation.Kind.CANCEL, {}, user)


#: repeating such a request returns the operation that is not completed yet
_REPEATABLE = (Operation.Kind.CANCEL, Operation.Kind.STOP, Operation.Kind.RESCALE)


def request_operation(
    job: Job | None, kind: Operation.Kind, parameters: Mapping[str, Any], user: User, trigger_id: str | None = None
) -> Operation:
    """Request an operation; the leading jobmanager carries it out, and its successor again if it is replaced meanwhile.

    Args:
        job: the job; None for operations without one (DISPOSE).
        kind: the kind of operation.
        parameters: as documented at `Operation.Kind`.
        user: the requesting user.
        trigger_id: 32 hex digits; a repeated request with the same id returns the same operation. With another id,
            an operation that cannot be carried out twice follows the one that is open, and gets its result.

    Raises:
        JobEndedError: the job has ended.
        OperationOpenError: such an operation is open with other parameters.
        TriggerTakenError: another operation has the trigger id.
    """
    job_id = None if job is None else job.id
    with transaction.atomic():
        known = _known_operation(job_id, kind, trigger_id)
        if known is not None:
            return known
        if job is not None:
            # of two requests at once, the second one finds the operation of the first
            job.state = Job.objects.select_for_update().values_list("state", flat=True).get(id=job.id)
            if job.is_terminal:
                raise JobEndedError(job)
        same = None
        if kind in _REPEATABLE:
            open_ones = Operation.objects.filter(job_id=job_id, kind=kind, follows=None).exclude(
                state=Operation.State.COMPLETED
            )
            is_any = kind != Operation.Kind.RESCALE
            same = next((o for o in open_ones if is_any or _asked(o.parameters) == _asked(parameters)), None)
            if same is not None and trigger_id is None:
                return same
            if same is not None and _asked(same.parameters) != _asked(parameters):
                raise OperationOpenError(same)
        operation = Operation(
            job=job, kind=kind, parameters=dict(parameters), created_at=now_ms(), requested_by_id=_user_id(user)
        )
        operation.follows = same
        operation.trigger_id = trigger_id or operation.trigger_id
        try:
            with transaction.atomic():
                operation.save(force_insert=True)
        except IntegrityError:
            # two concurrent requests with the same trigger id
            first = _known_operation(job_id, kind, trigger_id)
            assert first is not None
            return first
    transaction.on_commit(lambda: _wake({"type": "operation", "operation": operation.trigger_id}))
    return operation


def _asked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for: the same rescaling may be requested again when a vertex has changed already."""
    return {name: value for name, value in parameters.items() if name != "before"}


def switch_autoscaler(job: Job, is_on: bool | None) -> None:
    """Switch a job's autoscaler on or off; the leading jobmanager notices within a second.

    Args:
        job: the job.
        is_on: None: as the job's configuration says.

    Raises:
        JobEndedError: the job has ended.
    """
    if Job.objects.filter(id=job.id).exclude(state__in=TERMINAL_STATES).update(autoscaler_enabled=is_on) != 1:
        job.refresh_from_db(fields=["state"])
        raise JobEndedError(job)
    job.autoscaler_enabled = is_on
    transaction.on_commit(lambda: _wake({"type": "autoscaler", "job": job.id}))


def list_scalings(job: Job) -> QuerySet[Scaling]:
    """Return what the job's autoscaler has decided, newest first."""
    return job.scalings.order_by("-id")


def _known_operation(job_id: str | None, kind: Operation.Kind, trigger_id: str | None) -> Operation | None:
    if trigger_id is None:
        return None
    known = Operation.objects.filter(trigger_id=trigger_id).first()
    if known is not None and (known.job_id, known.kind) != (job_id, kind):
        raise TriggerTakenError(trigger_id)
    return known


def get_operation(trigger_id: str, job: Job | None, kinds: Collection[Operation.Kind] = ()) -> Operation:
    """Return an operation of a job, or one without a job.

    Raises:
        OperationUnknownError: no operation has this id, or it belongs to another job or is of another kind.
    """
    found = Operation.objects.filter(trigger_id=trigger_id, job_id=None if job is None else job.id).first()
    if found is None or (kinds and found.kind not in kinds):
        raise OperationUnknownError(trigger_id)
    return found


def list_operations(job: Job) -> QuerySet[Operation]:
    """Return a job's operations, newest first."""
    return job.operations.order_by("-created_at")


def list_checkpoints(job: Job) -> QuerySet[Checkpoint]:
    """Return the job's retained completed checkpoints, newest first."""
    return job.checkpoints.order_by("-checkpoint_id")


def get_job(job_id: str) -> Job:
    """Return a job without what is large and seldom needed, above all its graph; that is read when it is asked for.

    Raises:
        JobUnknownError: no job has this id.
    """
    job = row_by_key(Job, "id", job_id, without=("graph", "withheld", "document"))
    if job is None:
        raise JobUnknownError(job_id)
    return job


def list_jobs() -> QuerySet[Job]:
    """Return all jobs, newest first, without their graphs."""
    return Job.objects.defer("graph").order_by("-created_at")


def list_exceptions(job: Job) -> QuerySet[JobException]:
    """Return a job's failures, newest first."""
    return job.exceptions.order_by("-attempt")


def list_taskmanagers() -> QuerySet[TaskManager]:
    """Return the registered TaskManagers, oldest first."""
    return TaskManager.objects.filter(state=TaskManager.State.REGISTERED).order_by("registered_at")


def any_job_active() -> bool:
    """Return whether any job has not ended yet."""
    return Job.objects.exclude(state__in=TERMINAL_STATES).exists()


def job_document(job_id: str) -> dict[str, Any]:
    """Return the document of `read_job`."""
    return read_job(job_id)[0]


def read_job(job_id: str) -> tuple[dict[str, Any], Freshness]:
    """Return a job's live document and its freshness: from Redis, else the one saved at its last change of state.

    Raises:
        JobUnknownError: no job has this id.
    """
    read = _read(bus.JOB_KEY.format(job_id))
    if read is not None and read.document is not None:
        is_final = read.document["state"] in TERMINAL_STATES
        document = read.document if is_final else as_of_the_beat(read.document, read.vouched_for_ms)
        return document, Freshness(Source.LIVE, read.beat_age_ms, is_final=is_final)
    job = get_job(job_id)
    document = told_document(job.document or {}) | {"now": now_ms()}
    return document, _freshness_of_rows(read, job.is_terminal)


def read_preview(preview_id: str) -> dict[str, Any]:
    """Return the document of a preview; one whose process is gone is "lost".

    Raises:
        PreviewUnknownError: there is none, or Redis does not answer.
    """
    try:
        with bus.reader().connected() as connection:
            text, is_alive = connection.mget(
                bus.PREVIEW_KEY.format(preview_id), bus.PREVIEW_BEAT_KEY.format(preview_id)
            )
    except redis.RedisError as error:
        logger.warning("a preview cannot be read: %s", error)
        raise PreviewUnknownError(preview_id) from error
    if not isinstance(text, str):
        raise PreviewUnknownError(preview_id)
    document: dict[str, Any] = json.loads(text)
    if document["state"] == "running" and is_alive is None:
        return {**document, "state": "lost", "version": document["version"] + 1}
    return document


def vouched_ms() -> int:
    """Return the time as of which the jobmanager has last vouched for running jobs, epoch ms; now if nobody has."""
    read = _read(bus.CLUSTER_KEY)
    return now_ms() - (0 if read is None or read.beat_age_ms is None else read.beat_age_ms)


def task_metrics(job_id: str, vertex_id: str, subtasks: Sequence[int]) -> list[Metrics]:
    """Return the subtasks' last reported metrics, by their slots' names; {} for subtasks without any (any more).

    Args:
        job_id: the job's id.
        vertex_id: the id of one of its vertices.
        subtasks: subtask indexes, in the order of the result.
    """
    return _fields(job_id, [subtask_field(vertex_id, index) for index in subtasks])


def job_level_metrics(job_id: str) -> Metrics:
    """Return the metrics that its subtasks report for the job as a whole: latencies."""
    return _fields(job_id, [JOB_METRICS])[0]


def job_accumulators(job: Job) -> dict[str, Any]:
    """Return the `accumulators_document`: the last reported one while the job runs, the saved one once it has ended."""
    saved = dict((job.document or {}).get(ACCUMULATORS, {}))
    if job.is_terminal:
        return saved
    return _fields(job.id, [ACCUMULATORS])[0] or saved


def checkpoint_details(job: Job, checkpoint_id: int) -> dict[str, Any] | None:
    """Return the `details_document` of a checkpoint; None if it is no longer kept."""
    field = details_field(checkpoint_id)
    if not job.is_terminal:
        try:
            [found] = bus.get_fields(bus.CHECKPOINTS_KEY.format(job.id), [field])
        except redis.RedisError as error:
            logger.warning("checkpoints cannot be read: %s", error)
            found = {}
        if found:
            return found
    saved: dict[str, Any] | None = (job.document or {}).get(DETAILS, {}).get(field)
    return saved


def checkpoint_traces(job: Job) -> list[dict[str, Any]]:
    """Return the `trace_document`s that are kept of a job's checkpoints, newest first."""
    found: dict[str, Any] = {}
    if not job.is_terminal:
        try:
            found = bus.get_all_fields(bus.TRACES_KEY.format(job.id))
        except redis.RedisError as error:
            logger.warning("traces of checkpoints cannot be read: %s", error)
    found = found or (job.document or {}).get(TRACES, {})
    return sorted(found.values(), key=lambda trace: -int(trace["id"]))


def cluster_document() -> dict[str, Any]:
    """Return the document of `read_cluster`."""
    return read_cluster()[0]


def read_cluster() -> tuple[dict[str, Any], Freshness]:
    """Return the cluster's document and its freshness: from Redis if a jobmanager keeps it, else built from SQL."""
    read = _read(bus.CLUSTER_KEY)
    if read is not None and read.document is not None and (read.beat_age_ms or 0) < ABANDONED_MS:
        document = as_of_the_beat(read.document, read.vouched_for_ms)
        return document, Freshness(Source.LIVE, read.beat_age_ms)
    return cluster_document_from_rows(now_ms()), _freshness_of_rows(read)


def _freshness_of_rows(read: bus.Reading | None, is_final: bool = False) -> Freshness:
    """Return the freshness of data from SQL, to which a live jobmanager writes every change of state."""
    if read is None:
        return Freshness(Source.DATABASE, None, redis_answers=False, is_final=is_final)
    return Freshness(Source.DATABASE, read.beat_age_ms, is_final=is_final)


def _read(key: str) -> bus.Reading | None:
    """Read a live document; None if Redis does not answer."""
    try:
        return bus.read_document(key)
    except redis.RedisError as error:
        logger.warning("live documents cannot be read: %s", error)
        return None


def _fields(job_id: str, names: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return bus.get_fields(bus.METRICS_KEY.format(job_id), names)
    except redis.RedisError as error:
        logger.warning("metrics cannot be read: %s", error)
        return [{} for _ in names]


def want_stacks(job_id: str, vertex_id: str, duration_ms: int) -> None:
    """Have the leader sample the stacks of a vertex's subtasks; `vertex_stacks` has them a moment after that time.

    Args:
        job_id: the job.
        vertex_id: its vertex.
        duration_ms: 0: only the stacks of all threads are wanted.
    """
    _wake({"type": "stacks", "job": job_id, "vertex": vertex_id, "duration": duration_ms})


def vertex_stacks(job_id: str, vertex_id: str) -> VertexStacks | None:
    """Return what the subtasks of a vertex were seen to do last; None: nothing is known, or no longer."""
    try:
        [found] = bus.get_fields(bus.STACKS_KEY.format(job_id), [vertex_id])
    except redis.RedisError as error:
        logger.warning("stacks cannot be read: %s", error)
        return None
    return cast(VertexStacks, found) if found else None


def begin_peek(peek_id: str, wanted: Mapping[str, Any], user: str) -> None:
    """Have the leader sample rows of an edge, for as long as `seen_by_peek` is asked for them.

    Args:
        peek_id: a new one.
        wanted: "job", "edge", "subtasks", "rows" and "late" of the event "peek".
        user: who looks.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    bus.begin_peek(peek_id, {"wanted": dict(wanted), "user": user, "begun": now_ms()})
    _wake({"type": "peek", "peek": peek_id, **wanted})


def end_peek(job_id: str, peek_id: str) -> None:
    """End a peek.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    if bus.end_peek(peek_id):
        _wake({"type": "peek_ended", "job": job_id, "peek": peek_id})


def peek_lease(peek_id: str) -> tuple[dict[str, Any] | None, float]:
    """Return "wanted", "user" and "begun" (epoch ms) of a peek, and how many seconds are left of its lease; None: it
    has ended.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    return bus.look_at_peek(peek_id)


def renew_peek(peek_id: str, wanted: Mapping[str, Any]) -> None:
    """Begin the lease of a peek anew, here and with the leader, unless it has ended.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    if bus.renew_peek(peek_id):
        _wake({"type": "peek", "peek": peek_id, **wanted})


def seen_by_peek(peek_id: str) -> SeenByPeek | None:
    """Return what a peek has seen lately; None: nothing yet.

    Raises:
        redis.RedisError: Redis does not answer.
    """
    [found] = bus.get_fields(bus.PEEK_KEY.format(peek_id), ["seen"])
    return cast(SeenByPeek, found) if found else None


def metric_history(job_id: str, names: Sequence[str], begin: int, end: int, step: int) -> Curves | None:
    """Return the history of series of a job, see `read_history`; None: Redis does not answer."""
    try:
        return read_history(job_id, names, begin, end, step)
    except redis.RedisError as error:
        logger.warning("the history of metrics cannot be read: %s", error)
        return None


def _wake(event: dict[str, Any]) -> None:
    """Wake the jobmanager, which otherwise polls within a second."""
    try:
        bus.wake_jobmanager(event)
    except redis.RedisError as error:
        logger.warning("the JobManager could not be notified: %s", error)


def _user_id(user: User) -> int | None:
    return None if user is None else user.pk
