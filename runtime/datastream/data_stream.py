"""DataStream and KeyedStream: transformations of a program's records. Source: PyFlink, data_stream.py.

A stream only describes; nothing runs before `StreamExecutionEnvironment.execute`. Functions may be lambdas, callables
or the function classes of `runtime.datastream.functions`. An `output_type` of None means Python objects.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from runtime.common.exclusions import refuse_attribute
from runtime.common.execution_config import ExecutionConfig
from runtime.common.time import Duration, Time
from runtime.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.collect_sink import CollectSink
from runtime.connectors.formats.bad_records import DEAD_LETTERS
from runtime.connectors.formats.json.json_columns import BadJson
from runtime.connectors.print_sink import PrintSink
from runtime.core.column_keys import ColumnKeys
from runtime.core.shortest_floats import with_shortest_floats
from runtime.datastream.broadcast_stream import BroadcastStream
from runtime.datastream.columnar import (
    aggregated,
    best_rows,
    deduplicated,
    filtered,
    frames_mapped,
    projected,
    regularly_joined,
    unnested,
    window_joined,
    with_json,
    with_parsed_json,
)
from runtime.datastream.connected_streams import BroadcastConnectedStream, ConnectedStreams
from runtime.datastream.iterator import CloseableIterator
from runtime.datastream.joined_streams import CoGroupedStreams, IntervalJoin, JoinedStreams, TemporalJoin, millis_of
from runtime.datastream.key_selectors import coerced_selector
from runtime.datastream.keyed_records import WithKey, type_with_key
from runtime.datastream.slot_sharing_group import SlotSharingGroup
from runtime.datastream.transformation import Port
from runtime.datastream.windowed_stream import AllWindowedStream, WindowedStream
from runtime.graph.changelog import changelogs
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import ChainingStrategy, StreamNode
from runtime.operators.checkpointed_function import CheckpointedFunction
from runtime.operators.columnar.expressions import extension, selection
from runtime.operators.columnar.map_frames import FrameFunction, Rows
from runtime.operators.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    NullByteKeySelector,
    ProcessFunction,
    ReduceFunction,
)
from runtime.operators.functions import Partitioner as Partitioner
from runtime.operators.map_operators import FilterOperatorFactory, FlatMapOperatorFactory, MapOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.operators.process_operators import KeyedProcessOperatorFactory, ProcessOperatorFactory
from runtime.operators.reduce import AccumulateFunction, AccumulateType, ReduceOperatorFactory
from runtime.operators.sink import Sink
from runtime.operators.sink_operator import SinkOperatorFactory
from runtime.operators.watermarks import TimestampsAndWatermarksOperatorFactory
from runtime.operators.window_joins import Tagger
from runtime.operators.windowing.assigners import GlobalWindows, WindowAssigner
from runtime.operators.windowing.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from runtime.operators.windowing.evictors import CountEvictor
from runtime.operators.windowing.triggers import CountTrigger, PurgingTrigger
from runtime.state.descriptors import MapStateDescriptor
from runtime.state.key_groups import MAX_MAX_PARALLELISM

__all__ = ["CachedDataStream", "DataStream", "DataStreamError", "DataStreamSink", "KeyedStream", "Partitioner"]

if TYPE_CHECKING:
    from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamError(Exception):
    """The program asks for something that streams do not do."""


class DataStream:
    """A stream of records, not keyed."""

    #: of a KeyedStream; None = not keyed
    key_selector: Any = None

    def __init__(
        self, env: StreamExecutionEnvironment, ports: tuple[Port, ...], type_info: TypeInformation | None
    ) -> None:
        self._env = env
        self._ports = ports
        self._type_info = type_info

    # --- about the operator that makes this stream --------------------------------------------------------------------

    def get_name(self) -> str:
        """Return the name of the operator that makes this stream."""
        return self._node().name

    def name(self, name: str) -> DataStream:
        """Name the operator, for plans, metrics and messages."""
        node = self._node()
        node.name, node.is_named = name, True
        return self

    def uid(self, uid: str) -> DataStream:
        """Identify the operator for its state: give one to every stateful operator, and never change it."""
        self._node().uid = uid
        return self

    def set_description(self, description: str) -> DataStream:
        """Say in plans what the operator does, in place of its name."""
        self._node().description = description
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Set the number of subtasks of the operator.

        Raises:
            DataStreamError: it is not positive, or the operator cannot run in parallel.
        """
        node = self._node()
        _check_positive("parallelism", parallelism)
        if self._env.is_non_parallel(node.node_id) and parallelism != 1:
            raise DataStreamError(f"{node.name} cannot run in parallel: its parallelism is 1")
        node.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Set the number of key groups of the operator; the limit of its parallelism, fixed for the life of its state.

        Raises:
            DataStreamError: it is not in 1..32768.
        """
        _check_positive("max parallelism", max_parallelism)
        if max_parallelism > MAX_MAX_PARALLELISM:
            raise DataStreamError(f"the max parallelism must be at most {MAX_MAX_PARALLELISM}, not {max_parallelism}")
        self._node().max_parallelism = max_parallelism
        return self

    def force_non_parallel(self) -> DataStream:
        """Run the operator as one subtask, whatever the environment says."""
        self._node().parallelism = self._node().max_parallelism = 1
        self._env.mark_non_parallel(self._node().node_id)
        return self

    def set_buffer_timeout(self, timeout_ms: int) -> DataStream:
        """Set how long records may wait on their way out: ms; 0 = not at all, -1 = until a batch is full."""
        if timeout_ms < -1:
            raise DataStreamError(f"the buffer timeout must be -1, 0 or a number of milliseconds, not {timeout_ms}")
        self._env.set_node_buffer_timeout(self._node().node_id, timeout_ms)
        return self

    def start_new_chain(self) -> DataStream:
        """Begin a new chain with the operator."""
        self._node().chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> DataStream:
        """Let the operator share its task with no other."""
        self._node().chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStream:
        """Let the operator, and those after it, use slots that other groups do not use."""
        self._node().slot_sharing_group = _group_name(slot_sharing_group)
        return self

    def get_type(self) -> TypeInformation | None:
        """Return the type of the records; None = Python objects."""
        return self._type_info

    def outputs(self) -> list[tuple[int, str | None]]:
        """Return node id and side output, None for the main one, of all outputs that this is; for extraction."""
        return [(port.node_id, None if port.tag is None else port.tag.tag_id) for port in self._ports]

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        return self._env.get_config()

    # --- transformations ----------------------------------------------------------------------------------------------

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit one record for each."""
        factory = MapOperatorFactory(func, output_type)
        return self._transform("Map", factory, output_type, is_stateful=isinstance(func, CheckpointedFunction))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of records for each: the function returns or yields them."""
        factory = FlatMapOperatorFactory(func, output_type)
        return self._transform("FlatMap", factory, output_type, is_stateful=isinstance(func, CheckpointedFunction))

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the records for which the function is true."""
        factory = FilterOperatorFactory(func, self._type_info)
        return self._transform("Filter", factory, self._type_info, is_stateful=isinstance(func, CheckpointedFunction))

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of each tuple, in the order given.

        Raises:
            DataStreamError: the records are not tuples, or have no such field.
        """
        if not isinstance(self._type_info, TupleTypeInfo):
            raise DataStreamError(f"project() needs a stream of tuples, not of {self._type_info}")
        types = self._type_info.get_field_types()
        if not field_indexes or not all(0 <= index < len(types) for index in field_indexes):
            raise DataStreamError(f"project{field_indexes}: the tuples have the fields 0..{len(types) - 1}")
        projected = Types.TUPLE([types[index] for index in field_indexes])
        factory = MapOperatorFactory(lambda value: tuple([value[index] for index in field_indexes]), projected)
        return self._transform("Projection", factory, projected)

    def cache(self) -> CachedDataStream:
        """Keep the records of the first finished job that has them for the next jobs of this environment.

        For bounded streams: the records have to fit into the program's memory; see `runtime.datastream.cached_stream`.
        """
        parallelism = self._env.program.nodes[self._ports[0].node_id].parallelism
        factory = FilterOperatorFactory(_any_record, self._type_info)
        node = self._env.add_operator("Cache", factory, self._type_info, [(0, self._ports)], parallelism=parallelism)
        # the next jobs have the records without the operators that made them
        nodes = self._env.program.nodes
        node.makes_changelog = node.node_id in changelogs(nodes, self._env.program.edges, nodes)
        self._env.caches.add(node.node_id)
        return CachedDataStream(self._env, (Port(node.node_id),), self._type_info)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit any number of records for each, with access to event time and side outputs.

        Raises:
            TypeError: `func` is no ProcessFunction.
        """
        factory = ProcessOperatorFactory(func, output_type)
        return self._transform("Process", factory, output_type, is_stateful=isinstance(func, CheckpointedFunction))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the records event times, and the stream its watermarks."""
        factory = TimestampsAndWatermarksOperatorFactory(watermark_strategy, self._type_info)
        # its watermark is no state: the next records make it anew
        return self._transform("Timestamps/Watermarks", factory, self._type_info)

    def union(self, *streams: DataStream) -> DataStream:
        """Merge this stream with others of the same type, in no order.

        Raises:
            DataStreamError: a stream belongs to another environment, or has another type.
        """
        ports = list(self._ports)
        for stream in streams:
            if stream._env is not self._env:
                raise DataStreamError("union: the streams belong to different environments")
            if stream._type_info != self._type_info:
                raise DataStreamError(f"union: the types differ: {self._type_info} and {stream._type_info}")
            ports.extend(stream._ports)
        return DataStream(self._env, tuple(ports), self._type_info)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect this stream with another one, possibly of another type, for one function that sees both.

        Raises:
            DataStreamError: the other one belongs to another environment.
        """
        if isinstance(ds, BroadcastStream):
            self._check_same_environment("connect", ds.input_stream)
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_same_environment("connect", ds)
        return ConnectedStreams(self, ds)

    def join(self, other: DataStream) -> JoinedStreams:
        """Join this stream's and another one's records with equal keys in a window (Java only)."""
        self._check_same_environment("join", other)
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream) -> CoGroupedStreams:
        """Group all of this stream's and another one's records with one key in one window (Java only)."""
        self._check_same_environment("co_group", other)
        return CoGroupedStreams(self, other)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return the records that the operator emits with a tag."""
        return DataStream(self._env, (Port(self._node().node_id, output_tag),), output_tag.type_info)

    # --- columns (not in PyFlink) -------------------------------------------------------------------------------------

    def select(self, *expressions: str, **named: str) -> DataStream:
        """Make new columns from those of each record: `select("auction", "price / 100.0 AS euros", cents="price")`.

        Args:
            expressions: SQL; a column, "*" for all of them, or anything with `AS name`.
            named: SQL, by the name of the column that it makes.

        Raises:
            ColumnExpressionError: an expression cannot be used: a ValueError that says which and why.
            TypeError: the records have no declared type.
        """
        return projected(self, "Select", selection(self._type_info, expressions, named))

    def with_columns(self, *expressions: str, **named: str) -> DataStream:
        """Make new columns like `select`, beside the existing ones; one of the same name is replaced."""
        return projected(self, "WithColumns", extension(self._type_info, expressions, named))

    def where(self, condition: str) -> DataStream:
        """Keep the records for which an SQL condition is true: `where("price > 100 AND channel LIKE 'a%'")`.

        Raises:
            ColumnExpressionError: it is no condition.
            TypeError: the records have no declared type.
        """
        return filtered(self, condition)

    def unnest(self, column: str, alias: str | None = None) -> DataStream:
        """Emit a record for each item of a list column, which takes the list's place; empty and null lists give none.

        Raises:
            ColumnExpressionError: it is no column of lists, or the alias is taken.
            TypeError: the records have no declared type.
        """
        return unnested(self, column, alias or column)

    def parse_json(
        self,
        column: str,
        row_type: RowTypeInfo,
        alias: str | None = None,
        bad: BadJson = "fail",
        tag: OutputTag = DEAD_LETTERS,
    ) -> DataStream:
        """Parse a column of JSON objects; what they hold takes the column's place.

        Args:
            column: of STRING or of bytes in UTF-8; null gives nulls.
            row_type: names and types of the objects' fields, as of an NdjsonFormat: a field that an object lacks is
                null, one that the type lacks is left out.
            alias: name of one column of rows; None: each field becomes a column.
            bad: what becomes of a record whose text is no such object: "fail" the job, "null" in all fields, "skip"
                it, or "dead_letters": `get_side_output(tag)` has them. All but the first count them.
            tag: of DEAD_LETTER_TYPE: operator, column, error, text.

        Raises:
            ColumnExpressionError: there is no such column of texts, or a name is taken.
            TypeError: the records have no declared type, or a field's type is not a JSON type.
            ValueError: `bad` or the tag is not one of these.
        """
        return with_parsed_json(self, column, row_type, alias, bad, tag)

    def to_json(self, alias: str, *columns: str) -> DataStream:
        """Write columns as a JSON object into a further column of STRING, as an NdjsonWriterFormat does.

        Args:
            alias: name of the column; one that exists is replaced.
            columns: of the object, in their order; none = all.

        Raises:
            ColumnExpressionError: there is no such column.
            TypeError: the records have no declared type.
        """
        return with_json(self, alias, columns)

    def map_frames(
        self, func: FrameFunction, output_type: TypeInformation | None = None, rows: Rows = "same"
    ) -> DataStream:
        """Call a function with the records of each batch as a Polars frame; it returns a frame of the output's columns.

        What it makes of a row must not depend on the frame's other rows: a batch begins and ends anywhere.

        Args:
            func: `polars.DataFrame` → `polars.DataFrame`. Columns are matched by name; whole numbers may come wider or
                narrower than declared, and are checked.
            output_type: of the result; None = the input's.
            rows: "same": a row for each, in order; event times stay. "any": any number; the frames have a further
                column `event_time` (Int64, ms), and rows that are returned without it have no event time.

        Raises:
            TypeError: the records, or the result's, have no declared type; or `func` is no function.
            ValueError: `rows` is none of these, or with "any" a column is named event_time.
        """
        return frames_mapped(self, func, output_type, rows)

    def key_by_columns(self, *columns: str) -> KeyedStream:
        """Bring records with equal values of these columns to the same subtask, without making Python objects.

        The key that functions see is the value of one column, or the tuple of several.

        Raises:
            TypeError: the records have no named fields.
            ValueError: there is no such column.
        """
        return self._keyed(ColumnKeys(columns, self._type_info))

    def changelog_as_rows(self) -> DataStream:
        """Let Python functions see the rows of a changelog, each with its kind: `row.get_row_kind()`.

        `aggregate_columns` and `top_n` without a window, and `deduplicate("last")`, make changelogs. What a function
        returns is a row of its own, so a function that did not know would turn a row that takes another one back into
        a new one: without this call the program is refused. `select`, `where`, `unnest` and `filter` keep the kinds
        and need no call. As to_changelog_stream() of the Table API.
        """
        return DataStream(self._env, tuple(replace(p, changelog_as_rows=True) for p in self._ports), self._type_info)

    # --- partitioning -------------------------------------------------------------------------------------------------

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Bring records with equal keys to the same subtask.

        Args:
            key_selector: a callable or KeySelector, from a record to its key: None, bool, int, float, str, bytes,
                Decimal, date and time, or tuples and Rows of those.
            key_type: what keys are converted to; None = as they are.
        """
        return self._keyed(coerced_selector(key_selector, key_type))

    def _keyed(self, selector: Any) -> KeyedStream:
        ports = self._dealt_out(Partitioning.KEY_GROUP, selector)
        return KeyedStream(self._env, ports, self._type_info, selector, self)

    def rebalance(self) -> DataStream:
        """Deal records out evenly to all subtasks."""
        return self._repartitioned(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Deal records out evenly, each subtask to some of the next operator's only."""
        return self._repartitioned(Partitioning.RESCALE)

    def shuffle(self) -> DataStream:
        """Deal records out at random."""
        return self._repartitioned(Partitioning.SHUFFLE)

    def forward(self) -> DataStream:
        """Keep records in the subtask of the same number."""
        return self._repartitioned(Partitioning.FORWARD)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send every record to every subtask; with descriptors, to be connected with, filling these states there."""
        stream = self._repartitioned(Partitioning.BROADCAST)
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(stream, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def global_(self) -> DataStream:
        """Send every record to the first subtask."""
        return self._repartitioned(Partitioning.GLOBAL)

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """Send each record to the subtask that `partitioner(key, number of subtasks)` names."""
        partition = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        if not callable(partition):
            raise TypeError(f"partition_custom() needs a Partitioner or a callable, not {partitioner!r}")
        return DataStream(
            self._env,
            self._dealt_out(Partitioning.CUSTOM, (partition, coerced_selector(key_selector, None))),
            self._type_info,
        )

    # --- windows ------------------------------------------------------------------------------------------------------

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Cut the whole stream into windows, in one subtask."""
        return AllWindowedStream(self.key_by(NullByteKeySelector()), window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Make a window of every `size` records of the whole stream; with a slide, of the last `size` records after
        every `slide` ones.

        As Flink's countWindowAll (Java only), which unlike `count_window` gives sliding windows that are not full yet.
        """
        windows = self.window_all(GlobalWindows.create())
        if slide == 0:
            return windows.trigger(PurgingTrigger.of(CountTrigger.of(size)))
        return windows.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

    # --- sinks --------------------------------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a sink.

        Raises:
            TypeError: it is no Sink.
        """
        if not isinstance(sink, Sink):
            raise TypeError(f"sink_to() needs a Sink, not {sink!r}")
        return self._sink(type(sink).__name__, sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records to the program's standard output, `N> ` first if N subtasks print."""
        return self._sink("Print to Std. Out", PrintSink(sink_identifier))

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the program and bring this stream's records here.

        Args:
            job_execution_name: name of the job.
            limit: give a list of at most that many records, and stop the job then.

        Returns:
            A CloseableIterator over the records as they come (close it to stop the job), or the list.
        """
        collect_id = uuid.uuid4().hex
        self._sink("Collect", CollectSink(collect_id))
        client = self._env.execute_async(job_execution_name, collect_ids=(collect_id,))
        iterator = CloseableIterator(client, client.handle.collected(collect_id), with_shortest_floats(self._type_info))
        if limit is None:
            return iterator
        with iterator as records:
            # the limit goes first: zip() would else wait for one record more, and throw it away
            return [record for _, record in zip(range(limit), records, strict=False)]

    # --- for other parts of the API -----------------------------------------------------------------------------------

    def transform(
        self, name: str, factory: OperatorFactory, output_type: TypeInformation | None, *, is_stateful: bool = True
    ) -> DataStream:
        """Add an operator with this stream as its input."""
        return self._transform(name, factory, output_type, is_stateful=is_stateful)

    def described_as(self, description: str) -> DataStream:
        """Set what plans say of the operator unless the user describes it."""
        self._node().default_description = description
        return self

    def made_of(self, **parts: DataStream) -> DataStream:
        """Say which operators were added for this one: their uids are this one's with the name of the part behind it.

        Args:
            parts: streams that these operators make, by name of the part.
        """
        for part, stream in parts.items():
            helper = stream._node()
            # windows of two streams can be applied to several functions: the first one owns what they share
            if helper.part_of is None:
                helper.part_of, helper.part = self._node().node_id, part
        return self

    def is_made_here(self) -> bool:
        """Return whether one operator's tasks hold the records without repartitioning: another one can be chained to
        it.
        """
        return len(self._ports) == 1 and self._ports[0].partitioning is None

    def transform_here(
        self, name: str, factory: OperatorFactory, output_type: TypeInformation | None, *, is_stateful: bool = True
    ) -> DataStream:
        """Add an operator of the parallelism of the one that makes this stream."""
        parallelism = self._env.program.nodes[self._ports[0].node_id].parallelism
        return self._transform(name, factory, output_type, parallelism=parallelism, is_stateful=is_stateful)

    def transform_two(
        self,
        second: DataStream,
        name: str,
        factory: OperatorFactory,
        output_type: TypeInformation | None,
        *,
        is_stateful: bool = True,
    ) -> DataStream:
        """Add an operator with this stream as its first and another one as its second input."""
        inputs = [(0, self._ports), (1, second._ports)]
        node = self._env.add_operator(name, factory, output_type, inputs, is_stateful=is_stateful)
        return DataStream(self._env, (Port(node.node_id),), output_type)

    def tagged(self, side: int, tagged_type: TypeInformation | None) -> DataStream:
        """Tag the records with the side of a window join that they belong to."""
        parallelism = self._env.program.nodes[self._ports[0].node_id].parallelism
        factory = MapOperatorFactory(Tagger(side), tagged_type)
        return self._transform("Map", factory, tagged_type, parallelism=parallelism)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _node(self) -> StreamNode:
        if not self.is_made_here() or self._ports[0].tag is not None:
            raise DataStreamError(
                "this stream is a union, a side output or only partitioned, not the output of one operator"
            )
        return self._env.program.nodes[self._ports[0].node_id]

    def _check_same_environment(self, what: str, other: DataStream) -> None:
        if other._env is not self._env:
            raise DataStreamError(f"{what}: the streams belong to different environments")

    def _dealt_out(self, partitioning: Partitioning, partitioner: Any = None) -> tuple[Port, ...]:
        return tuple(replace(port, partitioning=partitioning, partitioner=partitioner) for port in self._ports)

    def _repartitioned(self, partitioning: Partitioning) -> DataStream:
        return DataStream(self._env, self._dealt_out(partitioning), self._type_info)

    def _transform(
        self,
        name: str,
        factory: Any,
        output_type: TypeInformation | None,
        *,
        parallelism: int | None = None,
        is_stateful: bool = False,
    ) -> DataStream:
        node = self._env.add_operator(
            name, factory, output_type, [(0, self._ports)], parallelism=parallelism, is_stateful=is_stateful
        )
        return DataStream(self._env, (Port(node.node_id),), output_type)

    def _sink(self, name: str, sink: Sink) -> DataStreamSink:
        factory = SinkOperatorFactory(sink, self._type_info)
        node = self._env.add_operator(
            name, factory, None, [(0, self._ports)], is_sink=True, is_stateful=sink.keeps_state()
        )
        return DataStreamSink(node)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)


class DataStreamSink:
    """A sink that was added to a program."""

    def __init__(self, node: StreamNode) -> None:
        self._node = node

    def name(self, name: str) -> DataStreamSink:
        self._node.name, self._node.is_named = name, True
        return self

    def uid(self, uid: str) -> DataStreamSink:
        self._node.uid = uid
        return self

    def set_description(self, description: str) -> DataStreamSink:
        self._node.description = description
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        _check_positive("parallelism", parallelism)
        self._node.parallelism = parallelism
        return self

    def disable_chaining(self) -> DataStreamSink:
        self._node.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        self._node.slot_sharing_group = _group_name(slot_sharing_group)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            refuse_attribute(self, name)


class CachedDataStream(DataStream):
    """A stream whose records are kept for the next jobs of the environment. Made by `DataStream.cache`."""

    def invalidate(self) -> None:
        """Forget the records: the next job that needs them makes and keeps them anew."""
        self._env.caches.invalidate(self._node().node_id)


# inside the class, PyFlink's nested name hides the module's
_Accumulation = AccumulateType


class KeyedStream(DataStream):
    """A stream whose records with equal keys meet in one subtask, so that functions may keep state per key."""

    AccumulateType = AccumulateType

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        ports: tuple[Port, ...],
        type_info: TypeInformation | None,
        key_selector: Any,
        origin: DataStream,
    ) -> None:
        super().__init__(env, ports, type_info)
        self.key_selector = key_selector
        self._state_ttl_ms: int | None = None
        self._origin = origin

    @property
    def origin(self) -> DataStream:
        """Return the stream before it was keyed."""
        return self._origin

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit one record for each; a MapFunction may use keyed state."""
        factory = MapOperatorFactory(func, output_type, self.key_selector)
        return self._transform("Map", factory, output_type, is_stateful=_may_keep_state(func, MapFunction))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of records for each; a FlatMapFunction may use keyed state."""
        factory = FlatMapOperatorFactory(func, output_type, self.key_selector)
        return self._transform("FlatMap", factory, output_type, is_stateful=_may_keep_state(func, FlatMapFunction))

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the records for which the function is true; a FilterFunction may use keyed state."""
        factory = FilterOperatorFactory(func, self._type_info, self.key_selector)
        return self._transform("Filter", factory, self._type_info, is_stateful=_may_keep_state(func, FilterFunction))

    def process(
        self,
        func: KeyedProcessFunction,  # type: ignore[override]
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit any number of records for each, with keyed state, timers and side outputs.

        Raises:
            TypeError: `func` is no KeyedProcessFunction.
        """
        factory = KeyedProcessOperatorFactory(func, self.key_selector, output_type)
        return self._transform("KeyedProcess", factory, output_type, is_stateful=True)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Emit the reduction of all records of the key so far, for every record."""
        return self._reduced("Reduce", func)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Emit the first record of the key, with the sum of a field so far."""
        return self._accumulated(AccumulateType.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Emit the first record of the key, with the least value of a field so far."""
        return self._accumulated(AccumulateType.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Emit the first record of the key, with the greatest value of a field so far."""
        return self._accumulated(AccumulateType.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Emit the record of the key that has the least value of a field so far."""
        return self._accumulated(AccumulateType.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Emit the record of the key that has the greatest value of a field so far."""
        return self._accumulated(AccumulateType.MAX_BY, position_to_max_by)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Cut the records of each key into windows."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Make windows of `size` records per key; with a slide, one starts every `slide` records of the key."""
        if slide == 0:
            return WindowedStream(self, CountTumblingWindowAssigner(size))
        return WindowedStream(self, CountSlidingWindowAssigner(size, slide))

    def changelog_as_rows(self) -> KeyedStream:
        """Let Python functions see the rows of a changelog, like `DataStream.changelog_as_rows`."""
        return self._origin.changelog_as_rows()._keyed(self.key_selector)

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        return self._origin.key_by(key_selector, key_type)

    def key_by_columns(self, *columns: str) -> KeyedStream:
        return self._origin.key_by_columns(*columns)

    def with_state_ttl(self, time_to_live: Time | Duration) -> KeyedStream:
        """Let `aggregate_columns`, `top_n` and `deduplicate` without a window forget keys (not in PyFlink).

        A key is forgotten when nothing has been written for it for that long, in processing time; its next record is
        then the first one. `deduplicate("first")` writes with the first record only, so it lets one record of a key
        through per time to live. As Flink's hint STATE_TTL: what a changelog has said of the key is not taken back.

        Args:
            time_to_live: at least 1 ms.

        Raises:
            ValueError: it is shorter.
        """
        ttl_ms = millis_of(time_to_live)
        if ttl_ms < 1:
            raise ValueError(f"the time to live must be at least 1 ms, not {ttl_ms} ms")
        stream = KeyedStream(self._env, self._ports, self._type_info, self.key_selector, self._origin)
        stream._state_ttl_ms = ttl_ms
        return stream

    @property
    def state_ttl_ms(self) -> int | None:
        """Return the time to live that `with_state_ttl` has set; None: nothing is forgotten."""
        return self._state_ttl_ms

    def aggregate_columns(self, *expressions: str, **named: str) -> DataStream:
        """Compute SQL aggregates of all records of each key so far, as a changelog (not in PyFlink).

        The first result of a key is a row of kind INSERT, later ones are pairs of UPDATE_BEFORE and UPDATE_AFTER.
        Aggregates are those of `WindowedStream.aggregate_columns`. What is kept for count(DISTINCT …) and collect grows
        with the number of values. State grows with the number of keys, unless there is a `with_state_ttl`.

        Raises:
            ColumnExpressionError: an expression cannot be used.
            TypeError: the stream is not keyed by columns.
        """
        return aggregated(self, expressions, named)

    def deduplicate(self, keep: Literal["first", "last"] = "first") -> DataStream:
        """Keep the first record of each key; or the last, as a changelog that retracts the previous one (not in
        PyFlink).

        State grows with the number of keys, unless there is a `with_state_ttl`.

        Raises:
            TypeError: the stream is not keyed by columns.
        """
        return deduplicated(self, keep)

    def top_n(
        self, n: int, by: str | Sequence[str], descending: bool | Sequence[bool] = False, rank: str | None = None
    ) -> DataStream:
        """Keep the best n records of each key so far, as a changelog (not in PyFlink): SQL's ROW_NUMBER() … <= n.

        A record that comes in is an INSERT, behind the DELETE of the one that it pushes out. With a rank, each place
        that changes hands is an UPDATE_BEFORE and an UPDATE_AFTER. Null is less than everything; of equals, the one
        that came first is better. State grows with the number of keys, unless there is a `with_state_ttl`.

        Args:
            n: how many.
            by: SQL expressions that order records, the first one first.
            descending: whether the greatest are the best; one for all, or one for each.
            rank: name of a column for the record's place, 1 for the best.

        Raises:
            ColumnExpressionError: an expression cannot be used, or the name is taken.
            TypeError: the stream is not keyed by columns.
            ValueError: n is not positive, or `by` and `descending` differ in length.
        """
        return best_rows(self, n, by, descending, rank)

    def window_join(
        self,
        other_stream: KeyedStream,
        window_assigner: WindowAssigner[Any, Any],
        how: Literal["inner", "left", "right", "full"] = "inner",
        suffix: str = "_right",
        with_window: bool = False,
    ) -> DataStream:
        """Pair records with equal keys in a window, by column (not in PyFlink).

        Results have this stream's columns, then the other's; where both have one of a name, the other's gets the
        suffix. Null keys are equal to each other. A record that is late for all its windows is dropped and counted.

        Args:
            other_stream: keyed by as many columns of the same types.
            window_assigner: tumbling, sliding or cumulative windows of event time.
            how: "left", "right" and "full" also give the records of that side, or of both, without a partner.
            suffix: see above.
            with_window: add the columns window_start and window_end, ms.

        Raises:
            ColumnExpressionError: a column's name is taken.
            TypeError: a stream is not keyed by columns, the keys differ in type, or the windows are of another kind.
            ValueError: `how` is something else.
        """
        self._check_keyed("window_join", other_stream)
        return window_joined(self, other_stream, window_assigner, how, suffix, with_window)

    def regular_join(self, other_stream: KeyedStream, suffix: str = "_right") -> DataStream:
        """Pair all records with equal keys, by column, whenever they come (not in PyFlink; SQL's regular inner join).

        Both sides are kept for as long as the job lives: where event time says how far apart partners can be,
        `interval_join` keeps less. Results have no event time. They have this stream's columns, then the other's; where
        both have one of a name, the other's gets the suffix. Null keys are equal to each other.

        Args:
            other_stream: keyed by as many columns of the same types.
            suffix: see above.

        Raises:
            ColumnExpressionError: a column's name is taken.
            TypeError: a stream is not keyed by columns, or the keys differ in type.
        """
        self._check_keyed("regular_join", other_stream)
        return regularly_joined(self, other_stream, suffix)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the program like `DataStream.execute_and_collect`; records come as Row(key, record), as in PyFlink."""
        record_type = type_with_key(self.key_selector, self._type_info)
        factory = MapOperatorFactory(WithKey(self.key_selector), record_type)
        with_keys = self.changelog_as_rows()._transform("Map", factory, record_type, is_stateful=False)
        return with_keys.execute_and_collect(job_execution_name, limit)

    def cache(self) -> CachedDataStream:
        """Cache the stream like `DataStream.cache`; what is kept is not keyed."""
        return self._origin.cache()

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pair records with equal keys whose event times are at most so far apart (Java only)."""
        self._check_keyed("interval_join", other_stream)
        return IntervalJoin(self, other_stream)

    def temporal_join(self, versions: KeyedStream) -> TemporalJoin:
        """Join each record with the latest record of its key in `versions` that is not younger, by event time.

        What SQL writes as FOR SYSTEM_TIME AS OF; see `runtime.operators.temporal_join`.
        """
        self._check_keyed("temporal_join", versions)
        return TemporalJoin(self, versions)

    def tagged(self, side: int, tagged_type: TypeInformation | None) -> DataStream:
        return self._origin.tagged(side, tagged_type)

    def _check_keyed(self, what: str, other: DataStream) -> None:
        if not isinstance(other, KeyedStream):
            raise TypeError(f"{what}() needs another keyed stream, not {other!r}")
        self._check_same_environment(what, other)

    def transform_window(
        self, name: str, factory: Any, output_type: TypeInformation | None, *, parallelism: int | None = None
    ) -> DataStream:
        """Add a window operator; for the windowed streams."""
        return self._transform(name, factory, output_type, parallelism=parallelism, is_stateful=True)

    def _accumulated(self, kind: _Accumulation, position: int | str) -> DataStream:
        return self._reduced(kind.value.title().replace("_", ""), AccumulateFunction(kind, position))

    def _reduced(self, name: str, function: Any) -> DataStream:
        factory = ReduceOperatorFactory(function, self.key_selector, self._type_info)
        return self._transform(name, factory, self._type_info, is_stateful=True)


def _may_keep_state(func: Any, rich_function: type) -> bool:
    """Return whether a function on a keyed stream can use state: a plain callable has no runtime context."""
    return isinstance(func, (rich_function, CheckpointedFunction))


def _check_positive(what: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DataStreamError(f"the {what} must be a positive int, not {value!r}")


def _group_name(group: str | SlotSharingGroup) -> str:
    return group.get_name() if isinstance(group, SlotSharingGroup) else group


def _any_record(_: Any) -> bool:
    return True
