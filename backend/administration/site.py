"""The site at /admin: who may enter it, what its pages may load, and which routes it has.

Sessions are those of the page: who is not logged in is led to the page's login, and who is no administrator is refused.
A session that began with a token has the token's scope here, too. Pages are made by Django from its own templates, and
load nothing but files of this server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, include, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from backend.accounts.errors import as_api_exception, headers_of
from backend.accounts.roles import Role, role_of
from backend.accounts.services import limit_session
from backend.audit import trail
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.program_files import StorageProblem
from backend.config.base_path import page_route
from backend.live.pages import secured

_READS: Final = ("GET", "HEAD")
_METHODS: Final = (*_READS, "POST")

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


class TidemarkAdmin(AdminSite):
    """The site; one instance."""

    site_header = "Tidemark"
    site_title = "Tidemark"
    index_title = "Administration"
    index_template = "administration/index.html"
    final_catch_all_view = False

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), "site_url": page_route()}

    def has_permission(self, request: HttpRequest) -> bool:
        return is_logged_in(request) and role_of(request.user) is Role.ADMIN

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Wrap a view of the site; every one goes through here."""

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return secured(self._answer(view, request, *args, **kwargs))

        return cast("View", update_wrapper(never_cache(guarded), view))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        routes: list[URLPattern | URLResolver] = [
            path("", self.admin_view(require_safe(self.index)), name="index"),
            path("login/", self.admin_view(require_safe(self.index)), name="login"),
            path("logout/", self.admin_view(require_POST(self.logout)), name="logout"),
            path("jsi18n/", self.admin_view(require_safe(self.i18n_javascript)), name="jsi18n"),
        ]
        for model, admin in self._registry.items():
            routes.append(path(f"{model._meta.app_label}/{model._meta.model_name}/", include(admin.urls)))
        routes.append(path("<str:app_label>/", self.admin_view(require_safe(self.app_index)), name="app_list"))
        return routes

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        trail.acted_by(request, request.user.get_username())
        logout(request)
        return HttpResponseRedirect(f"{page_route()}login")

    def _answer(
        self, view: Callable[..., HttpResponseBase], request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        try:
            if not is_logged_in(request):
                if request.method in _READS:
                    # as the page's own paths, without the base path
                    asked = request.get_full_path().removeprefix(settings.TIDEMARK_BASE_PATH)
                    return HttpResponseRedirect(f"{page_route()}login?next={quote(asked, safe='/')}")
                return _plain("Log in first.", 401)
            if role_of(request.user) is not Role.ADMIN:
                return _plain("Requires the role admin.", 403)
            if request.method not in _METHODS:
                return HttpResponseNotAllowed(_METHODS)
            response = view(request, *args, **kwargs)
            render = getattr(response, "render", None)
            if render is not None:
                # reads the tables: within this, so that an answer can still say that they cannot be read
                render()
            return response
        except PermissionDenied:
            return _plain("This is not offered: the cluster keeps these rows itself.", 405)
        except Http404 as error:
            return _plain(str(error) or "There is no such page.", 404)
        except (OperationalError, StorageProblem, StorageSilentError) as error:
            known = as_api_exception(error)
            answer = _plain(str(known.detail), known.status_code)
            for name, value in headers_of(known).items():
                answer[name] = value
            return answer


def is_logged_in(request: HttpRequest) -> bool:
    """Return whether a request comes with a session of the page that is valid; its user gets the session's rights."""
    user = request.user
    return user.is_authenticated and user.is_active and limit_session(request.session, user)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")


site = TidemarkAdmin(name="admin")
