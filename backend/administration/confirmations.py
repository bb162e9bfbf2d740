"""The page between a choice and an act: it names what will happen to each row, and what has happened to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from backend.accounts.errors import as_api_exception
from backend.administration.acts import Act, Asking, RefusedAct, name_of
from backend.administration.site import site
from backend.audit import trail
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import new_id
from backend.cluster.program_files import StorageProblem
from backend.dispatcher.presence import has_left

MAX_ROWS: Final = 100
"""Of one act: each is a request of its own, and somebody has to read what happens to it."""
MAX_REFUSAL_CHARS: Final = 200
"""Of a row in the audit trail; the page has it all."""
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Line:
    """Text about one row: what will happen or has happened, or why not."""

    name: str
    text: str
    is_refused: bool


def _told(line: Line) -> str:
    """Return what the audit trail has of a row: no secret, and no output of a program."""
    return f"refused: {line.text[:MAX_REFUSAL_CHARS]}" if line.is_refused else "done"


class Confirmation:
    """View of an act of a table: GET asks, POST acts.

    Args:
        act: what is asked for.
        table: the table whose rows it is asked for.
    """

    def __init__(self, act: Act, table: Any) -> None:
        self._act = act
        self._table = table
        meta = table.model._meta
        self._list = f"admin:{meta.app_label}_{meta.model_name}_changelist"

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.POST if request.method == "POST" else request.GET
        ids = list(dict.fromkeys(given.getlist("id")))
        if not 1 <= len(ids) <= (MAX_ROWS if self._act.takes_many else 1):
            most = f"1 to {MAX_ROWS} rows" if self._act.takes_many else "one row"
            return self._page(request, [], status=400, problem=f"{self._act.label}: choose {most}.")
        found = self._table.get_queryset(request).in_bulk(ids)
        rows = [found[key] for key in ids if key in found]
        gone = [Line(key[:100], "It does not exist.", True) for key in ids if key not in found]
        if request.method == "POST":
            return self._act_on(request, rows, gone)
        status = 200 if rows else 404
        return self._page(request, [*self._prospects(rows), *gone], self._act.form(rows), ids, status)

    def _act_on(self, request: HttpRequest, rows: Sequence[Any], gone: list[Line]) -> HttpResponse:
        request_id = request.POST.get("request", "")
        form = self._act.form(rows, request.POST)
        if not rows or not _ID.fullmatch(request_id) or not form.is_valid():
            lines = [*self._prospects(rows), *gone]
            return self._page(request, lines, form, [str(row.pk) for row in rows], 400 if rows else 404)
        asking = Asking(request.user, request_id, form.cleaned_data, has_left(request))
        done = [self._do(row, asking) for row in rows]
        refused = [line for line in (*done, *gone) if line.is_refused]
        told = {line.name: _told(line) for line in (*done, *gone)}
        trail.note(request, **(told | {"act": self._act.name}))
        if refused:
            is_partial = len(refused) < len(done) + len(gone)
            problem = "Not all of it was done." if is_partial else "Nothing was done."
            # 207: each row has its own answer
            return self._page(request, [*done, *gone], status=207 if is_partial else 409, problem=problem)
        for line in done:
            messages.success(request, format_html("{}: {}: {}", self._act.label, line.name, line.text))
        return HttpResponseRedirect(reverse(self._list))

    def _do(self, row: Any, asking: Asking) -> Line:
        try:
            return Line(name_of(row), self._act.do(row, asking), False)
        except RefusedAct as error:
            return Line(name_of(row), str(error), True)
        except (OperationalError, StorageProblem, StorageSilentError) as error:
            return Line(name_of(row), str(as_api_exception(error).detail), True)

    def _prospects(self, rows: Sequence[Any]) -> list[Line]:
        lines = []
        for row in rows:
            obstacle = self._act.obstacle(row)
            lines.append(Line(name_of(row), obstacle or self._act.effect(row), obstacle is not None))
        return lines

    def _page(
        self,
        request: HttpRequest,
        lines: Sequence[Line],
        form: Any = None,
        ids: Sequence[str] = (),
        status: int = 200,
        problem: str = "",
    ) -> HttpResponse:
        can = form is not None and any(not line.is_refused for line in lines)
        sent = request.POST.get("request", "") if request.method == "POST" else ""
        context = {
            **site.each_context(request),
            "title": self._act.label,
            "act": self._act,
            "lines": lines,
            "form": form if can else None,
            "ids": ids,
            "request_id": sent if _ID.fullmatch(sent) else new_id(),
            "problem": problem,
            "back": reverse(self._list),
            "opts": self._table.model._meta,
        }
        return TemplateResponse(request, "administration/confirmation.html", context, status=status)
