"""What administrators can ask for in the admin: the operations of the REST API, by the same functions.

An act is carried out for one row at a time, under an id that its confirmation page has chosen: asked twice, by a double
click or after a lost answer, it is done once.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.http import QueryDict
from rest_framework.exceptions import APIException

from backend.accounts.submission import refusal
from backend.accounts.submission_rate import note_submission
from backend.administration.models import Savepoint
from backend.cluster import services
from backend.cluster.job_requests import SAVEPOINT_FORMATS
from backend.cluster.models import Job, Operation
from backend.cluster.withheld import UnsealedError, given_of
from backend.dispatcher.api.operations import place
from backend.dispatcher.programs import CLAIM_MODES, read_program_request
from backend.dispatcher.submissions import find_artifact, run_program
from backend.live.restore_points import restore_points


class RefusedAct(Exception):
    """The act was not carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A request for an act: by whom, and how.

    Attributes:
        user: the administrator.
        request_id: 32 hex digits, of the confirmation page.
        given: the cleaned fields of the act's form.
        has_left: returns whether the browser is gone.
    """

    user: services.User
    request_id: str
    given: Mapping[str, Any]
    has_left: Callable[[], bool]

    def id_for(self, key: str) -> str:
        """Return the id of the act for one row: 32 hex digits, the same whenever it is asked again."""
        return hashlib.sha256(f"{self.request_id}/{key}".encode()).hexdigest()[:32]


class Act(ABC):
    """Something that can be asked for rows of one kind.

    Attributes:
        name: part of the route.
        label: on buttons and headings.
        takes_many: whether several rows can be chosen.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    takes_many: ClassVar[bool] = True
    is_dangerous: ClassVar[bool] = False

    def form(self, rows: Sequence[Any], data: Any = None) -> forms.Form:
        """Return the form of what can be said about it; `data` is what was sent."""
        return forms.Form(data)

    @abstractmethod
    def effect(self, row: Any) -> str:
        """Return what will happen to a row, as a sentence."""

    def obstacle(self, row: Any) -> str | None:
        """Return why it cannot be asked for a row; None: it can, as far as is known before."""
        return None

    @abstractmethod
    def do(self, row: Any, asking: Asking) -> str:
        """Carry it out, and return what was done, as a sentence.

        Raises:
            RefusedAct: it was not done.
            OperationalError, StorageProblem, StorageSilentError: the database or the storage is away.
        """


class Target(forms.Form):
    target_directory = forms.CharField(
        required=False, max_length=1000, help_text="Empty: the directory that is configured.", label="Directory"
    )
    format = forms.ChoiceField(
        choices=[(name, name.capitalize()) for name in SAVEPOINT_FORMATS],
        help_text="Canonical can be restored with any state backend; native is faster.",
    )


class StopTarget(Target):
    drain = forms.BooleanField(
        required=False, help_text="Emit MAX_WATERMARK first: all windows fire, and the job cannot be continued well."
    )


class _JobAct(Act):
    kind: ClassVar[Operation.Kind]

    def obstacle(self, row: Any) -> str | None:
        return str(services.JobEndedError(row)) if row.is_terminal else None

    def do(self, row: Any, asking: Asking) -> str:
        parameters = self.parameters(asking.given)
        return _requested(row, self.kind, parameters, asking, asking.id_for(row.pk))

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {}


class TakeSavepoint(_JobAct):
    name, label, kind = "savepoint", "Trigger savepoint", Operation.Kind.SAVEPOINT

    def form(self, rows: Sequence[Any], data: Any = None) -> forms.Form:
        return Target(data)

    def effect(self, row: Any) -> str:
        return f"A savepoint of {row.name} is taken. The job goes on."

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"target_directory": _place(given), "cancel_job": False, "format": given["format"]}


class StopJob(_JobAct):
    name, label, kind = "stop", "Stop with savepoint", Operation.Kind.STOP
    is_dangerous = True

    def form(self, rows: Sequence[Any], data: Any = None) -> forms.Form:
        return StopTarget(data)

    def effect(self, row: Any) -> str:
        return (
            f"A savepoint of {row.name} is taken, its sinks commit, and the job ends as FINISHED. It goes on if the "
            "savepoint fails."
        )

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"target_directory": _place(given), "drain": given["drain"], "format": given["format"]}


class CancelJob(_JobAct):
    name, label, kind = "cancel", "Cancel", Operation.Kind.CANCEL
    is_dangerous = True

    def effect(self, row: Any) -> str:
        return (
            f"{row.name} ends as CANCELED, without a savepoint. What its sinks have not committed is lost; checkpoints "
            "that it retains stay."
        )


class RestoreJob(Act):
    """Starts the program of a job that has ended once more, from one of its snapshots."""

    name, label = "restore", "Restore from a savepoint"
    takes_many = False

    def form(self, rows: Sequence[Any], data: Any = None) -> forms.Form:
        return Restoring(restore_points(rows[0]) if rows else [], data)

    def effect(self, row: Any) -> str:
        program = "" if row.artifact is None else f" ({row.artifact.file_name})"
        return (
            f"The program of {row.name}{program} is started as a new job, with the same arguments and options, and "
            "begins with the state of the chosen snapshot."
        )

    def obstacle(self, row: Any) -> str | None:
        if not row.is_terminal:
            return f"{row.name} is {row.state}: end it first, or two jobs would write to the same places."
        if row.artifact is None:
            return "Its program has been deleted."
        refused = refusal()
        if refused is not None:
            return str(refused.detail)
        if not restore_points(row):
            return "It has neither savepoints nor checkpoints."
        return None

    def do(self, row: Any, asking: Asking) -> str:
        job_id = asking.id_for(row.pk)
        if Job.objects.filter(id=job_id).exists():
            return f"{row.name} was restored as job {job_id}."
        obstacle = self.obstacle(row)
        if obstacle is not None:
            raise RefusedAct(obstacle)
        try:
            before = given_of(row)
        except UnsealedError as error:
            raise RefusedAct(str(error)) from error
        submission = before.submission
        body = {
            "jobId": job_id,
            "programArgsList": before.args,
            "entryClass": submission.get("entry"),
            "parallelism": submission.get("parallelism"),
            "flinkConfiguration": submission.get("configuration", {}),
            "savepointPath": asking.given["snapshot"],
            "claimMode": asking.given["claim_mode"],
            "allowNonRestoredState": asking.given["allow_non_restored_state"],
        }
        try:
            if asking.user is not None:
                note_submission(asking.user)
            wanted = read_program_request(body, QueryDict())
            run_program(find_artifact(row.artifact.public_id), wanted, asking.user, asking.has_left)
        except APIException as error:
            # the other one of two clicks may have been first
            if not Job.objects.filter(id=job_id).exists():
                raise RefusedAct(_text(error)) from error
        return f"{row.name} is restored as job {job_id}."


class Restoring(forms.Form):
    """Choices of a restore.

    Args:
        points: what `restore_points` has found.
        data: what was sent.
    """

    snapshot = forms.ChoiceField()
    claim_mode = forms.ChoiceField(
        choices=[(mode, mode) for mode in CLAIM_MODES],
        help_text="CLAIM: the snapshot belongs to the new job, which deletes it when it needs it no more.",
    )
    allow_non_restored_state = forms.BooleanField(
        required=False, help_text="Go on without state whose operators the program has no more."
    )

    def __init__(self, points: Sequence[Mapping[str, Any]], data: Any = None) -> None:
        super().__init__(data)
        field = self.fields["snapshot"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(point["location"], _described(point)) for point in points]


class DisposeSavepoint(Act):
    name, label = "dispose", "Dispose"
    is_dangerous = True

    def effect(self, row: Any) -> str:
        return (
            f"The files of {row.location} are deleted for good: nothing can be restored from it then. The JobManager "
            "refuses if a job that has not ended needs it."
        )

    def do(self, row: Any, asking: Asking) -> str:
        try:
            path = place("location", row.location)
        except APIException as error:
            raise RefusedAct(_text(error)) from error
        return _requested(None, Operation.Kind.DISPOSE, {"path": path}, asking, asking.id_for(row.pk))


JOB_ACTS: tuple[Act, ...] = (TakeSavepoint(), StopJob(), CancelJob(), RestoreJob())
SAVEPOINT_ACTS: tuple[Act, ...] = (DisposeSavepoint(),)


def name_of(row: Job | Savepoint) -> str:
    """Return what a row is called on pages and in messages."""
    return f"Job {row.name} ({row.pk})" if isinstance(row, Job) else f"Savepoint {row.location}"


def _requested(
    job: Job | None, kind: Operation.Kind, parameters: Mapping[str, Any], asking: Asking, trigger_id: str
) -> str:
    try:
        operation = services.request_operation(job, kind, parameters, asking.user, trigger_id)
    except services.ClusterError as error:
        raise RefusedAct(str(error)) from error
    if operation.parameters != dict(parameters):
        raise RefusedAct(f"operation {operation.trigger_id} was requested with other values; open the page again.")
    return f"requested as operation {operation.trigger_id}."


def _place(given: Mapping[str, Any]) -> str | None:
    try:
        return place("Directory", given["target_directory"] or None)
    except APIException as error:
        raise RefusedAct(_text(error)) from error


def _described(point: Mapping[str, Any]) -> str:
    number = "" if point["checkpoint_id"] is None else f" {point['checkpoint_id']}"
    return f"{point['kind']}{number}: {point['location']}"


def _text(error: APIException) -> str:
    detail = error.detail
    return " ".join(str(part) for part in detail) if isinstance(detail, list) else str(detail)
