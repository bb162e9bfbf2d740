"""The permission of all views: a login, and a role for the method."""

from __future__ import annotations

from collections.abc import Mapping

from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from backend.accounts.roles import Role, role_of


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
