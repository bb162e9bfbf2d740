"""Writing to the audit trail. Any thread with a database connection.

An act has happened by the time it is written down: if the database does not take the event, it goes to the log, whole.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.db import Error, transaction
from django.http import HttpRequest
from django.utils.module_loading import import_string

from backend.audit.models import AuditEvent
from backend.audit.redaction import redacted_together

logger = logging.getLogger(__name__)

DONE: Final = "done"
DENIED: Final = "denied"
FAILED: Final = "failed"
MAX_DETAIL_CHARS: Final = 2000
_NOTES = "tidemark_audit_notes"
_ACTOR = "tidemark_audit_actor"


def record(
    action: str,
    *,
    user: str = "",
    token: str = "",
    address: str = "",
    object: str = "",
    result: str = DONE,
    status: int | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Write an event; never raises. Of requests of nobody that failed, some are left out where there are very many.

    Args:
        action: what was done; see `AuditEvent`.
        user, token, address: who did it; empty: the cluster itself.
        object: what it was done to.
        result: DONE, DENIED or FAILED.
        status: of the HTTP answer.
        detail: JSON; what looks like a secret in it is hidden.
    """
    left_out_s = 0
    if address and not user and not token and result != DONE:
        is_listed, left_out_s = import_string(settings.TIDEMARK_ANONYMOUS_EVENTS)(action, address)
        if not is_listed:
            return
    # here and nowhere else: views note what they are told. The names are theirs, and mean no secret
    shown = {name: _storable(value) for name, value in redacted_together(detail or {}).items()}
    told = {name: value if _fits(value) else "…" for name, value in shown.items()}
    if left_out_s:
        told["left_out"] = f"further requests without a login, for up to {left_out_s} s"
    event = AuditEvent(
        at=time.time_ns() // 1_000_000,
        user=_clean(user, 150),
        token=_clean(token, 100),
        address=_clean(address, 64),
        action=_clean(action, 150),
        object=_clean(object, 255),
        result=result,
        status=status,
        detail=told,
    )
    try:
        # a savepoint, should the caller be within a transaction
        with transaction.atomic():
            event.save(force_insert=True)
    except Error:
        logger.exception("an audit event could not be stored: %s %s", event, json.dumps(told))


def note(request: HttpRequest, /, **detail: Any) -> None:
    """Add to the event that the request will leave: what a view alone knows, as a role before and after."""
    notes: dict[str, Any] = getattr(request, _NOTES, {})
    setattr(request, _NOTES, notes | detail)


def notes_of(request: HttpRequest) -> Mapping[str, Any]:
    """Return what views have noted."""
    found: Mapping[str, Any] = getattr(request, _NOTES, {})
    return found


def acted_by(request: HttpRequest, name: str) -> None:
    """Say whose request it is, where that is not known behind the view: of a logout."""
    setattr(request, _ACTOR, name)


def actor_of(request: HttpRequest) -> str:
    """Return what a view has said with `acted_by`; "" if it has not."""
    name: str = getattr(request, _ACTOR, "")
    return name


def _fits(value: object) -> bool:
    return len(json.dumps(value, default=str)) <= MAX_DETAIL_CHARS


def _storable(value: Any) -> Any:
    """Return JSON that every database takes: PostgreSQL's takes neither NUL nor a lone surrogate, also in escapes."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_storable(str(name)): _storable(part) for name, part in value.items()}
    return [_storable(part) for part in value] if isinstance(value, list | tuple) else value


def _clean(text: str, limit: int) -> str:
    """Return text that every database takes."""
    return text.replace("\0", "").encode(errors="replace").decode()[:limit]
