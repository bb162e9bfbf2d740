"""Operator uids: the user's, or derived from the graph above the operator.

State finds its operator by uid. A derived uid depends on what the operator is and on what feeds it, never on node
numbers or parallelism, so that adding an unrelated branch or rescaling keeps it; changing what lies above changes it,
up to the nearest operator with a uid of its own. Source: Flink, StreamGraphHasherV2 (the idea, not the hash).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.graph.errors import GraphError
from runtime.graph.stream_graph import StreamGraph, StreamNode


@dataclass(frozen=True, slots=True)
class UidAssignment:
    """A uid for every operator of a program."""

    uids: Mapping[int, str]
    """node id → uid; all different."""
    derived_for: Sequence[str]
    """Names of the stateful operators without a uid of the user's: their state is lost when the program changes."""


def assign_uids(graph: StreamGraph, order: Sequence[int]) -> UidAssignment:
    """Give every node a uid.

    Args:
        graph: the program.
        order: all node ids, producers before consumers.

    Raises:
        GraphError: two operators have the same uid, or one has an empty one.
    """
    owners: dict[str, StreamNode] = {}
    for node in graph.nodes.values():
        if node.uid is None:
            continue
        if not node.uid:
            raise GraphError(f"{node.display_name}: the uid must not be empty", (node.display_name,))
        if node.uid in owners:
            names = (owners[node.uid].display_name, node.display_name)
            raise GraphError(f"the uid {node.uid!r} is used twice: by {names[0]!r} and by {names[1]!r}", names)
        owners[node.uid] = node

    uids: dict[int, str] = {}
    taken = set(owners)
    for node_id in order:
        node = graph.nodes[node_id]
        uids[node_id] = node.uid if node.uid is not None else _derive(graph, node, uids, taken)
        taken.add(uids[node_id])
    derived_for = tuple(n.display_name for i in order if (n := graph.nodes[i]).is_stateful and n.uid is None)
    return UidAssignment(uids, derived_for)


def _derive(graph: StreamGraph, node: StreamNode, uids: Mapping[int, str], taken: set[str]) -> str:
    # the explicit partitioning only: a default one turns from FORWARD to REBALANCE when the job is rescaled
    inputs = [
        (uids[e.source], e.input_index, e.side_output_tag, e.partitioning.value if e.partitioning else None)
        for e in graph.in_edges(node.node_id)
    ]
    signature = [node.display_name, type(node.factory).__qualname__, inputs]
    # equal twins (two `map`s on one stream) are told apart by the order in which the user added them
    for twin in range(len(graph.nodes)):
        text = json.dumps([*signature, twin])
        uid = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        if uid not in taken:
            return uid
    raise AssertionError("more equal operators than operators")
