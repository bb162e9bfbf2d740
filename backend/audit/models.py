"""Events of the audit trail. The database itself refuses to change or delete one (see the migration)."""

from __future__ import annotations

from django.db import models


class AuditEvent(models.Model):
    """One act, or one that was refused. Text is copied, not referred to: it outlives users and jobs."""

    at = models.BigIntegerField(db_index=True)
    """Epoch ms."""
    user = models.CharField(max_length=150, blank=True)
    """Empty: nobody who is known, or the cluster itself."""
    token = models.CharField(max_length=100, blank=True)
    """Name of the user's token that was used; empty: none."""
    address = models.CharField(max_length=64, blank=True)
    """Of the client; empty: the cluster itself."""
    action = models.CharField(max_length=150)
    """Method and route, as "POST v1/jobs/<str:job_id>/stop", or a name of its own, as "leader.elected"."""
    object = models.CharField(max_length=255, blank=True)
    """What it was done to: the route's parameters."""
    result = models.CharField(max_length=16)
    """done | denied (not logged in, no rights) | failed"""
    status = models.IntegerField(null=True)
    """HTTP status."""
    detail = models.JSONField(default=dict)
    """What else there is to say: role before and after, sha256 of an artifact; never a secret."""

    class Meta:
        # made by the migration: what empties tables of models must not try it with this one
        managed = False
        db_table = "audit_event"

    def __str__(self) -> str:
        return f"{self.at} {self.user or '-'} {self.action} {self.object} {self.result}"
