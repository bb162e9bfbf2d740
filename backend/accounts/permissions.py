"""The permission of all views: a login, a role for the method, and, where code of users would run, that it may, and has
not done so too often."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.views import APIView

from backend.accounts.roles import Role, role_of
from backend.accounts.submission import refusal
from backend.accounts.submission_rate import note_submission


def needed_role(view: APIView, method: str) -> Role:
    """Return the role that a view needs for a method."""
    roles: Mapping[str, Role] = getattr(view, "roles", {})
    return roles.get(_handler(method), Role.VIEWER)


def _handler(method: str) -> str:
    # the framework answers HEAD by running the handler of GET
    return "GET" if method == "HEAD" else method


class HasRole(IsAuthenticated):
    """Requires a login and the role that the view's `roles` names for the method (default VIEWER).

    Methods in the view's `runs_programs` and `runs_drafts` are refused for everybody where the cluster takes none, and
    for a user who has called too many of them.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not super().has_permission(request, view):
            return False
        method = _handler(request.method or "")
        needed = needed_role(view, method)
        # the framework answers with the permission's message
        self.message = f"Requires the role {needed.group_name}."
        # every user is a viewer, so reads need no query
        if needed is not Role.VIEWER and role_of(request.user) < needed:
            return False
        drafts: Collection[str] = getattr(view, "runs_drafts", ())
        if method in drafts or method in getattr(view, "runs_programs", ()):
            refused = refusal(is_draft=method in drafts)
            if refused is not None:
                # says more than a permission's message: which code, and that it is no matter of roles
                raise refused
            note_submission(request.user)
        return True
