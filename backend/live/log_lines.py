"""Text search in logs. Blocking; any thread."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backend.live.log_text import LogText

MAX_MATCHES: Final = 1000
DEFAULT_MATCHES: Final = 200
MAX_QUERY_CHARS: Final = 500
MAX_TEXT_CHARS: Final = 500
"""Maximum length of a line shown as a match."""
MAX_LINE_BYTES: Final = 1 << 20
"""Maximum length of a line in a search; the rest of a longer line is searched as a separate line."""
SEARCH_S: Final = 2.0
"""A search stops after this time and reports how far it got; the next request continues from there."""
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Match:
    """A line that contains the text."""

    line: int
    """Line number, from 1."""
    offset: int
    """Offset of its first byte."""
    text: str
    """The line without its line end; at most 500 characters around the first match."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    matches: list[Match]
    searched_to: int
    """All lines that begin before this byte have been searched."""
    is_complete: bool
    """True if the whole file was searched."""


def search(
    log: LogText,
    query: str,
    *,
    is_case_sensitive: bool = False,
    start: int = 0,
    limit: int = DEFAULT_MATCHES,
    monotonic: Callable[[], float] = time.monotonic,
) -> Found:
    """Find the lines that contain a text.

    Args:
        log: the log.
        query: the literal text, without line breaks.
        is_case_sensitive: whether "Error" differs from "error".
        start: offset of the first line to search.
        limit: maximum number of matches.
        monotonic: clock in seconds.
    """
    # for bytes, re.IGNORECASE covers ASCII letters only
    texts = [query] if is_case_sensitive else [query, query.lower(), query.upper()]
    pattern = re.compile(
        b"|".join(re.escape(text.encode()) for text in texts), 0 if is_case_sensitive else re.IGNORECASE
    )
    deadline = monotonic() + SEARCH_S
    matches: list[Match] = []
    at = min(max(start, log.begin), log.end)
    line = log.line_at(at)
    while at < log.end:
        # whole lines only, so that no match is cut in two; data written during the search is not searched
        block = log.read(at, _BLOCK_BYTES)
        if at + len(block) < log.end and not block.endswith(b"\n"):
            block += log.read_line(at + len(block), MAX_LINE_BYTES)
        starts = [0, *(found.end() for found in re.finditer(b"\n", block))]
        reached = -1
        for found in pattern.finditer(block):
            index = bisect_right(starts, found.start()) - 1
            if index <= reached:
                continue
            if len(matches) == limit:
                return Found(matches, at + starts[index], False)
            reached = index
            end = starts[index + 1] if index + 1 < len(starts) else len(block)
            text = _shown(block[starts[index] : end], found.start() - starts[index])
            matches.append(Match(line + index, at + starts[index], text))
        at += len(block)
        line += len(starts) - 1
        if at < log.end and monotonic() > deadline:
            return Found(matches, at, False)
    return Found(matches, log.end, True)


def _shown(line: bytes, place: int) -> str:
    """Return the line, or for a long line the part around the match."""
    text = line.rstrip(b"\r\n").decode(errors="replace")
    if len(text) <= MAX_TEXT_CHARS:
        return text
    before = len(line[:place].decode(errors="replace"))
    begin = max(0, min(before - MAX_TEXT_CHARS // 4, len(text) - MAX_TEXT_CHARS))
    return text[begin : begin + MAX_TEXT_CHARS]
