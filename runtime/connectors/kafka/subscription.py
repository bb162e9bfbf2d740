"""Subscription: the partitions that a source wants, as the brokers know them, and whether their topics have changed.

Source: Flink, KafkaSubscriber; ids of topics: KIP-516.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaException

from runtime.connectors.kafka.offsets import (
    ANSWER_S,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetClient,
    error_text,
    is_transient,
)
from runtime.connectors.kafka.splits import PartitionSplit
from runtime.operators.source import SourceError

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
"""Time before brokers are asked again that were electing a leader."""
_GONE_S: Final = 5.0
"""Time for which a topic has to be unknown to count as deleted."""


class Found(NamedTuple):
    """Holds what a look has found."""

    splits: list[PartitionSplit]
    """Of new partitions."""
    topic_ids: dict[str, str]
    """Of all topics that are read."""


class TopicChangedError(LookupError):
    """Tells that a topic was deleted, or made anew: its offsets mean other records, if there are any."""


class Subscription:
    """Asks the brokers what there is to read.

    Args:
        topics, topic_pattern, partitions: what is wanted; one of the three, as `KafkaSource` takes them.
        start, stop: the offsets of those partitions.
        connect: returns a client of the brokers.
    """

    def __init__(
        self,
        topics: Sequence[str],
        topic_pattern: str | None,
        partitions: Sequence[KafkaTopicPartition],
        start: KafkaOffsetsInitializer,
        stop: KafkaOffsetsInitializer | None,
        connect: Callable[[], OffsetClient],
    ) -> None:
        self._topics = topics
        self._pattern = None if topic_pattern is None else re.compile(topic_pattern)
        self._partitions = partitions
        self._start = start
        self._stop = stop
        self._connect = connect

    def __str__(self) -> str:
        if self._pattern is not None:
            return f"topics {self._pattern.pattern!r}"
        return ", ".join(self._topics or sorted({each.topic for each in self._partitions}))

    def find(self, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str], *, is_first: bool) -> Found:
        """Return the splits of the partitions that are not known yet; asks the brokers.

        Args:
            known: partitions that were found before.
            topic_ids: of their topics, as far as they are known.
            is_first: whether nothing was looked for before: later partitions begin at their beginning.

        Raises:
            SourceError: the brokers do not answer, or there is no such topic or offset; or a topic was deleted, or made
                anew. What passes by itself, such as an election of a leader, is waited for up to `ANSWER_S`.
        """
        until = time.monotonic() + ANSWER_S
        while True:
            try:
                client = self._connect()
                found = self._find(client, known, is_first=is_first)
                return Found(
                    found, self._check_topics(client, {*known, *(each.partition for each in found)}, topic_ids)
                )
            except (KafkaException, LookupError, ValueError) as error:
                if not is_transient(error) or time.monotonic() > until:
                    raise SourceError(f"Kafka {self}: {error_text(error)}") from error
            time.sleep(_RETRY_S)

    def watch(self, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str]) -> Found:
        """Look whether the topics are still those that reading began with; brokers that do not answer are no reason to
        end the job.

        Raises:
            SourceError: a topic was deleted, or made anew.
        """
        try:
            return Found([], self._check_topics(self._connect(), known, topic_ids))
        except TopicChangedError as error:
            raise SourceError(f"Kafka {self}: {error}") from error
        except (KafkaException, TimeoutError) as error:
            logger.info("Kafka %s: the topics could not be looked at: %s", self, error)
            return Found([], dict(topic_ids))

    def _check_topics(
        self, client: OffsetClient, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the ids of the topics of partitions.

        Raises:
            KafkaException: the brokers do not answer.
            TopicChangedError: one is not there, or has another id than it had.
        """
        topics, until = sorted({each.topic for each in known}), time.monotonic() + _GONE_S
        while True:
            found = client.topic_ids(topics)
            gone = next((topic for topic in topics if topic not in found), None)
            # a broker may not have heard of a new one yet
            if gone is None or time.monotonic() > until:
                break
            time.sleep(_RETRY_S)
        if gone is not None:
            raise TopicChangedError(f"topic {gone!r} was deleted while it was read")
        for topic in topics:
            if topic_ids.get(topic, found[topic]) != found[topic]:
                raise TopicChangedError(
                    f"topic {topic!r} was deleted and made anew: the offsets up to which it was read mean other ones "
                    "now. To read the new one from its beginning, give the source another uid(), or start without the "
                    "snapshot"
                )
        return found

    def _find(
        self, client: OffsetClient, known: Collection[KafkaTopicPartition], *, is_first: bool
    ) -> list[PartitionSplit]:
        new = sorted(set(self._wanted(client)).difference(known))
        starts = (self._start if is_first else KafkaOffsetsInitializer.earliest()).resolve(new, client)
        if is_first:
            self._start.check(starts, client)
            self._check_named(new)
        stops: Mapping[KafkaTopicPartition, int] = {} if self._stop is None else self._stop.resolve(new, client)
        return [PartitionSplit.of(each, starts[each], stops.get(each)) for each in new]

    def _check_named(self, found: Collection[KafkaTopicPartition]) -> None:
        """Check that offsets are given for partitions that are read: others are misspelt.

        Raises:
            LookupError: one is not.
        """
        named = set(self._start.named).union(() if self._stop is None else self._stop.named)
        unread = sorted(named.difference(found))
        if unread:
            raise LookupError(
                f"an offset is given for topic {unread[0].topic!r}, partition {unread[0].partition}, which is not read"
            )

    def _wanted(self, client: OffsetClient) -> list[KafkaTopicPartition]:
        pattern = self._pattern
        if pattern is not None:
            return client.partitions(lambda topic: pattern.fullmatch(topic) is not None)
        topics = {*self._topics, *(each.topic for each in self._partitions)}
        found = client.partitions(topics.__contains__)
        missing = sorted(topics.difference(each.topic for each in found))
        if missing:
            raise LookupError(f"there is no topic {missing[0]!r}")
        gone = [each for each in self._partitions if each not in set(found)]
        if gone:
            raise LookupError(f"topic {gone[0].topic!r} has no partition {gone[0].partition}")
        return list(self._partitions) or found
