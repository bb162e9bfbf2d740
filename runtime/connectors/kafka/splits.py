"""PartitionSplit: a partition to read, and which subtask reads it.

Source: Flink, KafkaPartitionSplit and KafkaSourceEnumerator.getSplitOwner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.connectors.kafka.offsets import KafkaTopicPartition
from runtime.operators.source import SourceSplit


@dataclass(frozen=True, slots=True)
class PartitionSplit(SourceSplit):
    """A partition."""

    partition: KafkaTopicPartition
    start: int
    """Offset at which reading begins."""
    stop: int | None
    """Offset of the first record that is not read; None: there is no end."""

    @classmethod
    def of(cls, partition: KafkaTopicPartition, start: int, stop: int | None) -> PartitionSplit:
        return cls(f"{partition.topic}-{partition.partition}", partition, start, stop)

    @classmethod
    def from_json(cls, value: Any) -> PartitionSplit:
        topic, partition, start, stop = value
        return cls.of(KafkaTopicPartition(topic, partition), start, stop)

    def to_json(self) -> Any:
        return [self.partition.topic, self.partition.partition, self.start, self.stop]


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """Return the subtask that reads a partition: those of one topic are dealt out one by one, from a subtask that its
    name says. Source: Flink, KafkaSourceEnumerator.getSplitOwner.
    """
    return ((java_hash(partition.topic) * 31 & 0x7FFFFFFF) % parallelism + partition.partition) % parallelism


def java_hash(text: str) -> int:
    """Return the 32 bits of a text's hashCode in Java, unsigned."""
    code = 0
    for unit in text.encode("utf-16-be").hex(" ", 2).split():
        code = (code * 31 + int(unit, 16)) & 0xFFFFFFFF
    return code
