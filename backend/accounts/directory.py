"""The users of the cluster and their tokens: what the REST routes, `tidemark` and Django's admin do with them.

There is always an active administrator. A user who is deactivated, or given another role, is so at once: roles
are read with every request.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any, Final

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from backend.accounts.answers import TokenEntry, UserEntry
from backend.accounts.models import ApiToken
from backend.accounts.roles import Role, acting_token, own_role_of, role_named, role_of, set_role
from backend.accounts.services import ADMIN_TOKEN_NAME, DAY_MS, create_token, now_ms

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]{0,99}")
MAX_DAYS: Final = 3650
MAX_TOKENS: Final = 100
"""Of one user; nobody finds a lost one among more."""


class DirectoryError(Exception):
    """A change that is not made.

    Attributes:
        is_conflict: whether it is the present state that forbids it; else the request itself is wrong.
    """

    def __init__(self, message: str, is_conflict: bool = False) -> None:
        super().__init__(message)
        self.is_conflict = is_conflict


class UnknownError(DirectoryError):
    """Raised for a user or token that does not exist, or that the caller may not see."""


class AboveScopeError(DirectoryError):
    """Raised for a token that gives more than the one that the request comes with."""


def list_users() -> list[UserEntry]:
    """Return all users, by name."""
    return [user_entry(user) for user in User.objects.order_by("username").prefetch_related("groups")]


def user_entry(user: User) -> UserEntry:
    """Return what administrators see of a user."""
    valid = ApiToken.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now_ms()), user=user)
    last = user.last_login
    return {
        "name": user.get_username(),
        "role": _name(own_role_of(user)),
        "is_active": user.is_active,
        "has_password": user.has_usable_password(),
        "last_login": None if last is None else int(last.astimezone(UTC).timestamp() * 1000),
        "tokens": valid.count(),
    }


def create_user(name: str, role: str, password: str = "") -> User:
    """Create a user.

    Raises:
        DirectoryError: the name is taken, also in other case, or none, there is no such role, or the password is weak.
    """
    if not NAME.fullmatch(name):
        raise DirectoryError("A name has up to 100 letters, digits, and @ . + _ -")
    with transaction.atomic():
        # two names that differ in case could be made at once
        _lock_administrators()
        taken = User.objects.filter(username__iexact=name).first()
        if taken is not None:
            raise DirectoryError(f"There is a user {taken.get_username()} already.", is_conflict=True)
        user = User(username=name)
        _set_password(user, password)
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError:
            raise DirectoryError(f"There is a user {name} already.", is_conflict=True) from None
        set_role(user, _role(role))
    return user


def change_user(
    name: str, *, role: str | None = None, is_active: bool | None = None, password: str | None = None
) -> tuple[User, dict[str, Any]]:
    """Change what is given; return the user, and what was changed, for the audit trail.

    Raises:
        DirectoryError: there is no such role, the password is too weak, or no administrator would be left.
        UnknownError: there is no such user.
    """
    with transaction.atomic():
        _lock_administrators()
        user = _user(name)
        changed: dict[str, Any] = {}
        if role is not None and (given := _role(role)) is not (before := own_role_of(user)):
            changed["role"] = [_name(before), _name(given)]
            set_role(user, given)
        if is_active is not None and is_active is not user.is_active:
            changed["is_active"] = [user.is_active, is_active]
            user.is_active = is_active
            user.save(update_fields=["is_active"])
        if password is not None:
            changed["password"] = "changed"
            _set_password(user, password)
            user.save(update_fields=["password"])
        _check_administrators()
    return user, changed


def delete_user(name: str) -> None:
    """Delete a user with the tokens, and those that were made with them; jobs remain.

    Raises:
        DirectoryError: no administrator would be left.
        UnknownError: there is no such user.
    """
    with transaction.atomic():
        _lock_administrators()
        user = _user(name)
        _revoke(list(ApiToken.objects.select_for_update().filter(user=user)))
        user.delete()
        _check_administrators()


def list_tokens(user: User, *, of_all: bool) -> list[TokenEntry]:
    """Return a user's tokens, or those of all users, newest first; none that gives more than the one in use."""
    found = ApiToken.objects.select_related("user").order_by("-created_at", "-pk")
    acting = acting_token(user)
    if acting is not None and acting.scope:
        found = found.filter(scope__in=[role.group_name for role in Role if role <= _most_of(acting)])
    return [token_entry(token) for token in (found if of_all else found.filter(user=user))[:1000]]


def token_entry(token: ApiToken) -> TokenEntry:
    """Return what is shown of a token."""
    scope: Any = token.scope or None
    return {
        "id": token.pk,
        "name": token.name,
        "user": token.user.get_username(),
        "scope": scope,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used": token.last_used,
    }


def make_token(
    maker: User, name: str, *, owner: str = "", scope: str = "", days: int | None = 90
) -> tuple[str, ApiToken]:
    """Create a token; return its text, and its row.

    With a token one can only make those that give no more, and end no later, and are revoked with it: the life that is
    asked for is shortened to that.

    Args:
        maker: who asks, with the rights of the present request.
        name: unique among the owner's.
        owner: the user whom it logs in; empty: the maker.
        scope: highest role that it gives, at most what the maker has now; empty: that.
        days: until it expires; None: as late as may be.

    Raises:
        DirectoryError: the maker may not make it, or a part of it is wrong.
        UnknownError: there is no such user.
    """
    user = maker if owner in ("", maker.get_username()) else _user(owner)
    own = role_of(maker)
    if user != maker and own < Role.ADMIN:
        raise UnknownError(f"There is no user {owner}.")
    if not name.strip() or len(name) > 100 or name == ADMIN_TOKEN_NAME:
        raise DirectoryError("A token needs a name of at most 100 characters.")
    if not name.isprintable():
        # marks of direction among them, with which it would look like another one's
        raise DirectoryError("A token's name has printable characters only.")
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise DirectoryError(f"A token is valid for 1 to {MAX_DAYS} days.")
    most = min(own, own_role_of(user))
    wanted = _role(scope) if scope else most
    if wanted > most:
        raise DirectoryError(f"The scope {scope} is above the role {_name(most)}.")
    acting = acting_token(maker)
    # a token that is made with a narrower one must not grow with its owner's role
    is_kept = scope or wanted < own_role_of(user) or (acting is not None and acting.scope)
    kept = _name(wanted) if is_kept else ""
    life_ms = None if days is None else days * DAY_MS
    try:
        with transaction.atomic():
            if ApiToken.objects.filter(user=user).count() >= MAX_TOKENS:
                raise DirectoryError(f"{user.get_username()} has {MAX_TOKENS} tokens; revoke some.", is_conflict=True)
            # held, so that it is not revoked meanwhile
            if acting is not None and not ApiToken.objects.select_for_update().filter(pk=acting.pk).exists():
                raise AboveScopeError("The token of this request was revoked.")
            text = create_token(user, name, life_ms, kept, acting)
            return text, ApiToken.objects.select_related("user").get(user=user, name=name)
    except IntegrityError:
        _user(user.get_username())
        raise DirectoryError(f"There is a token {name} already.", is_conflict=True) from None


def revoke_token(asker: User, token_id: int) -> ApiToken:
    """Revoke a token at once, with those that were made with it, and the sessions that began with them; return what it
    was.

    Raises:
        AboveScopeError: it gives more than the token that is used.
        UnknownError: there is none, or it is another user's and the asker no administrator.
    """
    with transaction.atomic():
        token = None
        if token_id < 2**63:
            token = ApiToken.objects.select_for_update(of=("self",)).select_related("user").filter(pk=token_id).first()
        if token is None or (token.user != asker and role_of(asker) < Role.ADMIN):
            raise UnknownError("There is no such token.")
        acting = acting_token(asker)
        if acting is not None and _most_of(token) > _most_of(acting):
            raise AboveScopeError(f"The token {token.name} gives more than the one in use.")
        _revoke([token])
    return token


def _most_of(token: ApiToken) -> Role:
    """Return the highest role that a token may ever give: one without a scope follows its owner's."""
    return role_named(token.scope) or Role.ADMIN


def _revoke(tokens: list[ApiToken]) -> None:
    """Delete tokens, which are locked, with all that were made with them.

    From the top: while a token is locked, no other is made with it.
    """
    keys: list[int] = []
    level = [token.pk for token in tokens]
    while level:
        keys += level
        made = ApiToken.objects.select_for_update().filter(parent__in=level).exclude(pk__in=keys)
        level = list(made.values_list("pk", flat=True))
    ApiToken.objects.filter(pk__in=keys).delete()


def _user(name: str) -> User:
    user = User.objects.select_for_update().filter(username=name).first()
    if user is None:
        raise UnknownError(f"There is no user {name}.")
    return user


def _role(name: str) -> Role:
    role = role_named(name)
    if role is None:
        raise DirectoryError("A role is viewer, operator, developer or admin.")
    return role


def _name(role: Role) -> Any:
    return role.group_name


def _set_password(user: User, password: str) -> None:
    if not password:
        user.set_unusable_password()
        return
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise DirectoryError(" ".join(error.messages)) from None
    user.set_password(password)


def _lock_administrators() -> None:
    """Have whoever else changes a user wait: two administrators could demote each other."""
    # superusers need no group: it may be missing
    Group.objects.get_or_create(name=Role.ADMIN.group_name)
    list(Group.objects.select_for_update().filter(name=Role.ADMIN.group_name))


def _check_administrators() -> None:
    active = User.objects.filter(is_active=True)
    if not active.filter(Q(is_superuser=True) | Q(groups__name=Role.ADMIN.group_name)).exists():
        raise DirectoryError("This is the last administrator.", is_conflict=True)
