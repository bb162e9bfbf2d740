"""Roles: viewer < operator < developer < admin. A role is a Django group of that name; superusers are admins.

Anyone who may submit code controls the workers' operating-system account; submitting is therefore a separate role.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView


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


_BY_GROUP = {role.group_name: role for role in Role}


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """Return the highest role of a logged-in user; VIEWER without a group."""
    if not isinstance(user, User):
        return Role.VIEWER
    if user.is_superuser:
        return Role.ADMIN
    names = user.groups.filter(name__in=_BY_GROUP).values_list("name", flat=True)
    return max((_BY_GROUP[name] for name in names), default=Role.VIEWER)


def set_role(user: User, role: Role) -> None:
    """Give a user this role and no other."""
    user.groups.remove(*Group.objects.filter(name__in=_BY_GROUP))
    user.groups.add(Group.objects.get_or_create(name=role.group_name)[0])


class HasRole(IsAuthenticated):
    """Requires a login and the role that the view's `roles` names for the method (default VIEWER)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not super().has_permission(request, view):
            return False
        roles: Mapping[str, Role] = getattr(view, "roles", {})
        needed = roles.get(request.method or "", Role.VIEWER)
        # the framework answers with the permission's message
        self.message = f"Requires the role {needed.group_name}."
        # every user is a viewer, so reads need no query
        return needed is Role.VIEWER or role_of(request.user) >= needed
