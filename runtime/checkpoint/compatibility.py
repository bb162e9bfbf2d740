"""What a job's next graph will make of its state, told before the job is stopped. Pure.

The verdicts are those of `assign_state`, operator by operator and without raising. States that user functions ask for
only when they are opened, and states of snapshots that do not name them, cannot be compared before: of those the report
says that it does not know.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.checkpoint.assignment import StateAssignmentError, assign_state
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState
from runtime.checkpoint.state_fates import Fate, StateFate, fate_of, written_states
from runtime.core.ids import OperatorId
from runtime.graph.job_graph import ChainedOperator, JobGraph, JobVertex


class Verdict(enum.Enum):
    """Outcome of a restore for the state of an operator."""

    KEPT = "kept"
    RESCALED = "rescaled"
    """Kept, and distributed over another number of subtasks."""
    NEW = "new"
    """The operator is not in the snapshot and starts empty."""
    LOST = "lost"
    """The snapshot has state of an operator that the graph does not have, or that keeps other state now."""
    REFUSED = "refused"
    """The state cannot be given to the operator."""
    UNKNOWN = "unknown"
    """The state is given to the operator; whether it can read it shows when the operator is opened."""


@dataclass(frozen=True, slots=True)
class OperatorVerdict:
    """A line of the report."""

    operator_id: OperatorId
    uid: str
    name: str
    verdict: Verdict
    why: str = ""
    """Of REFUSED."""
    before: int | None = None
    """Parallelism in the snapshot; None: it is not in it."""
    after: int | None = None
    """Parallelism in the graph; None: it is not in it."""
    size_bytes: int = 0
    """Of its keyed state's files in the snapshot."""
    has_state: bool = False
    """Whether the snapshot has any state of it."""
    states: Sequence[StateFate] = ()
    """As far as they are named, before or after."""

    def to_json(self) -> dict[str, Any]:
        return {
            "operator_id": self.operator_id,
            "uid": self.uid,
            "name": self.name,
            "verdict": self.verdict.value,
            "why": self.why,
            "before": self.before,
            "after": self.after,
            "size_bytes": self.size_bytes,
            "has_state": self.has_state,
            "states": [_state_to_json(state) for state in self.states],
        }


@dataclass(frozen=True, slots=True)
class CompatibilityReport:
    """What becomes of a snapshot's state in a graph."""

    operators: Sequence[OperatorVerdict]
    """Those of the graph in its order, then those that are lost."""
    refusal: str
    """Why the graph cannot be restored from the snapshot at all, although no single operator is to blame; empty: it
    can."""

    @property
    def is_restorable(self) -> bool:
        """Return whether the job would start from the snapshot, if lost state may be left behind."""
        return not self.refusal and all(line.verdict is not Verdict.REFUSED for line in self.operators)

    @property
    def loses_state(self) -> bool:
        """Return whether state would be left behind."""
        return any(line.verdict is Verdict.LOST for line in self.operators)

    def to_json(self) -> dict[str, Any]:
        return {
            "operators": [line.to_json() for line in self.operators],
            "refusal": self.refusal,
            "is_restorable": self.is_restorable,
            "loses_state": self.loses_state,
        }


def _state_to_json(state: StateFate) -> dict[str, Any]:
    return {
        "name": state.name,
        "fate": state.fate.value,
        "written": None if state.written is None else state.written.describe(),
        "expected": None if state.expected is None else state.expected.describe(),
    }


def compatibility(metadata: CheckpointMetadata, graph: JobGraph) -> CompatibilityReport:
    """Tell what becomes of a snapshot's state in a graph.

    Args:
        metadata: of a checkpoint or savepoint of the job. Records in flight are left out: the savepoint that a stopped
            job leaves has none.
        graph: the job's next graph.
    """
    saved = {operator.operator_id: operator for operator in metadata.operators}
    lines: list[OperatorVerdict] = []
    for vertex in graph.vertices:
        for operator in vertex.operators:
            lines.append(_line(metadata, saved.get(operator.operator_id), operator, vertex, graph))
    present = {line.operator_id for line in lines}
    refused = any(line.verdict is Verdict.REFUSED for line in lines)
    lines += [_lost(state) for state in metadata.operators if state.operator_id not in present and not state.is_empty]
    refusal = ""
    if not refused:
        try:
            assign_state(replace(metadata, channels=()), graph, ignore_unclaimed_state=True)
        except StateAssignmentError as error:
            refusal = str(error)
    return CompatibilityReport(tuple(lines), refusal)


def _line(
    metadata: CheckpointMetadata,
    state: OperatorState | None,
    operator: ChainedOperator,
    vertex: JobVertex,
    graph: JobGraph,
) -> OperatorVerdict:
    if state is None:
        return OperatorVerdict(operator.operator_id, operator.uid, operator.name, Verdict.NEW, after=vertex.parallelism)
    fate = fate_of(state, operator)
    verdict = Verdict.KEPT if state.parallelism == vertex.parallelism else Verdict.RESCALED
    if fate.is_lost:
        verdict = Verdict.LOST
    elif not (fate.is_known or state.is_empty):
        verdict = Verdict.UNKNOWN
    why = ""
    alone = replace(graph, vertices=(replace(vertex, operators=(operator,), chain_edges=()),), edges=())
    try:
        # without its past as an ended task: whether its input may go on is a question of the whole graph
        saved = replace(metadata, operators=(replace(state, finished=frozenset()),), channels=(), edges={})
        assign_state(saved, alone, ignore_unclaimed_state=True)
    except StateAssignmentError as error:
        verdict, why = Verdict.REFUSED, str(error)
    return OperatorVerdict(
        operator.operator_id,
        operator.uid,
        operator.name,
        verdict,
        why,
        state.parallelism,
        vertex.parallelism,
        _size(state),
        not state.is_empty,
        fate.states,
    )


def _lost(state: OperatorState) -> OperatorVerdict:
    return OperatorVerdict(
        state.operator_id,
        state.uid,
        state.name,
        Verdict.LOST,
        before=state.parallelism,
        size_bytes=_size(state),
        has_state=True,
        states=tuple(StateFate(Fate.LOST, written, None) for written in written_states(state)),
    )


def _size(state: OperatorState) -> int:
    files: Mapping[str, int] = {
        file.uri: file.size
        for subtask in state.subtasks
        if subtask.keyed is not None
        for file in subtask.keyed.files.values()
    }
    return sum(files.values())
