"""REST routes of peeks: rows of an edge of a running job, or dropped as late, while somebody looks.

Rows may be personal data: they are for operators, and each beginning and end leaves an audit event. Who looks asks
again and again, and the peek ends when that stops; it belongs to the user who has begun it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, Final

import redis
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.errors import Conflict, Unavailable
from backend.accounts.roles import Role
from backend.accounts.views import ProductView
from backend.audit import trail
from backend.cluster import bus, services
from backend.cluster.events import MAX_PEEKED_ROWS, MAX_PEEKED_SUBTASKS
from backend.cluster.peek_document import SeenByPeek, SeenElement
from backend.contract.operation import operation
from backend.live.answers import PeekAnswer, PeekBegun, PeekPosition, PeekRequest
from backend.live.api import check_job
from runtime.core.ids import operator_id_of

#: the leader is told so long after the last time that somebody still looks
RENEWAL_S: Final = 5
#: a leader has told something of a peek by then
ANSWER_MS: Final = 5_000
NOTHING: Final[SeenByPeek] = {"elements": [], "rows": 0, "dropped": 0, "subtasks": [], "problem": ""}
SILENCE: Final = "the JobManager has told nothing of this peek yet"
MAX_SUBTASK: Final = 1 << 15
_ID: Final = re.compile("[0-9a-f]{32}")


class PeeksView(ProductView):
    """Begins a peek: a POST, because it leaves an audit event."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(PeekBegun, body=PeekRequest, status=201)
    def post(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = request.data if isinstance(request.data, dict) else {}
        rows, subtasks = body.get("rows", MAX_PEEKED_ROWS), body.get("subtasks", [])
        if type(rows) is not int or not 1 <= rows <= MAX_PEEKED_ROWS:
            raise exceptions.ValidationError({"rows": f"Must be a number, 1 to {MAX_PEEKED_ROWS}."})
        if not isinstance(subtasks, list) or len(subtasks) > MAX_PEEKED_SUBTASKS:
            raise exceptions.ValidationError({"subtasks": f"Must be at most {MAX_PEEKED_SUBTASKS} numbers."})
        if any(type(subtask) is not int or not 0 <= subtask < MAX_SUBTASK for subtask in subtasks):
            raise exceptions.ValidationError({"subtasks": "Must be numbers of subtasks."})
        wanted = {"job": job_id, "edge": _edge(job_id, body), "subtasks": subtasks, "rows": rows}
        if services.get_job(job_id).is_terminal:
            raise Conflict("The job has ended: no rows pass its edges.")
        if "late" in body:
            wanted["late"] = True
            trail.note(request._request, late=str(body["late"]))
        else:
            trail.note(request._request, edge=str(body.get("edge") or body.get("operator")), rows=rows)
        peek_id = uuid.uuid4().hex
        try:
            services.begin_peek(peek_id, wanted, request.user.get_username())
        except redis.RedisError as error:
            raise Unavailable("Redis does not answer: rows cannot be shown.") from error
        return Response({"id": peek_id, "lease": bus.PEEK_LEASE_S * 1_000}, status=201)


class PeekView(ProductView):
    """Returns what a peek has seen. Each look makes it last longer."""

    roles = dict.fromkeys(("GET", "HEAD", "DELETE"), Role.OPERATOR)

    @operation(PeekAnswer, query=PeekPosition)
    def get(self, request: Request, job_id: str, peek_id: str) -> Response:
        after = request.query_params.get("after", "0")
        if not after.isascii() or not after.isdigit() or len(after) > 16:
            raise exceptions.ValidationError({"after": "Must be the number of an element."})
        try:
            lease, left_s = _own(request, job_id, peek_id)
            if left_s < bus.PEEK_LEASE_S - RENEWAL_S:
                if services.get_job(job_id).is_terminal:
                    services.end_peek(job_id, peek_id)
                    raise exceptions.NotFound("The peek has ended with its job.")
                services.renew_peek(peek_id, lease["wanted"])
            seen = services.seen_by_peek(peek_id)
        except redis.RedisError as error:
            raise Unavailable("Redis does not answer: rows cannot be shown.") from error
        if seen is None:
            is_silent = services.now_ms() - lease["begun"] > ANSWER_MS
            return Response(NOTHING | {"problem": SILENCE if is_silent else ""})
        return Response(seen | {"elements": _behind(seen["elements"], int(after))})

    @operation(Nothing)
    def delete(self, request: Request, job_id: str, peek_id: str) -> Response:
        try:
            _own(request, job_id, peek_id)
            services.end_peek(job_id, peek_id)
        except redis.RedisError as error:
            raise Unavailable("Redis does not answer: the peek ends by itself.") from error
        return Response({})


def _behind(elements: Sequence[SeenElement], after: int) -> Sequence[SeenElement]:
    """Return the elements behind that position; all, if it is of a leader whose clock was ahead of this one's."""
    if elements and elements[-1]["number"] < after:
        return elements
    return [element for element in elements if element["number"] > after]


def _own(request: Request, job_id: str, peek_id: str) -> tuple[dict[str, Any], float]:
    """Return the lease of a peek, and how many seconds are left of it.

    Raises:
        NotFound: it has ended, or is another user's, or another job's.
    """
    if not _ID.fullmatch(peek_id):
        raise exceptions.NotFound("There is no such peek.")
    lease, left_s = services.peek_lease(peek_id)
    if lease is None or lease["user"] != request.user.get_username() or lease["wanted"]["job"] != job_id:
        raise exceptions.NotFound("There is no such peek, or it has ended.")
    return lease, left_s


def _edge(job_id: str, body: dict[str, Any]) -> int | str:
    """Return the edge, or the operator that drops late records, as events name it.

    Raises:
        NotFound: the job has no such edge.
    """
    document, _ = services.read_job(job_id)
    edge, operator, late = body.get("edge"), body.get("operator"), body.get("late")
    if [edge, operator, late].count(None) != 2:
        why = "Name one of an edge, the operator that one in a chain leads to, and one that drops late records."
        raise exceptions.ValidationError({"edge": why})
    for vertex in document["vertices"]:
        if edge is not None and any(each.get("edge") == edge for each in vertex["inputs"]):
            return int(str(edge))
        if any(each["uid"] == operator and "input" in each for each in vertex["operators"]):
            return operator_id_of(str(operator))
        if any(each["uid"] == late for each in vertex["operators"]):
            return operator_id_of(str(late))
    raise exceptions.NotFound("The job has no such edge.")
