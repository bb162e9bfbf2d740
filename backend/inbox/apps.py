"""The app's name in Django."""

from __future__ import annotations

from django.apps import AppConfig


class InboxConfig(AppConfig):
    name = "backend.inbox"
    label = "inbox"
    default_auto_field = "django.db.models.BigAutoField"
