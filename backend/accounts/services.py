"""Account services for the rest of Tidemark: the administrator, tokens and login links.

Secrets are passed as text and stored as digests only. Every function may be called from any thread.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest

from backend.accounts import failed_logins
from backend.accounts.models import ApiToken, LoginLink
from backend.config.environment import check_secret

logger = logging.getLogger(__name__)

ADMIN_NAME = "admin"
ADMIN_TOKEN_NAME = "TIDEMARK_ADMIN_TOKEN"
LOGIN_LINK_LIFE_MS = 10 * 60 * 1000
LAST_USED_STEP_MS = 60_000
"""Resolution of `last_used`. Smaller: a write for every request; larger: a stolen token's use is harder to date."""


class TooManyFailures(Exception):
    """An address or account has failed to log in too often; it may retry after `wait_s` seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many failed logins; try again in {wait_s} s")
        self.wait_s = wait_s


def now_ms() -> int:
    """Return the wall-clock time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def ensure_admin(token: str) -> User:
    """Return the user "admin", created if needed; this token replaces its earlier administrator token.

    Idempotent; the supervisor calls it at every start.

    Raises:
        EnvironmentProblem: the token is too short.
    """
    check_secret(ADMIN_TOKEN_NAME, token)
    with transaction.atomic():
        user, created = User.objects.get_or_create(
            username=ADMIN_NAME, defaults={"is_superuser": True, "is_staff": True}
        )
        if created:
            # to log in with a password, set one with `manage.py changepassword admin`
            user.set_unusable_password()
            user.save(update_fields=["password"])
        ApiToken.objects.update_or_create(
            user=user,
            name=ADMIN_TOKEN_NAME,
            defaults={"digest": digest_of(token), "expires_at": None},
            create_defaults={"digest": digest_of(token), "created_at": now_ms()},
        )
    return user


def create_token(user: User, name: str, life_ms: int | None = None) -> str:
    """Create a token for a user and return its text, which cannot be read again later."""
    token = secrets.token_urlsafe(32)
    now = now_ms()
    ApiToken.objects.create(
        user=user,
        name=name,
        digest=digest_of(token),
        created_at=now,
        expires_at=None if life_ms is None else now + life_ms,
    )
    return token


def user_of_token(token: str) -> User | None:
    """Return the owner of a token; None if it is unknown or expired, or its user is deactivated."""
    now = now_ms()
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    found = ApiToken.objects.filter(alive, digest=digest_of(token), user__is_active=True).select_related("user").first()
    if found is None:
        return None
    if found.last_used is None or found.last_used < now - LAST_USED_STEP_MS:
        ApiToken.objects.filter(pk=found.pk).update(last_used=now)
    return found.user


def create_login_link(user: User) -> str:
    """Create a login link: return a path "/login/<secret>" that logs this user in once, within ten minutes."""
    secret = secrets.token_urlsafe(32)
    now = now_ms()
    LoginLink.objects.filter(expires_at__lte=now).delete()
    LoginLink.objects.create(digest=digest_of(secret), user=user, expires_at=now + LOGIN_LINK_LIFE_MS)
    return f"/login/{secret}"


def use_login_link(secret: str) -> User | None:
    """Use up a login link and return its user; None if it is used, expired or unknown."""
    link = (
        LoginLink.objects.filter(digest=digest_of(secret), expires_at__gt=now_ms(), user__is_active=True)
        .select_related("user")
        .first()
    )
    # of two concurrent requests, the one whose DELETE finds the row wins
    if link is None or LoginLink.objects.filter(pk=link.pk).delete()[0] == 0:
        return None
    return link.user


def check_credentials(request: HttpRequest, address: str, username: str, password: str, token: str) -> User | None:
    """Return the user with these credentials (user name and password, or token); None if they are wrong.

    Args:
        request: handed to Django's authentication backends.
        address: the client's address; failures are counted per address and per user name.
        username: empty if a token is given.
        password: that user's password.
        token: empty if a user name is given.

    Raises:
        TooManyFailures: there were too many failures; even correct credentials are refused for now.
    """
    counters = [f"address:{digest_of(address)}"]
    if username:
        counters.append(f"user:{digest_of(username)}")
    if failed_logins.is_exhausted(counters):
        raise TooManyFailures(failed_logins.PERIOD_S)
    if token:
        user = user_of_token(token)
    else:
        user = authenticate(request, username=username, password=password)
    if user is None:
        logger.warning("login refused: address=%s user=%r", address, username or "(token)")
        failed_logins.note_failure(counters)
    return user
