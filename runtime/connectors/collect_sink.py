"""CollectSink: sends records back to the program that started the job (`execute_and_collect`).

One message per batch goes to the client channel "collect:<id>": a pickled list, which `decode_collected` reads. The
channel is the job's own, authenticated stream; nothing else may feed `decode_collected`.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle

from runtime.core.batch import RecordBatch
from runtime.network.channel import RecordLimit
from runtime.operators.operator import ClientChannel
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class CollectSink(Sink):
    """Sends records to the client.

    Args:
        collect_id: names the channel; unique in the job.
    """

    def __init__(self, collect_id: str) -> None:
        self.collect_id = collect_id

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _CollectWriter(f"collect:{self.collect_id}", context.client, context.record_limit)


def decode_collected(payload: bytes) -> list[Any]:
    """Return the records of one message."""
    records: list[Any] = pickle.loads(payload)
    return records


class _CollectWriter(SinkWriter):
    def __init__(self, channel: str, client: ClientChannel, limit: RecordLimit) -> None:
        self._channel = channel
        self._client = client
        self._limit = limit

    def write(self, batch: RecordBatch) -> None:
        if not batch.num_rows:
            return
        values = batch.values()
        payload = _encode(values)
        if len(payload) > self._limit.max_bytes:
            for value in values:
                self._limit.check(len(_encode([value])))
        self._client.send(self._channel, payload)

    def is_available(self) -> bool:
        return self._client.is_available()


def _encode(values: list[Any]) -> bytes:
    try:
        return pickle.dumps(values, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        # classes and functions of the user's main program
        payload: bytes = cloudpickle.dumps(values)
        return payload
