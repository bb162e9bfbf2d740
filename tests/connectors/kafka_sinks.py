"""Sinks of Kafka in tests, the ends of the processes that they are in, and what they have left in the brokers."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from runtime.common import Row
from runtime.connectors import NdjsonWriterFormat
from runtime.connectors.kafka.coordinator import TransactionCoordinator
from runtime.connectors.kafka.properties import admin_properties
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.operators.sink_operator import COMMITTABLES_STATE
from runtime.operators.two_phase_commit import TransactionId
from runtime.state.snapshot import OperatorSnapshot
from tests.connectors.crash_model import SinkJob
from tests.connectors.kafka_broker import KafkaContents
from tests.connectors.rigs import SinkRig


def properties(server: KafkaContents, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": server.servers, "transaction.timeout.ms": "800000"} | more


def exactly_once(server: KafkaContents, topic: str, **more: Any) -> KafkaSink:
    given = properties(server, **{name.replace("_", "."): value for name, value in more.pop("given", {}).items()})
    return KafkaSink(
        given,
        KafkaRecordSerialization(topic, NdjsonWriterFormat()),
        DeliveryGuarantee.EXACTLY_ONCE,
        "tests",
        **more,
    )


def coordinator(server: KafkaContents) -> TransactionCoordinator:
    return TransactionCoordinator(admin_properties({"bootstrap.servers": server.servers}))


def open_ids(server: KafkaContents) -> list[str]:
    asked = coordinator(server)
    try:
        return asked.ids("tests-")
    finally:
        asked.close()


def ids(server: KafkaContents, topic: str) -> list[int]:
    return sorted(json.loads(value or b"null")["id"] for value in server.values(topic))


def kill(rig: SinkRig) -> None:
    """Simulate the end of the process: nobody ends its transactions."""
    writer: Any = rig.operator._writer
    if writer is not None:
        writer._is_closed.set()
        if writer._producer is not None:
            writer._producer.stop.set()
        writer._writer.close()
        writer._coordinator.close()
    for part in (rig.operator._committer, rig.operator._sweeper):
        if part is not None:
            part.close()


def abort_of_frozen(server: KafkaContents, job: SinkJob) -> None:
    """Abort what frozen processes have begun behind the last sweep; else the broker does when it times out."""
    with closing(coordinator(server)) as asked:
        for name in asked.ids("tests-"):
            found = TransactionId.parse(name.removeprefix("tests-"))
            assert found is not None and found.attempt in job.frozen_attempts
            left = asked.describe(name)
            assert left is not None and asked.end(name, left.producer_id, left.epoch, commit=False)


def committables(snapshot: OperatorSnapshot) -> list[dict[str, Any]]:
    return [json.loads(item)["committable"] for item in snapshot.operator_states[COMMITTABLES_STATE].items]


def rows(*numbers: int) -> list[Row]:
    return [Row(id=number) for number in numbers]
