"""ExecutionKind: how a job is executed, read from its options. Pure.

The same job graph, operators and connectors run in every kind. `execution.runtime-mode` is Flink's; AUTOMATIC is
decided when the program is turned into a graph, so that what runs is one of the kinds here.
"""

from __future__ import annotations

import enum

from runtime.common.configuration import Configuration
from runtime.common.options import BATCH_SHUFFLE_MODE, EXECUTION_MODE, RUNTIME_MODE

__all__ = ["ExecutionKind", "runs_in_passes"]


class ExecutionKind(enum.Enum):
    """A kind of execution; the value is for messages."""

    CONTINUOUS = "continuous"
    """Tasks run for the job's life; records flow as they come, and checkpoints are taken between them."""
    MICRO_BATCH = "micro-batch"
    """Tasks run in passes, one after the other, while there is a batch to process; each ends with a snapshot."""
    BATCH = "batch"
    """Bounded input is read to its end once; results are final, nothing is snapshotted, sinks commit at the end."""

    @classmethod
    def of(cls, configuration: Configuration) -> ExecutionKind:
        """Return the kind that a job's options say."""
        if configuration.get(RUNTIME_MODE) == "batch":
            return cls.BATCH
        return cls.MICRO_BATCH if configuration.get(EXECUTION_MODE) == "micro-batch" else cls.CONTINUOUS


def runs_in_passes(configuration: Configuration, *, blocks_by_default: bool) -> bool:
    """Return whether no task lives as long as its job: in micro-batches, and in batches whose exchanges block.

    Args:
        configuration: of the job.
        blocks_by_default: whether exchanges of a batch block where `execution.batch-shuffle-mode` is not set.
    """
    kind = ExecutionKind.of(configuration)
    if kind is not ExecutionKind.BATCH:
        return kind is ExecutionKind.MICRO_BATCH
    mode = configuration.get(BATCH_SHUFFLE_MODE)
    return blocks_by_default if mode is None else mode == "all_exchanges_blocking"
