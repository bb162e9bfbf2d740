"""Avro and JSON in Confluent's wire format, with a real schema registry and a real broker of Kafka."""

from __future__ import annotations

import io
import json
import pickle
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import pytest

from runtime.common import Row, Types, WatermarkStrategy
from runtime.common.secrets import SecretRef
from runtime.connectors import (
    AvroConfluentSchema,
    BadRecords,
    JsonConfluentFormat,
    JsonConfluentWriterFormat,
    SchemaRegistry,
)
from runtime.connectors.formats.messages import MessageEncoder
from runtime.connectors.formats.registry import client
from runtime.connectors.formats.registry.client import RegistryError, SchemaRefusedError, UnknownSchemaError
from runtime.connectors.formats.registry.wire import header, schema_id_of
from runtime.core.batch import RecordBatch
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from runtime.testing import CONTINUOUS_ON_MINI_CLUSTER, run_job
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.connectors.schema_registry import RunningRegistry, guarded, running_registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
#: Apicurio tells from `$schema` what it is
OBJECT = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
#: as a program in Java would write it: other names, another order, a field more
WRITER = {
    "type": "record",
    "name": "Bid",
    "namespace": "com.example",
    "fields": [
        {"name": "note", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "id", "type": "long"},
    ],
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def subject() -> str:
    return f"topic-{random.getrandbits(40):x}-value"


def by_others(schema: Any, schema_id: int, value: Any) -> bytes:
    """A message as another program writes it."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


# --- the wire ---------------------------------------------------------------------------------------------------------


def test_a_header_has_the_id_in_network_order() -> None:
    assert header(258) == b"\0\0\0\1\2" and schema_id_of(b"\0\0\0\1\2rest") == 258


@pytest.mark.parametrize("message", [b"", b"\0\0\0\1", b"\1\0\0\0\1x", b'{"id":1}'])
def test_what_is_not_of_the_wire_format_is_told(message: bytes) -> None:
    with pytest.raises(ValueError, match="not of Confluent's wire format"):
        schema_id_of(message)


# --- with a registry --------------------------------------------------------------------------------------------------


def test_avro_is_registered_once_and_read_again(registry: RunningRegistry, subject: str) -> None:
    schema = AvroConfluentSchema(SchemaRegistry(registry.url), ROW, subject)
    message = schema.serialize(Row(id=7, name="x"))
    [version] = registry.ask(f"/subjects/{subject}/versions")
    registered = registry.ask(f"/subjects/{subject}/versions/{version}")
    assert schema_id_of(message) == registered["id"]
    written = fastavro.parse_schema(json.loads(registered["schema"]))
    assert fastavro.schemaless_reader(io.BytesIO(message[5:]), written, None) == {"id": 7, "name": "x"}
    assert schema.deserialize(message) == Row(id=7, name="x")
    travelled = pickle.loads(pickle.dumps(schema))
    assert travelled.serialize(Row(id=8, name=None))[:5] == message[:5]
    assert registry.ask(f"/subjects/{subject}/versions") == [version]


def test_a_schema_that_several_register_at_once_has_one_id(registry: RunningRegistry, subject: str) -> None:
    schemas = [AvroConfluentSchema(SchemaRegistry(registry.url), ROW, subject) for _ in range(8)]
    with ThreadPoolExecutor(len(schemas)) as threads:
        messages = set(threads.map(lambda schema: schema.serialize(Row(id=7, name="x")), schemas))
    assert len(messages) == 1


def test_a_record_is_read_by_its_writers_schema(registry: RunningRegistry, subject: str) -> None:
    schema_id = registry.register(subject, WRITER)
    message = by_others(WRITER, schema_id, {"note": "n", "name": "x", "id": 3})
    assert AvroConfluentSchema(SchemaRegistry(registry.url), ROW).deserialize(message) == Row(id=3, name="x")
    reader = {**WRITER, "fields": [{"name": "id", "type": "long"}, {"name": "new", "type": "int", "default": 5}]}
    evolved = AvroConfluentSchema(SchemaRegistry(registry.url), json.dumps(reader))
    assert evolved.deserialize(message) == Row(id=3, new=5)


def test_records_within_records_are_matched_by_their_fields(registry: RunningRegistry, subject: str) -> None:
    inner = {"type": "record", "name": "Who", "fields": [{"name": "city", "type": "string"}]}
    described = [
        {"name": "who", "type": ["null", inner]},
        {"name": "all", "type": {"type": "array", "items": "Who"}},
    ]
    schema = {"type": "record", "name": "Outer", "namespace": "a", "fields": described}
    schema_id = registry.register(subject, schema)
    message = by_others(schema, schema_id, {"who": {"city": "x"}, "all": [{"city": "y"}]})
    city = Types.ROW_NAMED(["city"], [Types.STRING()])
    row = Types.ROW_NAMED(["who", "all"], [city, Types.LIST(city)])
    read = AvroConfluentSchema(SchemaRegistry(registry.url), row).deserialize(message)
    assert (read.who, list(read.all)) == (Row(city="x"), [Row(city="y")])


def test_bad_avro_messages_say_why(registry: RunningRegistry, subject: str) -> None:
    schema = AvroConfluentSchema(SchemaRegistry(registry.url), ROW, subject)
    message = schema.serialize(Row(id=7, name="x"))
    number = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
    other = registry.register(f"other-{subject}", number)
    of_json = registry.register(f"json-{subject}", OBJECT, "JSON")
    for bad, why in (
        (b"\x01" + message[1:], "not of Confluent's wire format"),
        (message[:7], "not an Avro datum"),
        (message + b"x", "1 bytes are left"),
        (header(4_000_000) + message[5:], "no schema 4000000"),
        (by_others(number, other, {"id": "x"}), f"schema {other} cannot be read by the format's schema"),
        (header(of_json) + b"{}", "is of type JSON, not AVRO"),
    ):
        with pytest.raises(ValueError, match=why):
            schema.deserialize(bad)


def test_a_schema_that_is_not_compatible_is_refused(registry: RunningRegistry, subject: str) -> None:
    registry.register(subject, WRITER)
    registry.ask(f"/config/{subject}", {"compatibility": "BACKWARD"}, "PUT")
    changed = {**WRITER, "fields": [{"name": "id", "type": "string"}]}
    with pytest.raises(SchemaRefusedError, match=f"not compatible with those of subject '{subject}'"):
        AvroConfluentSchema(SchemaRegistry(registry.url), json.dumps(changed), subject).serialize(Row(id="x"))


def test_without_auto_register_the_schema_has_to_be_there(registry: RunningRegistry, subject: str) -> None:
    given = AvroConfluentSchema(SchemaRegistry(registry.url), json.dumps(WRITER), subject, auto_register=False)
    record = Row(note="n", name="x", id=1)
    with pytest.raises(SchemaRefusedError, match="auto_register is off"):
        given.serialize(record)
    schema_id = registry.register(subject, WRITER)
    assert schema_id_of(given.serialize(record)) == schema_id


def test_json_is_read_into_columns_and_written_with_a_schema(registry: RunningRegistry, subject: str) -> None:
    row = Types.ROW_NAMED(["id", "name", "ratio"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
    rows = [Row(id=1, name="a\nb", ratio=0.5), Row(id=2, name=None, ratio=float("nan"))]
    writer = MessageEncoder(JsonConfluentWriterFormat(SchemaRegistry(registry.url), subject), row)
    messages = writer.encode(RecordBatch.of_values(rows, type_info=row))
    registered = registry.ask(f"/subjects/{subject}/versions/latest")
    assert registered["schemaType"] == "JSON"
    assert json.loads(registered["schema"])["properties"]["id"] == {"type": ["integer", "null"]}
    assert messages[0] == header(registered["id"]) + b'{"id":1,"name":"a\\nb","ratio":0.5}'
    reader = JsonConfluentFormat(SchemaRegistry(registry.url), ROW)
    batch = pickle.loads(pickle.dumps(reader)).decode_messages(messages)
    assert batch.values() == [Row(id=1, name="a\nb"), Row(id=2, name=None)]
    of_avro = registry.register(f"avro-{subject}", WRITER)
    for bad, why in ((header(of_avro) + b"{}", "is of type AVRO, not JSON"), (b"{}", "wire format")):
        with pytest.raises(ValueError, match=why):
            reader.decode_messages([bad])


def test_an_id_that_contains_a_line_end_does_not_cut_messages(registry: RunningRegistry, subject: str) -> None:
    ids: list[int] = []
    while 10 not in {schema_id & 0xFF for schema_id in ids}:
        ids.append(registry.register(f"{subject}-{len(ids)}", OBJECT | {"title": f"{subject} {len(ids)}"}, "JSON"))
    schema = json.dumps(OBJECT | {"title": f"{subject} {len(ids) - 1}"})
    writer = JsonConfluentWriterFormat(SchemaRegistry(registry.url), f"{subject}-{len(ids) - 1}", schema)
    rows = [Row(id=1, name="a"), Row(id=2, name="b")]
    messages = MessageEncoder(writer, ROW).encode(RecordBatch.of_values(rows, type_info=ROW))
    assert messages == [header(ids[-1]) + b'{"id":1,"name":"a"}', header(ids[-1]) + b'{"id":2,"name":"b"}']


def test_a_user_logs_in_within_tls(registry: RunningRegistry, subject: str, tmp_path: Path) -> None:
    with guarded(registry, tmp_path, "tide", "g:h/@") as (port, certificate):
        authority = quote(certificate.read_text(), safe="")
        password = quote("g:h/@", safe="")
        servers = f"localhost:{port}?ssl.ca.pem={authority}"
        schema = AvroConfluentSchema(SchemaRegistry(f"https://tide:{password}@{servers}"), ROW, subject)
        assert schema.deserialize(schema.serialize(Row(id=1, name="x"))) == Row(id=1, name="x")
        by_file = SchemaRegistry(f"https://tide:{password}@localhost:{port}?ssl.ca.location={certificate}")
        assert by_file.id_of(subject, json.dumps(schema._json), "AVRO", auto_register=False) > 0
        stranger = SchemaRegistry(f"https://tide:canary@{servers}")
        with pytest.raises(RegistryError, match=r"who is there\? \(401\)") as failure:
            stranger.schema(1)
        assert "canary" not in str(failure.value)


# --- without one ------------------------------------------------------------------------------------------------------


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[str]]]:
    """URL of a server with these answers, the last of which is repeated, and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


SCHEMA = json.dumps({"schema": json.dumps(WRITER)}).encode()


def test_a_registry_that_stumbles_is_asked_again_and_each_id_once() -> None:
    with answering((503, b"busy"), (429, b"{}"), (200, SCHEMA)) as (url, asked):
        registry = SchemaRegistry(url)
        assert registry.schema(7).kind == "AVRO" == registry.schema(7).kind
    assert asked == ["/schemas/ids/7"] * 3


def test_an_unknown_id_is_asked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering((404, b'{"error_code": 40403, "message": "Schema not found"}'), (200, SCHEMA)) as (url, asked):
        registry = SchemaRegistry(url)
        for _ in range(3):
            with pytest.raises(UnknownSchemaError, match="no schema 7"):
                registry.schema(7)
        assert len(asked) == 1
        registry._unknown[7] = 0.0
        assert registry.schema(7).text == json.dumps(WRITER)


@pytest.mark.parametrize("answer", [(500, b"{}"), (200, b"<html>"), (200, b"[]")])
def test_a_registry_that_is_away_fails_the_job_and_no_message(
    answer: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.2)
    with answering(answer) as (url, _), pytest.raises(RegistryError, match="has not answered for"):
        AvroConfluentSchema(SchemaRegistry(url), ROW).deserialize(header(1) + b"x")
    # nobody listens there any more
    with pytest.raises(RegistryError, match="has not answered for"):
        AvroConfluentSchema(SchemaRegistry(url), ROW).deserialize(header(1) + b"x")
    assert not issubclass(RegistryError, ValueError)


@pytest.mark.parametrize(
    "body", [b"<html>404 Not Found</html>", b"{}", b'{"error_code": 404, "message": "no such path"}']
)
def test_whoever_says_404_in_front_of_a_registry_makes_no_message_bad(body: bytes) -> None:
    with answering((404, body)) as (url, _), pytest.raises(RegistryError, match=r"refuses schema 1: .*404"):
        AvroConfluentSchema(SchemaRegistry(url), ROW).deserialize(header(1) + b"x")


def test_a_registry_cannot_send_the_job_elsewhere() -> None:
    with answering((302, b"{}"), (200, SCHEMA)) as (url, asked), pytest.raises(RegistryError, match="status 302"):
        SchemaRegistry(url).schema(1)
    assert asked == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    "url", ["canary", "ftp://canary", "http://", "http://u:can/ary@h:x", "https://h?proxy=canary", "https://h?canary"]
)
def test_an_url_that_cannot_be_used_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"schema registry") as failure:
        SchemaRegistry(url)
    assert "canary" not in str(failure.value)


def test_a_registry_travels_without_the_value_of_its_secret() -> None:
    registry = SchemaRegistry(SecretRef("registry", "url"))
    assert pickle.loads(pickle.dumps(registry)) == registry


# --- over Kafka -------------------------------------------------------------------------------------------------------


def copied(broker: KafkaBroker, source: str, sink: str, read: Any, write: Any) -> None:
    """Run a job that copies a topic, bad records left out."""

    def build(env: StreamExecutionEnvironment) -> None:
        reading = KafkaSource.builder().set_bootstrap_servers(broker.servers).set_topics(source)
        reading = reading.set_bounded(KafkaOffsetsInitializer.latest()).set_bad_records(BadRecords.skip())
        serializer = KafkaRecordSerializationSchema.builder().set_topic(sink)
        stream = env.from_source(read(reading).build(), WatermarkStrategy.no_watermarks(), "read")
        writing = KafkaSink.builder().set_bootstrap_servers(broker.servers).set_transactional_id_prefix(sink)
        writing = writing.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        stream.sink_to(writing.set_record_serializer(write(serializer).build()).build()).uid("sink")

    options = {"execution.checkpointing.interval": "100 ms", "restart-strategy.type": "none"}
    run_job(build, parallelism=2, mode=CONTINUOUS_ON_MINI_CLUSTER, options=options)


def test_avro_goes_through_kafka_and_becomes_json(broker: KafkaBroker, registry: RunningRegistry) -> None:
    names = [f"topic-{random.getrandbits(40):x}" for _ in range(3)]
    avro, copy, in_json = names
    for name in names:
        broker.create_topic(name, 2)
    schema_id = registry.register(f"{avro}-value", WRITER)
    for partition in (0, 1):
        rows = [{"note": "n", "name": f"<{number}>", "id": number} for number in range(partition, 100, 2)]
        broker.write(avro, [by_others(WRITER, schema_id, row) for row in rows], partition)
    broker.write(avro, [b"no Avro", header(4_000_000) + b"x"])
    registered = SchemaRegistry(registry.url)
    read = AvroConfluentSchema(registered, ROW)
    written = AvroConfluentSchema(registered, ROW, f"{copy}-value")
    copied(
        broker,
        avro,
        copy,
        lambda builder: builder.set_value_only_deserializer(read),
        lambda builder: builder.set_value_serialization_schema(written),
    )
    assert {schema_id_of(value or b"") for value in broker.values(copy)} != {schema_id}
    lines = JsonConfluentWriterFormat(registered, f"{in_json}-value")
    copied(
        broker,
        copy,
        in_json,
        lambda builder: builder.set_value_only_deserializer(read),
        lambda builder: builder.set_value_format(lines),
    )
    messages = [value or b"" for value in broker.values(in_json)]
    found = JsonConfluentFormat(registered, ROW).decode_messages(messages).values()
    assert sorted((row.id, row.name) for row in found) == [(number, f"<{number}>") for number in range(100)]
