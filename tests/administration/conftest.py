"""Fixtures of the admin's tests: an administrator's browser, and the rows of the Dispatcher's tests."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from backend.accounts.roles import Role, set_role
from tests.accounts.cast import PASSWORD, alice, anonymous, api, no_failed_logins, oscar, victor
from tests.dispatcher.conftest import home, job, no_redis, taskmanager

__all__ = ["alice", "anonymous", "api", "home", "job", "no_failed_logins", "no_redis", "oscar", "taskmanager", "victor"]


@pytest.fixture
def root(db: None) -> User:
    """An administrator."""
    user = User.objects.create_user("root", password=PASSWORD)
    set_role(user, Role.ADMIN)
    return user


@pytest.fixture
def browser(root: User) -> Client:
    """The administrator's browser, logged in at the page."""
    client = Client()
    answer = client.post("/api/v1/session", {"username": "root", "password": PASSWORD}, content_type="application/json")
    assert answer.status_code == 200
    return client
