"""Tidemark's own routes of this app, all under api/v1; Flink's are in `urls`."""

from __future__ import annotations

from django.urls import URLPattern, path

from backend.dispatcher.api import switches

urlpatterns: list[URLPattern] = [path("api/v1/jobs/<str:job_id>/switch", switches.SwitchView.as_view())]
