"""The PostgreSQL connectors' knowledge of a table: its columns as types, and the keys by which it can be read in parts.

Where the program declares the columns' types, nothing is asked before the job runs; the slots then check the
declaration. Source: PostgreSQL, system catalogs.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from runtime.common.secrets import SecretRef
from runtime.common.time import Instant
from runtime.common.typeinfo import ListTypeInfo, RowTypeInfo, TypeInformation, Types

#: Seconds for a connection, and for the network to answer.
CONNECT_TIMEOUT_S = 10
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

_TYPES: dict[str, TypeInformation] = {
    "int2": Types.SHORT(),
    "int4": Types.INT(),
    "int8": Types.LONG(),
    "float4": Types.FLOAT(),
    "float8": Types.DOUBLE(),
    "bool": Types.BOOLEAN(),
    "numeric": Types.BIG_DEC(),
    "date": Types.SQL_DATE(),
    "time": Types.SQL_TIME(),
    "timestamp": Types.SQL_TIMESTAMP(),
    "timestamptz": Types.INSTANT(),
    "bytea": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "text": Types.STRING(),
    "varchar": Types.STRING(),
    "bpchar": Types.STRING(),
}
_TEXT = Types.STRING()
_INSTANTS = (Types.INSTANT(), ListTypeInfo(Types.INSTANT()))
#: Types that a program may declare for a column beside its own and STRING: every value is one of theirs, too.
_WIDER: dict[str, tuple[TypeInformation, ...]] = {
    "int2": (Types.INT(), Types.LONG()),
    "int4": (Types.LONG(),),
    "float4": (Types.DOUBLE(),),
}
INTEGERS = frozenset({"int2", "int4", "int8"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read."""

    name: str
    pg_type: str
    """As in pg_type; an array's begins with an underscore."""
    type_info: TypeInformation

    @property
    def expression(self) -> sql.Composable:
        """Return the expression that is selected for it."""
        name = sql.Identifier(self.name)
        element = self.pg_type.removeprefix("_")
        if self.type_info == _TEXT and column_type(self.pg_type) != _TEXT:
            return sql.SQL("{}::text").format(name)
        if self.pg_type == "time":
            return sql.SQL("{}::time(3)").format(name)
        if element in _TYPES:
            return name
        return sql.SQL("{}::text[]" if self.pg_type.startswith("_") else "{}::text").format(name)


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table, or the columns of it that are read."""

    name: str
    columns: tuple[Column, ...]
    key: str | None
    """Column of whole numbers that is unique and never null, by which the table can be read in order."""
    has_pages: bool
    """Whether rows have a place (ctid): tables and materialized views do, views and partitioned tables do not."""

    @property
    def row_type(self) -> RowTypeInfo:
        return RowTypeInfo([column.type_info for column in self.columns], [column.name for column in self.columns])

    @property
    def identifier(self) -> sql.Composable:
        return table_identifier(self.name)

    @property
    def selected(self) -> sql.Composable:
        """Return the columns, separated by commas."""
        return sql.SQL(", ").join([column.expression for column in self.columns])

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def declared_as(self, row_type: RowTypeInfo) -> TableShape:
        """Return the table with its columns as types that a program declares.

        Args:
            row_type: names and types of all columns, in their order.

        Raises:
            ValueError: a column's values are of a type that cannot be read as the declared one without loss.
        """
        columns = []
        for column, declared in zip(self.columns, row_type.field_types, strict=True):
            if declared not in (column.type_info, _TEXT) and declared not in _WIDER.get(column.pg_type, ()):
                raise ValueError(
                    f"column {column.name!r} of table {self.name!r} is declared {declared}, but its values are "
                    f"{column.type_info} ({column.pg_type})"
                )
            columns.append(replace(column, type_info=declared))
        return replace(self, columns=tuple(columns))

    def row_reader(self) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
        """Return a function that turns a row of the server's into the row type's values; None if it is that already."""
        instants = [i for i, column in enumerate(self.columns) if column.type_info in _INSTANTS]
        if not instants:
            return None

        def read(row: Sequence[Any]) -> tuple[Any, ...]:
            values = list(row)
            for i in instants:
                values[i] = _instants(values[i])
            return tuple(values)

        return read


def _instants(value: Any) -> Any:
    if isinstance(value, list):
        return [_instants(item) for item in value]
    if value is None:
        return None
    seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
    return Instant(seconds, micros * 1000)


def connection_string(url: str | SecretRef) -> str:
    """Return what libpq connects with.

    Raises:
        SecretMissingError: the secret has no value here.
        psycopg.OperationalError: the secret's value is no connection string; the error does not show it.
    """
    if not isinstance(url, SecretRef):
        return url
    value = url.reveal()
    try:
        port = conninfo_to_dict(value).get("port", "")
    except psycopg.ProgrammingError:
        port = "none"
    if str(port).strip("0123456789,"):
        raise psycopg.OperationalError(f"the value of {url} is not a connection string")
    return value


def connect(url: str | SecretRef) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection in which each statement is a transaction.

    Raises:
        SecretMissingError: the secret has no value here.
        psycopg.OperationalError: there is no server, or it refuses.
    """
    return psycopg.connect(
        connection_string(url),
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        tcp_user_timeout=CONNECT_TIMEOUT_S * 1000,
    )


def table_identifier(name: str) -> sql.Composable:
    """Return a table's name, with or without its schema, quoted."""
    return sql.Identifier(*name.split(".", 1))


def describe_table(
    url: str | SecretRef,
    table: str,
    columns: Sequence[str] | None,
    key: str | None,
    row_type: RowTypeInfo | None = None,
) -> TableShape:
    """Ask the server about a table.

    Args:
        url: postgresql://user@host/database, any other connection string, or a secret that is one.
        table: its name, with a schema if it is not in the search path.
        columns: those to be read, in this order; None = all.
        key: column for reading in parts; None: the primary key, if that is one column of whole numbers.
        row_type: names and types of the columns to be read, instead of `columns`; None = the types are the table's.

    Raises:
        ValueError: there is no such table or column, the key cannot be one, or a column is not of its declared type.
        psycopg.OperationalError: there is no server, or it refuses.
    """
    with connect(url) as connection:
        return table_shape(connection, table, columns, key, row_type)


def table_shape(
    connection: psycopg.Connection[tuple[Any, ...]],
    table: str,
    columns: Sequence[str] | None,
    key: str | None,
    row_type: RowTypeInfo | None = None,
) -> TableShape:
    """Ask the server at the other end of a connection about a table; as `describe_table`."""
    if row_type is not None:
        columns = row_type.get_field_names()
    found = connection.execute(
        "SELECT oid, relkind FROM pg_class WHERE oid = to_regclass(%s)",
        [table_identifier(table).as_string(connection)],
    ).fetchone()
    if found is None:
        raise ValueError(f"there is no table {table!r}")
    oid, kind = found
    attributes = connection.execute(
        "SELECT attname, typname, attnotnull FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [oid],
    ).fetchall()
    unique = connection.execute(
        "SELECT attname, indisprimary FROM pg_index JOIN pg_attribute "
        "ON attrelid = indrelid AND attnum = indkey[0] "
        "WHERE indrelid = %s AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 "
        "AND indexprs IS NULL",
        [oid],
    ).fetchall()
    known = {name: (pg_type, not_null) for name, pg_type, not_null in attributes}
    for name in columns or ():
        if name not in known:
            raise ValueError(f"table {table!r} has no column {name!r}; it has {list(known)}")
    fit = {name for name, _ in unique if known[name][0] in INTEGERS and known[name][1]}
    if key is None:
        key = next((name for name, is_primary in unique if is_primary and name in fit), None)
    elif key not in fit:
        _refuse_key(table, key)
    shown = [Column(name, known[name][0], column_type(known[name][0])) for name in columns or known]
    shape = TableShape(table, tuple(shown), key, kind in ("r", "m"))
    return shape if row_type is None else shape.declared_as(row_type)


def column_type(pg_type: str) -> TypeInformation:
    """Return the type of a column's values; a column without a type of its own is read as text."""
    if pg_type.startswith("_"):
        return ListTypeInfo(column_type(pg_type[1:]))
    return _TYPES.get(pg_type, Types.STRING())


def _refuse_key(table: str, key: str) -> NoReturn:
    raise ValueError(f"column {key!r} of table {table!r} must hold whole numbers, be unique and NOT NULL")
