"""The app's name for Django."""

from __future__ import annotations

from django.apps import AppConfig


class DispatcherConfig(AppConfig):
    name = "backend.dispatcher"
    label = "dispatcher"
