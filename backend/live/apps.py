"""The app's name for Django."""

from __future__ import annotations

from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "backend.live"
    label = "live"
