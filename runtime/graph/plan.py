"""Plans as JSON values: the program's (`get_execution_plan`) and the job's (REST `/jobs/:jobid/plan`).

The shapes are Flink's, so that its tools and UI read them. Source: Flink, JSONGenerator and JsonPlanGenerator.
"""

from __future__ import annotations

import html
from typing import Any

from runtime.graph.job_graph import ChainEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamGraph
from runtime.graph.validation import resolved_partitioning, topological_order

EXCHANGE = "pipelined_bounded"
"""Result partition type of a streaming exchange; blocking exchanges come with batch execution."""


def execution_plan(graph: StreamGraph) -> dict[str, Any]:
    """Return the plan of a program before chaining: operators in order, sinks last.

    Returns:
        {"nodes": [{"id": int, "type", "pact", "contents", "parallelism",
        "predecessors": [{"id", "ship_strategy", "side"}]}]}; a source has no "predecessors".

    Raises:
        GraphError: the program has a cycle.
    """
    order = sorted(topological_order(graph), key=lambda node_id: graph.nodes[node_id].is_sink)
    return {"nodes": [_stream_node(graph, node_id) for node_id in order]}


def _stream_node(graph: StreamGraph, node_id: int) -> dict[str, Any]:
    node = graph.nodes[node_id]
    plan: dict[str, Any] = {
        "id": node_id,
        "type": node.display_name,
        "pact": "Data Source" if node.is_source else "Data Sink" if node.is_sink else "Operator",
        "contents": node.plan_text,
        "parallelism": node.parallelism,
    }
    if not node.is_source:
        plan["predecessors"] = [
            # Flink prints "second" for every input; its plan visualizer ignores the field
            {"id": e.source, "ship_strategy": resolved_partitioning(graph, e).value, "side": "second"}
            for e in graph.in_edges(node_id)
        ]
    return plan


def job_plan(graph: JobGraph) -> dict[str, Any]:
    """Return the plan of a job after chaining, consumers before producers as Flink lists them.

    Returns:
        {"jid", "name", "type", "nodes": [{"id", "operator", "parallelism", "operator_strategy", "description",
        "optimizer_properties", "inputs": [{"id", "num", "exchange", "ship_strategy"}]}]}: what stands under "plan" in
        the REST answer. "description" is HTML: escaped, with <br/>.
    """
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "type": "STREAMING",
        "nodes": [_job_vertex(graph, vertex) for vertex in reversed(graph.vertices)],
    }


def _job_vertex(graph: JobGraph, vertex: JobVertex) -> dict[str, Any]:
    lines = "".join(f"{line}\n" for line in _description_tree(vertex))
    plan: dict[str, Any] = {
        "id": vertex.vertex_id,
        "operator": "",
        "parallelism": vertex.parallelism,
        "operator_strategy": "",
        "description": _to_html(lines),
        "optimizer_properties": {},
    }
    inputs = [
        {"id": edge.source, "num": num, "exchange": EXCHANGE, "ship_strategy": edge.partitioning.value}
        for num, edge in enumerate(graph.in_edges(vertex.vertex_id))
    ]
    if inputs:
        plan["inputs"] = inputs
    return plan


def operator_plan(graph: JobGraph) -> dict[str, Any]:
    """Return the operators of a job as the program has defined them, before chaining.

    Returns:
        {"nodes": [{"id", "uid", "name", "description", "parallelism", "vertex", "output", "defined_at"}],
        "edges": [{"source", "target", "ship_strategy", "side_output"}]}, producers first. "vertex" is the id of the
        job vertex in whose chain the operator runs, "output" the type of its records, "defined_at" is "file:line"; ""
        where something is not known. The strategy within a chain is FORWARD.
    """
    nodes, edges = [], []
    for vertex in graph.vertices:
        for operator in vertex.operators:
            nodes.append(
                {
                    "id": operator.operator_id,
                    "uid": operator.uid,
                    "name": operator.name,
                    "description": operator.description,
                    "parallelism": vertex.parallelism,
                    "vertex": vertex.vertex_id,
                    "output": "" if operator.output_type is None else str(operator.output_type),
                    "defined_at": operator.defined_at,
                }
            )
        for chained in vertex.chain_edges:
            edges.append(
                {
                    "source": vertex.operators[chained.source].operator_id,
                    "target": vertex.operators[chained.target].operator_id,
                    "ship_strategy": Partitioning.FORWARD.value,
                    "side_output": chained.side_output_tag or "",
                }
            )
    for edge in graph.edges:
        edges.append(
            {
                "source": graph.vertex(edge.source).operators[edge.source_operator].operator_id,
                "target": graph.vertex(edge.target).head.operator_id,
                "ship_strategy": edge.partitioning.value,
                "side_output": edge.side_output_tag or "",
            }
        )
    return {"nodes": nodes, "edges": edges}


def _to_html(text: str) -> str:
    # apostrophes stay, as in Flink: SQL descriptions are full of them
    escaped = html.escape(text, quote=False).replace('"', "&quot;")
    return escaped.replace("\n", "<br/>").replace("\\", "&#92;")


def _description_tree(vertex: JobVertex) -> list[str]:
    """Return the chain as Flink's `pipeline.vertex-description-mode` TREE draws it, one operator a line."""
    outputs: dict[int, list[ChainEdge]] = {}
    for edge in vertex.chain_edges:
        outputs.setdefault(edge.source, []).append(edge)
    lines: list[str] = []

    def draw(operator: int, own_prefix: str, child_prefix: str) -> None:
        lines.append(own_prefix + vertex.operators[operator].description)
        children = outputs.get(operator, [])
        for i, edge in enumerate(children):
            last = i == len(children) - 1
            draw(edge.target, child_prefix + ("+- " if last else ":- "), child_prefix + ("   " if last else ":  "))

    draw(0, "", "")
    return lines
