"""Records what Flink makes of the rows of `avro_message_cases` and reads from it, into data/avro_messages.json.

Not run by the tests. Needs a Python that has apache-flink 2.3.0, Java 17 on PATH, and flink-sql-avro-2.3.0.jar:

    PYTHONPATH=. HADOOP_CLASSPATH=flink-sql-avro-2.3.0.jar \\
        PYTHON_WITH_PYFLINK tests/connectors/formats/record_avro_messages.py

Types and values are recorded as the texts that Java has for them.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from pyflink.java_gateway import get_gateway

from tests.connectors.formats.avro_message_cases import CASES

DATA = Path(__file__).parent / "data" / "avro_messages.json"


def to_java(value: Any) -> Any:
    """The value as Flink's Java API has it."""
    gateway = get_gateway()
    jvm = gateway.jvm
    if isinstance(value, tuple):
        row = jvm.org.apache.flink.types.Row(len(value))
        for index, item in enumerate(value):
            row.setField(index, to_java(item))
        return row
    if isinstance(value, list):
        array = gateway.new_array(jvm.java.lang.Object, len(value))
        for index, item in enumerate(value):
            array[index] = to_java(item)
        return array
    if isinstance(value, dict):
        found = jvm.java.util.HashMap()
        for key, item in value.items():
            found.put(key, to_java(item))
        return found
    if isinstance(value, datetime.datetime):
        return jvm.java.sql.Timestamp.valueOf(str(value))
    if isinstance(value, datetime.date):
        return jvm.java.sql.Date.valueOf(str(value))
    if isinstance(value, datetime.time):
        return jvm.java.sql.Time.valueOf(str(value))
    if isinstance(value, Decimal):
        return jvm.java.math.BigDecimal(str(value))
    return value


def ask_flink(schema: str, values: tuple[Any, ...]) -> dict[str, str] | None:
    """The message and what Flink reads from it; None if Flink refuses the row."""
    writer = AvroRowSerializationSchema(avro_schema_string=schema)._j_serialization_schema
    reader = AvroRowDeserializationSchema(avro_schema_string=schema)._j_deserialization_schema
    try:
        message = bytes(writer.serialize(to_java(values)))
    except Py4JJavaError as error:
        print("refused:", next((line for line in reversed(str(error).splitlines()) if "Caused" in line), error))
        return None
    row = reader.deserialize(message)
    return {"message": message.hex(), "type": reader.getProducedType().toString(), "read": row.toString()}


def main() -> None:
    recorded = {name: ask_flink(*case) for name, case in CASES.items()}
    DATA.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
