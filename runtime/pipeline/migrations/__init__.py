"""Migrations: bring documents of earlier versions of the format to the present one, step by step. Pure.

A step is a module `NNNN_….py` beside this one with `VERSION`, the version that it makes, and `migrate(value)`, which
returns a new value. There is none yet: version 1 is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

VERSION = 1
"""The present version."""
STEPS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version → what brings a document from the one before it to it."""


def migrated(
    value: dict[str, Any],
    steps: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = STEPS,
    to: int = VERSION,
) -> dict[str, Any]:
    """Return a document in the present version.

    Raises:
        ValueError: its version is none, or is of a later Tidemark.
    """
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"must be a version of the format, not {version!r}")
    if version > to:
        raise ValueError(f"version {version} is of a later Tidemark; this one reads versions up to {to}")
    for step in range(version + 1, to + 1):
        value = {**steps[step](value), "version": step}
    return value
