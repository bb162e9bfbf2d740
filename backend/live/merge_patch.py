"""JSON merge patches, which turn one document into another. Source: RFC 7386.

Arrays are replaced as a whole. A member that becomes null is removed by the patch: readers treat a missing member of a
live document as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch from `before` to `after`; empty if they are equal."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the document with the patch merged into it; neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged
