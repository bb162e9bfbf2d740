"""Small programs for graph tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runtime.core.ids import JobId
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

JOB_ID = JobId("0" * 32)


@dataclass
class Factory:
    """Stands for an operator factory: chaining only pickles it."""

    function: Any = None


@dataclass
class Program:
    """Writes a StreamGraph node by node."""

    graph: StreamGraph = field(default_factory=lambda: StreamGraph("job", {}, buffer_timeout_ms=100))
    parallelism: int = 2

    def add(self, name: str, *inputs: int | StreamEdge, **fields: Any) -> int:
        """Add a node; an input is a node id, or an edge whose target is filled in."""
        node_id = len(self.graph.nodes) + 1
        fields.setdefault("parallelism", self.parallelism)
        fields.setdefault("factory", Factory())
        self.graph.nodes[node_id] = StreamNode(node_id, name, **fields)
        for given in inputs:
            edge = StreamEdge(given, node_id, None) if isinstance(given, int) else given
            edge.target = node_id
            self.graph.edges.append(edge)
        return node_id

    def source(self, name: str = "numbers", **fields: Any) -> int:
        return self.add(name, is_source=True, **fields)

    def sink(self, name: str, *inputs: int | StreamEdge, **fields: Any) -> int:
        return self.add(name, *inputs, is_sink=True, **fields)

    def build(self) -> JobGraph:
        return create_job_graph(self.graph, JOB_ID)

    def names(self) -> list[str]:
        return [v.name for v in self.build().vertices]


def edge(source: int, partitioning: Partitioning | None = None, **fields: Any) -> StreamEdge:
    if partitioning in (Partitioning.KEY_GROUP, Partitioning.CUSTOM):
        fields.setdefault("partitioner", abs)
    return StreamEdge(source, -1, partitioning, **fields)
