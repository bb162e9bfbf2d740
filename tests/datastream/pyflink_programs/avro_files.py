"""Avro files of generic records: which values fit which schemas, and what is then in the file."""

import datetime
import json
import tempfile
from decimal import Decimal
from pathlib import Path

import fastavro
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.formats.avro import AvroBulkWriters, AvroSchema, GenericRecordAvroTypeInfo

MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=datetime.UTC)
INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
OTHER = {"type": "record", "name": "other", "fields": [{"name": "y", "type": "int"}]}
LETTER = {"type": "enum", "name": "letter", "symbols": ["p", "q"]}


def logical(kind: str, name: str, **more: object) -> dict:
    return {"type": kind, "logicalType": name, **more}


# name of the case → types of its fields, records
CASES = {
    "nullable": ({"a": ["null", "int"], "b": ["string", "null"]}, [{"a": None, "b": None}, {"a": 5, "b": "x"}]),
    "missing": ({"a": ["null", "int"], "b": "string"}, [{"b": "y"}]),
    "null": ({"a": "null", "b": "int"}, [{"a": None, "b": 1}]),
    "no null": ({"a": "int"}, [{"a": None}]),
    "union": ({"a": ["null", "int", "string"]}, [{"a": None}, {"a": 7}, {"a": "t"}]),
    "numbers": ({"a": ["int", "string", "double"]}, [{"a": 1}, {"a": 2.5}]),
    "union of records": ({"a": ["null", INNER, OTHER]}, [{"a": {"y": 2}}, {"a": {"x": 1}}, {"a": None}]),
    "nullable record": ({"a": ["null", INNER], "b": ["null", "inner"]}, [{"a": {"x": 1}, "b": None}]),
    "union of collections": ({"a": [{"type": "map", "values": "int"}, "string"]}, [{"a": {"k": 2}}, {"a": "s"}]),
    "union of bytes": ({"a": ["bytes", "string"]}, [{"a": b"x"}, {"a": "q"}]),
    "union of times": (
        {"a": ["null", logical("long", "timestamp-millis"), "string"]},
        [{"a": MOMENT}, {"a": "now"}, {"a": None}],
    ),
    "wrong branch": ({"a": ["null", "int", "string"]}, [{"a": 2.5}]),
    "enum": ({"a": LETTER, "b": ["letter", "null"]}, [{"a": "q", "b": None}]),
    "no symbol": ({"a": LETTER}, [{"a": "z"}]),
    "bytes": ({"a": "bytes", "b": {"type": "fixed", "name": "two", "size": 2}}, [{"a": b"\x00", "b": b"ab"}]),
    "date": ({"a": logical("int", "date")}, [{"a": datetime.date(2024, 2, 29)}]),
    "time": ({"a": logical("int", "time-millis")}, [{"a": datetime.time(12, 34, 56, 789000)}]),
    "time in micros": ({"a": logical("long", "time-micros")}, [{"a": datetime.time(12, 34, 56, 789123)}]),
    "timestamp": ({"a": logical("long", "timestamp-millis")}, [{"a": MOMENT}]),
    "timestamp in micros": ({"a": logical("long", "timestamp-micros")}, [{"a": MOMENT.replace(microsecond=1)}]),
    "local timestamp": ({"a": logical("long", "local-timestamp-millis")}, [{"a": 1_709_210_096_789}]),
    "uuid": ({"a": logical("string", "uuid")}, [{"a": "6b2b1b1e-1d5f-4a0c-8c8e-3f1e5c1a2b3c"}]),
    "decimal": ({"a": logical("bytes", "decimal", precision=10, scale=2)}, [{"a": Decimal("1.50")}]),
    "map": ({"a": {"type": "map", "values": ["null", "long"]}}, [{"a": {"k": 1}}, {"a": {"l": None}}, {"a": {}}]),
    "nested": ({"a": {"type": "map", "values": INNER}, "z": "int"}, [{"a": {"k": {"x": 1}}, "z": 3}]),
    "array": ({"a": {"type": "array", "items": ["null", "int"]}}, [{"a": [1, None, 2]}, {"a": []}]),
    "array of records": ({"a": {"type": "array", "items": INNER}}, [{"a": [{"x": 1}]}]),
    "array and more": ({"a": {"type": "array", "items": "int"}, "z": "int"}, [{"a": [1, 2], "z": 9}]),
}


def write(schema: AvroSchema, records: list, directory: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(len(records))), Types.INT())
    rows = numbers.map(lambda index: records[index], GenericRecordAvroTypeInfo(schema))
    rows.sink_to(FileSink.for_bulk_format(directory, AvroBulkWriters.for_generic_record(schema)).build())
    env.execute()


def main() -> None:
    for name, (fields, records) in CASES.items():
        described = [{"name": field, "type": kind} for field, kind in fields.items()]
        schema = AvroSchema.parse_string(json.dumps({"type": "record", "name": "case", "fields": described}))
        with tempfile.TemporaryDirectory() as directory:
            try:
                write(schema, records, directory)
            except Exception:
                print(f"{name}: refused")
                continue
            for path in sorted(Path(directory).rglob("part-*")):
                with path.open("rb") as file:
                    reader = fastavro.reader(file)
                    print(f"{name}: {reader.codec} {list(reader)}")


if __name__ == "__main__":
    main()
