"""CSV, for spreadsheets, of what was found in state. Pure.

Texts in state may be anybody's: one that a spreadsheet would take for a formula gets an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

MAX_ROWS: Final = 10_000
#: what spreadsheets take for the beginning of a formula; of a tab and a carriage return they look at what follows
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


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
    """Return JSON as a cell: a number is one, also if it is negative."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if value.startswith(_FORMULA) else value
