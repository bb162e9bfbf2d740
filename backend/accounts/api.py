"""Login, logout and the current user: /api/v1/session and the one-time link /login/<secret>."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from rest_framework import exceptions
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts import services
from backend.accounts.answers import Credentials, Nothing, Session
from backend.accounts.authentication import BearerAuthentication
from backend.accounts.roles import role_of
from backend.accounts.submission import refusal
from backend.accounts.views import ProductView, is_clean_text
from backend.audit import trail
from backend.audit.middleware import audited
from backend.config.base_path import page_route
from backend.contract.operation import operation

MAX_CREDENTIAL_CHARS: Final = 1024
"""More: whoever is not logged in has a MiB looked through for secrets, for the trail and for the log."""


class SessionView(ProductView):
    """A browser's session. Login takes JSON only, which another site's form cannot send."""

    def get_permissions(self) -> Sequence[Any]:
        return [AllowAny()] if self.request.method == "POST" else super().get_permissions()

    def get_authenticators(self) -> list[Any]:
        # login needs no authenticated user, and an expired cookie must not get in its way
        return [] if self.request.method == "POST" else super().get_authenticators()

    def get_authenticate_header(self, request: Request) -> str:
        return BearerAuthentication().authenticate_header(request)

    @operation(Session)
    def get(self, request: Request) -> Response:
        get_token(request._request)  # sets the CSRF cookie, which a page loaded from a cache may lack
        return Response(_answer(request.user))

    @operation(Session, body=Credentials)
    def post(self, request: Request) -> Response:
        if not isinstance(request.data, dict):
            raise exceptions.ParseError("The body must be a JSON object.")
        given = {name: request.data.get(name, "") for name in ("username", "password", "token")}
        if not all(is_clean_text(value) for value in given.values()):
            raise exceptions.ValidationError("username, password and token must be strings.")
        if any(len(value) > MAX_CREDENTIAL_CHARS for value in given.values()):
            raise exceptions.ValidationError(f"Each has at most {MAX_CREDENTIAL_CHARS} characters.")
        if not given["token"] and not (given["username"] and given["password"]):
            raise exceptions.ValidationError("Give username and password, or token.")
        address = request.META.get("REMOTE_ADDR", "")
        by = "token" if given["token"] else "password"
        trail.note(request._request, username=services.telling_name(given["username"]), by=by)
        try:
            user = services.log_in(request._request, address, **given)
        except services.TooManyFailures as error:
            raise exceptions.Throttled(error.wait_s) from error
        if user is None:
            raise exceptions.AuthenticationFailed(
                "The token is wrong." if given["token"] else "Wrong name or password."
            )
        get_token(request._request)
        return Response(_answer(user))

    @operation(Nothing)
    def delete(self, request: Request) -> Response:
        trail.acted_by(request._request, request.user.get_username())
        logout(request._request)
        return Response({})


@audited
@never_cache
@require_GET
def use_login_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Log in with a one-time link and redirect to the page; a used or expired link leads to the login form."""
    user = services.use_login_link(secret)
    if user is None:
        return HttpResponseRedirect(f"{page_route()}login?link=expired")
    services.begin_session(request, user, None)
    get_token(request)
    response = HttpResponseRedirect(page_route())
    # keep the secret out of Referer headers
    response["Referrer-Policy"] = "no-referrer"
    return response


def _answer(user: Any) -> dict[str, Any]:
    assert isinstance(user, User)
    refused = refusal()
    return {
        "user": {"name": user.get_username(), "role": role_of(user).group_name},
        "submission": "" if refused is None else str(refused.detail),
    }
