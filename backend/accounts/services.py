"""Account services for the rest of Tidemark: the administrator, tokens and login links.

Secrets are passed as text and stored as digests only. Every function may be called from any thread.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import MutableMapping
from typing import Any

from django.contrib.auth import authenticate, login
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import salted_hmac
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied

from backend.accounts import failed_logins
from backend.accounts.models import ApiToken, LoginLink
from backend.accounts.roles import Role, act_with, acting_token, role_of
from backend.cluster.database_clock import now_ms as now_ms
from backend.cluster.rows_by_key import row_by_key
from backend.config.environment import check_secret

logger = logging.getLogger(__name__)

ADMIN_NAME = "admin"
ADMIN_TOKEN_NAME = "TIDEMARK_ADMIN_TOKEN"
LOGIN_LINK_LIFE_MS = 10 * 60 * 1000
DAY_MS = 24 * 3600 * 1000
DEFAULT_LIFE_MS = 90 * DAY_MS
"""Of a token whose maker says nothing: a forgotten one ends by itself."""
IDLE_MS = 12 * 3600 * 1000
"""A page that is open reads now and then, which is use."""
SEEN_STEP_MS = 10 * 60 * 1000
"""Resolution of that. Smaller: a write for every request."""
SESSION_LIFE_MS = 7 * DAY_MS
"""Of a session, however much it is used."""
BACKEND = "django.contrib.auth.backends.ModelBackend"
SESSION_BEGAN = "tidemark-began"
SESSION_SEEN = "tidemark-seen"
SESSION_TOKEN = "tidemark-token"
"""Key of a session that began with a token: the token's."""
LAST_USED_STEP_MS = 60_000
"""Resolution of `last_used`. Smaller: a write for every request; larger: a stolen token's use is harder to date."""


class TooManyFailures(Exception):
    """An address has failed to log in too often; it may retry after `wait_s` seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"too many failed logins; try again in {wait_s} s")
        self.wait_s = wait_s


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def ensure_admin(token: str) -> User:
    """Return the user "admin", created if needed; this token replaces its earlier administrator token, which is revoked
    with the tokens that were made with it.

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
        ApiToken.objects.filter(user=user, name=ADMIN_TOKEN_NAME).exclude(digest=digest_of(token)).delete()
        ApiToken.objects.update_or_create(
            user=user,
            name=ADMIN_TOKEN_NAME,
            defaults={"digest": digest_of(token), "expires_at": None},
            create_defaults={"digest": digest_of(token), "created_at": now_ms()},
        )
    return user


def create_token(
    user: User, name: str, life_ms: int | None = DEFAULT_LIFE_MS, scope: str = "", parent: ApiToken | None = None
) -> str:
    """Create a token for a user and return its text, which cannot be read again later.

    Args:
        user: its owner.
        name: unique among the owner's.
        life_ms: after so long it is no longer valid; None: never.
        scope: highest role that it gives; empty: the owner's.
        parent: the token that it is made with: it ends no later, and is revoked with it.
    """
    token = secrets.token_urlsafe(32)
    now = now_ms()
    ends = [] if life_ms is None else [now + life_ms]
    if parent is not None and parent.expires_at is not None:
        ends.append(parent.expires_at)
    ApiToken.objects.create(
        user=user,
        name=name,
        digest=digest_of(token),
        created_at=now,
        expires_at=min(ends, default=None),
        scope=scope,
        parent=parent,
    )
    return token


def find_token(token: str) -> ApiToken | None:
    """Return a token that is valid; None if it is unknown, revoked or expired, or its user is deactivated."""
    return _use(_valid(row_by_key(ApiToken, "digest", digest_of(token))))


def user_of_token(token: str) -> User | None:
    """Return the owner of a token, with no more rights than its scope; None if it is not valid."""
    found = find_token(token)
    return None if found is None else found.user


def begin_session(request: HttpRequest, user: User, token: ApiToken | None) -> None:
    """Log a user in; nothing of an earlier session of that browser stays, nor does its key, whoever may know it.

    Args:
        request: gets the session.
        user: who has shown who they are.
        token: what they have shown it by, if by a token: the session ends with it, and has no more rights.
    """
    request.session.flush()
    login(request, user, backend=BACKEND)
    now = now_ms()
    marks = {SESSION_BEGAN: now, SESSION_SEEN: now, SESSION_TOKEN: None if token is None else token.pk}
    request.session.update(marks)


def limit_session(session: MutableMapping[str, Any], user: User) -> bool:
    """Return whether a session is still valid; one that began with a token gets no more rights than that has.

    A session ends when nobody has used it for `IDLE_MS`, after `SESSION_LIFE_MS`, and when its token is valid no more.
    """
    now = now_ms()
    # of an earlier release: it begins when it is seen first
    began = session.setdefault(SESSION_BEGAN, now)
    seen = session.get(SESSION_SEEN)
    if now - began > SESSION_LIFE_MS or (seen is not None and now - seen > IDLE_MS):
        return False
    if seen is None or now - seen > SEEN_STEP_MS:
        session[SESSION_SEEN] = now
    key = session.get(SESSION_TOKEN)
    if key is None:
        return True
    found = _valid(row_by_key(ApiToken, "id", key))
    if found is None or found.user_id != user.pk:
        return False
    act_with(user, found)
    return True


def check_still_may(user: Any, need: Role) -> None:
    """Check a user's rights again behind work that has taken a while, in the transaction that records what comes of it.

    Args:
        user: as the request was authenticated.
        need: the role that the work takes.

    Raises:
        AuthenticationFailed: the user or the token is there no more, or valid no more.
        PermissionDenied: the role was taken away.
    """
    now = User.objects.select_for_update().filter(pk=user.pk, is_active=True).first()
    token = acting_token(user)
    if now is not None and token is not None:
        found = _valid(row_by_key(ApiToken, "id", token.pk))
        now = None if found is None else now
        if now is not None and found is not None:
            act_with(now, found)
    if now is None:
        raise AuthenticationFailed("Your access has ended meanwhile; nothing was done.")
    if role_of(now) < need:
        raise PermissionDenied(
            f"Your role has changed meanwhile: this takes the role {need.group_name}. Nothing was done."
        )


def _valid(token: ApiToken | None) -> ApiToken | None:
    """Return a token with its user, if it has not ended and its user is active."""
    if token is None or (token.expires_at is not None and token.expires_at <= now_ms()):
        return None
    user = row_by_key(User, "id", token.user_id)
    if user is None or not user.is_active:
        return None
    token.user = user
    return token


def _use(found: ApiToken | None) -> ApiToken | None:
    if found is None:
        return None
    now = now_ms()
    if found.last_used is None or found.last_used < now - LAST_USED_STEP_MS:
        ApiToken.objects.filter(pk=found.pk).update(last_used=now)
    act_with(found.user, found)
    return found


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


def telling_name(username: str) -> str:
    """Return what is written down of a user name that somebody has typed: the name if there is such a user.

    Else it may be a password. The same one has the same name, by which nobody can tell what it was without the key.
    """
    if not username or User.objects.filter(username=username).exists():
        return username
    return f"unknown:{salted_hmac('tidemark.unknown-user', username, algorithm='sha256').hexdigest()[:8]}"


def log_in(request: HttpRequest, address: str, username: str, password: str, token: str) -> User | None:
    """Begin a session of the user with these credentials (user name and password, or token).

    Args:
        request: gets the session.
        address: the client's, for the limits on failures.
        username: empty if a token is given.
        password: that user's password.
        token: empty if a user name is given.

    Returns:
        The user; None if the credentials are wrong.

    Raises:
        TooManyFailures: there were too many failures from this address; even correct credentials are refused for now.
    """
    wait_s = failed_logins.begin_try(username, address)
    if wait_s:
        raise TooManyFailures(wait_s)
    try:
        # looked up once: a token that ends right now must not begin a session without an end
        found = find_token(token) if token else None
        user: User | None
        if token:
            user = None if found is None else found.user
        else:
            user = authenticate(request, username=username, password=password)
    except BaseException:
        failed_logins.give_back(username, address)
        raise
    if user is None:
        logger.warning("login refused: address=%s user=%r", address, telling_name(username) or "(token)")
    else:
        failed_logins.note_success(username, address)
        begin_session(request, user, found)
    return user
