"""The catalog: all node types, those that come with Tidemark and those of third parties.

A distribution adds types by an entry point in the group `tidemark.nodes`: an object with `NODE_TYPES`, a sequence of
`NodeType` classes, whose names have a dot behind the vendor's name. One that cannot be loaded is listed as broken, with
its traceback; the others work.
"""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from runtime.pipeline.catalog import (
    aggregates,
    columns,
    connections,
    generator,
    joins,
    json_columns,
    kafka,
    python,
    python_calls,
    python_streams,
    python_two,
    python_windows,
    replay,
    sinks,
    sources,
    time,
    windows,
)
from runtime.pipeline.json_schema import schema_faults
from runtime.pipeline.node_type import NodeType
from runtime.pipeline.sql_words import sql_functions

GROUP = "tidemark.nodes"
_OWN = (
    *(sources, generator, replay, time, columns, json_columns, windows, python_windows, aggregates),
    *(joins, python, python_two, python_calls, python_streams, sinks, connections, kafka),
)
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


@dataclass(frozen=True)
class Catalog:
    """Node types by name. Immutable: the same object serves any number of pipelines and threads.

    Attributes:
        types: that work.
        broken: name of an entry point, or of a type → why it could not be loaded.
    """

    types: Mapping[str, NodeType]
    broken: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> NodeType | None:
        """Return a type; None if there is none of that name."""
        return self.types.get(name)

    @property
    def param_orders(self) -> Mapping[str, Iterable[str]]:
        """Return for each type its parameters in the order of its form."""
        return {name: tuple(found.schema.get("properties", {})) for name, found in self.types.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the catalog for the page; "etag" changes with anything in it."""
        value = {
            "types": [found.to_json() for found in self.types.values()],
            "functions": list(sql_functions()),
            "broken": [{"name": name, "traceback": text} for name, text in sorted(self.broken.items())],
        }
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        return {**value, "etag": digest[:32]}


def own_types() -> list[NodeType]:
    """Return the types that come with Tidemark, in the order of the palette."""
    return [node_type() for module in _OWN for node_type in module.NODE_TYPES]


def load_catalog(found: Iterable[EntryPoint] | None = None) -> Catalog:
    """Return the catalog with everything that is installed.

    Args:
        found: entry points of third parties; None: those of this environment.
    """
    types = {node_type.type: node_type for node_type in own_types()}
    broken: dict[str, str] = {}
    points = entry_points(group=GROUP) if found is None else found
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            classes = list(point.load().NODE_TYPES)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            broken[point.name] = traceback.format_exc()
            continue
        for node_class in classes:
            name = str(getattr(node_class, "type", node_class))
            try:
                types[name] = _checked(node_class, types)
            except Exception:
                broken[name] = traceback.format_exc()
    return Catalog(types, broken)


def _checked(node_class: Any, types: Mapping[str, NodeType]) -> NodeType:
    if not (isinstance(node_class, type) and issubclass(node_class, NodeType)):
        raise TypeError(f"{node_class!r} is not a NodeType")
    node_type = node_class()
    name = node_type.type
    if "." not in name or _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r}: the type of a third party is named vendor.name, in lower case")
    if name in types:
        raise ValueError(f"there are two node types {name!r}")
    faults = list(schema_faults(node_type.schema))
    if faults:
        raise ValueError(f"the schema of {name!r} is wrong: {'; '.join(faults)}")
    # what the page would ask for
    json.dumps(node_type.to_json())
    return node_type
