"""Leaves one audit event for every request that changes something, or tries to: here, and in no view.

A request is one that reads if its method is GET, HEAD or OPTIONS, its view is not marked with `audited`, and nothing
was noted about it. The user is known behind the view: routes authenticate by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.db import Error
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from backend.audit import trail
from backend.audit.redaction import HIDDEN

READS: Final = ("GET", "HEAD", "OPTIONS")
#: parameters of routes that let their reader in
SECRET_PARAMETERS: Final = ("secret",)
#: those that take the rest of a path, of whatever is no route
REST_PARAMETERS: Final = ("path",)
#: ids have 32, secrets of links 43
MAX_TELLING_CHARS: Final = 40
_ATTRIBUTE = "is_audited"
View = TypeVar("View", bound=Callable[..., Any])


def audited(view: View) -> View:
    """Mark a view, or a class of views, whose GET changes something."""
    setattr(view, _ATTRIBUTE, True)
    return view


class AuditTrail:
    """The middleware; outermost of those that may refuse a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        if request.method not in READS or _is_marked(request) or trail.notes_of(request):
            _record(request, response.status_code)
        return response


def _is_marked(request: HttpRequest) -> bool:
    view = getattr(request.resolver_match, "func", None)
    return bool(getattr(view, _ATTRIBUTE, False) or getattr(getattr(view, "cls", None), _ATTRIBUTE, False))


def _record(request: HttpRequest, status: int) -> None:
    match = request.resolver_match
    parameters = {} if match is None else match.kwargs
    token = getattr(getattr(request, "auth", None), "name", "")
    trail.record(
        f"{request.method} {match.route if match is not None else telling_path(request.path)}",
        user=_name_of_user(request),
        token=token if isinstance(token, str) else "",
        address=request.META.get("REMOTE_ADDR", ""),
        object=" ".join(f"{name}={_shown_parameter(name, value)}" for name, value in parameters.items()),
        result=result_of(status),
        status=status,
        detail=trail.notes_of(request),
    )


def _shown_parameter(name: str, value: object) -> str:
    if name in SECRET_PARAMETERS:
        return HIDDEN
    return telling_path(str(value)) if name in REST_PARAMETERS else str(value)


def telling_path(path: str) -> str:
    """Return a path that is no route's, for the trail: without what follows "login", and what is as long as a secret.

    A link of a login with a slash behind it is no route, and its secret may still be good.
    """
    shown: list[str] = []
    for part in path.split("/"):
        if any(before.lower() == "login" for before in shown) and part:
            shown.append(HIDDEN)
        else:
            shown.append(part if len(part) <= MAX_TELLING_CHARS else HIDDEN)
    return "/".join(shown)


def _name_of_user(request: HttpRequest) -> str:
    known = trail.actor_of(request)
    if known:
        return known
    user = getattr(request, "user", None)
    try:
        # reads the session and the user, unless the view has
        return user.get_username() if user is not None and user.is_authenticated else ""
    except Error:
        return ""


def result_of(status: int) -> str:
    """Return how a request ended."""
    if status < 400:
        return trail.DONE
    return trail.DENIED if status in (401, 403, 429) else trail.FAILED
