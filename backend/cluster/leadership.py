"""Who leads: an epoch in SQL, taken by compare-and-set and held in every write of the leader.

The row of the epoch is locked while the leader writes, so that a new leader's take-over waits for writes that are under
way and refuses all later ones. A jobmanager that finds another epoch there has been replaced: it must end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from backend.cluster.models import LeaderEpoch

ROLE = "jobmanager"


class LeadershipLostError(Exception):
    """Another jobmanager has taken over."""

    def __init__(self, epoch: int, now: int, holder: str) -> None:
        self.epoch = epoch
        super().__init__(f"epoch {epoch} is over: {holder or 'another jobmanager'} leads with epoch {now}")


class Leadership:
    """One leader's claim.

    Args:
        epoch: which it took.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction in which the epoch cannot change.

        Raises:
            LeadershipLostError: it has changed; nothing of the block was run.
        """
        with transaction.atomic():
            row = LeaderEpoch.objects.select_for_update().get(name=ROLE)
            if row.epoch != self.epoch:
                raise LeadershipLostError(self.epoch, row.epoch, row.holder)
            yield


def take_leadership(holder: str, now: int) -> Leadership:
    """Become leader; who led before is fenced off from now on.

    Args:
        holder: shown to people: host and process.
        now: epoch ms.
    """
    LeaderEpoch.objects.get_or_create(name=ROLE)
    while True:
        epoch = LeaderEpoch.objects.values_list("epoch", flat=True).get(name=ROLE)
        # compare and set: of several that start together, each gets an epoch of its own and the last one leads
        if LeaderEpoch.objects.filter(name=ROLE, epoch=epoch).update(epoch=epoch + 1, holder=holder, since=now) == 1:
            return Leadership(epoch + 1)
