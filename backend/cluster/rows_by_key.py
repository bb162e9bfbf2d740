"""Rows by a key, for what every request asks: the ORM takes longer to write such a query than the database to answer.

Any thread with a database connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from django.db import connection
from django.db.models import Model

Row = TypeVar("Row", bound=Model)


def row_by_key(model: type[Row], key: str, value: Any, without: Collection[str] = ()) -> Row | None:
    """Return the row that has a value in a column; None: there is none.

    Args:
        model: of the row.
        key: name of a field whose values are unique.
        value: as the database has it.
        without: names of fields that are read when they are asked for.
    """
    select = _select(model, key, tuple(without))
    with connection.cursor() as cursor:
        cursor.execute(select.sql, [value])
        found = cursor.fetchone()
    if found is None:
        return None
    values = list(found)
    for place, column, converters in select.converted:
        for convert in converters:
            values[place] = convert(values[place], column, connection)
    return model.from_db(connection.alias, select.names, values)


class _Select(NamedTuple):
    """A query as the ORM would write it.

    Attributes:
        names: attributes of the model that its columns are.
        converted: of columns whose values are not what the model has: place, expression, functions that convert.
    """

    sql: str
    names: Sequence[str]
    converted: Sequence[tuple[int, Any, Sequence[Callable[..., Any]]]]


@cache
def _select(model: type[Model], key: str, without: tuple[str, ...]) -> _Select:
    quote = connection.ops.quote_name
    fields = [field for field in model._meta.concrete_fields if field.name not in without]
    columns = [field.get_col(model._meta.db_table) for field in fields]
    converters = [connection.ops.get_db_converters(each) + each.get_db_converters(connection) for each in columns]
    where = quote(str(model._meta.get_field(key).column))  # type: ignore[union-attr]
    return _Select(
        f"SELECT {', '.join(quote(str(field.column)) for field in fields)} "
        f"FROM {quote(model._meta.db_table)} WHERE {where} = %s",
        [field.attname for field in fields],
        [(place, *each) for place, each in enumerate(zip(columns, converters, strict=True)) if each[1]],
    )
