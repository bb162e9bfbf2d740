"""SQL rows of the Dispatcher: uploads that are under way, and jobs that go on in another execution.

Uploads are written and deleted by the web processes alone; what was uploaded is `backend.cluster.models.Artifact`.
Switches of the execution are written by web processes, and moved on by the leading jobmanager.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from backend.cluster.models import Replacement, new_id
from backend.cluster.replacement_machine import OPEN_STATES


class PendingUpload(models.Model):
    """Storage that is set aside for an upload while it is received and stored."""

    id = models.CharField(max_length=32, primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    size = models.BigIntegerField()
    begun_at = models.BigIntegerField()
    """Epoch ms."""


class ExecutionSwitch(Replacement):
    """A job of an uploaded program that goes on in another execution; the leading jobmanager moves it on."""

    class State(models.TextChoices):
        CHECKED = "CHECKED"
        """The program was planned for the other execution; nothing has been done about the job."""
        STOPPING = "STOPPING"
        """The job has been asked to stop with a savepoint."""
        SUBMITTED = "SUBMITTED"
        """The new job exists."""
        RUNNING = "RUNNING"
        """The new job runs, and has shown that it can."""
        ROLLING_BACK = "ROLLING_BACK"
        """The new job has failed, and is being ended; the old one comes back from the savepoint."""
        ROLLED_BACK = "ROLLED_BACK"
        FAILED = "FAILED"

    state = models.CharField(max_length=16, choices=State.choices, db_index=True)
    old_job_id = models.CharField(max_length=32, db_index=True)
    execution = models.CharField(max_length=16)
    """`execution.mode` of the new job."""
    savepoint = models.TextField(default="")
    """URI of the savepoint of the old job; empty: there is none yet."""
    planned = models.TextField(default="")
    """Seal of the new job's graph, arguments and options, secrets among them: see `backend.dispatcher.switches`. Empty
    when the switch has ended for a while."""
    idempotency_key = models.CharField(max_length=100)
    """Chosen by the client; unique among its user's."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["created_by", "idempotency_key"], name="one_switch_per_key"),
            models.UniqueConstraint(
                fields=["old_job_id"], condition=models.Q(state__in=OPEN_STATES), name="one_open_switch_per_job"
            ),
        )
