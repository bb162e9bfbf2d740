"""Routes of the inbox."""

from __future__ import annotations

from django.urls import path

from backend.inbox import api

urlpatterns = [path("api/v1/inbox", api.InboxView.as_view())]
