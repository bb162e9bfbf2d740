"""SQL rows of the Dispatcher: uploads that are under way, written and deleted by the web processes alone.

What was uploaded is `backend.cluster.models.Artifact`.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from backend.cluster.models import new_id


class PendingUpload(models.Model):
    """Storage that is set aside for an upload while it is received and stored."""

    id = models.CharField(max_length=32, primary_key=True, default=new_id)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    size = models.BigIntegerField()
    begun_at = models.BigIntegerField()
    """Epoch ms."""
