"""REST routes of the inbox."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Greatest
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.accounts.views import ProductView
from backend.cluster import services
from backend.contract.operation import operation
from backend.inbox.answers import Inbox, ReadUpTo
from backend.inbox.happenings import happenings
from backend.inbox.models import ReadMarker

_MAX_MS: Final = 2**50


class InboxView(ProductView):
    """Happenings on the cluster, and the time up to which the user has read them."""

    roles = {"PUT": Role.VIEWER}  # noqa: RUF012

    @operation(Inbox)
    def get(self, request: Request) -> Response:
        return Response(_inbox(request))

    @operation(Inbox, body=ReadUpTo)
    def put(self, request: Request) -> Response:
        read_at = request.data.get("read_at") if isinstance(request.data, dict) else None
        if type(read_at) is not int or not 0 <= read_at <= _MAX_MS:
            raise exceptions.ValidationError({"read_at": f"Must be a whole number from 0 to {_MAX_MS}."})
        # a clock that was wrong must not hide what comes
        read_at = min(read_at, services.now_ms())
        marker, is_new = ReadMarker.objects.get_or_create(user=_user(request), defaults={"read_at": read_at})
        if not is_new:
            ReadMarker.objects.filter(pk=marker.pk).update(read_at=Greatest(F("read_at"), read_at))
        return Response(_inbox(request))


def _user(request: Request) -> User:
    # views of the product are for users who have logged in
    assert isinstance(request.user, User)
    return request.user


def _inbox(request: Request) -> Inbox:
    marker = ReadMarker.objects.filter(user=_user(request)).first()
    found = happenings(services.now_ms())
    read_at = 0 if marker is None else marker.read_at
    unread = sum(each["at"] > read_at for each in found.newest)
    return {"happenings": found.newest, "is_cut": found.is_cut, "read_at": read_at, "unread": unread}
