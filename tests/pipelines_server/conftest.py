"""Fixtures of the tests of pipelines' server: the cast, no Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.cluster import bus
from tests.accounts.cast import PASSWORD, alice, anonymous, api, client_of, no_failed_logins, oscar, victor

__all__ = ["alice", "anonymous", "api", "no_failed_logins", "oscar", "victor"]


@pytest.fixture(autouse=True)
def no_redis(settings: Settings) -> Iterator[None]:
    """Nobody listens on port 1: connecting fails at once."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    yield
    bus.disconnect()


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path) -> Path:
    """TIDEMARK_HOME of this test."""
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path


@pytest.fixture
def bob(db: None) -> User:
    """Another developer."""
    user = User.objects.create_user("bob", password=PASSWORD)
    set_role(user, Role.DEVELOPER)
    return user


@pytest.fixture
def bobs(bob: User) -> APIClient:
    """Bob's client."""
    return client_of(bob)


@pytest.fixture
def admins(db: None) -> APIClient:
    """The client of an admin."""
    user = User.objects.create_user("ada", password=PASSWORD)
    set_role(user, Role.ADMIN)
    return client_of(user)
