"""CsvSchema: the columns of CSV lines and how the lines are written. Source: PyFlink, formats/csv.py.

Where PyFlink takes data types of the Table API, this takes `Types`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.formats.csv.lines import CsvDialect, CsvLines, one_character


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """Columns and writing of CSV lines. Made by `builder()`."""

    row_type: RowTypeInfo
    dialect: CsvDialect
    array_delimiters: tuple[str | None, ...]
    use_header: bool
    strict_headers: bool
    skip_first_data_row: bool

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.row_type.get_field_types())

    def __len__(self) -> int:
        return self.size()

    def codec(self) -> CsvLines:
        return CsvLines(self.row_type, self.dialect, self.array_delimiters)


@dataclass(slots=True)
class _Column:
    name: str
    type_info: TypeInformation
    array_delimiter: str | None = None


@dataclass(slots=True)
class CsvSchemaBuilder:
    """Makes a CsvSchema: columns in the order in which they are added, then how lines are written."""

    _columns: list[_Column] = field(default_factory=list)
    _dialect: CsvDialect = field(default_factory=lambda: CsvDialect(strips_decimals=True))
    _use_header: bool = False
    _strict_headers: bool = False
    _skip_first_data_row: bool = False

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            ValueError: it has no columns, or two of one name.
        """
        names = [column.name for column in self._columns]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a CSV schema needs columns of different names, it has {names}")
        return CsvSchema(
            Types.ROW_NAMED(names, [column.type_info for column in self._columns]),
            self._dialect,
            tuple(column.array_delimiter or self._dialect.array_delimiter for column in self._columns),
            self._use_header,
            self._strict_headers,
            self._skip_first_data_row,
        )

    def add_array_column(
        self, name: str, separator: str | None = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists; elements are STRING unless said otherwise."""
        return self._add(name, Types.OBJECT_ARRAY(element_type or Types.STRING()), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers: LONG unless said otherwise."""
        return self._add(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        types = zip(
            schema.row_type.get_field_names(), schema.row_type.get_field_types(), schema.array_delimiters, strict=True
        )
        for name, type_info, delimiter in types:
            self._add(name, type_info, delimiter)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that begin with `#`."""
        return self._write(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Refuse, since lines have no fields without a column.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a line with more fields than columns is refused; there is no name for the rest")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read every array as one element."""
        return self._write(array_delimiter="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Let the column use the separator that holds for all."""
        self._columns[index].array_delimiter = None
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        return self._write(array_delimiter=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the character between fields.

        Raises:
            ValueError: it is none, or several.
        """
        return self._write(delimiter=one_character(char, "column separator"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._write(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._write(escape=one_character(char, "escape character"))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the end of written lines; both LF and CR LF are read."""
        if separator not in ("\n", "\r\n"):
            raise ValueError(f"the line separator must be LF or CR LF, not {separator!r}")
        return self._write(line_end=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for null."""
        return self._write(null_literal=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._write(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._write(quote=one_character(char, "quote character"))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Leave out each file's first line, or the one behind the header."""
        self._skip_first_data_row = skip
        return self

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Refuse a file whose header is not the list of the columns, in order."""
        self._strict_headers = strict
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Begin files with a line that names the columns."""
        self._use_header = use
        return self

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, type_info: TypeInformation, delimiter: str | None = None) -> CsvSchemaBuilder:
        self._columns.append(_Column(name, type_info, delimiter))
        return self

    def _write(self, **changes: Any) -> CsvSchemaBuilder:
        self._dialect = replace(self._dialect, **changes)
        return self
