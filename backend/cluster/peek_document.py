"""Document of what a peek has seen, as the leader writes it. Pure.

Slots have masked and shortened what is in it. Code of users runs there, so that nothing of it is taken for granted
here: what is no JSON is dropped, and texts are shown as all texts of users are.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypedDict, cast

from backend.cluster.document_types import Watermark
from backend.cluster.redaction import redacted_text
from runtime.core.elements import MAX_WATERMARK
from runtime.core.well_formed import well_formed
from runtime.jobmaster.peeks import NumberedElement, PeekView

MAX_SAFE = 2**53 - 1
MAX_TEXT_CHARS = 100

ElementKind = Literal["row", "watermark", "status", "barrier", "end"]


class SeenElement(TypedDict):
    """A row, or a mark between rows."""

    number: int
    """Grows by one with each element."""
    kind: ElementKind
    subtask: int
    passed_at: int
    """Epoch ms, by the clock of its host."""
    timestamp: Watermark
    """Of a row its event time, null if it has none; of a watermark its own; epoch ms."""
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


def peek_document(view: PeekView) -> SeenByPeek:
    """Return the document of what a peek has seen."""
    elements = [seen for seen in map(_element, view.elements) if seen is not None]
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
    if element.kind == "row":
        try:
            value = _shown(json.loads(element.text))
        except (ValueError, RecursionError):
            return None
    return {
        "number": number,
        "kind": cast(ElementKind, element.kind),
        "subtask": element.subtask,
        "passed_at": element.passed_ms,
        "timestamp": _time(element.timestamp),
        "value": value,
        "text": "" if element.kind == "row" else redacted_text(well_formed(element.text))[:MAX_TEXT_CHARS],
        "row_kind": well_formed(element.row_kind)[:2],
        "is_cut": element.is_cut,
    }


def _time(timestamp: int | None) -> Watermark:
    if timestamp == MAX_WATERMARK:
        return "max"
    return timestamp if timestamp is not None and abs(timestamp) <= MAX_SAFE else None


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return redacted_text(well_formed(value))
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _shown(item) for name, item in value.items()}
    return value
