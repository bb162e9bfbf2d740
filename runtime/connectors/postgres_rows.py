"""Writes rows into a PostgreSQL table: COPY in CSV, made from columns in one call, and the statements around it.

Used by the PostgreSQL sinks' threads; nothing here keeps a connection. Source: PostgreSQL, COPY and INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
from psycopg import sql

from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.common.types import RowKind
from runtime.connectors.formats.csv.columns import CsvWriterFormat
from runtime.connectors.formats.writer_format import columns_of
from runtime.connectors.postgres_table import table_identifier
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

_CSV = sql.SQL(" (FORMAT csv)")
_STAGE = sql.Identifier("tidemark_stage")
_ORDER = sql.Identifier("tidemark_order")
_TAKES_BACK = "tidemark_takes_back"
_KINDS_THAT_TAKE_BACK = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})


class Changes(NamedTuple):
    """Rows for a table, and which of them delete others."""

    batch: RecordBatch
    takes_back: list[bool] | None
    """For each row whether it deletes that of its key; None: all are written."""

    @classmethod
    def of(cls, batch: RecordBatch) -> Changes:
        """Return the changes that a batch's kinds of rows say."""
        if not batch.has_values:
            # kinds of rows exist in rows only
            return cls(batch, None)
        takes_back = [row.get_row_kind() in _KINDS_THAT_TAKE_BACK for row in batch.values()]
        return cls(batch, takes_back if any(takes_back) else None)


class RowCopier:
    """Copies batches of one type into a table.

    Args:
        row_type: of the rows; their field names are the names of columns.
        statements: of the table.
    """

    def __init__(self, row_type: RowTypeInfo, statements: Statements) -> None:
        self._type = row_type
        self._changes_type = RowTypeInfo(
            [*row_type.field_types, Types.BOOLEAN()], [*row_type.get_field_names(), _TAKES_BACK]
        )
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

    def copy_changes(self, cursor: psycopg.Cursor[Any], changes: Iterable[Changes]) -> None:
        """Add the rows to the temporary table, in order, each with whether it takes one back.

        Raises:
            SinkError: a row does not fit its type.
            psycopg.Error: the server refuses one, or cannot be reached.
        """
        statements = self._statements
        with cursor.copy(statements.copy_changes if self._csv is None else statements.copy_changes_csv) as copy:
            for batch, takes_back in changes:
                flags = takes_back or [False] * batch.num_rows
                if self._csv is not None:
                    columns = columns_of(batch, self._type).append_column(_TAKES_BACK, pa.array(flags, pa.bool_()))
                    flagged = RecordBatch.of_arrow(columns, self._changes_type)
                    copy.write(self._csv.render(flagged, self._changes_type))
                else:
                    for row, flag in zip(batch.values(), flags, strict=True):
                        copy.write_row((*row, flag))


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
        names = {
            "table": table_identifier(table),
            "stage": _STAGE,
            "order": _ORDER,
            "takes_back": sql.Identifier(_TAKES_BACK),
            "columns": _list(columns),
            "keys": _list(keys),
        }
        target = _STAGE if keys else table_identifier(table)
        self.copy = sql.SQL("COPY {target} ({columns}) FROM STDIN").format(target=target, **names)
        self.copy_csv = self.copy + _CSV
        self.copy_changes = sql.SQL("COPY {stage} ({columns}, {takes_back}) FROM STDIN").format(**names)
        self.copy_changes_csv = self.copy_changes + _CSV
        self.create_stage = sql.SQL(
            "CREATE TEMPORARY TABLE {stage} AS SELECT {columns} FROM {table} WITH NO DATA"
        ).format(**names)
        self.number_stage = sql.SQL(
            "ALTER TABLE {stage} ADD {order} bigint GENERATED ALWAYS AS IDENTITY, "
            "ADD {takes_back} boolean NOT NULL DEFAULT false"
        ).format(**names)
        self.clear = sql.SQL("TRUNCATE {stage}").format(**names)
        # the last row of each key counts
        last = sql.SQL(
            "(SELECT DISTINCT ON ({keys}) {columns}, {takes_back} FROM {stage} ORDER BY {keys}, {order} DESC) AS last"
        ).format(**names)
        updates = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(c)) for c in columns if c not in keys]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if updates else sql.SQL("NOTHING")
        self.merge = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {last} WHERE NOT {takes_back} "
            "ON CONFLICT ({keys}) DO {action}"
        ).format(last=last, action=action, **names)
        matches = [sql.SQL("target.{0} = last.{0}").format(sql.Identifier(key)) for key in keys]
        self.delete = sql.SQL(
            "DELETE FROM {table} AS target USING {last} WHERE last.{takes_back} AND {matches}"
        ).format(last=last, matches=sql.SQL(" AND ").join(matches), **names)


def _list(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(list(map(sql.Identifier, names)))
