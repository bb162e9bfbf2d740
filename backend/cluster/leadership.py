"""Leadership: an epoch in SQL, taken by compare-and-set and checked in every write of the leader.

The epoch's row is locked while the leader writes, so that a new leader's take-over waits for writes in progress and
fences off all later ones. A jobmanager that finds another epoch there has been replaced and must end.
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
    """The leadership of one jobmanager.

    Args:
        epoch: the epoch that it took.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Run the block in a transaction during which the epoch cannot change.

        Raises:
            LeadershipLostError: it has changed; the block was not run.
        """
        with transaction.atomic():
            row = LeaderEpoch.objects.select_for_update().get(name=ROLE)
            if row.epoch != self.epoch:
                raise LeadershipLostError(self.epoch, row.epoch, row.holder)
            yield


def take_leadership(holder: str, now: int) -> Leadership:
    """Become leader; the previous leader is fenced off from now on.

    Args:
        holder: host and process, shown to users.
        now: epoch ms.
    """
    LeaderEpoch.objects.get_or_create(name=ROLE)
    while True:
        epoch = LeaderEpoch.objects.values_list("epoch", flat=True).get(name=ROLE)
        # compare-and-set: of several that start together, each gets its own epoch and the last one leads
        if LeaderEpoch.objects.filter(name=ROLE, epoch=epoch).update(epoch=epoch + 1, holder=holder, since=now) == 1:
            return Leadership(epoch + 1)
