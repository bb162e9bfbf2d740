"""The cast of the back end's tests: alice runs programs, oscar operates, victor looks on, charlie is nobody.

Fixtures; a conftest takes them in by import.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient

from backend.accounts import failed_logins
from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token

PASSWORD = "correct horse battery staple"


def client_of(user: User) -> APIClient:
    """A client that sends a token of this user."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user, 'test')}")
    return client


def _user(name: str, role: Role) -> User:
    user = User.objects.create_user(name, password=PASSWORD)
    set_role(user, role)
    return user


@pytest.fixture
def alice(db: None) -> User:
    """A developer."""
    return _user("alice", Role.DEVELOPER)


@pytest.fixture
def oscar(db: None) -> User:
    """An operator."""
    return _user("oscar", Role.OPERATOR)


@pytest.fixture
def victor(db: None) -> User:
    """A viewer: what everybody is."""
    return User.objects.create_user("victor", password=PASSWORD)


@pytest.fixture
def api(alice: User) -> APIClient:
    """Alice's client."""
    return client_of(alice)


@pytest.fixture
def anonymous(db: None) -> APIClient:
    """Charlie's."""
    return APIClient()


@pytest.fixture(autouse=True)
def no_failed_logins() -> None:
    """Failures that other tests provoked are forgotten."""
    cache.clear()


def fail(account: str, address: str, times: int) -> None:
    """Fail to log in so often, however long the waits between."""
    for _ in range(times):
        failed_logins._by_address.add([failed_logins._name(address)])
        failed_logins._by_account.add([failed_logins._name(address, account)])
