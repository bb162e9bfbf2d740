"""StreamGraph → JobGraph: operators that can run in one task are joined into a chain.

Two operators chain if the downstream one has this one input edge only, the edge is FORWARD, both have the same
parallelism and slot-sharing group, their chaining strategies allow it and chaining is enabled. Side outputs chain by
the same rules. Source: Flink, StreamingJobGraphGenerator.isChainable and createChain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from runtime.common.references import references_in
from runtime.common.secrets import finding
from runtime.core.ids import JobId, VertexId, operator_id_of
from runtime.graph.column_use import with_columns_used
from runtime.graph.job_graph import ChainEdge, ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.key_types import key_type_of
from runtime.graph.partitioning import Partitioning
from runtime.graph.pickling import pickle_user_code
from runtime.graph.stream_graph import ChainingStrategy, StreamEdge, StreamGraph
from runtime.graph.uids import assign_uids
from runtime.graph.validation import (
    check_stream_graph,
    explicit_max_parallelism,
    resolved_max_parallelism,
    resolved_partitioning,
    topological_order,
)

DEFAULT_SLOT_SHARING_GROUP = "default"
CHAIN_DIFFERENT_MAX_PARALLELISM = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"


def create_job_graph(graph: StreamGraph, job_id: JobId) -> JobGraph:
    """Make the job of a program.

    User code is pickled here; see `runtime.graph.pickling` for what travels by value.

    Raises:
        GraphError: the program cannot run, or its code cannot be pickled; the message names the operators.
    """
    check_stream_graph(graph)
    return _Chainer(graph).build(job_id)


def uids_of(graph: StreamGraph) -> Mapping[int, str]:
    """Return node id → uid of every operator, the user's or derived.

    Raises:
        GraphError: as `create_job_graph`, uids and cycles only.
    """
    return assign_uids(graph, topological_order(graph)).uids


def stateful_operators_without_uid(graph: StreamGraph) -> list[str]:
    """Return the stateful operators whose uid had to be derived, to be logged: their state may not survive a change.

    Raises:
        GraphError: as `create_job_graph`, uids and cycles only.
    """
    return list(assign_uids(graph, topological_order(graph)).derived_for)


def slot_sharing_groups(graph: StreamGraph, order: list[int]) -> dict[int, str]:
    """Map each node id to its slot-sharing group: the node's own, else its inputs' if they agree, else "default"."""
    groups: dict[int, str] = {}
    for node_id in order:
        own = graph.nodes[node_id].slot_sharing_group
        inherited = {groups[e.source] for e in graph.in_edges(node_id)}
        groups[node_id] = own or (inherited.pop() if len(inherited) == 1 else DEFAULT_SLOT_SHARING_GROUP)
    return groups


class _Chainer:
    """A run of the translation. Not kept."""

    def __init__(self, graph: StreamGraph) -> None:
        self._graph = graph
        self._order = topological_order(graph)
        self._position = {node_id: i for i, node_id in enumerate(self._order)}
        self._groups = slot_sharing_groups(graph, self._order)
        self._uids = assign_uids(graph, self._order).uids
        self._use = with_columns_used(graph, self._order)
        self._same_max_parallelism_only = graph.configuration.get(CHAIN_DIFFERENT_MAX_PARALLELISM) == "false"
        #: node id → the edges from it that lie inside a chain
        self._chained: dict[int, list[StreamEdge]] = defaultdict(list)
        #: node id → head of its chain
        self._heads: dict[int, int] = {}

    def build(self, job_id: JobId) -> JobGraph:
        crossing: list[StreamEdge] = []
        predecessor: dict[int, int] = {}
        for edge in self._graph.edges:
            if self._is_chainable(edge):
                self._chained[edge.source].append(edge)
                predecessor[edge.target] = edge.source
            else:
                crossing.append(edge)
        members: dict[int, list[int]] = {}
        for node_id in self._order:
            head = self._heads[predecessor[node_id]] if node_id in predecessor else node_id
            self._heads[node_id] = head
            members.setdefault(head, []).append(node_id)
        # sources first; the sort is stable, so the rest stays in topological order
        heads = sorted(members, key=lambda head: not self._graph.nodes[head].is_source)
        with finding() as secrets:
            vertices = tuple(self._vertex(head, members[head]) for head in heads)
            edges = tuple(self._job_edge(i, edge, members) for i, edge in enumerate(crossing))
        return JobGraph(
            job_id=job_id,
            name=self._graph.job_name,
            vertices=vertices,
            edges=edges,
            configuration=dict(self._graph.configuration),
            job_parameters=dict(self._graph.job_parameters),
            secrets=tuple(sorted(secrets.union(*map(references_in, self._graph.job_parameters.values())))),
        )

    def _is_chainable(self, edge: StreamEdge) -> bool:
        source, target = self._graph.nodes[edge.source], self._graph.nodes[edge.target]
        return (
            self._graph.chaining_enabled
            and len(self._graph.in_edges(edge.target)) == 1
            and source.chaining_strategy is not ChainingStrategy.NEVER
            and target.chaining_strategy is ChainingStrategy.ALWAYS
            and resolved_partitioning(self._graph, edge) is Partitioning.FORWARD
            and source.parallelism == target.parallelism
            and self._groups[edge.source] == self._groups[edge.target]
            and (
                not self._same_max_parallelism_only
                or explicit_max_parallelism(self._graph, edge.source)
                == explicit_max_parallelism(self._graph, edge.target)
            )
        )

    def _vertex(self, head: int, members: list[int]) -> JobVertex:
        index = {node_id: i for i, node_id in enumerate(members)}
        chain_edges = [
            ChainEdge(index[node_id], index[edge.target], edge.input_index, edge.side_output_tag)
            for node_id in members
            for edge in self._chained[node_id]
        ]
        return JobVertex(
            vertex_id=VertexId(operator_id_of(self._uids[head])),
            name=self._chain_name(head),
            parallelism=self._graph.nodes[head].parallelism,
            max_parallelism=resolved_max_parallelism(self._graph, head),
            slot_sharing_group=self._groups[head],
            operators=tuple(self._operator(node_id) for node_id in members),
            chain_edges=tuple(chain_edges),
        )

    def _operator(self, node_id: int) -> ChainedOperator:
        node = self._use.nodes[node_id]
        return ChainedOperator(
            operator_id=operator_id_of(self._uids[node_id]),
            uid=self._uids[node_id],
            name=node.display_name,
            description=node.plan_text,
            factory=pickle_user_code(node.factory, node.display_name, "the operator"),
            output_type=node.output_type,
            key_type=self._key_type(node_id),
            window_type=getattr(node.factory, "window_type", ""),
            state_content=getattr(node.factory, "state_content", ""),
            state_parts=getattr(node.factory, "state_parts", ()),
            declared_states=getattr(node.factory, "declared_states", None),
            defined_at=node.defined_at,
            unread_columns=tuple(self._use.unread.get(node_id, ())),
        )

    def _key_type(self, node_id: int) -> str:
        keyed = [e for e in self._graph.in_edges(node_id) if e.partitioning is Partitioning.KEY_GROUP]
        # one for each input, if they differ
        return " | ".join(dict.fromkeys(key_type_of(edge.partitioner) for edge in keyed))

    def _chain_name(self, node_id: int) -> str:
        name = self._graph.nodes[node_id].display_name
        outputs = [self._chain_name(edge.target) for edge in self._chained[node_id]]
        if not outputs:
            return name
        return f"{name} -> {outputs[0]}" if len(outputs) == 1 else f"{name} -> ({', '.join(outputs)})"

    def _job_edge(self, edge_id: int, edge: StreamEdge, members: dict[int, list[int]]) -> JobEdge:
        source_head = self._heads[edge.source]
        partitioning = resolved_partitioning(self._graph, edge)
        own_type = self._graph.nodes[edge.source].output_type if edge.side_output_tag is None else None
        timeout_ms = edge.buffer_timeout_ms
        return JobEdge(
            edge_id=edge_id,
            source=VertexId(operator_id_of(self._uids[source_head])),
            source_operator=members[source_head].index(edge.source),
            target=VertexId(operator_id_of(self._uids[edge.target])),
            input_index=edge.input_index,
            partitioning=partitioning,
            partitioner=self._partitioner(edge, partitioning),
            side_output_tag=edge.side_output_tag,
            record_type=edge.record_type if edge.record_type is not None else own_type,
            buffer_timeout_ms=timeout_ms if timeout_ms is not None else self._graph.buffer_timeout_ms,
        )

    def _partitioner(self, edge: StreamEdge, partitioning: Partitioning) -> bytes | None:
        name = self._graph.nodes[edge.target].display_name
        if partitioning is Partitioning.KEY_GROUP:
            return pickle_user_code(edge.partitioner, name, "the key selector")
        if partitioning is Partitioning.CUSTOM:
            return pickle_user_code(edge.partitioner, name, "the partition function")
        return None
