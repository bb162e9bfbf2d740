"""Operator uids: the user's, or derived from the graph above the operator.

State finds its operator by uid. A derived uid depends on what the operator is and on what feeds it, never on node
numbers or parallelism, so that adding an unrelated branch or rescaling keeps it; changing what lies above changes it,
up to the nearest operator with a uid of its own. A part of an operator has the operator's uid and its own name behind
it: "totals/local". Source: Flink, StreamGraphHasherV2 (the idea, not the hash).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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
    given: dict[int, str] = {}
    for node in graph.nodes.values():
        uid = given_uid(graph, node)
        if uid is None:
            continue
        if not uid:
            raise GraphError(f"{node.display_name}: the uid must not be empty", (node.display_name,))
        if uid in owners:
            names = (owners[uid].display_name, node.display_name)
            raise GraphError(f"the uid {uid!r} is used twice: by {names[0]!r} and by {names[1]!r}", names)
        owners[uid] = node
        given[node.node_id] = uid

    uids: dict[int, str] = {}
    taken = set(owners)
    for node_id in order:
        uids[node_id] = given[node_id] if node_id in given else _derive(graph, graph.nodes[node_id], uids, taken)
        taken.add(uids[node_id])
    return UidAssignment(uids, tuple(stateful_without_uid(graph, order)))


def given_uid(graph: StreamGraph, node: StreamNode) -> str | None:
    """Return the uid that the user gave a node, or gave the operator that it is a part of; None if there is none."""
    # an operator of an earlier execution is not there, and its parts may feed another one now
    whole = None if node.part_of is None else graph.nodes.get(node.part_of)
    # the whole may be a part itself: "totals/window/local"
    uid = None if whole is None else given_uid(graph, whole)
    return f"{uid}/{node.part}" if uid else node.uid


def stateful_without_uid(graph: StreamGraph, order: Iterable[int]) -> list[str]:
    """Return the names of stateful operators without a uid of the user's; parts of operators are not named apart.

    Args:
        graph: the program.
        order: the node ids, in the order in which the operators are to be named.
    """
    nodes = (graph.nodes[node_id] for node_id in order)
    return [node.display_name for node in nodes if node.is_stateful and node.uid is None and node.part_of is None]


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
