"""Assigns a checkpoint's state to the tasks of a graph: by operator id, at any parallelism, in any chains. Pure.

Keyed state is assigned by key groups and not moved: only handles are distributed. Operator state is redistributed by
its mode, in-flight elements by their edge. Source: Flink, StateAssignmentOperation,
Checkpoints.loadAndValidateCheckpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorRestore,
    OperatorState,
    OperatorSubtaskState,
    TaskRestore,
)
from runtime.checkpoint.state_fates import StateFate, fate_of
from runtime.common import options
from runtime.core.ids import OperatorId, TaskId
from runtime.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.key_types import UNDECLARED
from runtime.graph.partitioning import Partitioning
from runtime.operators.source_coordinator import COORDINATOR_STATE, RECEIVED_STATE
from runtime.state.handles import KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange, default_max_parallelism, key_group_range
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import StatePart, are_windows_readable, moved_parts


class StateAssignmentError(Exception):
    """A snapshot does not fit the job; no other attempt of the job could restore it."""

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True


class KeyedStateMismatchError(StateAssignmentError):
    """Keyed state was saved with another type of keys or windows than the operator has now.

    Attributes:
        uid: of the operator.
        written: type of the keys or windows in the snapshot.
        expected: type of the operator's present keys or windows.
    """

    def __init__(self, what: str, operator: OperatorState, written: str, expected: str) -> None:
        super().__init__(
            f"state of {operator.name} (uid {operator.uid}) was saved by {what} of {_type(written)}, which now are of "
            f"{_type(expected)}: it would never be found again; use the type that it was saved with, or another uid"
        )
        self.uid = operator.uid
        self.written = written
        self.expected = expected


class StateMismatchError(StateAssignmentError):
    """A state was saved in another form than the one in which the operator reads it now.

    Attributes:
        uid: of the operator.
        state: what was saved, and what is expected.
    """

    def __init__(self, operator: OperatorState, state: StateFate) -> None:
        written = "" if state.written is None else state.written.describe()
        expected = "by this operator" if state.expected is None else f"as {state.expected.describe()}"
        super().__init__(
            f"state {state.name!r} of {operator.name} (uid {operator.uid}) was saved as {written} and cannot be read "
            f"{expected}: use the type that it was saved with, or another uid"
        )
        self.uid = operator.uid
        self.state = state


class StateContentError(StateAssignmentError):
    """The values in a state have the right type, and mean something else.

    Attributes:
        uid: of the operator.
    """

    def __init__(self, operator: OperatorState, written: str, expected: str) -> None:
        super().__init__(
            f"state of {operator.name} (uid {operator.uid}) was saved for {written}, and now is for {expected}: "
            "its values would be taken for others; use what it was saved for, or another uid"
        )
        self.uid = operator.uid


class StateOrderError(StateAssignmentError):
    """The values in a state would change places.

    Attributes:
        uid: of the operator.
    """

    def __init__(self, operator: OperatorState, expected: Sequence[StatePart], moved: Sequence[StatePart]) -> None:
        parts, places = ", ".join(part.describe() for part in moved), "another place" if len(moved) == 1 else "others"
        written = ", ".join(part.describe() for part in operator.state_parts)
        super().__init__(
            f"state of {operator.name} (uid {operator.uid}) was saved for {written}, and now is for "
            f"{', '.join(part.describe() for part in expected)}: values are found by their places, and {parts} had "
            f"{places}; use the order in which they were saved, or another uid"
        )
        self.uid = operator.uid


def _type(name: str) -> str:
    return "no declared type" if name == UNDECLARED else f"type {name}"


@dataclass(frozen=True, slots=True)
class RestoredOperator:
    """A line of a RestoreReport."""

    uid: str
    name: str
    saved_parallelism: int | None
    """None: the operator is not in the snapshot."""
    parallelism: int | None
    """None: the operator is not in the job."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Operators matched with state of the snapshot."""

    location: str
    checkpoint_id: int
    is_savepoint: bool
    matched: Sequence[RestoredOperator]
    dropped: Sequence[RestoredOperator]
    """Operators with state in the snapshot that are not in the job."""
    new: Sequence[RestoredOperator]
    """Operators that are not in the snapshot and start empty."""

    def describe(self) -> str:
        """Describe the report for people, one line per operator."""
        kind = "savepoint" if self.is_savepoint else "checkpoint"
        lines = [f"restored from {kind} {self.checkpoint_id}, {self.location}:"]
        for operator in self.matched:
            moved = operator.saved_parallelism != operator.parallelism
            how = f"parallelism {operator.saved_parallelism} → {operator.parallelism}" if moved else "as it was"
            lines.append(f"  matched  {operator.name} (uid {operator.uid}): {how}")
        for operator in self.dropped:
            why = "the job has no such operator" if operator.parallelism is None else "it has other states now, or none"
            lines.append(f"  dropped  {operator.name} (uid {operator.uid}): {why}")
        lines += [f"  new      {o.name} (uid {o.uid}): starts empty" for o in self.new]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Assignment:
    """State that the tasks of an attempt restore."""

    graph: JobGraph
    """The job, with max parallelisms taken from the snapshot where the program set none."""
    tasks: Mapping[TaskId, TaskRestore]
    """Every task of the graph."""
    coordinators: Mapping[OperatorId, OperatorSnapshot]
    """State of the coordinators, by source operator."""
    report: RestoreReport


def assign_state(metadata: CheckpointMetadata, graph: JobGraph, *, ignore_unclaimed_state: bool = False) -> Assignment:
    """Assign a snapshot's state.

    Args:
        metadata: of a completed checkpoint or savepoint.
        graph: the job, at any parallelism.
        ignore_unclaimed_state: whether state of operators that the graph does not have may be dropped.

    Raises:
        StateAssignmentError: state would be dropped; an operator cannot read its state; the max parallelism differs;
            the parallelism is above it.
    """
    report = _report(metadata, graph)
    edges = _matching_edges(metadata, graph)
    saved = _claimed(metadata, graph)
    graph = _with_saved_max_parallelism(graph, saved)
    _refuse_other_states(graph, saved)
    if not ignore_unclaimed_state:
        _refuse_unclaimed(metadata, report, edges)
    restores: dict[TaskId, TaskRestore] = {}
    coordinators: dict[OperatorId, OperatorSnapshot] = {}
    channels, mixed = _deal_channels(metadata, graph, edges, saved)
    checkpoint_id = None if metadata.options.is_savepoint else metadata.checkpoint_id
    for vertex in graph.vertices:
        dealt = {
            o.operator_id: _deal_operator(saved[o.operator_id], vertex)
            for o in vertex.operators
            if o.operator_id in saved
        }
        is_finished = all(o.operator_id in saved and _is_finished(saved[o.operator_id]) for o in vertex.operators)
        for index in range(vertex.parallelism):
            task = TaskId(vertex.vertex_id, index)
            in_flight = channels.get(task, ())
            restores[task] = TaskRestore(
                operators={operator_id: of_subtask[index] for operator_id, of_subtask in dealt.items()},
                channels=tuple(in_flight),
                is_finished=is_finished,
                mixed_edges=mixed & {channel.edge_id for channel in in_flight},
                checkpoint_id=checkpoint_id,
                location=metadata.options.directory,
            )
        state = saved.get(vertex.head.operator_id)
        if state is not None and state.coordinator is not None:
            coordinators[vertex.head.operator_id] = _coordinator(state, state.coordinator)
    _check_finished(graph, restores)
    return Assignment(graph, restores, coordinators, report)


def _check_finished(graph: JobGraph, restores: Mapping[TaskId, TaskRestore]) -> None:
    """Check that no running task sends to one that had finished: nobody would read it."""
    by_id = {v.vertex_id: v for v in graph.vertices}
    for edge in graph.edges:
        source, target = by_id[edge.source], by_id[edge.target]
        had_finished = restores[TaskId(target.vertex_id, 0)].is_finished
        if had_finished and not restores[TaskId(source.vertex_id, 0)].is_finished:
            raise StateAssignmentError(
                f"{target.name} had finished when the snapshot was taken, and {source.name}, which now sends to it, "
                "had not, or was not there: a snapshot of a job that has come to its end cannot be given new input"
            )


# --- which operators --------------------------------------------------------------------------------------------------


def _claimed(metadata: CheckpointMetadata, graph: JobGraph) -> dict[OperatorId, OperatorState]:
    """Return what was saved of each operator; nothing of those that have only their uid in common with the job's."""
    present = {o.operator_id: o for v in graph.vertices for o in v.operators}
    saved = {}
    for state in metadata.operators:
        operator = present.get(state.operator_id)
        if operator is not None and fate_of(state, operator).is_lost:
            state = replace(
                state,
                subtasks=tuple(OperatorSubtaskState(watermark=s.watermark) for s in state.subtasks),
                coordinator=None,
            )
        saved[state.operator_id] = state
    return saved


def _report(metadata: CheckpointMetadata, graph: JobGraph) -> RestoreReport:
    saved = {operator.operator_id: operator for operator in metadata.operators}
    present = {o.operator_id: (o, v.parallelism) for v in graph.vertices for o in v.operators}
    matched: list[RestoredOperator] = []
    new: list[RestoredOperator] = []
    dropped: list[RestoredOperator] = []
    for operator_id, (operator, parallelism) in present.items():
        state = saved.get(operator_id)
        line = RestoredOperator(operator.uid, operator.name, state.parallelism if state else None, parallelism)
        if state is None:
            new.append(line)
        else:
            (dropped if fate_of(state, operator).is_lost else matched).append(line)
    dropped += [
        RestoredOperator(state.uid, state.name, state.parallelism, None)
        for operator_id, state in saved.items()
        if operator_id not in present and not state.is_empty
    ]
    return RestoreReport(
        metadata.options.directory,
        metadata.checkpoint_id,
        metadata.options.is_savepoint,
        tuple(matched),
        tuple(dropped),
        tuple(new),
    )


def _refuse_unclaimed(metadata: CheckpointMetadata, report: RestoreReport, edges: Mapping[int, JobEdge]) -> None:
    advice = f"set {options.IGNORE_UNCLAIMED_STATE.key} to leave it behind"
    if report.dropped:
        names = ", ".join(f"{o.name} (uid {o.uid})" for o in report.dropped)
        raise StateAssignmentError(
            f"{report.location} has state of operators that the job does not have: {names}; give the operators that "
            f"should take it these uids, or {advice}\n{report.describe()}"
        )
    lost = {channel.edge_id for channel in metadata.channels} - edges.keys()
    if lost:
        raise StateAssignmentError(
            f"{report.location} has records in flight between operators that the job does not join in the same way: "
            f"restore the job as it was, or from a savepoint, or {advice}"
        )


def _refuse_other_states(graph: JobGraph, saved: Mapping[OperatorId, OperatorState]) -> None:
    """Check that each operator can read what was saved of it, as far as that is known before it is opened."""
    for operator in (operator for vertex in graph.vertices for operator in vertex.operators):
        state = saved.get(operator.operator_id)
        if state is None:
            continue
        has_keys = any(subtask.keyed is not None for subtask in state.subtasks)
        windows = (state.window_type, operator.window_type)
        for what, written, expected, is_readable in (
            ("keys", state.key_type, operator.key_type, state.key_type == operator.key_type),
            ("windows", *windows, are_windows_readable(*windows)),
        ):
            # snapshots of earlier versions do not record it
            if has_keys and written and expected and not is_readable:
                raise KeyedStateMismatchError(what, state, written, expected)
        refused = fate_of(state, operator).refused
        if refused is not None:
            raise StateMismatchError(state, refused)
        if has_keys:
            _refuse_other_content(state, operator)


def _refuse_other_content(state: OperatorState, operator: ChainedOperator) -> None:
    written, expected = state.state_parts, operator.state_parts
    if not (written and expected):
        # snapshots and graphs of earlier versions have at most this
        contents = (state.state_content, operator.state_content)
        if all(contents) and contents[0] != contents[1]:
            raise StateContentError(state, *contents)
        return
    if [part.content for part in written] != [part.content for part in expected]:
        raise StateContentError(state, *(", ".join(part.describe() for part in parts) for parts in (written, expected)))
    moved = moved_parts(written, expected)
    if moved:
        raise StateOrderError(state, expected, moved)


def _with_saved_max_parallelism(graph: JobGraph, saved: Mapping[OperatorId, OperatorState]) -> JobGraph:
    return replace(graph, vertices=tuple(_vertex_with_saved_max_parallelism(v, graph, saved) for v in graph.vertices))


def _vertex_with_saved_max_parallelism(
    vertex: JobVertex, graph: JobGraph, saved: Mapping[OperatorId, OperatorState]
) -> JobVertex:
    states = [saved[o.operator_id] for o in vertex.operators if o.operator_id in saved]
    keyed = [state for state in states if any(s.keyed is not None for s in state.subtasks)]
    wanted = {state.max_parallelism for state in keyed}
    if not wanted:
        # without keyed state nothing depends on it yet, but upstream operators may send records by key to this operator
        wanted = {state.max_parallelism for state in states[:1]}
        if not wanted or vertex.parallelism > min(wanted):
            return vertex
    if len(wanted) > 1:
        raise StateAssignmentError(
            f"{vertex.name} joins operators whose state was saved with different max parallelisms "
            f"({', '.join(map(str, sorted(wanted)))}): do not chain them"
        )
    (saved_max,) = wanted
    if vertex.max_parallelism == saved_max:
        return vertex
    is_explicit = (
        options.PIPELINE_MAX_PARALLELISM.key in graph.configuration
        or vertex.max_parallelism != default_max_parallelism(vertex.parallelism)
    )
    if is_explicit and keyed:
        raise StateAssignmentError(
            f"{vertex.name} has max parallelism {vertex.max_parallelism}, and its state was saved with {saved_max}: "
            f"set the max parallelism to {saved_max}"
        )
    if is_explicit:
        return vertex
    if vertex.parallelism > saved_max:
        raise StateAssignmentError(
            f"{vertex.name} has parallelism {vertex.parallelism}, and its state was saved with max parallelism "
            f"{saved_max}: it can be restored with a parallelism of up to {saved_max}"
        )
    return replace(vertex, max_parallelism=saved_max)


# --- state of operators -----------------------------------------------------------------------------------------------


def _is_finished(state: OperatorState) -> bool:
    return len(state.finished) == state.parallelism


def _deal_operator(state: OperatorState, vertex: JobVertex) -> list[OperatorRestore]:
    """Return the state of each subtask."""
    # of a state without items nothing has to be read, whatever its form was
    names = state.operator_states.keys()
    inline = [
        OperatorSnapshot(None, {n: s for n, s in subtask.operator_states.items() if n in names}, subtask.watermark)
        for subtask in state.subtasks
    ]
    dealt = redistribute(inline, vertex.parallelism, vertex.max_parallelism)
    handles = [subtask.keyed for subtask in state.subtasks if subtask.keyed is not None]
    # at the same parallelism no subtask reopens a window that it has closed. Splits, though, may go to another reader,
    # and an ended task has closed everything
    keeps_watermarks = len(inline) == vertex.parallelism and state.coordinator is None and not state.finished
    restores = []
    for index, snapshot in enumerate(dealt):
        own = key_group_range(vertex.max_parallelism, vertex.parallelism, index)
        keyed = tuple(handle for handle in handles if _meets(handle, own))
        watermark = inline[index].watermark if keeps_watermarks else snapshot.watermark
        restores.append(OperatorRestore(keyed, snapshot.operator_states, watermark))
    return restores


def _meets(handle: KeyedStateHandle, own: KeyGroupRange) -> bool:
    return handle.key_groups.start <= own.end and own.start <= handle.key_groups.end


def _coordinator(state: OperatorState, coordinator: OperatorStateSnapshot) -> OperatorSnapshot:
    received = [
        item
        for subtask in state.subtasks
        if RECEIVED_STATE in subtask.operator_states
        for item in subtask.operator_states[RECEIVED_STATE].items
    ]
    return OperatorSnapshot(
        operator_states={
            COORDINATOR_STATE: coordinator,
            RECEIVED_STATE: OperatorStateSnapshot(Redistribution.UNION, received),
        }
    )


# --- records in flight ------------------------------------------------------------------------------------------------


def _matching_edges(metadata: CheckpointMetadata, graph: JobGraph) -> dict[int, JobEdge]:
    """Map saved edge ids to the same edges of the graph."""
    by_id = {v.vertex_id: v for v in graph.vertices}
    present = {
        EdgeIdentity(
            by_id[e.source].operators[e.source_operator].operator_id,
            by_id[e.target].head.operator_id,
            e.input_index,
            e.side_output_tag,
        ): e
        for e in graph.edges
    }
    return {edge_id: present[identity] for edge_id, identity in metadata.edges.items() if identity in present}


def _deal_channels(
    metadata: CheckpointMetadata,
    graph: JobGraph,
    edges: Mapping[int, JobEdge],
    saved: Mapping[OperatorId, OperatorState],
) -> tuple[dict[TaskId, list[ChannelState]], frozenset[int]]:
    """Return the channel state for each consumer, and the edges with a side whose parallelism has changed."""
    by_id = {v.vertex_id: v for v in graph.vertices}
    dealt: dict[TaskId, list[ChannelState]] = {}
    mixed: set[int] = set()
    # in order per channel: elements that the consumer had received are older than those that the producer still held
    for channel in sorted(metadata.channels, key=lambda c: (c.edge_id, c.producer, c.consumer, c.is_output)):
        edge = edges.get(channel.edge_id)
        if edge is None:
            continue
        identity = metadata.edges[channel.edge_id]
        is_mixed = (
            saved[identity.source].parallelism != by_id[edge.source].parallelism
            or saved[identity.target].parallelism != by_id[edge.target].parallelism
        )
        channel = replace(channel, edge_id=edge.edge_id)
        for consumer in _consumers(channel, edge, by_id[edge.target].parallelism, is_mixed):
            dealt.setdefault(TaskId(edge.target, consumer), []).append(channel)
        if is_mixed:
            mixed.add(edge.edge_id)
    return dealt, frozenset(mixed)


def _consumers(channel: ChannelState, edge: JobEdge, parallelism: int, is_mixed: bool) -> Iterable[int]:
    if not is_mixed:
        return (channel.consumer,)
    if edge.partitioning in (Partitioning.KEY_GROUP, Partitioning.CUSTOM):
        # each subtask takes the rows that the partitioner would send to it now
        return range(parallelism)
    return (channel.consumer % parallelism,)
