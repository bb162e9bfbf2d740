"""Authentication of requests by `Authorization: Bearer <token>` or by the page's session cookie.

The token is checked first; a wrong one is refused even if a valid cookie comes with it. Flink clients that support no
bearer tokens but URLs with a password can send the token as HTTP Basic: any user name, the token as password.
"""

from __future__ import annotations

import base64

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from backend.accounts.models import ApiToken
from backend.accounts.services import find_token, limit_session


def token_of_header(value: str) -> str | None:
    """Return the token of an Authorization header: None if it uses another scheme, "" if it is malformed."""
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
    """Authenticates by API token. Needs no CSRF check: browsers do not send the header by themselves."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        token = token_of_header(header)
        if token is None:
            return None
        if header.lower().startswith("basic") and _is_from_browser(request):
            # once a browser has a password, it also sends it with requests that other sites trigger
            raise AuthenticationFailed("Browsers log in at the page, not with a password in the address.")
        found = find_token(token)
        if found is None:
            raise AuthenticationFailed("The token is unknown or has expired.")
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="tidemark"'


class CookieAuthentication(SessionAuthentication):
    """Authenticates by the page's session; every write must carry the CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user: User = found[0]
        if not limit_session(request._request.session, user):
            raise AuthenticationFailed("Your session has ended; log in again.")
        return user, None


def is_from_other_site(request: Request) -> bool:
    """Return whether another site may have triggered a request: a link there sends a GET with the session cookie.

    No page is shown by such requests, so none that a browser sends to show one is meant, whoever seems to have sent it.
    """
    if not isinstance(request.successful_authenticator, CookieAuthentication):
        return False
    if request.META.get("HTTP_SEC_FETCH_MODE") == "navigate" or "text/html" in request.META.get("HTTP_ACCEPT", ""):
        return True
    site = request.META.get("HTTP_SEC_FETCH_SITE")
    if site is None:
        # browsers omit the header on plain http; the page's own requests carry a Referer there
        own = f"{request.scheme}://{request.get_host()}/"
        return not request.META.get("HTTP_REFERER", "").startswith(own)
    return bool(site != "same-origin")


def _is_from_browser(request: Request) -> bool:
    return any(request.META.get(name) for name in ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "HTTP_COOKIE"))
