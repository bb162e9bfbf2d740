"""Programs as batches: which can be, and what AUTOMATIC makes of one. Pure.

Source: Flink, StreamGraphGenerator.shouldExecuteInBatchMode and ExecutionOptions.RUNTIME_MODE.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.datastream.data_stream import DataStreamError
from runtime.graph.stream_graph import StreamGraph, StreamNode
from runtime.operators.source import Boundedness
from runtime.operators.source_operator import SourceOperatorFactory

__all__ = ["check_batch", "runtime_mode", "with_final_results"]


def runtime_mode(configuration: Configuration, nodes: Mapping[int, StreamNode]) -> str:
    """Return the mode in which a program is executed, "streaming" or "batch"."""
    mode = configuration.get(options.RUNTIME_MODE)
    if mode == "automatic":
        return "streaming" if _unbounded(nodes.values()) else "batch"
    return mode


def with_final_results(nodes: Mapping[int, StreamNode]) -> dict[int, StreamNode]:
    """Return the operators of a batch: none makes a changelog, since only rows that stand at the end are emitted."""
    return {node_id: dataclasses.replace(node, makes_changelog=False) for node_id, node in nodes.items()}


def check_batch(graph: StreamGraph) -> None:
    """Refuse a program that is no batch.

    Raises:
        DataStreamError: a source has no end, or the program wants to begin with a snapshot.
    """
    unbounded = _unbounded(graph.nodes.values())
    if unbounded:
        raise DataStreamError(
            f"{options.RUNTIME_MODE.key}: BATCH needs bounded sources, and these have no end: {', '.join(unbounded)}. "
            "Give them one, or use STREAMING; AUTOMATIC chooses by the sources"
        )
    if graph.configuration.get(options.RECOVERY_PATH.key):
        raise DataStreamError(
            f"{options.RECOVERY_PATH.key}: a BATCH does not begin with a snapshot, since it takes none itself; use "
            "STREAMING to go on from one"
        )


def _unbounded(nodes: Iterable[StreamNode]) -> list[str]:
    return [
        node.display_name
        for node in nodes
        if isinstance(node.factory, SourceOperatorFactory)
        and node.factory.source.boundedness is not Boundedness.BOUNDED
    ]
