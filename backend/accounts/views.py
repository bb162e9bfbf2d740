"""Base of all views under /api/v1: login required by default, JSON only, errors in Tidemark's format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from django.conf import settings
from rest_framework import exceptions
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.views import APIView

from backend.accounts.answers import ProductErrors
from backend.accounts.authentication import BearerAuthentication, CookieAuthentication, is_from_other_site
from backend.accounts.errors import product_errors
from backend.accounts.ownership import NotTheOwner, Owned, check_owner, owned_job
from backend.accounts.permissions import HasRole, needed_role
from backend.accounts.roles import Role
from backend.accounts.submission import SubmissionRefused
from backend.accounts.submission_rate import TooManySubmissions
from backend.audit import trail

ErrorHandler = Callable[[Exception, dict[str, Any]], Response | None]


def is_clean_text(value: object) -> bool:
    """Return whether databases accept this as text: no NUL, no lone surrogate (JSON can contain both)."""
    return isinstance(value, str) and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def chosen(request: Request, name: str, values: Collection[str]) -> str:
    """Return a parameter of the query that has one of some values; "" if it is missing.

    Raises:
        ValidationError: it has another one.
    """
    value: str | None = request.query_params.get(name)
    if value is not None and value not in values:
        raise exceptions.ValidationError({name: f"Must be one of {', '.join(values)}."})
    return value or ""


class FastJson(JSONRenderer):
    """JSON in a tenth of the standard library's time, which counts where an answer has half a megabyte.

    What msgspec refuses, such as a lone surrogate in a job name or a log, the standard library writes, in ASCII.
    """

    ensure_ascii = True
    _encoder = msgspec.json.Encoder(enc_hook=JSONEncoder().default, decimal_format="number")

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        try:
            return self._encoder.encode(data)
        except (TypeError, ValueError, OverflowError):
            made: bytes = super().render(data, accepted_media_type, renderer_context)
            return made


class OnlyJson(BaseContentNegotiation):
    """Answers in JSON whatever the Accept header says: clients of Flink's API send all kinds."""

    def select_parser(self, request: Request, parsers: Any) -> BaseParser | None:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((p for p in parsers if p.media_type == media_type), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class ShallowJson(JSONParser):
    """Refuses JSON that is nested too deeply to be read."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise exceptions.ParseError("JSON parse error - it is nested too deeply") from error


class ClosedView(APIView):
    """A view that requires a login, and the role that `roles` names for the method.

    Where owners count, methods that need more than the lowest role also require that what they act on (`owned`) is the
    user's.

    Methods that run uploaded programs, or take them, are in `runs_programs`; those that run drafts in `runs_drafts`.
    A view whose GET does something names in `instead_of_get` what other clients are to send: with the session cookie, a
    GET is then taken from Tidemark's own page only. Such a view is also `audited`.
    """

    authentication_classes = (BearerAuthentication, CookieAuthentication)
    permission_classes = (HasRole,)
    parser_classes: Sequence[type[BaseParser]] = (ShallowJson,)
    renderer_classes = (FastJson,)
    content_negotiation_class = OnlyJson
    #: no OPTIONS: other origins have no access
    metadata_class = None
    roles: ClassVar[Mapping[str, Role]] = {}
    runs_programs: ClassVar[Collection[str]] = ()
    runs_drafts: ClassVar[Collection[str]] = ()
    instead_of_get: ClassVar[str] = ""
    #: type of the body of every error, for the contract with clients
    errors: ClassVar[Any] = None

    def check_permissions(self, request: Request) -> None:
        # first: a request of another site must not count as a submission of its victim
        if self.instead_of_get and request.method in ("GET", "HEAD") and is_from_other_site(request):
            raise exceptions.PermissionDenied(
                f"By GET this is for Tidemark's own page only; use {self.instead_of_get}."
            )
        super().check_permissions(request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if settings.TIDEMARK_OWNERS_ONLY and needed_role(self, request.method or "") is not Role.VIEWER:
            check_owner(request.user, self.owned(**kwargs))

    def owned(self, **kwargs: str) -> Owned | None:
        """Return what a request acts on; None: it belongs to nobody in particular, or does not exist.

        Args:
            kwargs: the parameters of the route.
        """
        job_id = kwargs.get("job_id") or kwargs.get("application_id")
        return None if job_id is None else owned_job(job_id)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, (NotTheOwner, SubmissionRefused, TooManySubmissions)):
            # also of a GET: with a note it leaves an event
            trail.note(self.request._request, refused=str(exc.detail))
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        final = super().finalize_response(request, response, *args, **kwargs)
        final.setdefault("Cache-Control", "no-store")
        return final


class ProductView(ClosedView):
    """A route under /api/v1."""

    errors = ProductErrors

    def get_exception_handler(self) -> ErrorHandler:
        return product_errors
