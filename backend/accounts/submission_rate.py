"""The limit on what a user submits in a minute, over all web processes; any thread.

A submission is what runs code of users for them, or takes it: an upload, a plan, a run, a deployment, a preview, a
test. All of a user's count together, whichever token or session they come with.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from rest_framework import exceptions, status

from backend.accounts.shared_counts import SharedCounts

_counts = SharedCounts("submissions")


class TooManySubmissions(exceptions.APIException):
    """A user has submitted too much; what was asked for may be asked again after `wait` seconds."""

    status_code = status.HTTP_429_TOO_MANY_REQUESTS
    default_code = "too_many_submissions"

    def __init__(self, limit: int, wait_s: int) -> None:
        super().__init__(
            f"You have sent more than {limit} programs, runs, plans and previews within a minute, as many as this "
            f"cluster takes from one user (TIDEMARK_SUBMISSIONS_PER_MINUTE); try again in {wait_s} s."
        )
        #: seconds, for Retry-After
        self.wait = wait_s


def note_submission(user: AbstractBaseUser | AnonymousUser) -> None:
    """Count a submission.

    Raises:
        TooManySubmissions: there were too many, and this one is not to be carried out.
    """
    limit: int = settings.TIDEMARK_SUBMISSIONS_PER_MINUTE
    if limit:
        [count] = _counts.add([_name(user)])
        if count.events > limit:
            raise TooManySubmissions(limit, count.left_s)


def excess(user: AbstractBaseUser | AnonymousUser) -> TooManySubmissions | None:
    """Return the refusal of one more submission, which is not counted; None: it would be taken."""
    limit: int = settings.TIDEMARK_SUBMISSIONS_PER_MINUTE
    if not limit:
        return None
    [count] = _counts.read([_name(user)])
    return TooManySubmissions(limit, count.left_s) if count.events >= limit else None


def _name(user: Any) -> str:
    return f"user:{user.pk}"
