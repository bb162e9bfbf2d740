"""The functions of SQL expressions, as an editor offers them. Pure, but for a table that is part of the package."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

#: name → what it takes, and what it gives; `aggregates.KINDS` has the same names
AGGREGATES = {
    "count": "(*) → number of rows",
    "sum": "(x) → sum; null without values",
    "min": "(x) → the least",
    "max": "(x) → the greatest",
    "avg": "(x) → DOUBLE, the mean",
    "first": "(x) → the first that came",
    "last": "(x) → the last that came",
    "count_distinct": "(x) → number of different values",
    "collect": "(x) → LIST of all values, with nulls; takes no FILTER",
    "approx_quantile": "(x, quantile, error = 0.01) → DOUBLE",
}


@cache
def sql_functions() -> tuple[dict[str, Any], ...]:
    """Return the functions: {"name", "detail", "is_aggregate"}, in the order of the table.

    Operators and other forms of the table are left out; of a name that occurs twice, the first is taken.
    """
    found = {name: {"name": name, "detail": detail, "is_aggregate": True} for name, detail in AGGREGATES.items()}
    table = files("runtime.operators.columnar") / "expression_functions.json"
    for row in json.loads(table.read_text(encoding="utf-8"))["functions"]:
        name, signature = row["name"], row["signature"]
        if signature.startswith(f"{name}("):
            made = {"name": name, "detail": signature[len(name) :], "is_aggregate": False}
            found.setdefault(name, made)
    return tuple(found.values())
