"""The columns of sources that a program reads, and conditions on them that a source may apply itself. Pure.

A source is told when the job graph is made. Types stay as declared: a column that nobody reads is null in the batches
of a source that leaves it out, and so it is behind operators that pass rows on. Factories tell what they read:

- `columns_read(needed, input_index)`: the columns of an input that are read, given those of the output that are; None
  stands for all. Without it, an operator reads all columns: it may run a Python function.
- `columns_passed_on()`: output column → input column, of those that are passed on unchanged; None: all are.
- `conditions()`: of a filter, its condition as comparisons that must all hold; () = it says more than that.
- `reading(columns, conditions)`: of a source, itself for such readers, and the columns that it leaves out.

State and positions of a source are the same whatever is read. Rows in flight are not: where unaligned checkpoints may
save them, rows that cross an exchange keep all of their columns. Source: Flink, SupportsProjectionPushDown and
SupportsFilterPushDown (the idea).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.common import options
from runtime.common.configuration import Configuration, ConfigurationError
from runtime.common.typeinfo import RowTypeInfo
from runtime.core.column_condition import ColumnCondition
from runtime.core.column_keys import ColumnKeys
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.graph.validation import resolved_partitioning

Columns = frozenset[str] | None
"""Names of columns; None = all."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A program whose sources read only what is read."""

    nodes: Mapping[int, StreamNode]
    """By id; as they were but for the factories of sources."""
    unread: Mapping[int, Sequence[str]]
    """node id → columns of its output that are null because nobody reads them; nodes without any are left out."""


def with_columns_used(graph: StreamGraph, order: Sequence[int]) -> ColumnUse:
    """Return the program's nodes with sources that know what is read of them.

    Args:
        graph: the program; it stays as it is.
        order: all node ids, producers before consumers.
    """
    configuration = Configuration.from_dict(graph.configuration)
    try:
        if configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS):
            return ColumnUse(graph.nodes, {})
        saves_rows = configuration.get(options.UNALIGNED_CHECKPOINTS)
    except ConfigurationError:
        # whoever runs the job says so
        return ColumnUse(graph.nodes, {})
    needed = _needed(graph, order, saves_rows)
    nodes = dict(graph.nodes)
    unread: dict[int, frozenset[str]] = {}
    for node_id in order:
        node = graph.nodes[node_id]
        if not node.is_source:
            left_out = _passed_on(graph, node, unread)
        else:
            nodes[node_id], left_out = _reading(graph, node, needed[node_id])
        if left_out:
            unread[node_id] = left_out
    return ColumnUse(nodes, {node_id: tuple(sorted(names)) for node_id, names in unread.items()})


def _needed(graph: StreamGraph, order: Sequence[int], saves_rows: bool) -> dict[int, Columns]:
    """Return node id → columns of its main output that are read."""
    leaving: dict[int, list[StreamEdge]] = {node_id: [] for node_id in order}
    for edge in graph.edges:
        if edge.side_output_tag is None:
            leaving[edge.source].append(edge)
    needed: dict[int, Columns] = {}
    for node_id in reversed(order):
        reads = [_read_on(graph, edge, needed[edge.target], saves_rows) for edge in leaving[node_id]]
        # what leads nowhere may be looked at some other way
        needed[node_id] = frozenset().union(*reads) if reads and None not in reads else None  # type: ignore[arg-type]
    return needed


def _read_on(graph: StreamGraph, edge: StreamEdge, needed: Columns, saves_rows: bool) -> Columns:
    """Return the columns that are read of the records on an edge."""
    partitioning = resolved_partitioning(graph, edge)
    if saves_rows and partitioning is not Partitioning.FORWARD:
        return None
    keys: Sequence[str] = ()
    if partitioning in (Partitioning.KEY_GROUP, Partitioning.CUSTOM):
        if not isinstance(edge.partitioner, ColumnKeys):
            return None
        keys = edge.partitioner.names
    tell = getattr(graph.nodes[edge.target].factory, "columns_read", None)
    read: Columns = None if tell is None else tell(needed, edge.input_index)
    return None if read is None else read | frozenset(keys)


def _reading(graph: StreamGraph, node: StreamNode, needed: Columns) -> tuple[StreamNode, frozenset[str]]:
    """Return a source for what is read of it, and the columns that it leaves out."""
    tell = getattr(node.factory, "reading", None)
    if tell is None or not isinstance(node.output_type, RowTypeInfo) or node.output_type != node.factory.output_type:
        return node, frozenset()
    names = frozenset(node.output_type.get_field_names())
    read = names if needed is None else needed & names
    factory, left_out = tell(read, _conditions(graph, node))
    return (node if factory is node.factory else replace(node, factory=factory)), left_out


def _conditions(graph: StreamGraph, node: StreamNode) -> tuple[ColumnCondition, ...]:
    """Return what holds for every row of a source that passes the filters behind it."""
    found: list[ColumnCondition] = []
    while True:
        edges = [edge for edge in graph.out_edges(node.node_id) if edge.side_output_tag is None]
        if len(edges) != 1 or resolved_partitioning(graph, edges[0]) is not Partitioning.FORWARD:
            return tuple(found)
        node = graph.nodes[edges[0].target]
        tell = getattr(node.factory, "conditions", None)
        conditions: Sequence[ColumnCondition] = () if tell is None or len(graph.in_edges(node.node_id)) > 1 else tell()
        if not conditions:
            # what a condition says beyond comparisons may fail, and has to be asked for every row
            return tuple(found)
        found += conditions


def _passed_on(graph: StreamGraph, node: StreamNode, unread: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return the columns of an operator's output that come from columns which nobody reads."""
    edges = [edge for edge in graph.in_edges(node.node_id) if edge.side_output_tag is None]
    left_out = frozenset[str]().union(*(unread.get(edge.source, frozenset()) for edge in edges))
    tell: Any = getattr(node.factory, "columns_passed_on", None)
    if not left_out or tell is None:
        return frozenset()
    passed_on: Mapping[str, str] | None = tell()
    if passed_on is None:
        return left_out
    return frozenset(name for name, column in passed_on.items() if column in left_out)
