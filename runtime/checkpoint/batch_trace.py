"""Traces of batches: what a job in micro-batches has done for a checkpoint, and how long it took. Frozen; pure.

A batch is the work that ends with a checkpoint, so its trace is kept with the checkpoint's. Each region of a job that
restarts alone has its own query and its own batch of a checkpoint. Durations are ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from runtime.core.ids import TaskId
from runtime.core.well_formed import well_formed

MAX_BATCHES = 16
"""Regions of a job whose batches are kept, those that were told first."""
MAX_POSITIONS = 16
"""Splits in a trace."""
MAX_CHARS = 120
"""Of a text in it."""
MAX_SPARK_PHASES = 16


@dataclass(frozen=True, slots=True)
class SplitPosition:
    """How far a split has been read."""

    task: TaskId
    """The subtask of the source that reads it."""
    split: str
    position: str
    """As JSON: what a source makes of it is its own matter."""


@dataclass(frozen=True, slots=True)
class BatchTrace:
    """A batch that is complete."""

    region: str
    """The first of its vertices."""
    number: int | None
    """Spark's number of it; None: it is none of a query, which reads nothing."""
    kind: str
    """As runtime.execution.passes.plan.PassKind has it."""
    time_ms: int
    """Wall-clock ms since the epoch that all of it has for the time."""
    num_read: int
    """Records that its sources have emitted."""
    num_written: int
    """Records that its sinks have taken."""
    num_splits: int
    """Splits that its sources have begun."""
    has_caught_up: bool
    """Whether its sources had nothing more to read."""
    plan_ms: float
    """Until splits were dealt and the tasks began."""
    run_ms: float
    """In the tasks, until all of them had stored their state."""
    store_ms: float
    """Until the checkpoint was recorded."""
    commit_ms: float
    """Until the sinks had committed."""
    spark_ms: Mapping[str, float]
    """Spark's own phases, by its names for them; {} until its next batch begins."""
    positions: Sequence[SplitPosition]
    """Of splits that are being read, at most MAX_POSITIONS."""

    def bounded(self) -> BatchTrace:
        """Return the trace without what is more than a trace may have: it comes from a slot."""
        return replace(
            self,
            region=_bounded(self.region),
            kind=_bounded(self.kind),
            spark_ms={_bounded(name): ms for name, ms in islice(self.spark_ms.items(), MAX_SPARK_PHASES)},
            positions=[
                replace(each, split=_bounded(each.split), position=_bounded(each.position))
                for each in self.positions[:MAX_POSITIONS]
            ],
        )


def _bounded(text: str) -> str:
    # the name of a file may be anything
    return well_formed(text[:MAX_CHARS])
