"""Owners: who may act on jobs, savepoints, programs and pipelines of others where TIDEMARK_OWNERS_ONLY is on.

Everybody who is logged in sees everything. Without the setting a role is enough to act, whoever the owner is. With it,
others than the owner and administrators are refused; what has no owner, such as the job of a user who was deleted, is
for administrators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from rest_framework import exceptions

from backend.accounts.roles import Role, role_of
from backend.cluster.models import Artifact, Checkpoint, Job, Operation
from backend.cluster.services import CheckedLocations
from runtime.checkpoint.layout import METADATA

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Owned:
    """Something that belongs to a user."""

    what: str
    """In words for users, as the beginning of a sentence."""
    owner: Any
    """A user; None: nobody."""


class NotTheOwner(exceptions.PermissionDenied):
    """Somebody else's things are not to be acted on."""

    default_code = "not_the_owner"

    def __init__(self, owned: Owned) -> None:
        whose = "nobody" if owned.owner is None else owned.owner.get_username()
        others = "administrators" if owned.owner is None else "its owner and administrators"
        super().__init__(f"{owned.what} belongs to {whose}: only {others} act on it here (TIDEMARK_OWNERS_ONLY).")


def check_owner(user: Any, owned: Owned | None) -> None:
    """Refuse an act on what belongs to somebody else; None: it belongs to nobody in particular.

    Raises:
        NotTheOwner: the user is neither its owner nor an administrator, and owners count.
    """
    if owned is None or not settings.TIDEMARK_OWNERS_ONLY or role_of(user) is Role.ADMIN:
        return
    if owned.owner is None or owned.owner.pk != user.pk:
        raise NotTheOwner(owned)


def check_restore(user: Any, locations: CheckedLocations) -> None:
    """Refuse to start a job from a snapshot of somebody else, where owners count: it would read the state, and by CLAIM
    delete the snapshot. One that this cluster does not know is claimed by administrators only.

    Raises:
        NotTheOwner: see `check_owner`.
    """
    if settings.TIDEMARK_OWNERS_ONLY and locations.snapshot:
        owned = owned_snapshot(locations.snapshot)
        if owned.owner is not None or locations.claims:
            check_owner(user, owned)


def owned_job(job_id: str) -> Owned | None:
    """Return a job as what belongs to its submitter; None: there is none."""
    rows = Job.objects.only("name", "submitted_by").select_related("submitted_by")
    job = rows.filter(id=job_id).first() if _ID.fullmatch(job_id) else None
    return None if job is None else Owned(f"Job {job.id}", job.submitted_by)


def owned_program(artifact: Artifact) -> Owned:
    """Return a program as what belongs to whoever has uploaded it."""
    return Owned(artifact.file_name, artifact.uploaded_by)


def owned_snapshot(location: str) -> Owned:
    """Return a savepoint as what belongs to whoever has asked for it, a checkpoint as what belongs to its job's owner.

    Args:
        location: URI of its directory, or of the file of its metadata.
    """
    directory = location.removesuffix(f"/{METADATA}").rstrip("/")
    taken = Operation.objects.filter(result__location=directory).select_related("requested_by").first()
    if taken is not None:
        return Owned(f"The savepoint {directory}", taken.requested_by)
    kept = Checkpoint.objects.filter(location=directory).select_related("job__submitted_by").first()
    return Owned(f"The snapshot {directory}", None if kept is None else kept.job.submitted_by)
