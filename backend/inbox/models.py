"""Markers of how far users have read. What has happened is in the rows of other apps, and goes when these go."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ReadMarker(models.Model):
    """The time up to which a user has read what happened; one row for each user who has."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="read_marker"
    )
    read_at = models.BigIntegerField()
    """Epoch ms, of the newest thing that was shown; it only grows."""

    def __str__(self) -> str:
        return f"{self.user_id}: {self.read_at}"
