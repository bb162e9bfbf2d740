"""The app's name in Django."""

from __future__ import annotations

from django.apps import AppConfig


class PipelinesConfig(AppConfig):
    name = "backend.pipelines"
    label = "pipelines"
