"""JobID: a job's id as programs see it. Source: PyFlink, common/job_id.py."""

from __future__ import annotations

import re

__all__ = ["JobID"]


class JobID:
    """Id of a job: 32 hex digits.

    Raises:
        ValueError: the text is not 32 hex digits.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not re.fullmatch("[0-9a-f]{32}", text):
            raise ValueError(f"JobID: 32 hex digits are needed, not {text!r}")
        self._text = text

    def to_hex_string(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"JobID({self._text!r})"
