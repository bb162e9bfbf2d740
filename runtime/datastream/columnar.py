"""Columns in the DataStream API: builds `select`, `where`, `aggregate_columns`, `top_n`, joins and the like.

They need records of a declared type (`Types.ROW_NAMED`), take SQL text, and derive the type of their result while the
program is built. Beyond PyFlink's DataStream; the words are those of its Table API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.formats.json.json_columns import BadJson, ParseJsonOperatorFactory, ToJsonOperatorFactory
from runtime.core.column_keys import ColumnKeys
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.deduplicate import DeduplicateOperatorFactory, Keep
from runtime.operators.columnar.early_windows import early_panes
from runtime.operators.columnar.expressions import Named, Projection, quoted, selection
from runtime.operators.columnar.frames import fields_of
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.local_sessions import LocalSessionOperatorFactory
from runtime.operators.columnar.map_frames import FrameFunction, MapFramesOperatorFactory, Rows
from runtime.operators.columnar.panes import Panes, panes_of, processing_time_panes_of
from runtime.operators.columnar.project import ProjectOperatorFactory, WhereOperatorFactory
from runtime.operators.columnar.regular_join import RegularJoinOperatorFactory
from runtime.operators.columnar.row_pairs import RowPairs
from runtime.operators.columnar.running_aggregate import RunningAggregateOperatorFactory
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.operators.columnar.unnest import UnnestOperatorFactory
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.columnar.window_join import AlikeOperatorFactory, How, WindowJoinSpec
from runtime.operators.columnar.windows import WindowSpec
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import WindowAssigner
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from runtime.operators.windowing.session_windows import EventTimeSessionWindows
from runtime.operators.windowing.triggers import Trigger

__all__ = [
    "PHASES",
    "aggregated",
    "aggregated_windows",
    "as_one_key",
    "best_rows",
    "best_rows_of_windows",
    "column_keys",
    "deduplicated",
    "filtered",
    "frames_mapped",
    "interval_joined",
    "projected",
    "regularly_joined",
    "row_pairs",
    "unnested",
    "window_joined",
    "with_json",
    "with_parsed_json",
    "without_key",
]

if TYPE_CHECKING:
    from typing import Any

    from runtime.datastream.data_stream import DataStream, KeyedStream

PHASES = "table.optimizer.agg-phase-strategy"
"""Flink's option: AUTO (two phases wherever nothing visible changes), ONE_PHASE or TWO_PHASE."""


def projected(stream: DataStream, name: str, projection: Projection) -> DataStream:
    """Return the stream of a projection's columns."""
    factory = ProjectOperatorFactory(projection)
    described = ", ".join(f"{text} AS {column}" for column, text in projection.columns)
    return stream.transform(name, factory, factory.output_type, is_stateful=False).described_as(f"{name}({described})")


def filtered(stream: DataStream, condition: str) -> DataStream:
    """Return the records of a stream for which the condition is true."""
    type_info = _type_of(stream, "where")
    factory = WhereOperatorFactory(condition, type_info)
    filtered_stream = stream.transform("Where", factory, type_info, is_stateful=False)
    return filtered_stream.described_as(f"Where({condition})")


def column_keys(stream: KeyedStream, what: str) -> ColumnKeys:
    """Return the columns that a stream is keyed by.

    Raises:
        TypeError: it is keyed by a function.
    """
    keys = stream.key_selector
    if not isinstance(keys, ColumnKeys):
        raise TypeError(f"{what}() needs a stream that is keyed by columns: use key_by_columns(), not key_by()")
    return keys


def unnested(stream: DataStream, column: str, alias: str) -> DataStream:
    """Return a record for each item of a list column."""
    type_info = _type_of(stream, "unnest")
    factory = UnnestOperatorFactory(type_info, column, alias)
    made = stream.transform("Unnest", factory, factory.output_type, is_stateful=False)
    return made.described_as(f"Unnest({column} AS {alias})")


def with_parsed_json(
    stream: DataStream, column: str, row_type: RowTypeInfo, alias: str | None, bad: BadJson, tag: OutputTag
) -> DataStream:
    """Return the records with what a column of JSON objects holds in its place.

    Raises:
        ColumnExpressionError, TypeError, ValueError: see `ParseJsonOperatorFactory`.
    """
    factory = ParseJsonOperatorFactory(_type_of(stream, "parse_json"), column, row_type, alias, bad, tag)
    made = stream.transform("ParseJson", factory, factory.output_type, is_stateful=False)
    return made.described_as(f"ParseJson({column} AS {alias or ', '.join(row_type.get_field_names())})")


def with_json(stream: DataStream, alias: str, columns: Sequence[str]) -> DataStream:
    """Return the records with a column of JSON objects.

    Raises:
        ColumnExpressionError, TypeError: see `ToJsonOperatorFactory`.
    """
    type_info = _type_of(stream, "to_json")
    factory = ToJsonOperatorFactory(type_info, tuple(columns) or tuple(fields_of(type_info)), alias)
    made = stream.transform("ToJson", factory, factory.output_type, is_stateful=False)
    return made.described_as(f"ToJson({', '.join(factory.columns)} AS {alias})")


def frames_mapped(
    stream: DataStream, function: FrameFunction, output_type: TypeInformation | None, rows: Rows
) -> DataStream:
    """Return what a function makes of the records' frames.

    Raises:
        TypeError, ValueError: see `MapFramesOperatorFactory`.
    """
    type_info = _type_of(stream, "map_frames")
    factory = MapFramesOperatorFactory(function, rows, type_info, output_type or type_info)
    made = stream.transform("MapFrames", factory, factory.output_type, is_stateful=False)
    return made.described_as(f"MapFrames({getattr(function, '__name__', type(function).__name__)})")


def _type_of(stream: DataStream, what: str) -> TypeInformation:
    type_info = stream.get_type()
    if type_info is None:
        raise TypeError(f"{what}() needs a stream of a declared type: give it an output_type such as Types.ROW_NAMED")
    return type_info


def deduplicated(stream: KeyedStream, keep: Keep) -> DataStream:
    """Return the first or the last record of each key.

    Raises:
        TypeError: the stream is not keyed by columns.
    """
    keys = column_keys(stream, "deduplicate")
    type_info = stream.get_type()
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"deduplicate() needs records of type Types.ROW_NAMED, not {type_info}")
    factory = DeduplicateOperatorFactory(keys, type_info, keep, stream.state_ttl_ms)
    made = stream.transform("Deduplicate", factory, type_info)
    return made.described_as(f"Deduplicate({keep}, {', '.join(keys.names)})")


def aggregated(stream: KeyedStream, expressions: Sequence[str], named: Mapping[str, str]) -> DataStream:
    """Return the running aggregates of each key.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the stream is not keyed by columns.
    """
    keys = column_keys(stream, "aggregate_columns")
    spec = aggregate_spec(stream.get_type(), keys.names, expressions, named, ())
    factory = RunningAggregateOperatorFactory(spec, stream.state_ttl_ms)
    description = ", ".join(f"{text} AS {column}" for column, text in spec.columns)
    made = stream.transform("Aggregate", factory, factory.output_type)
    return made.described_as(f"Aggregate({', '.join(keys.names)}, {description})")


def aggregated_windows(
    stream: KeyedStream,
    assigner: WindowAssigner[Any, Any],
    expressions: Sequence[str],
    named: Mapping[str, str],
    allowed_lateness_ms: int,
    late_data_tag: OutputTag | None,
    trigger: Trigger[Any, Any] | None = None,
) -> DataStream:
    """Return the aggregates of each key and window.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the stream is not keyed by columns, or the windows with their trigger cannot be aggregated by column.
    """
    keys = column_keys(stream, "aggregate_columns")
    aggregates = aggregate_spec(stream.get_type(), keys.names, expressions, named)
    description = ", ".join(f"{text} AS {column}" for column, text in aggregates.columns)
    description = f"WindowAggregate({assigner}, {', '.join(keys.names)}, {description})"
    name = type(assigner).__name__
    by_clock = processing_time_panes_of(assigner)
    panes = panes_of(assigner)
    early_ms = _early_ms(assigner, trigger, has_panes=(panes or by_clock) is not None)
    if early_ms is not None:
        description = f"{description.removesuffix(')')}, early each {early_ms} ms)"
    if by_clock is not None:
        by_clock = by_clock if early_ms is None else early_panes(by_clock, early_ms)
        # nothing is late by the clock
        spec = WindowAggregateSpec(aggregates, by_clock, is_processing_time=True, early_ms=early_ms)
        factory = WindowAggregateOperatorFactory(spec)
        return stream.transform(name, factory, factory.output_type).described_as(description)
    if panes is None:
        if not isinstance(assigner, EventTimeSessionWindows):
            raise TypeError(
                f"{assigner!r} cannot be aggregated by column: use tumbling, sliding, cumulative or session windows of "
                "event time (sessions with one gap for all), tumbling or sliding ones of processing time, or "
                "aggregate() with a function"
            )
        sessions = SessionAggregateSpec(aggregates, assigner.session_gap_ms, allowed_lateness_ms, late_data_tag)
        if _has_two_phases(stream, sessions):
            partials = _locally_aggregated(stream, LocalSessionOperatorFactory(sessions), description)
            merging = SessionAggregateOperatorFactory(replace(sessions, takes_partials=True))
            return _merged(partials, keys, name, merging, description)
        whole = SessionAggregateOperatorFactory(sessions)
        return stream.transform(name, whole, whole.output_type).described_as(description)
    panes = panes if early_ms is None else early_panes(panes, early_ms)
    spec = WindowAggregateSpec(aggregates, panes, allowed_lateness_ms, late_data_tag, early_ms=early_ms)
    # a first phase keeps rows back until a window may fire
    if early_ms is None and _has_two_phases(stream, spec):
        partials = _locally_aggregated(stream, LocalAggregateOperatorFactory(spec), description)
        windows = WindowAggregateOperatorFactory(replace(spec, takes_partials=True))
        return _merged(partials, keys, name, windows, description)
    windows = WindowAggregateOperatorFactory(spec)
    return stream.transform(name, windows, windows.output_type).described_as(description)


def _early_ms(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any] | None, has_panes: bool) -> int | None:
    """Return the interval of early results that a trigger asks for; None: there are none.

    Raises:
        TypeError: the windows cannot be aggregated by column with this trigger.
    """
    if trigger is None:
        return None
    kind = ContinuousEventTimeTrigger if assigner.is_event_time() else ContinuousProcessingTimeTrigger
    if not has_panes or not isinstance(trigger, kind):
        raise TypeError(
            f"aggregate_columns() of {assigner!r} cannot have the trigger {type(trigger).__name__}: tumbling, sliding "
            "and cumulative windows of event time can have a ContinuousEventTimeTrigger, tumbling and sliding ones of "
            "processing time a ContinuousProcessingTimeTrigger; others need aggregate() with a function"
        )
    return trigger.interval


def best_rows(
    stream: KeyedStream, n: int, by: str | Sequence[str], descending: bool | Sequence[bool], rank: str | None
) -> DataStream:
    """Return the best rows of each key so far.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the stream is not keyed by columns.
        ValueError: see `top_n_spec`.
    """
    keys = column_keys(stream, "top_n")
    spec = top_n_spec(stream.get_type(), keys.names, n, by, descending, rank)
    factory = TopNOperatorFactory(spec, stream.state_ttl_ms)
    made = stream.transform("TopN", factory, factory.output_type)
    return made.described_as(f"TopN({n}, {', '.join(keys.names)}, by {by}, descending={descending})")


def best_rows_of_windows(
    stream: KeyedStream,
    assigner: WindowAssigner[Any, Any],
    n: int,
    by: str | Sequence[str],
    descending: bool | Sequence[bool],
    rank: str | None,
    with_window: bool,
    allowed_lateness_ms: int,
    late_data_tag: OutputTag | None,
) -> DataStream:
    """Return the best rows of each key and window.

    Raises:
        ColumnExpressionError, TypeError, ValueError: see `best_rows`; or the windows are of another kind.
    """
    keys = column_keys(stream, "top_n")
    spec = top_n_spec(stream.get_type(), keys.names, n, by, descending, rank, with_window)
    windows = WindowAggregateSpec(spec, _panes_of(assigner, "top_n"), allowed_lateness_ms, late_data_tag)
    factory = WindowAggregateOperatorFactory(windows)
    made = stream.transform(f"{type(assigner).__name__}TopN", factory, factory.output_type)
    return made.described_as(f"WindowTopN({n}, {assigner}, {', '.join(keys.names)}, by {by})")


def as_one_key(stream: DataStream) -> KeyedStream:
    """Return the stream keyed by a column of its own, whose value is the same in all records.

    Raises:
        TypeError: the records have no columns.
    """
    fields = fields_of(_type_of(stream, "aggregate_columns"))
    name = "all_records"
    while name in fields:
        name += "_"
    columns = [*(Named(field, quoted(field)) for field in fields), Named(name, "CAST(0 AS INT)")]
    made = projected(stream, "OneKey", Projection(_type_of(stream, "aggregate_columns"), tuple(columns)))
    return made.key_by_columns(name)


def without_key(windows: DataStream, keyed: KeyedStream) -> DataStream:
    """Return the results of windows over all records, without the column that these were keyed by."""
    windows.set_parallelism(1)
    [key] = column_keys(keyed, "aggregate_columns").names
    kept = [quoted(name) for name in fields_of(_type_of(windows, "aggregate_columns")) if name != key]
    made = projected(windows, "AllWindow", selection(windows.get_type(), kept, {})).set_parallelism(1)
    return made.made_of(window=windows, key=keyed.origin)


def interval_joined(
    left: KeyedStream,
    right: KeyedStream,
    lower_ms: int,
    upper_ms: int,
    suffix: str,
    late_tags: tuple[OutputTag | None, OutputTag | None],
    how: How,
) -> DataStream:
    """Return the pairs of rows within an interval of event time, and rows without a partner.

    Raises:
        ColumnExpressionError: a column's name is taken.
        TypeError: a stream is not keyed by columns, or the keys differ in type.
        ValueError: there is no such join.
    """
    spec = ColumnIntervalJoinSpec(_sides(left, right, "columns", suffix), lower_ms, upper_ms, late_tags, how)
    factory = ColumnIntervalJoinOperatorFactory(spec)
    made = left.transform_two(right, "Interval Join", factory, factory.output_type)
    return made.described_as(f"IntervalJoin({how}, {', '.join(spec.sides.keys[0])}, {lower_ms} ms to {upper_ms} ms)")


def regularly_joined(left: KeyedStream, right: KeyedStream, suffix: str) -> DataStream:
    """Return the pairs of all rows with equal keys.

    Raises:
        ColumnExpressionError, TypeError: see `interval_joined`.
    """
    factory = RegularJoinOperatorFactory(_sides(left, right, "regular_join", suffix))
    made = left.transform_two(right, "Join", factory, factory.output_type)
    return made.described_as(f"Join({', '.join(factory.sides.keys[0])})")


def row_pairs(left: KeyedStream, right: KeyedStream, suffix: str) -> RowPairs:
    """Return the function that makes one row of a left and a right one.

    Raises:
        ColumnExpressionError, TypeError: see `interval_joined`.
    """
    return RowPairs(_sides(left, right, "columns", suffix))


def window_joined(
    left: KeyedStream, right: KeyedStream, assigner: WindowAssigner[Any, Any], how: How, suffix: str, with_window: bool
) -> DataStream:
    """Return the pairs of rows in a window, and rows without a partner.

    Raises:
        ColumnExpressionError, TypeError: see `interval_joined`; or the windows are of another kind.
        ValueError: there is no such join.
    """
    panes = _panes_of(assigner, "window_join")
    spec = WindowJoinSpec(_sides(left, right, "window_join", suffix), how, with_window)
    alike = [
        stream.origin.transform_here(
            "Join Columns", AlikeOperatorFactory(spec, side), spec.input_type, is_stateful=False
        )
        for side, stream in enumerate((left, right))
    ]
    united = alike[0].union(alike[1]).key_by_columns(*spec.key_columns)
    factory = WindowAggregateOperatorFactory(WindowAggregateSpec(spec, panes))
    made = united.transform("Window Join", factory, factory.output_type).made_of(left=alike[0], right=alike[1])
    return made.described_as(f"WindowJoin({how}, {assigner}, {', '.join(spec.sides.keys[0])})")


def _sides(left: KeyedStream, right: KeyedStream, what: str, suffix: str) -> JoinSides:
    keys = column_keys(left, what).names, column_keys(right, what).names
    types = left.get_type(), right.get_type()
    for type_info in types:
        if not isinstance(type_info, RowTypeInfo):
            raise TypeError(f"{what}() needs records of type Types.ROW_NAMED, not {type_info}")
    return JoinSides(cast("tuple[RowTypeInfo, RowTypeInfo]", types), keys, suffix)


def _panes_of(assigner: WindowAssigner[Any, Any], what: str) -> Panes:
    panes = panes_of(assigner)
    if panes is None:
        raise TypeError(f"{what}() is for tumbling, sliding and cumulative windows of event time, not {assigner!r}")
    return panes


def _has_two_phases(stream: KeyedStream, spec: WindowSpec) -> bool:
    strategy = stream.get_execution_environment().get_configuration().get_string(PHASES, "AUTO").upper()
    if strategy not in ("AUTO", "ONE_PHASE", "TWO_PHASE"):
        raise ValueError(f"{PHASES} must be AUTO, ONE_PHASE or TWO_PHASE, not {strategy!r}")
    if strategy == "ONE_PHASE" or spec.allowed_lateness_ms or spec.late_data_tag is not None:
        return False
    # behind an exchange or a union the first phase would cross the network once more by itself
    return spec.plan.merges_anywhere and stream.origin.is_made_here()


def _locally_aggregated(
    stream: KeyedStream, factory: LocalAggregateOperatorFactory | LocalSessionOperatorFactory, description: str
) -> DataStream:
    """Return the stream of partial aggregates, made in the tasks that make the records."""
    partials = stream.origin.transform_here("LocalWindowAggregate", factory, factory.output_type)
    return partials.described_as(f"Local{description}")


def _merged(
    partials: DataStream,
    keys: ColumnKeys,
    name: str,
    factory: WindowAggregateOperatorFactory | SessionAggregateOperatorFactory,
    description: str,
) -> DataStream:
    """Return the stream of aggregates, made of partial ones."""
    merged = partials.key_by_columns(*keys.names).transform(name, factory, factory.output_type)
    return merged.described_as(description).made_of(local=partials)
