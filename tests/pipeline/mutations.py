"""Changes one parameter of a pipeline at random, to what is right, wrong, or at the border of both."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.pipeline import Catalog

_TEXTS = (
    *("", "x", "x y", "id", "price", "word", "at", "ratio", "event_time", "window_end", "__x", "a.b", "NULL", "null"),
    *("-1 s", "0 s", "1 ms", "5 s", "100 d", "1 = 1", "price > 1", "price", "count(*)", "sum(price)"),
    *("long", "string", "double", "sql_timestamp"),
)
_NUMBERS = (0, 1, -1, 2, 0.5, 10**12, None)
#: what they hold is compared with the program when that is extracted: no problem can tell it before
_TOLD_AT_EXTRACTION = {("python.stream", "outputs"), ("python.stream", "inputs"), ("python.stream", "function")}
Path = tuple[str | int, ...]


def mutated(value: dict[str, Any], draw: random.Random, catalog: Catalog, kind: str) -> tuple[dict[str, Any], str]:
    """Return a document with one parameter changed, and what was changed.

    Args:
        value: the document.
        draw: where choices come from.
        catalog: of the types.
        kind: the type of node that is changed more often than others.
    """
    value = copy.deepcopy(value)
    favoured = [node for node in value["nodes"].values() if node["type"] == kind]
    node = draw.choice(favoured if favoured and draw.random() < 0.6 else list(value["nodes"].values()))
    places = [(path, item) for path, item in _places(node["params"]) if path and _may_change(node["type"], path)]
    if not places:
        return value, "nothing"
    path, item = draw.choice(places)
    new = _other(item, draw, list(_choices(catalog.types[node["type"]].schema)))
    holder = node["params"]
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = new
    return value, f"{node['type']} {'/'.join(map(str, path))}: {item!r} becomes {new!r}"


def _may_change(kind: str, path: Path) -> bool:
    return "code" not in path and (kind, path[0]) not in _TOLD_AT_EXTRACTION


def _places(item: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a parameter with its path; rows that a source has as such, as one."""
    yield path, item
    if path and path[0] == "rows":
        return
    steps = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for step, part in steps:
        yield from _places(part, (*path, step))


def _choices(schema: Any) -> Iterator[str]:
    """Yield the texts that fields of a form can be chosen from."""
    if isinstance(schema, Mapping):
        chosen = [*schema.get("enum", ()), schema.get("const")]
        yield from (text for text in chosen if isinstance(text, str))
        for part in schema.values():
            yield from _choices(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _choices(part)


def _other(item: Any, draw: random.Random, choices: list[str]) -> Any:
    if isinstance(item, bool):
        return not item
    if isinstance(item, int | float):
        return draw.choice(_NUMBERS)
    if isinstance(item, str):
        return draw.choice([*_TEXTS, *choices])
    if isinstance(item, list):
        return draw.choice([[], item[:-1], item + item[-1:], item[::-1]])
    if isinstance(item, dict):
        return {name: part for name, part in item.items() if draw.random() < 0.7}
    return draw.choice([0, 1, "x", "5 s", True, None])
