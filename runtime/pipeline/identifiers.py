"""Names of columns as they stand in SQL. Pure."""

from __future__ import annotations

from runtime.operators.columnar.expressions import quoted

WORDS = frozenset(
    {"and", "as", "asc", "between", "by", "case", "cast", "desc", "distinct", "else", "end", "escape", "false"}
    | {"filter", "from", "ilike", "in", "interval", "is", "like", "not", "null", "or", "regexp", "rlike", "then"}
    | {"true", "when", "where"}
)
"""Words of SQL that are no columns where they stand without quotes."""


def identifier(name: str) -> str:
    """Return a column's name as it stands in SQL: in quotes if it has to."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in WORDS and name == name.lower()
    return name if plain else quoted(name)
