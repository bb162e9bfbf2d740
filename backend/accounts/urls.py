"""Routes of the accounts app."""

from __future__ import annotations

from django.urls import path

from backend.accounts.api import SessionView, use_login_link

urlpatterns = [
    path("api/v1/session", SessionView.as_view(), name="session"),
    path("login/<str:secret>", use_login_link, name="login-link"),
]
