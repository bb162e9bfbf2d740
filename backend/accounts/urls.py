"""Routes of the accounts app."""

from __future__ import annotations

from django.urls import path

from backend.accounts.api import SessionView, use_login_link
from backend.accounts.directory_api import AuditView, TokensView, TokenView, UsersView, UserView

urlpatterns = [
    path("api/v1/session", SessionView.as_view(), name="session"),
    path("api/v1/users", UsersView.as_view()),
    path("api/v1/users/<str:name>", UserView.as_view()),
    path("api/v1/tokens", TokensView.as_view()),
    path("api/v1/tokens/<int:token_id>", TokenView.as_view()),
    path("api/v1/audit", AuditView.as_view()),
    path("login/<str:secret>", use_login_link, name="login-link"),
]
