"""Checks values against JSON Schema: the part of it that node types use, and nothing that has to compile code.

Known: type, enum, const, properties, required, additionalProperties, propertyNames, items, prefixItems, minItems,
maxItems, uniqueItems, minLength, maxLength, pattern, minimum, maximum, exclusiveMinimum, oneOf and the formats
`duration` and `type`. A branch of oneOf is chosen by the constants of its properties, so that messages are about the
branch that is meant. Pure.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from runtime.common.time import Duration
from runtime.common.typeinfo import parse_type

KNOWN = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "propertyNames", "items"}
    | {"prefixItems", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "minimum", "maximum"}
    | {"exclusiveMinimum", "oneOf", "format", "default", "title", "description", "examples", "$schema"}
)
FORMATS = ("duration", "type")
LONGEST = Duration.of_days(36_525)
"""Beyond it, sums of times would leave the range of 64 bits somewhere."""
MAX_DEPTH = 64
"""Of values; deeper ones would exhaust Python's stack."""
#: of a pattern: an escaped sign, a class of signs, or an end
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


_KINDS: Mapping[str, Any] = {
    "string": str,
    "number": (int, float),
    "array": list,
    "object": dict,
    "null": type(None),
}


class Violation(NamedTuple):
    """A place where a value is not as its schema says."""

    pointer: str
    message: str
    is_missing: bool
    """Whether something is still to be filled in, rather than wrong."""


def violations(schema: Mapping[str, Any], value: Any, pointer: str = "") -> Iterator[Violation]:
    """Yield where a value differs from its schema, in the order of the value."""
    if "oneOf" in schema:
        branch = chosen(schema["oneOf"], value)
        if branch is None:
            yield Violation(pointer, f"must be one of: {', '.join(_kinds(schema['oneOf']))}", value is None)
            return
        yield from violations(branch, value, pointer)
        return
    types = schema.get("type")
    if types is not None and not _is_one_of(value, types):
        names = types if isinstance(types, str) else " or ".join(types)
        yield Violation(pointer, f"must be a value of type {names}", value is None)
        return
    if "const" in schema and value != schema["const"]:
        yield Violation(pointer, f"must be {schema['const']!r}", False)
    if "enum" in schema and value not in schema["enum"]:
        yield Violation(pointer, f"must be one of: {', '.join(map(str, schema['enum']))}", value == "")
    if isinstance(value, str):
        yield from _text(schema, value, pointer)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number(schema, value, pointer)
    elif isinstance(value, list):
        yield from _list(schema, value, pointer)
    elif isinstance(value, dict):
        yield from _object(schema, value, pointer)


def with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value with defaults filled in, in the order of the schema's properties. The value fits the schema."""
    if "oneOf" in schema:
        branch = chosen(schema["oneOf"], value)
        return value if branch is None else with_defaults(branch, value)
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", []), schema.get("items")
        parts = [first[index] if index < len(first) else rest for index in range(len(value))]
        return [with_defaults(p, item) if isinstance(p, dict) else item for p, item in zip(parts, value, strict=True)]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    others = schema.get("additionalProperties")
    for name, part in schema.get("properties", {}).items():
        if name in value:
            made[name] = with_defaults(part, value[name])
        elif "default" in part:
            made[name] = with_defaults(part, copy.deepcopy(part["default"]))
    for name, item in value.items():
        if name not in made:
            made[name] = with_defaults(others, item) if isinstance(others, dict) else item
    return made


def chosen(branches: list[Mapping[str, Any]], value: Any) -> Mapping[str, Any] | None:
    """Return the branch of oneOf that a value means; None if it means none."""
    for branch in branches:
        if branch.get("type") == "null":
            if value is None:
                return branch
        elif isinstance(value, dict) and all(
            value.get(name) == part["const"] for name, part in branch.get("properties", {}).items() if "const" in part
        ):
            return branch
    return None


def _kinds(branches: list[Mapping[str, Any]]) -> Iterator[str]:
    for branch in branches:
        if branch.get("type") == "null":
            yield "nothing"
        for name, part in branch.get("properties", {}).items():
            if "const" in part:
                yield f"{name} = {part['const']}"


def _is_one_of(value: Any, types: str | list[str]) -> bool:
    if isinstance(types, str):
        return _is_a(value, types)
    return any(_is_a(value, name) for name in types)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _KINDS.get(name, ()))


def _text(schema: Mapping[str, Any], value: str, pointer: str) -> Iterator[Violation]:
    least = schema.get("minLength", 0)
    if len(value) < least:
        yield Violation(pointer, "must not be empty" if least == 1 else f"needs {least} characters", not value)
        return
    if len(value) > schema.get("maxLength", math.inf):
        yield Violation(pointer, f"must have at most {schema['maxLength']} characters", False)
    if "pattern" in schema and _pattern(schema["pattern"]).search(value) is None:
        yield Violation(pointer, schema.get("x-pattern-message", f"must match {schema['pattern']}"), False)
    if schema.get("format") == "duration":
        try:
            nanos = Duration.parse(value).nanos
        except ValueError as error:
            yield Violation(pointer, str(error), not value)
        else:
            if abs(nanos) > LONGEST.nanos:
                yield Violation(pointer, "must be at most 100 years", False)
    elif schema.get("format") == "type":
        try:
            parse_type(value)
        except (ValueError, RecursionError, IndexError):
            yield Violation(pointer, f"{value[:80]!r} is not a type", not value)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern of JSON Schema, where `$` is the very end: Python's also matches before a line end there."""
    return re.compile(_PARTS.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern))


def _number(schema: Mapping[str, Any], value: float, pointer: str) -> Iterator[Violation]:
    if value < schema.get("minimum", -math.inf):
        yield Violation(pointer, f"must be at least {schema['minimum']}", False)
    if value <= schema.get("exclusiveMinimum", -math.inf):
        yield Violation(pointer, f"must be above {schema['exclusiveMinimum']}", False)
    if value > schema.get("maximum", math.inf):
        yield Violation(pointer, f"must be at most {schema['maximum']}", False)


def _list(schema: Mapping[str, Any], value: list[Any], pointer: str) -> Iterator[Violation]:
    if len(value) < schema.get("minItems", 0):
        yield Violation(pointer, f"needs at least {schema['minItems']}", True)
    if len(value) > schema.get("maxItems", math.inf):
        yield Violation(pointer, f"must have at most {schema['maxItems']} items", False)
    first = schema.get("prefixItems", [])
    for index, item in enumerate(value):
        part = first[index] if index < len(first) else schema.get("items", True)
        if isinstance(part, dict):
            yield from violations(part, item, f"{pointer}/{index}")
        elif part is False:
            yield Violation(f"{pointer}/{index}", "is one item too many", False)
        if schema.get("uniqueItems") and item in value[:index]:
            yield Violation(f"{pointer}/{index}", "occurs twice", False)


def _object(schema: Mapping[str, Any], value: dict[str, Any], pointer: str) -> Iterator[Violation]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield Violation(f"{pointer}/{escaped(name)}", "is missing", True)
    for name, item in value.items():
        place = f"{pointer}/{escaped(name)}"
        if "propertyNames" in schema:
            yield from violations(schema["propertyNames"], name, place)
        part = properties.get(name, schema.get("additionalProperties", True))
        if isinstance(part, dict):
            yield from violations(part, item, place)
        elif part is False:
            yield Violation(place, "is not known here", False)


def escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def depth_of(value: Any, limit: int = MAX_DEPTH) -> int:
    """Return how deep a value is nested; at most `limit` + 1."""
    depth, level = 0, [value]
    while level and depth <= limit:
        nested = [
            list(item.values()) if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list))
        ]
        level = [item for items in nested for item in items]
        depth += 1
    return depth


def schema_faults(schema: Any, pointer: str = "") -> Iterator[str]:
    """Yield what a schema has that is not known here, or that is wrong; for checks of node types."""
    if not isinstance(schema, dict):
        yield f"{pointer or '/'}: must be an object"
        return
    for name in schema:
        if name not in KNOWN and not name.startswith("x-"):
            yield f"{pointer}/{name}: is not known"
    if "format" in schema and schema["format"] not in FORMATS:
        yield f"{pointer}/format: must be one of {', '.join(FORMATS)}"
    for name in ("oneOf", "prefixItems"):
        for index, part in enumerate(schema.get(name, ())):
            yield from schema_faults(part, f"{pointer}/{name}/{index}")
    for name, part in schema.get("properties", {}).items():
        yield from schema_faults(part, f"{pointer}/properties/{name}")
    for name in ("items", "additionalProperties", "propertyNames"):
        if not isinstance(schema.get(name, True), bool):
            yield from schema_faults(schema[name], f"{pointer}/{name}")
    if "default" in schema:
        for violation in violations(schema, schema["default"]):
            if not violation.is_missing:
                yield f"{pointer}/default{violation.pointer}: {violation.message}"
