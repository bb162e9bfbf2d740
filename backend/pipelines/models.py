"""SQL rows of pipelines. Web processes write them; deployments under way are moved on by the leading jobmanager.

Documents are stored as text: the canonical JSON in ASCII, which every database keeps to the byte. Times are epoch ms.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.db import models

from backend.cluster.models import Artifact, Replacement, new_id
from backend.cluster.replacement_machine import OPEN_STATES as OPEN_STATES


class Pipeline(models.Model):
    """A pipeline: a chain of versions, of which the last one is its head."""

    id = models.CharField(max_length=32, primary_key=True, default=new_id)
    name = models.CharField(max_length=200)
    """That of the document of its head."""
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    tags = models.JSONField(default=list)
    head = models.IntegerField(default=0)
    """Number of its last version, >= 1 once it is created."""
    created_at = models.BigIntegerField()
    updated_at = models.BigIntegerField(db_index=True)
    """Of its last version, or of the last change of its tags."""
    archived_at = models.BigIntegerField(null=True)


class Version(models.Model):
    """A saved document; never changed."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="versions")
    number = models.IntegerField()
    """From 1, without gaps."""
    document = models.TextField()
    semantic_hash = models.CharField(max_length=64)
    """Equal for documents that make the same job."""
    message = models.CharField(max_length=1000)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.BigIntegerField()
    idempotency_key = models.CharField(max_length=100, null=True)
    """Chosen by the client that saved it; unique among its author's."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["pipeline", "number"], name="one_version_per_number"),
            models.UniqueConstraint(fields=["author", "idempotency_key"], name="one_version_per_key"),
        )

    @property
    def value(self) -> dict[str, Any]:
        """The document as JSON."""
        return _value(self.document)


class Draft(models.Model):
    """Changes of a user that are not saved as a version."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="drafts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    base = models.IntegerField()
    """Number of the version that it began with."""
    document = models.TextField()
    semantic_hash = models.CharField(max_length=64)
    revision = models.BigIntegerField(default=1)
    """Grows with every write."""
    updated_at = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["pipeline", "user"], name="one_draft_per_user"),)

    @property
    def value(self) -> dict[str, Any]:
        """The document as JSON."""
        return _value(self.document)

    @property
    def tag(self) -> str:
        """Names this state of this draft: a draft that was thrown away and begun again never has an old one."""
        return f"{self.pk}.{self.revision}"


class Deployment(Replacement):
    """A version that became a job. While a job is replaced by it, the leading jobmanager moves it on.

    One that comes back by a rollback has a new `job_id`.
    """

    class State(models.TextChoices):
        COMPILED = "COMPILED"
        """The version is a program with a job graph; nothing has been done about the job that it is to replace."""
        CHECKED = "CHECKED"
        """That job still runs, and its state fits."""
        STOPPING = "STOPPING"
        """That job has been asked to stop with a savepoint."""
        SUBMITTED = "SUBMITTED"
        """The job of this deployment exists."""
        RUNNING = "RUNNING"
        """That job runs, and has shown that it can."""
        ROLLING_BACK = "ROLLING_BACK"
        """That job has failed, and is being ended; what it replaced comes back from the savepoint."""
        ROLLED_BACK = "ROLLED_BACK"
        FAILED = "FAILED"

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="deployments")
    version = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="+")
    previous = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    """The deployment whose job it replaces; null: none ran."""
    state = models.CharField(max_length=16, choices=State.choices, db_index=True)
    restore = models.JSONField(default=dict)
    """{"keeps_state", "allows_loss", "location", "savepoint"}: the location of the snapshot that was chosen to begin
    with, empty: none was; and of the savepoint of the job that was stopped."""
    report = models.JSONField(null=True)
    """runtime.checkpoint.compatibility.CompatibilityReport; null: there was no snapshot to look at."""
    operators = models.JSONField(default=dict)
    """Operator id → node."""
    outputs = models.JSONField(default=dict)
    """Node → output → [{"operator", "side_output"}]: the operators' outputs that its stream is made of."""
    artifact = models.ForeignKey(Artifact, null=True, on_delete=models.SET_NULL, related_name="+")
    graph = models.JSONField()
    """runtime.graph.codec's JSON."""
    idempotency_key = models.CharField(max_length=100)
    """Chosen by the client; unique among its user's."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["created_by", "idempotency_key"], name="one_deployment_per_key"),
            models.UniqueConstraint(
                fields=["pipeline"],
                condition=models.Q(state__in=OPEN_STATES),
                name="one_open_deployment_per_pipeline",
            ),
        )


class Connection(models.Model):
    """A system outside, under the name by which documents refer to it; its secrets are `SecretRef(name, key)`."""

    name = models.CharField(max_length=100, primary_key=True)
    kind = models.CharField(max_length=32)
    """One of `backend.pipelines.connections.KINDS`."""
    options = models.JSONField(default=dict)
    """What is no secret, by name; texts."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    updated_at = models.BigIntegerField()
    tested_at = models.BigIntegerField(null=True)
    test_result = models.JSONField(null=True)
    """{"ok", "message"} of the last test."""


class Mark(models.Model):
    """Something that is done once in the life of a database."""

    name = models.CharField(max_length=100, primary_key=True)
    value = models.CharField(max_length=200)
    made_at = models.BigIntegerField()


def _value(document: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(document)
    return value
