"""Fields of forms: pieces of JSON Schema with the widget that shows them. Pure."""

from __future__ import annotations

from typing import Any

MAX_TEXT = 10_000


def form(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def titled(schema: dict[str, Any], title: str, help: str = "") -> dict[str, Any]:
    """Return a field with a title."""
    return {**schema, "title": title, **({"description": help} if help else {})}


def text(default: str | None = None, widget: str | None = None, least: int = 1) -> dict[str, Any]:
    """Return a field of text."""
    return _field({"type": "string", "minLength": least, "maxLength": MAX_TEXT}, default, widget)


def optional_text() -> dict[str, Any]:
    return {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_TEXT, "default": None}


def integer(default: int | None = None, least: int | None = None, most: int | None = None) -> dict[str, Any]:
    return _field({"type": "integer", **_bounds(least, most)}, default, None)


def optional_integer(least: int | None = None, most: int | None = None) -> dict[str, Any]:
    return {"type": ["integer", "null"], **_bounds(least, most), "default": None}


def optional_rate() -> dict[str, Any]:
    """Return a field for a number a second, above 0."""
    return {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1e9, "default": None}


def boolean(default: bool = False) -> dict[str, Any]:
    return {"type": "boolean", "default": default}


def choice(*values: str, default: str | None = None) -> dict[str, Any]:
    return _field({"enum": list(values)}, default, None)


def duration(default: str | None = None) -> dict[str, Any]:
    return _field({"type": "string", "format": "duration"}, default, "duration")


def optional_duration() -> dict[str, Any]:
    return {"type": ["string", "null"], "format": "duration", "default": None, "x-widget": "duration"}


def sql(default: str | None = None) -> dict[str, Any]:
    """Return a field for an SQL expression."""
    return _field({"type": "string", "minLength": 1, "maxLength": 16_384}, default, "sql")


def column(port: str = "in") -> dict[str, Any]:
    """Return a field for a column of an input."""
    return {"type": "string", "minLength": 1, "maxLength": MAX_TEXT, "x-widget": "column", "x-port": port}


def columns(port: str = "in", least: int = 1) -> dict[str, Any]:
    """Return a field for columns of an input."""
    return {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        "minItems": least,
        "maxItems": 1_000,
        "uniqueItems": True,
        "x-widget": "columns",
        "x-port": port,
        **({"default": []} if least == 0 else {}),
    }


def pairs(first: dict[str, Any], second: dict[str, Any], widget: str, least: int = 1) -> dict[str, Any]:
    """Return a field for a list of pairs."""
    item = {"type": "array", "prefixItems": [first, second], "items": False, "minItems": 2}
    return {"type": "array", "items": item, "minItems": least, "maxItems": 1_000, "x-widget": widget}


def expressions(widget: str) -> dict[str, Any]:
    """Return a field for a list of [name, SQL expression]; the widget "aggregates" offers aggregates there."""
    return pairs(text(), {**sql(), **({"x-aggregates": True} if widget == "aggregates" else {})}, widget)


def row_type(least: int = 1) -> dict[str, Any]:
    """Return a field for the columns of records: a list of [name, type], or the name of a type of the pipeline."""
    columns = pairs(text(), {"type": "string", "format": "type"}, "schema", least)
    return {**columns, "type": ["array", "string"], "minLength": least, **({"default": []} if least == 0 else {})}


def python(default: list[str]) -> dict[str, Any]:
    """Return a field for Python, a line an item."""
    line = {"type": "string", "pattern": r"^[^\n\r]*\Z"}
    return {"type": "array", "items": line, "minItems": 1, "default": default, "x-widget": "python"}


def one_of(*branches: dict[str, Any], default: Any = None) -> dict[str, Any]:
    """Return a field with a choice of forms; each has a field "kind" with a constant."""
    return {"oneOf": list(branches), **({} if default is None else {"default": default})}


def branch(kind: str, required: tuple[str, ...] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    """Return a form for `one_of`."""
    return form(("kind", *required), kind={"const": kind}, **properties)


def names_in(value: Any) -> str:
    """Return the names in a list of names, or of lists that begin with one: "auction, euros"."""
    if not isinstance(value, list):
        return ""
    firsts = [item[0] if isinstance(item, list) and item else item for item in value]
    return ", ".join(first for first in firsts if isinstance(first, str))


def per(keys: Any) -> str:
    """Return the words for keys: "per auction, bidder"; "" without keys."""
    names = names_in(keys)
    return f"per {names}" if names else ""


def _field(schema: dict[str, Any], default: Any, widget: str | None) -> dict[str, Any]:
    return {
        **schema,
        **({} if default is None else {"default": default}),
        **({} if widget is None else {"x-widget": widget}),
    }


def _bounds(least: int | None, most: int | None) -> dict[str, Any]:
    return {**({} if least is None else {"minimum": least}), **({} if most is None else {"maximum": most})}
