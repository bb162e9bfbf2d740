"""Ports and nodes: the form in which streams of the DataStream API record the program that they describe.

A stream is one or more ports (several after `union`); an operator becomes a node with one edge per port. Names, uids
and parallelism may be set on the stream until the program is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamNode
from runtime.operators.output_tag import OutputTag

__all__ = ["Port", "Program"]


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a node, and the partitioning of its records."""

    node_id: int
    tag: OutputTag | None = None
    partitioning: Partitioning | None = None
    partitioner: Any = None
    changelog_as_rows: bool = False
    """Whether functions are to see the rows of a changelog."""


@dataclass(slots=True)
class Program:
    """All nodes and edges of an environment; executed ones stay, since later parts of a program may build on them."""

    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    """Nodes that no execution has run yet."""

    def add_node(self, node: StreamNode, inputs: list[tuple[int, tuple[Port, ...]]]) -> None:
        """Add an operator.

        Args:
            node: with an id of its own.
            inputs: (input index, ports that lead into it).
        """
        self.nodes[node.node_id] = node
        self.pending.add(node.node_id)
        for input_index, ports in inputs:
            for port in ports:
                self.edges.append(self._edge(port, node.node_id, input_index))

    def _edge(self, port: Port, target: int, input_index: int) -> StreamEdge:
        producer = self.nodes[port.node_id]
        return StreamEdge(
            source=port.node_id,
            target=target,
            partitioning=port.partitioning,
            input_index=input_index,
            side_output_tag=None if port.tag is None else port.tag.tag_id,
            record_type=producer.output_type if port.tag is None else port.tag.type_info,
            partitioner=port.partitioner,
            has_changelog_as_rows=port.changelog_as_rows,
        )

    def closure(self, sources: Mapping[int, StreamNode]) -> tuple[dict[int, StreamNode], list[StreamEdge]]:
        """Return the pending nodes and everything above them, as far as no source of `sources` stands for a node."""
        wanted: set[int] = set()
        open_ids = list(self.pending)
        while open_ids:
            node_id = open_ids.pop()
            if node_id not in wanted:
                wanted.add(node_id)
                if node_id not in sources:
                    open_ids.extend(edge.source for edge in self.edges if edge.target == node_id)
        nodes = {node_id: sources.get(node_id) or self.nodes[node_id] for node_id in sorted(wanted)}
        return nodes, [edge for edge in self.edges if edge.target in wanted and edge.target not in sources]
