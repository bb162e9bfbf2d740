"""JSON Schema (2020-12, as in OpenAPI 3.1) of Python types. Pure.

`TypedDict` and `NamedTuple` classes, and aliases marked with `Named`, become components of their own name; all else is
written where it is used. A string below a field of a class is the field's description, as in dataclasses.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{}"
_PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


@dataclass(frozen=True, slots=True)
class Named:
    """Marks an alias as a component: `JobState = Annotated[Literal["RUNNING", …], Named("JobState")]`."""

    name: str
    description: str = ""
    pattern: str = ""
    """Of a text."""
    typescript: str = ""
    """The type in TypeScript, where that can say more than a schema."""


class ContractError(Exception):
    """A type that has no schema, or two types of one name."""


class Schemas:
    """Collects the components of all types that it is asked for."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._types: dict[str, Any] = {}

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type.

        Raises:
            ContractError: it has none, or another type has its name.
        """
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            mark = next((extra for extra in arguments[1:] if isinstance(extra, Named)), None)
            if mark is None:
                return self.of(arguments[0])
            return self._component(mark.name, kind, lambda: self._alias(arguments[0], mark))
        if is_typeddict(kind):
            return self._component(kind.__name__, kind, lambda: self._object(kind))
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._component(kind.__name__, kind, lambda: self._row(kind))
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin in (list, Sequence):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in (dict, Mapping):
            return self._map(*arguments)
        raise ContractError(f"{kind!r} has no JSON Schema")

    def _component(self, name: str, kind: Any, make: Any) -> Schema:
        if name not in self._types:
            self._types[name] = kind
            # a placeholder first: the type may contain itself
            self.components[name] = {}
            self.components[name].update(make())
        elif self._types[name] != kind:
            raise ContractError(f"two types are called {name}")
        return {"$ref": REFERENCE.format(name)}

    def _alias(self, kind: Any, mark: Named) -> Schema:
        extra = {"pattern": mark.pattern, "x-typescript": mark.typescript}
        return _described(self.of(kind), mark.description) | {key: text for key, text in extra.items() if text}

    def _object(self, kind: Any) -> Schema:
        documentation = _field_descriptions(kind)
        properties: dict[str, Schema] = {}
        required = []
        for name, hint in get_type_hints(kind, include_extras=True).items():
            is_required = kind.__total__ and get_origin(hint) is not NotRequired
            plain = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
            properties[name] = _described(self.of(plain), documentation.get(name, ""))
            if is_required:
                required.append(name)
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return _described(schema, _description(kind))

    def _row(self, kind: Any) -> Schema:
        documentation = _field_descriptions(kind)
        hints = get_type_hints(kind, include_extras=True)
        items = [
            _described({"title": name, **self.of(hints[name])}, documentation.get(name, "")) for name in kind._fields
        ]
        schema = {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        return _described(schema, _description(kind))

    def _map(self, key: Any, value: Any) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.of(value)}
        if key is not str:
            schema["propertyNames"] = self.of(key)
        return schema


def _described(schema: Schema, description: str) -> Schema:
    return {"description": description, **schema} if description else schema


def _description(kind: Any) -> str:
    text = kind.__dict__.get("__doc__") or ""
    # what NamedTuple writes by itself
    return "" if text.startswith(f"{kind.__name__}(") else inspect.cleandoc(text)


def _field_descriptions(kind: Any) -> dict[str, str]:
    """Return field → the string literal below it, of the class and of those that it extends."""
    found: dict[str, str] = {}
    for base in getattr(kind, "__orig_bases__", ()):
        if is_typeddict(base):
            found |= _field_descriptions(base)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        # made by a call, which has no place for them
        return found
    return found | dict(_written_below(tree.body[0]))


def _written_below(node: ast.stmt) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.ClassDef):
        return
    for field, below in zip(node.body, node.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            yield field.target.id, inspect.cleandoc(str(below.value.value))  # type: ignore[attr-defined]
