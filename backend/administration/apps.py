"""The administration app."""

from __future__ import annotations

from django.apps import AppConfig


class AdministrationConfig(AppConfig):
    name = "backend.administration"
    label = "administration"
    default_auto_field = "django.db.models.BigAutoField"
