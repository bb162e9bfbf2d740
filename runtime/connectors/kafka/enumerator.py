"""PartitionEnumerator: finds the partitions of a Kafka source and deals them out.

Source: Flink, KafkaSourceEnumerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from runtime.connectors.background import BackgroundCall
from runtime.connectors.kafka.offsets import KafkaTopicPartition
from runtime.connectors.kafka.splits import PartitionSplit, owner_of
from runtime.connectors.kafka.subscription import Found, Subscription
from runtime.operators.source import NoSplit, SourceSplit, SplitEnumerator

DISCOVERY_POLL_MS: Final = 10
"""Time between two questions whether a look has ended."""
WATCH_MS: Final = 30_000
"""Time between two looks whether the topics are still those that reading began with."""


class PartitionEnumerator(SplitEnumerator):
    """Finds partitions, on a thread, and deals each one out to its owner.

    Args:
        subscription: what is looked for.
        parallelism: number of subtasks.
        restored: what `snapshot` gave; None: this is the first start.
        discovery_ms: time between two looks for new partitions, ms; None: there is one look only.
        is_bounded: whether the source has an end; its topics are not watched then.
    """

    def __init__(
        self,
        subscription: Subscription,
        parallelism: int,
        restored: Any | None,
        *,
        discovery_ms: int | None,
        is_bounded: bool,
    ) -> None:
        self._subscription = subscription
        self._parallelism = parallelism
        self._discovery_ms = discovery_ms
        #: time between two looks; None: there are no more
        self._pause_ms = None if is_bounded else min(WATCH_MS, discovery_ms or WATCH_MS)
        self._known: set[KafkaTopicPartition] = set()
        self._topic_ids: dict[str, str] = {}
        self._waiting: list[PartitionSplit] = []
        self._is_first = True
        #: this instance has found out what there is
        self._has_looked = False
        #: since the last look for new partitions
        self._waited_ms = 0
        if restored is not None:
            # which snapshots of earlier releases do not have
            self._topic_ids = dict(restored.get("topic_ids", {}))
            self._known = {KafkaTopicPartition(topic, number) for topic, number in restored["known"]}
            self._waiting = [PartitionSplit.from_json(value) for value in restored["waiting"]]
            self._is_first = restored["is_first"]
        self._look: BackgroundCall[Found] | None = None
        self._begin_look()

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        for number, split in enumerate(self._waiting):
            if owner_of(split.partition, self._parallelism) == subtask_index:
                return self._waiting.pop(number)
        is_over = self._has_looked and self._discovery_ms is None
        return NoSplit.NEVER if is_over else NoSplit.LATER

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._waiting[:0] = map(_as_partition, splits)

    def snapshot(self) -> Any:
        return {
            "known": [[each.topic, each.partition] for each in sorted(self._known)],
            "topic_ids": self._topic_ids,
            "waiting": [split.to_json() for split in self._waiting],
            "is_first": self._is_first,
        }

    def discovery_delay_ms(self) -> int | None:
        return self._pause_ms if self._look is None else DISCOVERY_POLL_MS

    def discover(self) -> bool:
        if self._look is None:
            self._waited_ms += self._pause_ms or 0
            is_due = self._discovery_ms is not None and self._waited_ms >= self._discovery_ms
            self._begin_look() if is_due else self._begin_watch()
            return False
        if not self._look.is_done:
            return False
        look, self._look = self._look, None
        found = look.result()
        self._topic_ids = found.topic_ids
        self._known.update(split.partition for split in found.splits)
        self._waiting += found.splits
        self._is_first = False
        # those that were told to wait hear that there will be nothing, too
        is_last = self._discovery_ms is None and not self._has_looked
        self._has_looked = True
        return bool(found.splits) or is_last

    def is_discovering(self) -> bool:
        return self._look is not None

    def close(self) -> None:
        # without waiting: brokers that are away have it wait
        self._look = None

    def _begin_look(self) -> None:
        self._waited_ms = 0
        known, topic_ids, is_first = frozenset(self._known), self._topic_ids, self._is_first
        self._look = BackgroundCall(
            "kafka-partitions", lambda: self._subscription.find(known, topic_ids, is_first=is_first)
        )

    def _begin_watch(self) -> None:
        known, topic_ids = frozenset(self._known), self._topic_ids
        self._look = BackgroundCall("kafka-topics", lambda: self._subscription.watch(known, topic_ids))


def _as_partition(split: SourceSplit) -> PartitionSplit:
    assert isinstance(split, PartitionSplit)
    return split
