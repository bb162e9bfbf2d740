"""The difference of two documents, by node and edge: what a person would say has changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PARTS = ("description", "settings", "parameters", "types", "code", "samples", "tests")


@dataclass(frozen=True, slots=True)
class Change:
    """A value that differs."""

    pointer: str
    """JSON pointer below what has changed."""
    before: Any
    """None: it is not there; null in JSON, too."""
    after: Any

    def to_json(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "before": self.before, "after": self.after}


def document_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what changes from one document to another.

    Args:
        before: a document's JSON.
        after: another one's.

    Returns:
        {"nodes": {"added", "removed", "changed", "moved"}, "edges": {"added", "removed", "changed"}, "settings"}.
        Ids are sorted; "changed" is [{"id", "name", "changes"}], "settings" are the changes of all that belongs to no
        node or edge and is no layout, "moved" the nodes of which only the position differs.
    """
    nodes = _by_id(before.get("nodes", {}), after.get("nodes", {}))
    positions = [_positions(document) for document in (before, after)]
    kept = before.get("nodes", {}).keys() & after.get("nodes", {}).keys()
    moved = sorted(node for node in kept if positions[0].get(node) != positions[1].get(node))
    changes = [
        change for part in ("name", *_PARTS) for change in changes_of(before.get(part), after.get(part), f"/{part}")
    ]
    return {
        "nodes": {**nodes, "moved": moved},
        "edges": _by_id(before.get("edges", {}), after.get("edges", {})),
        "settings": [change.to_json() for change in changes],
    }


def changes_of(before: Any, after: Any, pointer: str = "") -> Iterator[Change]:
    """Yield the values that differ, the smallest ones; lists of different length as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted(before.keys() | after.keys()):
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from changes_of(before.get(name), after.get(name), place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes_of(one, other, f"{pointer}/{index}")
    elif before != after or type(before) is not type(after):
        yield Change(pointer, before, after)


def _by_id(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    changed = []
    for item in sorted(before.keys() & after.keys()):
        changes = [change.to_json() for change in changes_of(before[item], after[item])]
        if changes:
            changed.append({"id": item, "name": after[item].get("name", item), "changes": changes})
    return {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": changed,
    }


def _positions(document: Mapping[str, Any]) -> Mapping[str, Any]:
    layout = document.get("layout")
    positions = layout.get("positions") if isinstance(layout, Mapping) else None
    return positions if isinstance(positions, Mapping) else {}
