"""The schema of Avro records, and their type. Source: PyFlink, formats/avro.py.

PyFlink's generic records are dicts; here they are rows of named fields, which are read by name as dicts are, and which
take dicts where an output type is `GenericRecordAvroTypeInfo`. Timestamps are SQL_TIMESTAMP, which takes those with a
zone too; local ones are LONG, as PyFlink knows no such logical type.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.formats.avro.types import AvroTypes


class AvroSchema:
    """The schema of records. Made by `parse_string` or `parse_file`."""

    def __init__(self, json_schema: str) -> None:
        self._json = json_schema
        row_type = AvroTypes(json.loads(json_schema), legacy_timestamps=True).type_info
        if not isinstance(row_type, RowTypeInfo):
            raise TypeError(f"an Avro schema of records is needed, not one of {row_type}")
        self.row_type = row_type

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse a schema from JSON.

        Raises:
            ValueError: it is no JSON, or no schema.
            TypeError: it describes no record, or something that has no type here.
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a schema from a file with JSON. Raises as `parse_string`, and OSError."""
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return self._json


class GenericRecordAvroTypeInfo(RowTypeInfo):
    """The type of an Avro schema's records.

    Args:
        schema: the schema.
    """

    __slots__ = ()

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(schema.row_type.get_field_types(), schema.row_type.get_field_names())

    def __reduce__(self) -> tuple[Any, ...]:
        # a row type like any other once it travels
        return RowTypeInfo, (self.get_field_types(), self.get_field_names())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowTypeInfo) and self._identity() == other._identity()

    __hash__ = RowTypeInfo.__hash__
