"""Problems of a document, as every route that looks at one tells them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Place(TypedDict):
    node: str
    field: str


class Fix(TypedDict):
    title: str
    patch: list[dict[str, Any]]
    """RFC 6902, on the document."""


class Problem(TypedDict):
    id: str
    node: str | None
    port: str | None
    field: str | None
    """JSON pointer below the node."""
    span: list[int] | None
    """Offsets in the field's text, from and to."""
    severity: Literal["error", "incomplete", "warning", "info"]
    code: str
    message: str
    hint: str
    fixes: list[Fix]
    related: list[Place]
