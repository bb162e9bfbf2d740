"""Roles: viewer < operator < developer < admin. A role is a Django group of that name; superusers are admins.

Anyone who may submit code controls the workers' operating-system account; submitting is therefore a separate role.
"""

from __future__ import annotations

import enum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User

from backend.accounts.models import ApiToken


class Role(enum.IntEnum):
    """A set of permissions; each role includes those below it."""

    VIEWER = 1
    """See everything."""
    OPERATOR = 2
    """Cancel, stop and rescale jobs; take savepoints and dispose of them."""
    DEVELOPER = 3
    """Upload and run programs."""
    ADMIN = 4

    @property
    def group_name(self) -> str:
        return self.name.lower()


_LIMIT = "tidemark_role_limit"
_TOKEN = "tidemark_acting_token"
_BY_GROUP = {role.group_name: role for role in Role}


def role_named(name: str) -> Role | None:
    """Return the role of this name; None: there is none."""
    return _BY_GROUP.get(name)


def limit_role(user: User, scope: str) -> None:
    """Give this object of a user no more than a role: what it was authenticated with allows no more."""
    setattr(user, _LIMIT, _BY_GROUP.get(scope))


def act_with(user: User, token: ApiToken) -> None:
    """Give this object of a user the rights of the token that it was authenticated with, and no more."""
    limit_role(user, token.scope)
    setattr(user, _TOKEN, token)


def acting_token(user: User) -> ApiToken | None:
    """Return the token that a user was authenticated with, also if a session began with it; None: by none."""
    token: ApiToken | None = getattr(user, _TOKEN, None)
    return token


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """Return the role of a logged-in user, within the scope of the token that was used; VIEWER without a group."""
    own = own_role_of(user)
    limit: Role | None = getattr(user, _LIMIT, None)
    return own if limit is None else min(own, limit)


def own_role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """Return the role that was given to a user, whatever token is used."""
    if not isinstance(user, User):
        return Role.VIEWER
    if user.is_superuser:
        return Role.ADMIN
    names = user.groups.filter(name__in=_BY_GROUP).values_list("name", flat=True)
    return max((_BY_GROUP[name] for name in names), default=Role.VIEWER)


def set_role(user: User, role: Role) -> None:
    """Give a user this role and no other; who was superuser without the role admin is that no more."""
    if user.is_superuser != (role is Role.ADMIN) or user.is_staff != (role is Role.ADMIN):
        user.is_superuser = user.is_staff = role is Role.ADMIN
        user.save(update_fields=["is_superuser", "is_staff"])
    user.groups.remove(*Group.objects.filter(name__in=_BY_GROUP))
    user.groups.add(Group.objects.get_or_create(name=role.group_name)[0])
