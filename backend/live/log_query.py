"""A search in the log of a job, as a request or a message of a page asks for it, and its answer.

The REST route asks once, the WebSocket again and again. Blocking: making a search reads the database, its looking reads
Redis and the storage of logs only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rest_framework import exceptions

from backend.accounts.views import is_clean_text
from backend.cluster import services
from backend.cluster.program_files import storage_problems
from backend.cluster.storage_calls import LOGS, ask
from backend.live.api import check_job, number_of
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
from backend.live.process_logs import Kind, processes_of, read_processes
from runtime.core.ids import operator_id_of
from runtime.task.log_records import LEVELS, VERTEX_CHARS, written_levels

MAX_TEXT_CHARS: Final = 4_000
"""Of an entry; of a longer one the part around what was looked for is shown."""
_MAX_NUMBER: Final = 10**9 - 1
_KINDS: Final = ("", "out", "log", "jobmanager", "taskmanager")


@dataclass(frozen=True, slots=True)
class JobLogSearch:
    """A search in the log of a job."""

    job_id: str
    wanted: Wanted
    kind: str
    """One of `_KINDS`; empty: all."""
    attempt: int
    """-1: all."""
    slot: int
    """-1: all."""
    limit: int
    is_backward: bool
    cursor: LogCursor | None
    vertices: Sequence[str]
    """Ids of the job's vertices."""
    operators: Mapping[str, str]
    """First digits of an operator's id → its uid."""
    processes: Sequence[tuple[Kind, str]]
    """Kind and id of those whose logs are searched, too."""
    now_ms: int

    @classmethod
    def of(cls, job_id: str, query: Mapping[str, str]) -> JobLogSearch:
        """Return the search that a query asks for, which has the names of `answers.JobLogQuery`.

        Raises:
            ValidationError: it asks for what does not exist.
            JobUnknownError: the job does not.
        """
        check_job(job_id)
        text = query.get("q", "")
        if len(text) > MAX_QUERY_CHARS or not is_clean_text(text) or "\n" in text:
            raise exceptions.ValidationError({"q": f"Must be one line of text, up to {MAX_QUERY_CHARS} characters."})
        document = services.job_document(job_id)
        vertices = document["vertices"]
        ids = [vertex["id"] for vertex in vertices]
        uids = [operator["uid"] for vertex in vertices for operator in vertex["operators"]]
        level = _one_of(query, "level", ("", *LEVELS))
        vertex = _one_of(query, "vertex", ("", *ids))
        operator = _one_of(query, "operator", ("", *uids))
        kind = _one_of(query, "kind", _KINDS)
        if vertex or operator:
            if kind not in ("", "log"):
                raise exceptions.ValidationError({"kind": "Only what slots have logged has a vertex or an operator."})
            kind = "log"
        if level and kind == "out":
            raise exceptions.ValidationError({"kind": "What was printed has neither level nor vertex."})
        since = number_of(query, "from", -1, 0, 2**50)
        is_backward = _one_of(query, "order", ("newest", "oldest")) == "newest"
        attempt, slot = (number_of(query, name, -1, 0, _MAX_NUMBER) for name in ("attempt", "slot"))
        is_of_slots = kind in ("out", "log") or attempt >= 0 or slot >= 0
        return cls(
            job_id,
            Wanted(
                lowered_texts(text) if text else (),
                frozenset(name.encode() for name in written_levels(level)) if level else None,
                vertex[:VERTEX_CHARS].encode(),
                operator_id_of(operator)[:VERTEX_CHARS].encode() if operator else b"",
                None if since < 0 else since,
            ),
            kind,
            attempt,
            slot,
            number_of(query, "limit", DEFAULT_ENTRIES, 1, MAX_ENTRIES),
            is_backward,
            _cursor(query, is_backward),
            ids,
            {operator_id_of(uid)[:VERTEX_CHARS]: uid for uid in uids},
            [] if is_of_slots else processes_of(document, kind),
            services.now_ms(),
        )

    def look(self) -> dict[str, Any]:
        """Return the next entries, as `answers.JobLog` describes them.

        Raises:
            APIException: the storage of logs does not answer, or cannot be read.
        """
        # backward, what is wanted lies before a position
        positions = {} if self.cursor is None or self.is_backward else self.cursor.positions
        processes = read_processes(self.processes, positions)

        def search() -> FoundEntries:
            return search_job_log(
                list(filter(self._is_chosen, list_logs(self.job_id))),
                self.wanted,
                is_backward=self.is_backward,
                cursor=self.cursor,
                limit=self.limit,
                now_ms=self.now_ms,
                job_id=self.job_id,
                processes=processes,
            )

        with storage_problems(LOGS):
            found = ask(LOGS, search)
        return {
            "entries": [self._shown(entry) for entry in found.entries],
            "cursor": None if found.cursor is None else str(found.cursor),
            "follow": str(found.follow),
            "is_complete": found.is_complete,
            "searched_to": found.searched_to,
            "left": found.left_bytes,
            "size": found.size,
            "logs": found.num_logs,
            "left_out": found.num_left_out,
        }

    def _is_chosen(self, file: LogFile) -> bool:
        if file.kind == "out" and self.wanted.levels is not None:
            return False
        return self.attempt in (-1, file.attempt) and self.slot in (-1, file.slot) and self.kind in ("", file.kind)

    def _shown(self, entry: Entry) -> dict[str, Any]:
        head = entry.head
        body = entry.data if head is None else entry.data[head.size :]
        text = body.decode(errors="replace").rstrip("\r\n")
        is_cut = len(text) > MAX_TEXT_CHARS
        if is_cut:
            text = _around(text, body, self.wanted.texts)
        vertex = "" if head is None else head.vertex
        return {
            "time": entry.time_ms,
            "level": "" if head is None else head.level,
            "attempt": entry.file.attempt,
            "slot": entry.file.slot,
            "kind": entry.file.kind,
            "vertex": next((known for known in self.vertices if known.startswith(vertex)), "") if vertex else "",
            "subtask": None if head is None else head.subtask,
            "operator": "" if head is None else self.operators.get(head.operator, ""),
            "name": entry.file.name,
            "offset": entry.offset,
            "text": text,
            "is_cut": is_cut,
        }


def _one_of(query: Mapping[str, str], name: str, values: Sequence[str]) -> str:
    """Return a parameter of the query that has one of these values, the first one if it is missing.

    Raises:
        ValidationError: it has another one.
    """
    value = query.get(name, values[0])
    if value in values:
        return value
    if name in ("vertex", "operator"):
        raise exceptions.ValidationError({name: f"The job has no {name} {value[:100]!r}."})
    raise exceptions.ValidationError({name: f"Must be one of {', '.join(filter(None, values))}."})


def _cursor(query: Mapping[str, str], is_backward: bool) -> LogCursor | None:
    text = query.get("cursor")
    if text is None:
        return None
    try:
        cursor = LogCursor.of(text)
    except CursorError as error:
        raise exceptions.ValidationError({"cursor": "Must be the cursor of an answer."}) from error
    if cursor.is_backward != is_backward:
        raise exceptions.ValidationError({"cursor": "Is of an answer with another order."})
    return cursor


def _around(text: str, body: bytes, texts: Sequence[bytes]) -> str:
    """Return the part of a text in which the first match is, or its begin."""
    lowered = body.lower()
    first = min((at for at in map(lowered.find, texts) if at >= 0), default=0)
    before = len(body[:first].decode(errors="replace"))
    begin = 0 if before < MAX_TEXT_CHARS // 2 else min(before - MAX_TEXT_CHARS // 4, len(text) - MAX_TEXT_CHARS)
    return text[begin : begin + MAX_TEXT_CHARS]
