"""How a request says who sends it: `Authorization: Bearer <token>`, or the session cookie of the page.

A token is looked at first, and a wrong one is refused even if a good cookie comes with it. Flink's clients that know
no bearer tokens, but URLs with a password in them, send it as HTTP Basic's: any user name, the token as password.
"""

from __future__ import annotations

import base64

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from backend.accounts.services import user_of_token


def token_of_header(value: str) -> str | None:
    """The token of an Authorization header; None if the header is of another scheme, "" if it cannot be read."""
    scheme, _, credentials = value.partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return None


class BearerAuthentication(BaseAuthentication):
    """API tokens. No CSRF check: a browser does not send the header by itself."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        token = token_of_header(header)
        if token is None:
            return None
        if header.lower().startswith("basic") and _is_from_browser(request):
            # a password that a browser has once been given goes along with what other sites make it send
            raise AuthenticationFailed("Browsers log in at the page, not with a password in the address.")
        user = user_of_token(token)
        if user is None:
            raise AuthenticationFailed("The token is unknown or has expired.")
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tidemark"'


class CookieAuthentication(SessionAuthentication):
    """Sessions of the page; every write must carry the CSRF token."""


def _is_from_browser(request: Request) -> bool:
    return any(request.META.get(name) for name in ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "HTTP_COOKIE"))
