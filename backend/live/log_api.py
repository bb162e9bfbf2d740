"""REST route of a job's log: the logs of all its slots as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView, is_clean_text
from backend.cluster import services
from backend.cluster.program_files import storage_problems
from backend.cluster.storage_calls import LOGS, ask
from backend.contract.operation import operation
from backend.live.answers import JobLog, JobLogQuery
from backend.live.api import check_job, query_number
from backend.live.job_log import (
    DEFAULT_ENTRIES,
    MAX_ENTRIES,
    CursorError,
    FoundEntries,
    LogCursor,
    lowered_texts,
    search_job_log,
)
from backend.live.log_lines import MAX_QUERY_CHARS
from backend.live.log_scan import Entry, Wanted
from backend.live.logs import LogFile, list_logs
from runtime.task.log_records import LEVELS, VERTEX_CHARS, written_levels

MAX_TEXT_CHARS: Final = 4_000
"""Of an entry; of a longer one the part around what was looked for is shown."""
_MAX_NUMBER = 10**9 - 1


class JobLogView(ProductView):
    """All logs of a job by time; a request searches for two seconds, or 2 GiB, and says where the next one goes on."""

    @operation(JobLog, query=JobLogQuery)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        query = request.query_params.get("q", "")
        if len(query) > MAX_QUERY_CHARS or not is_clean_text(query) or "\n" in query:
            raise exceptions.ValidationError({"q": f"Must be one line of text, up to {MAX_QUERY_CHARS} characters."})
        vertices = [vertex["id"] for vertex in services.job_document(job_id)["vertices"]]
        level = _one_of(request, "level", ("", *LEVELS))
        vertex = _one_of(request, "vertex", ("", *vertices))
        kind = _one_of(request, "kind", ("", "out", "log"))
        if level or vertex:
            if kind == "out":
                raise exceptions.ValidationError({"kind": "What was printed has neither level nor vertex."})
            kind = "log"
        attempt, slot = (query_number(request, name, -1, 0, _MAX_NUMBER) for name in ("attempt", "slot"))
        since = query_number(request, "from", -1, 0, 2**50)
        limit = query_number(request, "limit", DEFAULT_ENTRIES, 1, MAX_ENTRIES)
        is_backward = _one_of(request, "order", ("newest", "oldest")) == "newest"
        cursor = _cursor(request, is_backward)
        wanted = Wanted(
            lowered_texts(query) if query else (),
            frozenset(name.encode() for name in written_levels(level)) if level else None,
            vertex[:VERTEX_CHARS].encode(),
            None if since < 0 else since,
        )
        now_ms = services.now_ms()

        def is_chosen(file: LogFile) -> bool:
            return attempt in (-1, file.attempt) and slot in (-1, file.slot) and kind in ("", file.kind)

        def look() -> FoundEntries:
            files = list(filter(is_chosen, list_logs(job_id)))
            return search_job_log(files, wanted, is_backward=is_backward, cursor=cursor, limit=limit, now_ms=now_ms)

        with storage_problems(LOGS):
            found = ask(LOGS, look)
        return Response(
            {
                "entries": [_shown(entry, wanted.texts, vertices) for entry in found.entries],
                "cursor": None if found.cursor is None else str(found.cursor),
                "follow": str(found.follow),
                "is_complete": found.is_complete,
                "searched_to": found.searched_to,
                "left": found.left_bytes,
                "size": found.size,
                "logs": found.num_logs,
                "left_out": found.num_left_out,
            }
        )


def _one_of(request: Request, name: str, values: Sequence[str]) -> str:
    """Return a parameter of the query that has one of these values, the first one if it is missing.

    Raises:
        ValidationError: it has another one.
    """
    value: str = request.query_params.get(name, values[0])
    if value in values:
        return value
    if name == "vertex":
        raise exceptions.ValidationError({name: f"The job has no vertex {value[:100]!r}."})
    raise exceptions.ValidationError({name: f"Must be one of {', '.join(filter(None, values))}."})


def _cursor(request: Request, is_backward: bool) -> LogCursor | None:
    text = request.query_params.get("cursor")
    if text is None:
        return None
    try:
        cursor = LogCursor.of(text)
    except CursorError as error:
        raise exceptions.ValidationError({"cursor": "Must be the cursor of an answer."}) from error
    if cursor.is_backward != is_backward:
        raise exceptions.ValidationError({"cursor": "Is of an answer with another order."})
    return cursor


def _shown(entry: Entry, texts: Sequence[bytes], vertices: Sequence[str]) -> Mapping[str, Any]:
    head = entry.head
    body = entry.data if head is None else entry.data[head.size :]
    text = body.decode(errors="replace").rstrip("\r\n")
    is_cut = len(text) > MAX_TEXT_CHARS
    if is_cut:
        text = _around(text, body, texts)
    vertex = "" if head is None else head.vertex
    return {
        "time": entry.time_ms,
        "level": "" if head is None else head.level,
        "attempt": entry.file.attempt,
        "slot": entry.file.slot,
        "kind": entry.file.kind,
        "vertex": next((known for known in vertices if known.startswith(vertex)), "") if vertex else "",
        "subtask": None if head is None else head.subtask,
        "name": entry.file.name,
        "offset": entry.offset,
        "text": text,
        "is_cut": is_cut,
    }


def _around(text: str, body: bytes, texts: Sequence[bytes]) -> str:
    """Return the part of a text in which the first match is, or its begin."""
    lowered = body.lower()
    first = min((at for at in map(lowered.find, texts) if at >= 0), default=0)
    before = len(body[:first].decode(errors="replace"))
    begin = 0 if before < MAX_TEXT_CHARS // 2 else min(before - MAX_TEXT_CHARS // 4, len(text) - MAX_TEXT_CHARS)
    return text[begin : begin + MAX_TEXT_CHARS]
