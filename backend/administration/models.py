"""Savepoints, which are results of operations and have no table of their own."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from backend.cluster.models import Operation

SNAPSHOTS = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)


class SavepointManager(models.Manager["Savepoint"]):
    def get_queryset(self) -> models.QuerySet[Savepoint]:
        done = super().get_queryset().filter(kind__in=SNAPSHOTS, state=Operation.State.COMPLETED, follows=None)
        return done.filter(result__location__isnull=False)


class Savepoint(Operation):
    """An operation that has taken a savepoint."""

    objects: ClassVar = SavepointManager()

    class Meta:
        proxy = True

    def __str__(self) -> str:
        return self.location

    @property
    def location(self) -> str:
        """URI of its directory; the files may be gone."""
        return str((self.result or {})["location"])
