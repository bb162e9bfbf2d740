"""JSON messages with their schema's id, as Confluent's JSON Schema serializer writes them.

They are read into columns as all JSON is: a reader needs no schema, but asks once whether an id is one of JSON, so that
messages of another kind are told. They are written with one schema, which belongs to a subject. Messages are not
checked against their schema.
Source: Confluent, JSON Schema serializer and deserializer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
    _SequenceTypeInfo,
)
from runtime.connectors.formats.json.ndjson import NdjsonFormat, NdjsonWriterFormat
from runtime.connectors.formats.registry.client import JSON, SchemaRegistry
from runtime.connectors.formats.registry.wire import HEADER_BYTES, header, schema_id_of
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

_WHOLE = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)


class JsonConfluentFormat(NdjsonFormat):
    """Reads columns from JSON messages in Confluent's wire format.

    Args:
        registry: that has the schemas.
        row_type: names and types of the columns; as of `NdjsonFormat`.

    Raises:
        TypeError: a column has a type that JSON columns cannot be read as.
    """

    def __init__(self, registry: SchemaRegistry, row_type: RowTypeInfo) -> None:
        super().__init__(row_type)
        self._registry = registry
        self._known: frozenset[int] = frozenset()

    def skips(self, line: bytes) -> bool:
        # a message is never blank
        return False

    def decode_messages(self, messages: Sequence[bytes]) -> RecordBatch:
        for schema_id in {schema_id_of(message) for message in messages} - self._known:
            kind = self._registry.schema(schema_id).kind
            if kind != JSON:
                raise ValueError(f"schema {schema_id} is of type {kind}, not {JSON}")
            self._known |= {schema_id}
        return super().decode_messages([message[HEADER_BYTES:] for message in messages])


class JsonConfluentWriterFormat(NdjsonWriterFormat):
    """Writes rows as JSON messages in Confluent's wire format.

    Args:
        registry: that has the schemas.
        subject: to which the schema belongs. By the strategy of topic names, `<topic>-value`.
        schema: as JSON text; None: it is made of the rows' type.
        auto_register: whether the schema is added to the subject if it is not there.
    """

    def __init__(
        self, registry: SchemaRegistry, subject: str, schema: str | None = None, auto_register: bool = True
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._schema = schema
        self._auto_register = auto_register

    def check(self, input_type: TypeInformation | None) -> None:
        if self._schema is None and not isinstance(input_type, RowTypeInfo):
            raise SinkError(f"a JSON schema is made of a row type, not of {input_type}")

    def message_prefix(self, input_type: TypeInformation | None) -> bytes:
        schema = self._schema
        if schema is None:
            assert input_type is not None
            schema = json.dumps(json_schema(input_type))
        return header(self._registry.id_of(self._subject, schema, JSON, auto_register=self._auto_register))


def json_schema(type_info: TypeInformation, title: str = "record") -> dict[str, Any]:
    """Return the JSON Schema of what a type is written as, every part of it nullable but the outermost."""
    if isinstance(type_info, RowTypeInfo):
        fields = zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
        properties = {name: _nullable(json_schema(kind, f"{title}_{name}")) for name, kind in fields}
        return {"type": "object", "title": title, "properties": properties}
    if isinstance(type_info, MapTypeInfo):
        return {"type": "object", "additionalProperties": _nullable(json_schema(type_info.value_type, title))}
    if isinstance(type_info, _SequenceTypeInfo) and type_info != Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return {"type": "array", "items": _nullable(json_schema(type_info.element_type, title))}
    if isinstance(type_info, BasicTypeInfo):
        basic = type_info.basic_type
        if basic in _WHOLE:
            return {"type": "integer"}
        if basic in (BasicType.FLOAT, BasicType.DOUBLE):
            # NaN and the infinities are texts
            return {"type": ["number", "string"]}
        if basic is BasicType.BOOLEAN:
            return {"type": "boolean"}
    # texts, decimals, dates, times, bytes
    return {"type": "string"}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, "null"]}
