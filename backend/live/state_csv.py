"""CSV, for spreadsheets, of what was found in state. Pure.

Texts in state may be anybody's: what a spreadsheet would take for a formula gets an apostrophe before it. Formulas
begin not only where a cell does: in countries that write decimals with a comma, spreadsheets part cells at semicolons,
and do not see our quotes, so that cells of theirs also begin behind a semicolon, a tab or a new line.
Source: OWASP, CSV Injection.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

MAX_ROWS: Final = 10_000
#: what a formula begins with, also of full width
_SIGNS: Final = (
    "=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
#: where a cell may begin, with all that spreadsheets pass over before they look; a pattern that looks further on itself
#: takes time that is quadratic in the length of such a run
_BEGINNING: Final = re.compile(r"""(?:^|[;\t\r\n])[\s;\ufeff\0"]*""")
#: passed over by some spreadsheets, whatever follows
_PASSED_OVER: Final = ("\t", "\r", "\n", "\0")
#: a number is no formula
_NUMBER: Final = re.compile(r"-[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV file with a header."""

    text: str
    num_rows: int
    """Without the header."""
    is_cut: bool
    """There were more rows, or a part of a value was left out."""


def keys_table(found: Mapping[str, Any]) -> Table:
    """Return the keys of `runtime.client.state_lookup.first_keys`, a row each."""
    rows = ((each["key"], each["encoded_key"]) for each in found["keys"])
    return _table(("key", "encoded_key"), rows, not found["is_all"])


def lookup_table(found: Mapping[str, Any]) -> Table:
    """Return the values of a `runtime.client.state_documents.lookup_document`, a row for each item of a list or map."""
    values = found["values"]
    is_cut = len(values) < found["num_values"] or any(_is_cut(value) for value in values)
    rows = ((found["key"], value["namespace"], *item) for value in values for item in _items(value))
    return _table(("key", "namespace", "item", "value", "touched"), rows, is_cut)


def _items(value: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield index or key, value and time of the items; of what is not decoded, nothing but its place."""
    items, touched = value["value"], value["touched"]
    if value["num_items"] is None or not isinstance(items, list):
        yield None, items, touched
        return
    times = touched if isinstance(touched, list) else []
    for index, item in enumerate(items):
        is_entry = isinstance(item, dict) and item.keys() == {"key", "value"}
        name, part = (item["key"], item["value"]) if is_entry else (index, item)
        yield name, part, times[index] if index < len(times) else None


def _is_cut(value: Mapping[str, Any]) -> bool:
    items = value["value"]
    return value["is_cut"] or (isinstance(items, list) and len(items) < (value["num_items"] or 0))


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]], is_cut: bool) -> Table:
    remaining = iter(rows)
    written = [list(map(_cell, row)) for row in islice(remaining, MAX_ROWS)]
    has_more = next(remaining, None) is not None
    text = io.StringIO()
    csv.writer(text).writerows([header, *written])
    return Table(text.getvalue(), len(written), is_cut or has_more)


def _cell(value: Any) -> str:
    """Return JSON as a cell: a number is one, also if it is negative, or a text because JSON cannot hold it."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if _NUMBER.fullmatch(text):
        return text
    neutral = _BEGINNING.sub(_marked, text)
    return f"'{neutral}" if neutral == text and text.startswith(_PASSED_OVER) else neutral


def _marked(beginning: re.Match[str]) -> str:
    sign = beginning.string[beginning.end() : beginning.end() + 1]
    return f"{beginning[0]}'" if sign and sign in _SIGNS else beginning[0]
