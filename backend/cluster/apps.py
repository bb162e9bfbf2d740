"""The app's name for Django."""

from __future__ import annotations

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "backend.cluster"
    label = "cluster"
