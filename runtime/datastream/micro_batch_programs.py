"""Programs in micro-batches: which can be executed so. Pure."""

from __future__ import annotations

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.datastream.data_stream import DataStreamError
from runtime.graph.stream_graph import StreamGraph, StreamNode
from runtime.operators.source import Boundedness
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.operators.watermarks import TimestampsAndWatermarksOperatorFactory

__all__ = ["check_micro_batch"]


def check_micro_batch(graph: StreamGraph, is_submitted: bool = False) -> None:
    """Refuse a program that cannot be executed in micro-batches.

    Args:
        graph: of the program.
        is_submitted: whether a session cluster executes the job, which has a directory for its savepoints.

    Raises:
        DataStreamError: it has something that works in a continuous job only; the message names it.
    """
    configuration = Configuration.from_dict(dict(graph.configuration))
    for node in graph.nodes.values():
        problem = _problem_of(node)
        if problem is not None:
            raise DataStreamError(
                f"{options.EXECUTION_MODE.key}: {node.display_name} cannot be executed in micro-batches: {problem}; "
                "leave the mode out, to execute the job continuously"
            )
    stops = configuration.get(options.MICRO_BATCH_TRIGGER) != "processing-time"
    has_directory = is_submitted or configuration.get(options.SAVEPOINT_DIRECTORY)
    if stops and not has_directory and not _is_bounded(graph):
        raise DataStreamError(
            f"{options.MICRO_BATCH_TRIGGER.key}: the job stops with a savepoint that a later run continues from: "
            f"set its directory with {options.SAVEPOINT_DIRECTORY.key}"
        )


def _problem_of(node: StreamNode) -> str | None:
    factory = node.factory
    if isinstance(factory, TimestampsAndWatermarksOperatorFactory):
        if factory.strategy.idleness_ms is not None:
            return "with_idleness() works at a source only, which remembers when it was last active"
    elif isinstance(factory, SourceOperatorFactory):
        if factory.watermark_strategy.alignment is not None:
            return "its watermark alignment holds between tasks that run at the same time"
        if not factory.source.survives_batches:
            return "its reader cannot be closed and opened again for each batch"
    return None


def _is_bounded(graph: StreamGraph) -> bool:
    factories = [node.factory for node in graph.nodes.values() if isinstance(node.factory, SourceOperatorFactory)]
    return all(factory.source.boundedness is Boundedness.BOUNDED for factory in factories)
