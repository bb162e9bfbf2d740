"""Checks a program before it becomes a job. Every complaint names the user's operators."""

from __future__ import annotations

import heapq

from runtime.graph.changelog import check_changelogs
from runtime.graph.errors import GraphError
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph
from runtime.state.key_groups import default_max_parallelism

MAX_PARALLELISM_LIMIT = 32768
"""Flink's limit: key groups are numbered in 15 bits."""


def topological_order(graph: StreamGraph) -> list[int]:
    """Return the node ids, producers before consumers, else in the order in which the user added them.

    Raises:
        GraphError: the program has a cycle.
    """
    missing = dict.fromkeys(graph.nodes, 0)
    targets: dict[int, list[int]] = {node_id: [] for node_id in graph.nodes}
    for edge in graph.edges:
        missing[edge.target] += 1
        targets[edge.source].append(edge.target)
    ready = [node_id for node_id, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node_id = heapq.heappop(ready)
        order.append(node_id)
        for target in targets[node_id]:
            missing[target] -= 1
            if missing[target] == 0:
                heapq.heappush(ready, target)
    if len(order) < len(graph.nodes):
        names = [graph.nodes[i].display_name for i in sorted(graph.nodes.keys() - set(order))]
        raise GraphError(f"the program has a cycle, at or above: {', '.join(names)}", names)
    return order


def resolved_partitioning(graph: StreamGraph, edge: StreamEdge) -> Partitioning:
    """Return the partitioning of an edge, with defaults filled in."""
    if edge.partitioning is not None:
        return edge.partitioning
    same = graph.nodes[edge.source].parallelism == graph.nodes[edge.target].parallelism
    return Partitioning.FORWARD if same else Partitioning.REBALANCE


def explicit_max_parallelism(graph: StreamGraph, node_id: int) -> int | None:
    """Return the max parallelism that the user asked for: the operator's, else the program's, else None."""
    own = graph.nodes[node_id].max_parallelism
    return own if own is not None else graph.max_parallelism


def resolved_max_parallelism(graph: StreamGraph, node_id: int) -> int:
    """Return the max parallelism of an operator, defaults filled in."""
    explicit = explicit_max_parallelism(graph, node_id)
    return explicit if explicit is not None else default_max_parallelism(graph.nodes[node_id].parallelism)


def check_stream_graph(graph: StreamGraph) -> None:
    """Refuse a program that cannot run.

    Raises:
        GraphError: nothing to run; an edge to nowhere; an input missing or superfluous; a parallelism out of range; a
            forward edge between unequal parallelisms; a keyed or custom edge without its function; a cycle; a changelog
            where only inserts are understood.
    """
    if not graph.nodes:
        raise GraphError("No operators defined in streaming topology. Cannot execute.")
    for edge in graph.edges:
        if edge.source not in graph.nodes or edge.target not in graph.nodes:
            raise GraphError(f"an edge joins unknown operators: {edge.source} → {edge.target}")
    for node_id in graph.nodes:
        _check_node(graph, node_id)
    for edge in graph.edges:
        _check_edge(graph, edge)
    check_changelogs(graph, topological_order(graph))


def _check_node(graph: StreamGraph, node_id: int) -> None:
    node = graph.nodes[node_id]
    name = node.display_name
    inputs = {e.input_index for e in graph.in_edges(node_id)}
    if node.is_source and inputs:
        raise GraphError(f"{name} is a source but has an input", (name,))
    if not node.is_source and not inputs:
        raise GraphError(f"{name} has no input", (name,))
    if inputs != set(range(len(inputs))):
        raise GraphError(f"{name} has inputs {sorted(inputs)}, which are not numbered without gaps from 0", (name,))
    if node.parallelism < 1:
        raise GraphError(f"{name}: parallelism must be at least 1, is {node.parallelism}", (name,))
    explicit = explicit_max_parallelism(graph, node_id)
    if explicit is not None and not 1 <= explicit <= MAX_PARALLELISM_LIMIT:
        raise GraphError(f"{name}: max parallelism must be in 1..{MAX_PARALLELISM_LIMIT}, is {explicit}", (name,))
    limit = explicit if explicit is not None else MAX_PARALLELISM_LIMIT
    if node.parallelism > limit:
        raise GraphError(f"{name}: parallelism {node.parallelism} exceeds its max parallelism {limit}", (name,))


def _check_edge(graph: StreamGraph, edge: StreamEdge) -> None:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    names = (source.display_name, target.display_name)
    if edge.partitioning is Partitioning.FORWARD and source.parallelism != target.parallelism:
        raise GraphError(
            f"forward partitioning needs equal parallelism: {names[0]!r} has {source.parallelism}, "
            f"{names[1]!r} has {target.parallelism}; use rebalance() or rescale()",
            names,
        )
    if edge.partitioning in (Partitioning.KEY_GROUP, Partitioning.CUSTOM) and edge.partitioner is None:
        raise GraphError(f"the edge from {names[0]!r} to {names[1]!r} has no function to partition by", names)
