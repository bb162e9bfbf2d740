"""What a method of a view takes and answers. The server only carries it; generator and tests read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_ATTRIBUTE = "contract"
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one route."""

    answer: Any
    """Type of the answer's body; None: every request is refused."""
    body: Any = None
    """Type of the request's body; None: it takes none."""
    query: Any = None
    """A `TypedDict` of the query's parameters; None: it takes none."""
    status: int = 200
    """Status of the answer if nothing fails."""
    media_type: str = "application/json"
    """Of the request's body."""
    answer_media_type: str = "application/json"
    """Of the answer's body."""


def operation(
    answer: Any,
    *,
    body: Any = None,
    query: Any = None,
    status: int = 200,
    media_type: str = "application/json",
    answer_media_type: str = "application/json",
) -> Callable[[Method], Method]:
    """Declare what a view's method takes and answers; see `Operation`."""
    declared = Operation(answer, body, query, status, media_type, answer_media_type)

    def attach(method: Method) -> Method:
        setattr(method, _ATTRIBUTE, declared)
        return method

    return attach


def operation_of(method: Any) -> Operation | None:
    """Return what was declared for a view's method; None: nothing."""
    found = getattr(method, _ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None
