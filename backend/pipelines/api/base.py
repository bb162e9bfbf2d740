"""Common parts of the views of pipelines: bodies with a limit, preconditions, errors, rows as JSON."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth.models import User
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Conflict, as_api_exception, product_errors
from backend.accounts.ownership import Owned, check_owner
from backend.accounts.permissions import needed_role
from backend.accounts.roles import Role
from backend.accounts.views import ErrorHandler, ProductView, ShallowJson, is_clean_text
from backend.dispatcher.uploads import MAX_DOCUMENT_BODY_BYTES
from backend.pipelines import services
from backend.pipelines.answers.errors import PipelineErrors
from backend.pipelines.answers.pipelines import DraftAnswer, VersionAnswer, VersionListed
from backend.pipelines.deployments import NotDeployableError, OtherRunsError, StateRefusedError
from backend.pipelines.documents import Checked, DocumentRefused, check
from backend.pipelines.models import Draft, Pipeline, Version

MAX_MESSAGE_CHARS: Final = 1000
MAX_TAGS: Final = 20
MAX_TAG_CHARS: Final = 50
_KEY = re.compile(r"[\x21-\x7e]{8,100}")
_TAG = re.compile(r'"(\d{1,18})"')
_DRAFT_TAG = re.compile(r'"(\d{1,18}\.\d{1,18})"')
_ID = re.compile(r"[0-9a-f]{32}")


class PayloadTooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"


class PreconditionRequired(exceptions.APIException):
    status_code = status.HTTP_428_PRECONDITION_REQUIRED
    default_code = "precondition_required"


class PreconditionFailed(exceptions.APIException):
    """Something is not as the client has seen it.

    Attributes:
        current: what it is now.
    """

    status_code = status.HTTP_412_PRECONDITION_FAILED

    def __init__(self, message: str, code: str, current: Mapping[str, Any] | None) -> None:
        super().__init__(message, code)
        self.current = current


class LimitedJson(ShallowJson):
    """Reads no more than a document needs."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        body = stream.read(MAX_DOCUMENT_BODY_BYTES + 1)
        if len(body) > MAX_DOCUMENT_BODY_BYTES:
            raise PayloadTooLarge(f"The body is larger than {MAX_DOCUMENT_BODY_BYTES >> 20} MiB.")
        return super().parse(io.BytesIO(body), media_type, parser_context)


class PipelinesView(ProductView):
    """A route of pipelines; errors of the services get their status here."""

    parser_classes = (LimitedJson,)
    errors = PipelineErrors

    def get_exception_handler(self) -> ErrorHandler:
        return _pipeline_errors

    @property
    def user(self) -> User:
        user = self.request.user
        assert isinstance(user, User)
        return user


class PipelineView(PipelinesView):
    """A route under /pipelines/{id}: `pipeline` is its row."""

    pipeline: Pipeline

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.pipeline = find_pipeline(kwargs["pipeline_id"])
        if needed_role(self, request.method or "") is not Role.VIEWER:
            check_owner(request.user, Owned(f"Pipeline {self.pipeline.name}", self.pipeline.owner))


def _pipeline_errors(error: Exception, context: dict[str, Any]) -> Response:
    known = _as_known(error)
    response = product_errors(known, context)
    if isinstance(error, NotDeployableError):
        response.data["problems"] = [problem.to_json() for problem in error.problems]
    if isinstance(error, StateRefusedError):
        response.data["report"] = error.report.to_json()
    if isinstance(known, PreconditionFailed):
        response.data["current"] = known.current
    return response


def _as_known(error: Exception) -> exceptions.APIException:
    match error:
        case services.PipelineUnknownError() | services.VersionUnknownError():
            return exceptions.NotFound(str(error))
        case services.HeadMovedError(head=head):
            return PreconditionFailed(str(error), "head_moved", version_json(head))
        case services.DraftMovedError(draft=draft):
            return PreconditionFailed(str(error), "draft_moved", None if draft is None else draft_json(draft))
        case services.KeyTakenError():
            return Conflict(str(error), "key_taken")
        case NotDeployableError():
            return Conflict(str(error), "not_deployable")
        case OtherRunsError():
            return Conflict(str(error), "other_runs")
        case StateRefusedError():
            return Conflict(str(error), "state_refused")
        case services.PipelineError():
            return Conflict(str(error))
        case DocumentRefused(pointer=pointer, reason=reason):
            return exceptions.ValidationError({f"document{pointer}": reason}, "bad_document")
        case _:
            return as_api_exception(error)


# --- requests ---------------------------------------------------------------------------------------------------------


def find_pipeline(pipeline_id: str) -> Pipeline:
    """Return a pipeline.

    Raises:
        NotFound: there is none.
        ValidationError: the id is malformed.
    """
    if not _ID.fullmatch(pipeline_id):
        raise exceptions.ValidationError({"pipeline_id": "A pipeline's id is 32 lower-case hex digits."})
    return services.get_pipeline(pipeline_id)


def body_of(request: Request) -> Mapping[str, Any]:
    """Return the body, a JSON object."""
    if not isinstance(request.data, dict):
        raise exceptions.ParseError("The body must be a JSON object.")
    return request.data


def document_of(body: Mapping[str, Any]) -> Checked:
    """Return the document in a body.

    Raises:
        ValidationError: there is none.
        DocumentRefused: it cannot be stored.
    """
    if "document" not in body:
        raise exceptions.ValidationError({"document": "A document is needed."})
    return check(body["document"])


def text_of(body: Mapping[str, Any], name: str, limit: int) -> str:
    """Return a text of a body, "" if it is not there."""
    value = body.get(name) or ""
    if not is_clean_text(value) or len(value) > limit:
        raise exceptions.ValidationError({name: f"Must be text, up to {limit} characters."})
    return str(value)


def message_of(body: Mapping[str, Any]) -> str:
    """Return the message for a version."""
    return text_of(body, "message", MAX_MESSAGE_CHARS)


def tags_of(body: Mapping[str, Any]) -> list[str] | None:
    """Return tags, without repetition; None: the body has none."""
    tags = body.get("tags")
    if tags is None:
        return None
    is_list = isinstance(tags, list) and len(tags) <= MAX_TAGS
    if not is_list or not all(is_clean_text(tag) and 0 < len(tag) <= MAX_TAG_CHARS for tag in tags):
        reason = f"Must be a list of up to {MAX_TAGS} texts of up to {MAX_TAG_CHARS} characters."
        raise exceptions.ValidationError({"tags": reason})
    return list(dict.fromkeys(tags))


def number_of(body: Mapping[str, Any], name: str) -> int:
    """Return the number of a version in a body."""
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise exceptions.ValidationError({name: "Must be the number of a version."})
    return value


def key_of(request: Request) -> str | None:
    """Return the Idempotency-Key; None: none was sent."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        reason = "Must be 8 to 100 printable ASCII characters without blanks."
        raise exceptions.ValidationError({"Idempotency-Key": reason})
    return key


def seen_head(request: Request) -> int:
    """Return the head that the client has seen, from If-Match."""
    match = _TAG.fullmatch(_if_match(request, "the number of the head"))
    if match is None or not 1 <= int(match[1]) < 2**31:
        raise exceptions.ValidationError({"If-Match": 'Must be the number of the head in quotes: "7".'})
    return int(match[1])


def seen_draft(request: Request) -> str | None:
    """Return the draft's tag that the client has seen, from If-Match; None: it has seen none (If-None-Match: *)."""
    if request.headers.get("If-None-Match") == "*":
        return None
    match = _DRAFT_TAG.fullmatch(_if_match(request, "the draft's ETag, or If-None-Match: *"))
    if match is None:
        raise exceptions.ValidationError({"If-Match": "Must be the ETag of the draft."})
    return match[1]


def draft_in(body: Mapping[str, Any]) -> services.SeenDraft | None:
    """Return the draft that the author of a version has seen; None: the body says nothing of it."""
    if "draft" not in body:
        return None
    tag = body["draft"]
    if tag is not None and not (isinstance(tag, str) and _DRAFT_TAG.fullmatch(f'"{tag}"')):
        raise exceptions.ValidationError({"draft": "Must be the tag of the draft, or null."})
    return services.SeenDraft(tag)


def _if_match(request: Request, what: str) -> str:
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionRequired(f"The header If-Match is required, with {what}.")
    return given


# --- rows as JSON -----------------------------------------------------------------------------------------------------


def listed_version(version: Version) -> VersionListed:
    """Return a version without its document."""
    return {
        "number": version.number,
        "semantic_hash": version.semantic_hash,
        "message": version.message,
        "author": name_of(version.author),
        "created_at": version.created_at,
    }


def version_json(version: Version) -> VersionAnswer:
    """Return a version with its document."""
    return {**listed_version(version), "document": version.value}


def draft_json(draft: Draft) -> DraftAnswer:
    """Return a draft with its document."""
    return {
        "tag": draft.tag,
        "base": draft.base,
        "semantic_hash": draft.semantic_hash,
        "updated_at": draft.updated_at,
        "document": draft.value,
    }


def name_of(user: User | None) -> str | None:
    """Return a user's name; None: there is none any more."""
    return None if user is None else user.get_username()
