"""The URL table: each app brings its own. Product routes first, Flink's (with and without /v1) after them."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("backend.accounts.urls")),
    path("", include("backend.live.urls")),
    path("", include("backend.dispatcher.urls")),
]
