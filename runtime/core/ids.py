"""The ids that travel through the engine, each a type of its own so that they cannot be mixed up."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import NewType

JobId = NewType("JobId", str)
"""32 hex digits, as Flink prints them."""
VertexId = NewType("VertexId", str)
"""32 hex digits; one chain of operators of the JobGraph."""
OperatorId = NewType("OperatorId", str)
"""32 hex digits; derived from the operator's uid."""
SlotId = NewType("SlotId", int)
"""Index of a slot within one attempt of a job, 0-based."""
Attempt = NewType("Attempt", int)
"""Number of a job's execution attempt, 0-based; it only grows."""
CheckpointId = NewType("CheckpointId", int)
"""Number of a checkpoint within a job, 1-based; it only grows."""
KeyGroup = NewType("KeyGroup", int)
"""Number of a key group, in [0, max_parallelism)."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A parallel instance of a job vertex: what a slot runs in one mailbox."""

    vertex_id: VertexId
    subtask_index: int


def new_job_id() -> JobId:
    """Return a random job id."""
    return JobId(os.urandom(16).hex())


def operator_id_of(uid: str) -> OperatorId:
    """Return the operator id of a uid: 32 hex digits, the same on every machine and in every version."""
    return OperatorId(hashlib.blake2b(uid.encode(), digest_size=16).hexdigest())
