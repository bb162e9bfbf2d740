"""The URL table, combined from the apps: Tidemark's own routes first, then Flink's (with and without /v1)."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("backend.accounts.urls")),
    path("", include("backend.administration.urls")),
    path("", include("backend.inbox.urls")),
    path("", include("backend.pipelines.urls")),
    path("", include("backend.dispatcher.product_urls")),
    path("", include("backend.live.urls")),
    path("", include("backend.dispatcher.urls")),
]
