"""Quotas of users: bytes in the storage, and number of programs.

An upload sets aside what it needs before its body is read, and gives it back when its row is there, or it has failed;
so uploads that run at the same time, of whatever web processes, do not pass the quota together. A program belongs to
who has uploaded it last, with all the names that it is stored under, each of which is a file and counts. Blocking; any
thread.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import Error, transaction
from rest_framework import exceptions, status

from backend.accounts.roles import Role, own_role_of
from backend.cluster.models import Artifact
from backend.cluster.services import now_ms
from backend.dispatcher.models import PendingUpload

logger = logging.getLogger(__name__)

PENDING_MS: Final = 3_600_000
"""What was set aside for so long is free again: its web process was killed. A slower upload has to fit once more when
it was received. Shorter: slow uploads pass the quota meanwhile; longer: a killed one takes from its user for longer."""


class QuotaExceeded(exceptions.APIException):
    """The user's programs would take more than they may."""

    status_code = status.HTTP_507_INSUFFICIENT_STORAGE
    default_code = "quota_exceeded"


class Quota(NamedTuple):
    """Limits of one user; 0: none."""

    max_bytes: int
    max_programs: int
    variables: tuple[str, str]
    """Names of the settings, for messages."""


def quota_of(user: User) -> Quota:
    """Return the limits of a user; administrators have their own, with whatever token."""
    if own_role_of(user) is Role.ADMIN:
        names = ("TIDEMARK_ADMIN_QUOTA_MIB", "TIDEMARK_ADMIN_QUOTA_PROGRAMS")
        return Quota(settings.TIDEMARK_ADMIN_QUOTA_MIB << 20, settings.TIDEMARK_ADMIN_QUOTA_PROGRAMS, names)
    names = ("TIDEMARK_QUOTA_MIB", "TIDEMARK_QUOTA_PROGRAMS")
    return Quota(settings.TIDEMARK_QUOTA_MIB << 20, settings.TIDEMARK_QUOTA_PROGRAMS, names)


def set_aside(
    user: User, size: int, copies: int = 1, instead: str | None = None, digest: str | None = None
) -> str | None:
    """Set storage aside for an upload; return the id to give it back with; None: the user has no quota.

    Args:
        user: the uploader.
        size: of the program, in bytes, or more.
        copies: number of its files when it is stored.
        instead: what was set aside before for the same upload, and is given back.
        digest: sha256 of the program, hex, if it is known: one that is stored already takes less, or more, as all its
            files become the user's.

    Raises:
        QuotaExceeded: there is not as much left; `instead` is kept.
    """
    quota = quota_of(user)
    if not quota.max_bytes and not quota.max_programs:
        return None
    now = now_ms()
    with transaction.atomic():
        # of uploads at the same time, one after the other looks what is left
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        PendingUpload.objects.filter(begun_at__lt=now - PENDING_MS).delete()
        pending = PendingUpload.objects.filter(user=user).exclude(id=instead).values_list("size", flat=True)
        stored = Artifact.objects.filter(uploaded_by=user).exclude(id=digest).values_list("size", "files")
        taken = sum(pending) + sum(each * len(files) for each, files in stored)
        files_of_all = len(pending) + sum(len(files) for _, files in stored)
        _check(quota, taken, files_of_all, size * copies, copies)
        PendingUpload.objects.filter(id=instead).delete()
        return PendingUpload.objects.create(user=user, size=size * copies, begun_at=now).id


def _check(quota: Quota, taken: int, programs: int, size: int, copies: int) -> None:
    in_bytes, in_programs = quota.variables
    if quota.max_bytes and taken + size > quota.max_bytes:
        raise QuotaExceeded(
            f"Your programs take {_mib(taken)} of the {_mib(quota.max_bytes)} that this cluster stores for you "
            f"({in_bytes}), those included that are being uploaded, and this one takes {_mib(size)}. Delete programs "
            "that are not needed, then try again."
        )
    if quota.max_programs and programs + copies > quota.max_programs:
        raise QuotaExceeded(
            f"You have {programs} of the {quota.max_programs} programs that this cluster stores for you "
            f"({in_programs}), each name of one counted, and those that are being uploaded. Delete programs that are "
            "not needed, then try again."
        )


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.4g} MiB"


def give_back(pending: str | None) -> None:
    """Give back what was set aside; if the database is away, that happens by itself an hour later."""
    if pending is None:
        return
    try:
        PendingUpload.objects.filter(id=pending).delete()
    except Error as error:
        logger.warning("what was set aside for an upload is kept for an hour: %s", error)
