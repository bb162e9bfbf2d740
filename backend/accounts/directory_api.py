"""REST routes of users, tokens and the audit trail: /api/v1/users, /api/v1/tokens, /api/v1/audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from django.contrib.auth.models import User
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts import directory
from backend.accounts.answers import (
    AuditEntry,
    AuditPage,
    AuditQuery,
    MadeToken,
    NewToken,
    NewUser,
    Nothing,
    Tokens,
    TokensQuery,
    UserChange,
    UserEntry,
    Users,
)
from backend.accounts.errors import Conflict
from backend.accounts.roles import Role, role_of
from backend.accounts.views import ProductView, chosen, is_clean_text
from backend.audit import trail
from backend.audit.models import AuditEvent
from backend.contract.operation import operation

MAX_EVENTS: Final = 500
_ADMIN: Final = dict.fromkeys(("GET", "HEAD", "POST", "PATCH", "DELETE"), Role.ADMIN)


class UsersView(ProductView):
    roles: ClassVar[Mapping[str, Role]] = _ADMIN

    @operation(Users)
    def get(self, request: Request) -> Response:
        return Response({"users": directory.list_users()})

    @operation(UserEntry, body=NewUser, status=201)
    def post(self, request: Request) -> Response:
        given = _Given(request, "name", "role", "password")
        name, role = given.text("name"), given.text("role")
        trail.note(request._request, name=name, role=role)
        with _told():
            user = directory.create_user(name, role, given.text("password"))
        return Response(directory.user_entry(user), status=201)


class UserView(ProductView):
    roles: ClassVar[Mapping[str, Role]] = _ADMIN

    @operation(UserEntry, body=UserChange)
    def patch(self, request: Request, name: str) -> Response:
        given = _Given(request, "role", "is_active", "password")
        with _told():
            user, changed = directory.change_user(
                name,
                role=given.text("role") if given.has("role") else None,
                is_active=given.boolean("is_active") if given.has("is_active") else None,
                password=given.text("password") if given.has("password") else None,
            )
        trail.note(request._request, **changed)
        return Response(directory.user_entry(user))

    @operation(Nothing)
    def delete(self, request: Request, name: str) -> Response:
        with _told():
            directory.delete_user(name)
        return Response({})


class TokensView(ProductView):
    """Everybody's own tokens; administrators see and make those of others, too."""

    @operation(Tokens, query=TokensQuery)
    def get(self, request: Request) -> Response:
        of_all = chosen(request, "all", ("1",)) == "1"
        if of_all and role_of(request.user) < Role.ADMIN:
            raise exceptions.PermissionDenied("Requires the role admin.")
        return Response({"tokens": directory.list_tokens(_user(request), of_all=of_all)})

    @operation(MadeToken, body=NewToken, status=201)
    def post(self, request: Request) -> Response:
        given = _Given(request, "name", "scope", "days", "user")
        name, scope, owner = given.text("name"), given.text("scope"), given.text("user")
        days = given.number("days") if given.has("days") else 90
        trail.note(request._request, name=name, scope=scope, days=days, user=owner)
        with _told():
            token, row = directory.make_token(_user(request), name, owner=owner, scope=scope, days=days)
        trail.note(request._request, scope=row.scope, expires_at=row.expires_at)
        return Response({"token": token, "entry": directory.token_entry(row)}, status=201)


class TokenView(ProductView):
    @operation(Nothing)
    def delete(self, request: Request, token_id: int) -> Response:
        with _told():
            token = directory.revoke_token(_user(request), token_id)
        trail.note(request._request, name=token.name, user=token.user.get_username())
        return Response({})


class AuditView(ProductView):
    roles: ClassVar[Mapping[str, Role]] = _ADMIN

    @operation(AuditPage, query=AuditQuery)
    def get(self, request: Request) -> Response:
        wanted = request.query_params
        events = AuditEvent.objects.order_by("-pk")
        if "before" in wanted:
            events = events.filter(pk__lt=_whole(wanted["before"], "before"))
        if wanted.get("user"):
            events = events.filter(user=wanted["user"])
        if chosen(request, "result", ("done", "denied", "failed")):
            events = events.filter(result=wanted["result"])
        if wanted.get("action"):
            events = events.filter(action__icontains=wanted["action"])
        limit = min(MAX_EVENTS, max(1, _whole(wanted.get("limit", "100"), "limit")))
        found = list(events[: limit + 1])
        page = found[:limit]
        return Response(
            {"events": [_entry(event) for event in page], "next": page[-1].pk if len(found) > limit else None}
        )


def _entry(event: AuditEvent) -> AuditEntry:
    result: Any = event.result
    return {
        "id": event.pk,
        "at": event.at,
        "user": event.user,
        "token": event.token,
        "address": event.address,
        "action": event.action,
        "object": event.object,
        "result": result,
        "status": event.status,
        "detail": event.detail,
    }


def _whole(text: str, name: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise exceptions.ValidationError({name: "must be a whole number."})
    return int(text)


def _user(request: Request) -> User:
    assert isinstance(request.user, User)
    return request.user


@contextmanager
def _told() -> Iterator[None]:
    """Answer what the directory refuses."""
    try:
        yield
    except directory.UnknownError as error:
        raise exceptions.NotFound(str(error)) from error
    except directory.AboveScopeError as error:
        raise exceptions.PermissionDenied(str(error)) from error
    except directory.DirectoryError as error:
        raise Conflict(str(error)) if error.is_conflict else exceptions.ValidationError(str(error)) from error


class _Given:
    """The members of a JSON body.

    Raises:
        ValidationError: it is no object, has other members, or one of another kind than is asked for.
    """

    def __init__(self, request: Request, *names: str) -> None:
        if not isinstance(request.data, dict):
            raise exceptions.ParseError("The body must be a JSON object.")
        unknown = sorted(set(map(str, request.data)) - set(names))
        if unknown:
            raise exceptions.ValidationError({unknown[0]: "is not known here."})
        self._data = request.data

    def has(self, name: str) -> bool:
        return name in self._data

    def text(self, name: str) -> str:
        value = self._data.get(name, "")
        if not is_clean_text(value):
            raise exceptions.ValidationError({name: "must be a string."})
        return str(value)

    def boolean(self, name: str) -> bool:
        value = self._data[name]
        if not isinstance(value, bool):
            raise exceptions.ValidationError({name: "must be true or false."})
        return value

    def number(self, name: str) -> int | None:
        value = self._data[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise exceptions.ValidationError({name: "must be a whole number or null."})
        return value
