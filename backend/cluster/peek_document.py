"""Document of what a peek has seen, as the leader writes it. Pure.

Slots have masked and shortened what is in it. Code of users runs there, so that nothing of it is taken for granted
here: what is no JSON is dropped, and texts are shown as all texts of users are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Literal, NoReturn, TypedDict, cast

from backend.audit.redaction import redacted_text
from backend.cluster.document_types import Watermark
from runtime.core.elements import MAX_WATERMARK
from runtime.core.well_formed import well_formed
from runtime.jobmaster.peeks import NumberedElement, PeekView
from runtime.task.messages import PeekedElement

MAX_SAFE = 2**53 - 1
MAX_TEXT_CHARS = 100
MAX_DEPTH = 50
"""Of values; slots show no more than a few levels."""
WITH_VALUE = ("row", "late")
"""Kinds of elements whose text is a value as JSON."""

ElementKind = Literal["row", "watermark", "status", "barrier", "end", "late"]


class SeenElement(TypedDict):
    """A row, or a mark between rows."""

    number: int
    """Grows by one with each element."""
    kind: ElementKind
    """late: a record that an operator has dropped."""
    subtask: int
    passed_at: int
    """Epoch ms, by the clock of its host."""
    timestamp: Watermark
    """Of a row its event time, null if it has none; of a watermark its own; epoch ms."""
    watermark: Watermark
    """Of a record that was dropped as late: the watermark that had passed its time; else null."""
    value: Any
    """Of a row, shortened and masked."""
    text: str
    """Of a status "ACTIVE" or "IDLE", of a barrier the number of its checkpoint; else empty."""
    row_kind: str
    """"+I", "-U", "+U" or "-D"; empty: the row has none."""
    is_cut: bool
    """Parts of the value are left out."""


class SeenByPeek(TypedDict):
    elements: list[SeenElement]
    """The newest, in order of their arrival."""
    rows: int
    """Rows that have passed, shown or not."""
    dropped: int
    """Rows and marks that were too much, or could not be shown."""
    subtasks: list[int]
    """Those that are looked at."""
    problem: str
    """Why there is nothing to be seen; empty: there may be."""


class PeekDocuments:
    """Makes documents of the peeks at one job, again and again. Each element is read once: most are in many of them,
    and to look for secrets in them takes time, of which the leader has little.
    """

    def __init__(self) -> None:
        #: by peek and number; None: it cannot be shown
        self._known: dict[str, dict[int, tuple[PeekedElement, SeenElement | None]]] = {}

    def of(self, view: PeekView) -> SeenByPeek:
        """Return the document of what a peek has seen."""
        known = self._known.get(view.peek_id, {})
        read: dict[int, tuple[PeekedElement, SeenElement | None]] = {}
        for numbered in view.elements:
            number, element = numbered
            before = known.get(number)
            is_known = before is not None and before[0] is element
            read[number] = before if before is not None and is_known else (element, _element(numbered))
        self._known[view.peek_id] = read
        return _document(view, [seen for _, seen in read.values() if seen is not None])

    def keep(self, peek_ids: Iterable[str]) -> None:
        """Forget all peeks but these."""
        for peek_id in self._known.keys() - set(peek_ids):
            del self._known[peek_id]


def _document(view: PeekView, elements: list[SeenElement]) -> SeenByPeek:
    return {
        "elements": elements,
        "rows": min(view.num_rows, MAX_SAFE),
        "dropped": min(view.num_dropped + len(view.elements) - len(elements), MAX_SAFE),
        "subtasks": list(view.subtasks),
        "problem": view.problem,
    }


def _element(numbered: NumberedElement) -> SeenElement | None:
    number, element = numbered
    value = None
    if element.kind in WITH_VALUE:
        try:
            value = _shown(json.loads(element.text, parse_constant=_refused), 0)
        except (ValueError, RecursionError):
            return None
    return {
        "number": number,
        "kind": cast(ElementKind, element.kind),
        "subtask": element.subtask,
        "passed_at": min(max(element.passed_ms, 0), MAX_SAFE),
        "timestamp": _time(element.timestamp),
        "watermark": _time(element.watermark),
        "value": value,
        "text": "" if element.kind in WITH_VALUE else redacted_text(well_formed(element.text))[:MAX_TEXT_CHARS],
        "row_kind": well_formed(element.row_kind)[:2],
        "is_cut": element.is_cut,
    }


def _time(timestamp: int | None) -> Watermark:
    if timestamp == MAX_WATERMARK:
        return "max"
    return timestamp if timestamp is not None and abs(timestamp) <= MAX_SAFE else None


def _shown(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, str):
        return redacted_text(well_formed(value))
    if isinstance(value, list):
        return [_shown(item, depth + 1) for item in value]
    if isinstance(value, dict):
        # of a map names are values, too
        return {redacted_text(well_formed(name)): _shown(item, depth + 1) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("no number of JSON")
    return value


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
