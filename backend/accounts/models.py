"""Secrets that log users in. Only their SHA-256 is stored: they are long and random, so no salt is needed.

Times are epoch milliseconds, as everywhere in the cluster's tables.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    """A bearer token of a user: for the command line, for scripts, for other services."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256 of the token, hex."""
    created_at = models.BigIntegerField()
    expires_at = models.BigIntegerField(null=True)
    """None: never expires."""
    last_used = models.BigIntegerField(null=True)
    """Accurate to the minute."""
    scope = models.CharField(max_length=16, blank=True)
    """Highest role that it gives; empty: the user's own."""
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children")
    """The token that it was made with, which it does not outlive; None: a password, a login link, or the cluster."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "name"], name="one_token_per_name"),)
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name


class LoginLink(models.Model):
    """A link that logs its user in once; using it deletes the row."""

    digest = models.CharField(max_length=64, primary_key=True)
    """SHA-256 of the secret in the link, hex."""
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    expires_at = models.BigIntegerField(db_index=True)
