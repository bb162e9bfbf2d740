"""Writes rows into a PostgreSQL table: COPY in CSV, made from columns in one call, and the statements around it.

Used by the PostgreSQL sinks' threads; nothing here keeps a connection. Source: PostgreSQL, COPY and INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import RowKind
from runtime.connectors.formats.csv.columns import CsvWriterFormat
from runtime.connectors.postgres_table import table_identifier
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

_STAGE = sql.Identifier("tidemark_stage")
_ORDER = sql.Identifier("tidemark_order")


class RowCopier:
    """Copies batches of one type into a table.

    Args:
        row_type: of the rows; their field names are the names of columns.
        statements: of the table.
    """

    def __init__(self, row_type: RowTypeInfo, statements: Statements) -> None:
        self._type = row_type
        self._statements = statements
        self._csv: CsvWriterFormat | None = CsvWriterFormat(has_header=False)
        try:
            self._csv.check(row_type)
        except SinkError:
            # arrays, bytes: value by value
            self._csv = None

    def copy(self, cursor: psycopg.Cursor[Any], batches: Iterable[RecordBatch]) -> None:
        """Add the rows, in order.

        Raises:
            SinkError: a row does not fit its type.
            psycopg.Error: the server refuses one, or cannot be reached.
        """
        statements = self._statements
        with cursor.copy(statements.copy if self._csv is None else statements.copy_csv) as copy:
            for batch in batches:
                if self._csv is not None:
                    copy.write(self._csv.render(batch, self._type))
                else:
                    for row in batch.values():
                        copy.write_row(tuple(row))


def check_inserts(batch: RecordBatch) -> None:
    """Refuse rows that replace or delete others.

    Raises:
        SinkError: there is such a row.
    """
    if batch.has_values:
        # kinds of rows exist in rows only
        other = next((row for row in batch.values() if row.get_row_kind() is not RowKind.INSERT), None)
        if other is not None:
            raise SinkError(f"a row of kind {other.get_row_kind().short_string} needs key_columns: {other!r:.200}")


class Statements:
    """The statements of one table.

    Args:
        table: its name.
        columns: that are written.
        keys: of these, those by which rows replace each other; without any, rows are copied into the table itself.
    """

    def __init__(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        self.keys = list(keys)
        names = {"table": table_identifier(table), "stage": _STAGE, "order": _ORDER}
        columns_sql, keys_sql = _list(columns), _list(keys)
        target = _STAGE if keys else table_identifier(table)
        self.copy = sql.SQL("COPY {target} ({columns}) FROM STDIN").format(target=target, columns=columns_sql)
        self.copy_csv = self.copy + sql.SQL(" (FORMAT csv)")
        self.create_stage = sql.SQL(
            "CREATE TEMPORARY TABLE {stage} AS SELECT {columns} FROM {table} WITH NO DATA"
        ).format(columns=columns_sql, **names)
        self.number_stage = sql.SQL("ALTER TABLE {stage} ADD {order} bigint GENERATED ALWAYS AS IDENTITY").format(
            **names
        )
        self.clear = sql.SQL("TRUNCATE {stage}").format(**names)
        updates = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(c)) for c in columns if c not in keys]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if updates else sql.SQL("NOTHING")
        self.merge = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {stage} "
            "ORDER BY {keys}, {order} DESC ON CONFLICT ({keys}) DO {action}"
        ).format(columns=columns_sql, keys=keys_sql, action=action, **names)
        # the only statement with parameters: in it, a percent sign of a name is doubled
        matches = [sql.SQL("{} = %s").format(sql.Identifier(key.replace("%", "%%"))) for key in keys]
        self.delete = sql.SQL("DELETE FROM {table} WHERE {matches}").format(
            table=table_identifier(table.replace("%", "%%")), matches=sql.SQL(" AND ").join(matches)
        )


def _list(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(list(map(sql.Identifier, names)))
