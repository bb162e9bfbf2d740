"""Fetcher: one consumer for all partitions that a subtask reads, on a thread of its own.

The consumer is assigned its partitions by hand: which subtask reads which is the job's business, and its group only
keeps offsets. What it gives is cut into chunks of one partition, which wait in that partition's queue. While a queue is
full, nothing is taken from the consumer, which goes on fetching ahead; a partition whose queue stays full is paused, so
that one that is not read (watermark alignment) holds up no other. A pause costs: the consumer drops what it has fetched
of the partition, and fetches it again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from runtime.connectors.kafka.offsets import ANSWER_S, KafkaTopicPartition
from runtime.core.batch import NO_TIMESTAMP

logger = logging.getLogger(__name__)

FETCH_RECORDS: Final = 5_000
"""Records taken from the consumer at a time. Fewer: calls show; more: partitions wait for one another."""
POLL_S: Final = 0.1
"""Longest wait for the next record: so late are new partitions begun, and the thread's end noticed."""
QUEUED_RECORDS: Final = 50_000
QUEUED_BYTES: Final = 32 << 20
"""What waits in a partition's queue when it is full. More: memory; less: the consumer waits for the task."""
ALL_QUEUED_BYTES: Final = 256 << 20
LEAST_QUEUED_BYTES: Final = 1 << 20
"""What waits in all queues of a subtask together, of which each has a share, and no less than that."""
FULL_S: Final = 0.1
"""Time for which a queue is full before its partition is paused. Shorter: one that is merely slow is fetched twice;
longer: others wait for one that is not read."""
COMMIT_S: Final = 2.0
"""Longest that whoever closes a fetcher waits for commits. Shorter: a slot that ends takes them along; longer: brokers
that are silent hold up its end."""

WATERMARKS_S: Final = 5.0
"""Time limit for learning which offsets there are, when one is missing."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "group.id": "tidemark",
    "isolation.level": "read_committed",
    # librdkafka's own queue; the default backs off for a second when 100,000 records wait
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 20,
}
_ALWAYS: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # an offset that is gone is an error: records are lost
    "auto.offset.reset": "error",
}
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})


class Chunk(NamedTuple):
    """Records of one partition, in order."""

    messages: Sequence[Message]
    values: Sequence[bytes | None]
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    """Timestamps, epoch ms; NO_TIMESTAMP where there is none."""
    next_offset: int
    """Offset to read from behind it: control records and records of aborted transactions have offsets, too."""


class PartitionQueue:
    """Chunks of one partition that wait to be read.

    Put into by the fetcher's thread, taken from by the task's.

    Args:
        partition: the partition.
        offset: at which reading begins.
        failure: gets the exception that has ended the fetcher.
        wake: is set when a full queue has room again.
    """

    def __init__(
        self, partition: KafkaTopicPartition, offset: int, failure: list[Exception], wake: threading.Event
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.error: Exception | None = None
        self.high_watermark = -1
        """Offset behind the newest record that the brokers have told of; -1: none yet."""
        self.most_bytes = QUEUED_BYTES
        """Bytes with which it is full."""
        self.has_reached_end = False
        """Whether reading has come to the newest record since it began."""
        self._failure = failure
        self._wake = wake
        self._chunks: deque[tuple[Chunk, int]] = deque()
        self._lock = threading.Lock()
        self._records = self._bytes = 0

    def put(self, chunk: Chunk) -> None:
        size = sum(map(len, filter(None, chunk.values)))
        with self._lock:
            self._chunks.append((chunk, size))
            self._records += len(chunk.values)
            self._bytes += size

    def take(self) -> Chunk | None:
        """Return the next chunk; None: there is none yet.

        Raises:
            Exception: reading has failed, and everything before was taken.
        """
        # in this order: whatever was put before the error is read
        error = self.error or next(iter(self._failure), None)
        with self._lock:
            if self._chunks:
                was_full = self.is_full
                chunk, size = self._chunks.popleft()
                self._records -= len(chunk.values)
                self._bytes -= size
                if was_full and not self.is_full:
                    self._wake.set()
                return chunk
        if error is not None:
            raise error
        return None

    @property
    def is_looking(self) -> bool:
        """Return whether something waits here, or it is not known that there is nothing."""
        return bool(self._chunks) or not self.has_reached_end

    @property
    def is_full(self) -> bool:
        return self._records >= QUEUED_RECORDS or self._bytes >= self.most_bytes

    @property
    def has_room(self) -> bool:
        """Return whether a partition that was paused is to go on."""
        return self._records < QUEUED_RECORDS // 2 and self._bytes < self.most_bytes // 2


class Fetcher:
    """Reads partitions until it is closed.

    Args:
        name: of the thread.
        properties: of the consumer.
    """

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        self._properties = {**_DEFAULTS, **properties, **_ALWAYS}
        self._commands: queue.SimpleQueue[Callable[[Consumer], None]] = queue.SimpleQueue()
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._paused: set[tuple[str, int]] = set()
        #: of those that are full and not paused yet
        self._full_since: dict[tuple[str, int], float] = {}
        #: requested and not answered
        self._commits = 0
        self._answered = threading.Condition()
        self._failure: list[Exception] = []
        self._stop = threading.Event()
        #: there is a command, room in a queue, or the end
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def open(self, partition: KafkaTopicPartition, offset: int) -> PartitionQueue:
        """Begin to read a partition, which must not be read already, at an offset."""
        opened = PartitionQueue(partition, offset, self._failure, self._wake)
        self._command(lambda consumer: self._assign(consumer, opened))
        return opened

    def release(self, opened: PartitionQueue) -> None:
        """Read a partition no longer."""
        self._command(lambda consumer: self._unassign(consumer, opened))

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Have the group's offsets committed; does not wait, and what fails is logged: the job does not need them."""
        if not self._thread.is_alive():
            return
        positions = [TopicPartition(each.topic, each.partition, offset) for each, offset in offsets.items()]
        with self._answered:
            self._commits += 1
        self._command(lambda consumer: self._commit(consumer, positions))

    def close(self) -> None:
        """End the thread, when commits are answered; waits for them, but for no longer than `COMMIT_S`. Idempotent."""
        self._stop.set()
        self._wake.set()
        with self._answered:
            self._answered.wait_for(lambda: self._commits == 0, COMMIT_S)

    def _command(self, command: Callable[[Consumer], None]) -> None:
        self._commands.put(command)
        self._wake.set()

    # --- on the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            consumer = Consumer({**self._properties, "on_commit": self._on_commit, "error_cb": self._on_error})
            try:
                while not self._stop.is_set():
                    self._step(consumer)
                self._carry_out(consumer)
                self._await_commits(consumer)
            finally:
                consumer.close()
        except Exception as error:
            self._failure.append(error)
        finally:
            self._answer(all_of_them=True)

    def _step(self, consumer: Consumer) -> None:
        self._wake.clear()
        self._carry_out(consumer)
        self._resume(consumer)
        if self._waits_for_room(consumer):
            return
        # without partitions as well: it serves the consumer's other events
        first = consumer.poll(POLL_S if self._commands.empty() else 0)
        if first is None:
            return
        self._deal(consumer, [first, *consumer.consume(FETCH_RECORDS, timeout=0)])

    def _carry_out(self, consumer: Consumer) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                command = self._commands.get_nowait()
                try:
                    command(consumer)
                except KafkaException as error:
                    logger.warning("Kafka: %s", error)

    def _commit(self, consumer: Consumer, positions: list[TopicPartition]) -> None:
        try:
            consumer.commit(offsets=positions, asynchronous=True)
        except BaseException:
            self._answer()
            raise

    def _await_commits(self, consumer: Consumer) -> None:
        """Wait for the answers: to close a consumer drops commits that still look for the group's coordinator."""
        until = time.monotonic() + ANSWER_S
        while self._commits and time.monotonic() < until:
            consumer.poll(POLL_S)

    def _answer(self, *, all_of_them: bool = False) -> None:
        with self._answered:
            self._commits = 0 if all_of_them else max(0, self._commits - 1)
            self._answered.notify_all()

    def _assign(self, consumer: Consumer, opened: PartitionQueue) -> None:
        partition = opened.partition
        self._queues[partition.topic, partition.partition] = opened
        self._share_memory()
        try:
            consumer.incremental_assign([TopicPartition(partition.topic, partition.partition, opened.offset)])
        except KafkaException as error:
            # else nobody would miss its records
            opened.error = error

    def _unassign(self, consumer: Consumer, opened: PartitionQueue) -> None:
        key = (opened.partition.topic, opened.partition.partition)
        if self._queues.get(key) is opened:
            del self._queues[key]
            self._share_memory()
            self._paused.discard(key)
            consumer.incremental_unassign([TopicPartition(*key)])

    def _share_memory(self) -> None:
        share = ALL_QUEUED_BYTES // max(1, len(self._queues))
        for opened in self._queues.values():
            opened.most_bytes = max(LEAST_QUEUED_BYTES, min(QUEUED_BYTES, share))

    def _deal(self, consumer: Consumer, messages: list[Message]) -> None:
        for key, run in groupby(messages, _key):
            opened = self._queues.get(key)
            if opened is None:
                continue  # it was released, or it is no partition's
            self._put(consumer, opened, list(run))
            _, high = consumer.get_watermark_offsets(TopicPartition(*key), cached=True)
            opened.high_watermark = max(opened.high_watermark, high)

    def _put(self, consumer: Consumer, opened: PartitionQueue, messages: list[Message]) -> None:
        errors = [message.error() for message in messages]
        ends: int | None = None
        if any(errors):
            for message, error in zip(messages, errors, strict=True):
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ends = message.offset()
                elif error is not None:
                    opened.error = KafkaException(_explained(consumer, opened.partition, error, message.offset()))
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
        offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
        behind = int(offsets[-1]) + 1 if messages else -1
        next_offset = max(behind, -1 if ends is None else ends)
        if next_offset < 0:
            return
        times = np.fromiter((_time(message) for message in messages), np.int64, len(messages))
        values = [message.value() for message in messages]
        opened.high_watermark = max(opened.high_watermark, next_offset)
        opened.put(Chunk(messages, values, offsets, times, next_offset))
        # behind what was read before it
        opened.has_reached_end = opened.has_reached_end or ends is not None

    def _waits_for_room(self, consumer: Consumer) -> bool:
        """Wait while a queue is full, but no longer than until something else comes; partitions whose queues have been
        full for `FULL_S` are paused.

        Returns:
            Whether a queue may still be full.
        """
        now = time.monotonic()
        full = [key for key, opened in self._queues.items() if opened.is_full and key not in self._paused]
        self._full_since = {key: self._full_since.get(key, now) for key in full}
        stuck = [key for key, since in self._full_since.items() if now - since >= FULL_S]
        for key in stuck:
            consumer.pause([TopicPartition(*key)])
            self._paused.add(key)
            del self._full_since[key]
        if not self._full_since:
            return False
        self._wake.wait(min(self._full_since.values()) + FULL_S - now)
        return True

    def _resume(self, consumer: Consumer) -> None:
        for key in [key for key in self._paused if self._queues[key].has_room]:
            consumer.resume([TopicPartition(*key)])
            self._paused.discard(key)

    def _on_commit(self, error: KafkaError | None, _: Sequence[TopicPartition]) -> None:
        self._answer()
        if error is not None:
            logger.warning("Kafka: offsets of the group could not be committed: %s", error)

    def _on_error(self, error: KafkaError) -> None:
        # the client tries again whatever else there is
        if error.fatal() or error.code() in _HOPELESS:
            self._failure.append(KafkaException(error))


def _key(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0


def _time(message: Message) -> int:
    kind, time = message.timestamp()
    return time if kind else NO_TIMESTAMP


def _explained(consumer: Consumer, partition: KafkaTopicPartition, error: KafkaError, offset: int | None) -> KafkaError:
    """Return an error with what has become of the offset, if it is that there is none like it any more."""
    if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) or offset is None:
        return error
    try:
        low, high = consumer.get_watermark_offsets(
            TopicPartition(partition.topic, partition.partition), timeout=WATERMARKS_S, cached=False
        )
    except KafkaException:
        return error
    if offset < low:
        told = (
            f"offset {offset} is not there any more: {low - offset} records were deleted before they were read (see "
            f"retention.ms and retention.bytes of the topic), which now begins at offset {low}. To go on without them, "
            "give the source another uid(), or start without the snapshot"
        )
    else:
        told = f"offset {offset} is out of range: the partition has those from {low} up to {high}"
    return KafkaError(error.code(), told)
