"""cache(): the records of a stream, kept by the program for its next executions.

The first job in which a cached stream occurs also sends its records to the program's process; once that job has
finished, later jobs of the same environment read them from there instead of computing them again. They have to fit into
that process's memory, and they travel inside each job that reads them.

`Caches` is used by the program's thread; one thread per cache and running job takes what the job sends. Source:
PyFlink, CachedDataStream.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cloudpickle

from runtime.common.typeinfo import TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.collection import CollectionSource
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.execution.errors import ExecutionError
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.jobmaster.client_outputs import CollectedBatches
from runtime.network.channel import RecordLimit
from runtime.operators.operator import ClientChannel
from runtime.operators.sink import Sink, SinkWriter, WriterContext
from runtime.operators.sink_operator import SinkOperatorFactory
from runtime.operators.source import ReaderContext, ReadStatus, SourceSplit, SplitReader
from runtime.operators.source_operator import SourceOperatorFactory

if TYPE_CHECKING:
    from runtime.execution.application import JobHandle

__all__ = ["CachedRecords", "Caches"]


@dataclass(frozen=True, slots=True)
class CachedRecords:
    """Records with their event times; None if none has one."""

    values: list[Any]
    timestamps: list[int] | None


class Caches:
    """The cached streams of one environment, by the node that makes each."""

    def __init__(self) -> None:
        #: None = no job that made them has finished
        self._records: dict[int, CachedRecords | None] = {}
        #: who takes what a job sends, and the job
        self._takers: list[tuple[threading.Thread, JobHandle]] = []

    def add(self, node_id: int) -> None:
        """Keep the records of that node from its next execution on."""
        self._records[node_id] = None

    def invalidate(self, node_id: int) -> None:
        """Forget the records; the next execution makes and keeps them anew."""
        # what an ended job has sent must not arrive afterwards
        self.settle()
        self._records[node_id] = None

    def sources(self, nodes: dict[int, StreamNode]) -> dict[int, StreamNode]:
        """Return node id → a source that stands for the node, for those whose records are there."""
        found = {}
        for node_id, records in self._records.items():
            if records is not None:
                node = nodes[node_id]
                source = _CachedSource(records, node.output_type)
                factory = SourceOperatorFactory(source, WatermarkStrategy.no_watermarks(), node.name)
                found[node_id] = replace(node, factory=factory, is_source=True)
        return found

    def add_sinks(self, graph: StreamGraph) -> dict[str, int]:
        """Let a job send the records that are to be kept; returns collect id → node id."""
        sinks: dict[str, int] = {}
        for node_id, records in self._records.items():
            if records is None and node_id in graph.nodes:
                collect_id, sink_id = uuid.uuid4().hex, max(graph.nodes) + 1
                made_by = graph.nodes[node_id]
                graph.nodes[sink_id] = StreamNode(
                    sink_id,
                    f"Keep {made_by.name}",
                    SinkOperatorFactory(_CacheSink(collect_id), made_by.output_type),
                    made_by.parallelism,
                    is_sink=True,
                )
                graph.edges.append(StreamEdge(node_id, sink_id, None, record_type=made_by.output_type))
                sinks[collect_id] = node_id
        return sinks

    def fill(self, handle: JobHandle, sinks: dict[str, int]) -> None:
        """Take what a job sends, in the background; kept if the job finishes."""
        for collect_id, node_id in sinks.items():
            arguments = (node_id, handle.collected(collect_id), handle)
            thread = threading.Thread(target=self._take, args=arguments, name=f"cache-{node_id}", daemon=True)
            self._takers.append((thread, handle))
            thread.start()

    def join(self) -> None:
        """Wait for the jobs that fill caches."""
        for thread, _ in self._takers:
            thread.join()
        self._takers.clear()

    def settle(self) -> None:
        """Collect what jobs that have ended sent; those that still run are not waited for."""
        ended = [taker for taker in self._takers if taker[1].result.done()]
        for thread, _ in ended:
            thread.join()
        self._takers = [taker for taker in self._takers if taker not in ended]

    def _take(self, node_id: int, batches: CollectedBatches, handle: JobHandle) -> None:
        values: list[Any] = []
        timestamps: list[int] = []
        while (payload := batches.take()) is not None:
            more, their_timestamps = pickle.loads(payload)
            values += more
            timestamps += their_timestamps or [NO_TIMESTAMP] * len(more)
        try:
            handle.result.result()
        except ExecutionError:
            # what a failed or cancelled job has sent may be a part, or have come twice
            return
        has_times = any(timestamp != NO_TIMESTAMP for timestamp in timestamps)
        self._records[node_id] = CachedRecords(values, timestamps if has_times else None)


class _CacheSink(Sink):
    """Sends records and event times to the program."""

    def __init__(self, collect_id: str) -> None:
        self._channel = f"collect:{collect_id}"

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _CacheWriter(self._channel, context.client, context.record_limit)


class _CacheWriter(SinkWriter):
    def __init__(self, channel: str, client: ClientChannel, limit: RecordLimit) -> None:
        self._channel = channel
        self._client = client
        self._limit = limit

    def write(self, batch: RecordBatch) -> None:
        if not batch.num_rows:
            return
        values = batch.values()
        payload = cloudpickle.dumps((values, batch.timestamps()))
        if len(payload) > self._limit.max_bytes:
            for value in values:
                self._limit.check(len(cloudpickle.dumps(value)))
        self._client.send(self._channel, payload)

    def is_available(self) -> bool:
        return self._client.is_available()


class _CachedSource(CollectionSource):
    """Emits kept records with their event times; the watermark that follows them is that of the end."""

    def __init__(self, records: CachedRecords, type_info: TypeInformation | None) -> None:
        super().__init__((), type_info)
        self._records = records

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return _CachedReader(self._records, 0 if position is None else position, self.produced_type())


class _CachedReader(SplitReader):
    def __init__(self, records: CachedRecords, position: int, type_info: TypeInformation | None) -> None:
        self._records = records
        self._position = position
        self._type_info = type_info

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        start, stop = self._position, self._position + max_rows
        values, timestamps = self._records.values[start:stop], self._records.timestamps
        if not values:
            return ReadStatus.END_OF_SPLIT
        self._position += len(values)
        times = None if timestamps is None else timestamps[start:stop]
        return RecordBatch.of_values(values, times, type_info=self._type_info)

    @property
    def position(self) -> Any:
        return self._position
