"""Columns in the DataStream API: what `select`, `where`, `key_by_columns` and `aggregate_columns` build.

They need records of a declared type (`Types.ROW_NAMED`), take SQL text, and derive the type of their result while the
program is built. Beyond PyFlink's DataStream; the words are those of its Table API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.column_keys import ColumnKeys
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.deduplicate import DeduplicateOperatorFactory, Keep
from runtime.operators.columnar.expressions import Projection
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.project import ProjectOperatorFactory, WhereOperatorFactory
from runtime.operators.columnar.running_aggregate import RunningAggregateOperatorFactory
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.unnest import UnnestOperatorFactory
from runtime.operators.columnar.window_aggregate import WindowAggregateOperatorFactory, WindowAggregateSpec
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import WindowAssigner
from runtime.operators.windowing.session_windows import EventTimeSessionWindows

if TYPE_CHECKING:
    from typing import Any

    from runtime.datastream.data_stream import DataStream, KeyedStream

PHASES = "table.optimizer.agg-phase-strategy"
"""Flink's option: AUTO (two phases wherever nothing visible changes), ONE_PHASE or TWO_PHASE."""


def projected(stream: DataStream, name: str, projection: Projection) -> DataStream:
    """The stream of a projection's columns."""
    factory = ProjectOperatorFactory(projection)
    described = ", ".join(f"{text} AS {column}" for column, text in projection.columns)
    return stream.transform(name, factory, factory.output_type, is_stateful=False).set_description(
        f"{name}({described})"
    )


def filtered(stream: DataStream, condition: str) -> DataStream:
    """The records of a stream for which the condition is true."""
    type_info = stream.get_type()
    if type_info is None:
        raise TypeError("where() needs a stream of a declared type: give it an output_type such as Types.ROW_NAMED")
    factory = WhereOperatorFactory(condition, type_info)
    filtered_stream = stream.transform("Where", factory, type_info, is_stateful=False)
    return filtered_stream.set_description(f"Where({condition})")


def column_keys(stream: KeyedStream, what: str) -> ColumnKeys:
    """The columns that a stream is keyed by.

    Raises:
        TypeError: it is keyed by a function.
    """
    keys = stream.key_selector
    if not isinstance(keys, ColumnKeys):
        raise TypeError(f"{what}() needs a stream that is keyed by columns: use key_by_columns(), not key_by()")
    return keys


def unnested(stream: DataStream, column: str, alias: str) -> DataStream:
    """A record for each item of a list column."""
    type_info = stream.get_type()
    if type_info is None:
        raise TypeError("unnest() needs a stream of a declared type: give it an output_type such as Types.ROW_NAMED")
    factory = UnnestOperatorFactory(type_info, column, alias)
    made = stream.transform("Unnest", factory, factory.output_type, is_stateful=False)
    return made.set_description(f"Unnest({column} AS {alias})")


def deduplicated(stream: KeyedStream, keep: Keep) -> DataStream:
    """The first or the last record of each key.

    Raises:
        TypeError: the stream is not keyed by columns.
    """
    keys = column_keys(stream, "deduplicate")
    type_info = stream.get_type()
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"deduplicate() needs records of type Types.ROW_NAMED, not {type_info}")
    factory = DeduplicateOperatorFactory(keys, type_info, keep)
    made = stream.transform("Deduplicate", factory, type_info)
    return made.set_description(f"Deduplicate({keep}, {', '.join(keys.names)})")


def aggregated(stream: KeyedStream, expressions: Sequence[str], named: Mapping[str, str]) -> DataStream:
    """The running aggregates of each key.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the stream is not keyed by columns.
    """
    keys = column_keys(stream, "aggregate_columns")
    spec = aggregate_spec(stream.get_type(), keys.names, expressions, named, ())
    factory = RunningAggregateOperatorFactory(spec)
    description = ", ".join(f"{text} AS {column}" for column, text in spec.columns)
    made = stream.transform("Aggregate", factory, factory.output_type)
    return made.set_description(f"Aggregate({', '.join(keys.names)}, {description})")


def aggregated_windows(
    stream: KeyedStream,
    assigner: WindowAssigner[Any, Any],
    expressions: Sequence[str],
    named: Mapping[str, str],
    allowed_lateness_ms: int,
    late_data_tag: OutputTag | None,
) -> DataStream:
    """The aggregates of each key and window.

    Raises:
        ColumnExpressionError: an expression cannot be used.
        TypeError: the stream is not keyed by columns, or the windows cannot be aggregated by column.
    """
    keys = column_keys(stream, "aggregate_columns")
    aggregates = aggregate_spec(stream.get_type(), keys.names, expressions, named)
    description = ", ".join(f"{text} AS {column}" for column, text in aggregates.columns)
    description = f"WindowAggregate({assigner}, {', '.join(keys.names)}, {description})"
    name = type(assigner).__name__
    panes = panes_of(assigner)
    if panes is None:
        if not isinstance(assigner, EventTimeSessionWindows):
            raise TypeError(
                f"{assigner!r} cannot be aggregated by column: use tumbling, sliding, cumulative or session windows of "
                "event time (sessions with one gap for all), or aggregate() with a function"
            )
        if allowed_lateness_ms:
            raise TypeError("sessions aggregated by column have no allowed lateness: use aggregate() with a function")
        sessions = SessionAggregateSpec(aggregates, assigner.session_gap_ms, late_data_tag)
        factory = SessionAggregateOperatorFactory(sessions)
        return stream.transform(name, factory, factory.output_type).set_description(description)
    spec = WindowAggregateSpec(aggregates, panes, allowed_lateness_ms, late_data_tag)
    if _has_two_phases(stream, spec):
        stream = _locally_aggregated(stream, spec, description)
        spec = replace(spec, takes_partials=True)
    window_factory = WindowAggregateOperatorFactory(spec)
    aggregated = stream.transform(name, window_factory, window_factory.output_type)
    return aggregated.set_description(description)


def _has_two_phases(stream: KeyedStream, spec: WindowAggregateSpec) -> bool:
    strategy = stream.get_execution_environment().get_configuration().get_string(PHASES, "AUTO").upper()
    if strategy not in ("AUTO", "ONE_PHASE", "TWO_PHASE"):
        raise ValueError(f"{PHASES} is AUTO, ONE_PHASE or TWO_PHASE, not {strategy!r}")
    if strategy == "ONE_PHASE" or spec.allowed_lateness_ms or spec.late_data_tag is not None:
        return False
    # behind an exchange or a union the first phase would cross the network once more by itself
    return spec.plan.merges_anywhere and stream.origin.is_made_here()


def _locally_aggregated(stream: KeyedStream, spec: WindowAggregateSpec, description: str) -> KeyedStream:
    """The keyed stream of partial aggregates, made in the tasks that make the records."""
    factory = LocalAggregateOperatorFactory(spec)
    partials = stream.origin.transform_here("LocalWindowAggregate", factory, factory.output_type)
    partials.set_description(f"Local{description}")
    return partials.key_by_columns(*column_keys(stream, "aggregate_columns").names)
