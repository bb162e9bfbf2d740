"""The limit on the savepoints and checkpoints that a user asks for in a minute, over all web processes; any thread.

Each writes all the state of a job once more, to storage that others share. Stops do not count: who may end a job can do
so at any time.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import exceptions, status

from backend.accounts.shared_counts import SharedCounts

_counts = SharedCounts("savepoints")


class TooManySavepoints(exceptions.APIException):
    """A user has asked for too many; one more may be asked for after `wait` seconds."""

    status_code = status.HTTP_429_TOO_MANY_REQUESTS
    default_code = "too_many_savepoints"

    def __init__(self, limit: int, wait_s: int) -> None:
        super().__init__(
            f"You have asked for more than {limit} savepoints and checkpoints within a minute, as many as this cluster "
            f"takes for one user (TIDEMARK_SAVEPOINTS_PER_MINUTE); try again in {wait_s} s."
        )
        #: seconds, for Retry-After
        self.wait = wait_s


def note_savepoint(user: Any) -> None:
    """Count a request.

    Raises:
        TooManySavepoints: there were too many, and this one is not to be carried out.
    """
    limit: int = settings.TIDEMARK_SAVEPOINTS_PER_MINUTE
    if limit:
        [count] = _counts.add([f"user:{user.pk}"])
        if count.events > limit:
            raise TooManySavepoints(limit, count.left_s)
