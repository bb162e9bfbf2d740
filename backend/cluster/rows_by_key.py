"""Rows by a key, for what every request asks: the ORM takes longer to write such a query than the database to answer.

Any thread with a database connection.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TypeVar

from django.db import connection
from django.db.models import Model

Row = TypeVar("Row", bound=Model)


def row_by_key(model: type[Row], key: str, value: object, without: Collection[str] = ()) -> Row | None:
    """Return the row that has a value in a column; None: there is none.

    Args:
        model: of the row.
        key: name of a field whose values are unique.
        value: as the database has it.
        without: names of fields that are read when they are asked for.
    """
    return next(iter(model._default_manager.raw(_select(model, key, tuple(without)), [value])), None)


@cache
def _select(model: type[Model], key: str, without: tuple[str, ...]) -> str:
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in model._meta.concrete_fields if field.name not in without)
    where = quote(str(model._meta.get_field(key).column))  # type: ignore[union-attr]
    return f"SELECT {columns} FROM {quote(model._meta.db_table)} WHERE {where} = %s"
