"""Dealing a snapshot out to a graph: by uid, at any parallelism, whatever the chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checkpoint.assignment import (
    Assignment,
    KeyedStateMismatchError,
    StateAssignmentError,
    assign_state,
)
from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorState,
    OperatorSubtaskState,
    TaskRestore,
)
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId, TaskId, operator_id_of
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.operators.source_coordinator import COORDINATOR_STATE, RECEIVED_STATE
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import key_group_range
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution

OPTIONS = CheckpointOptions("file:///c/job/chk-5-0.0", "file:///c/job/shared")
MAX = 128


def job(
    parallelism: int = 2,
    *,
    max_parallelism: int | None = None,
    partitioning: Partitioning = Partitioning.KEY_GROUP,
    chaining: bool = True,
    window_uid: str = "window",
) -> JobGraph:
    """numbers → window → out; window and out are chained unless that is disabled."""
    graph = StreamGraph("job", {}, buffer_timeout_ms=100, chaining_enabled=chaining, max_parallelism=max_parallelism)
    graph.nodes[1] = StreamNode(1, "numbers", "factory", parallelism, is_source=True, uid="numbers")
    graph.nodes[2] = StreamNode(2, "Window", "factory", parallelism, is_stateful=True, uid=window_uid)
    graph.nodes[3] = StreamNode(3, "out", "factory", parallelism, is_sink=True, uid="out")
    graph.edges.append(StreamEdge(1, 2, partitioning, partitioner=abs))
    graph.edges.append(StreamEdge(2, 3, None))
    return create_job_graph(graph, JobId("f" * 32))


def operator(uid: str, subtasks: Sequence[OperatorSubtaskState], **more: object) -> OperatorState:
    state = OperatorState(operator_id_of(uid), uid, uid.title(), len(subtasks), MAX, tuple(subtasks))
    return replace(state, **more)  # type: ignore[arg-type]


def keyed(parallelism: int, max_parallelism: int = MAX) -> list[OperatorSubtaskState]:
    """Return one handle per subtask."""
    return [
        OperatorSubtaskState(
            KeyedStateHandle(
                "canonical",
                key_group_range(max_parallelism, parallelism, index),
                max_parallelism,
                {"keyed": FileHandle(f"file:///c/{index}", 1, "0" * 64)},
            ),
            watermark=100 + index,
        )
        for index in range(parallelism)
    ]


def items(mode: Redistribution, *of_subtasks: Sequence[bytes]) -> list[OperatorSubtaskState]:
    return [OperatorSubtaskState(operator_states={"s": OperatorStateSnapshot(mode, list(i))}) for i in of_subtasks]


def snapshot(
    *operators: OperatorState, channels: Sequence[ChannelState] = (), savepoint: bool = False
) -> CheckpointMetadata:
    edges = {0: EdgeIdentity(operator_id_of("numbers"), operator_id_of("window"), 0)}
    options = replace(OPTIONS, is_savepoint=savepoint)
    return CheckpointMetadata(JobId("f" * 32), CheckpointId(5), 0, options, operators, tuple(channels), edges)


def vertex_with(graph: JobGraph, uid: str) -> JobVertex:
    return next(v for v in graph.vertices if any(o.uid == uid for o in v.operators))


def restores(assignment: Assignment, uid: str) -> list[TaskRestore]:
    vertex = vertex_with(assignment.graph, uid)
    return [assignment.tasks[TaskId(vertex.vertex_id, i)] for i in range(vertex.parallelism)]


# --- keyed and operator state -----------------------------------------------------------------------------------------


@given(before=st.integers(1, 9), after=st.integers(1, 9))
def test_every_subtask_gets_the_handles_that_meet_its_key_groups(before: int, after: int) -> None:
    assignment = assign_state(snapshot(operator("window", keyed(before))), job(after))
    for index, restore in enumerate(restores(assignment, "window")):
        own = key_group_range(MAX, after, index)
        dealt = restore.operators[operator_id_of("window")]
        covered = {
            group for handle in dealt.keyed for group in range(handle.key_groups.start, handle.key_groups.end + 1)
        }
        assert set(range(own.start, own.end + 1)) <= covered
        assert all(h.key_groups.start <= own.end and own.start <= h.key_groups.end for h in dealt.keyed)
        assert dealt.watermark == (100 + index if before == after else 100), "its own, or the least of all"


@pytest.mark.parametrize(
    "more", [{"finished": frozenset({1})}, {"coordinator": OperatorStateSnapshot(Redistribution.UNION, [b"{}"])}]
)
def test_where_work_may_come_back_event_time_is_the_least_of_all(more: dict[str, object]) -> None:
    """A subtask that had ended, or a reader, may be given a split that another one had not begun."""
    uid = "numbers" if "coordinator" in more else "window"
    states = [replace(state, keyed=None) for state in keyed(2)]
    dealt = restores(assign_state(snapshot(operator(uid, states, **more)), job(2)), uid)
    assert [r.operators[operator_id_of(uid)].watermark for r in dealt] == [100, 100]


def test_operator_state_is_dealt_out_by_its_mode() -> None:
    states = items(Redistribution.SPLIT, [b"a", b"b"], [b"c"])
    dealt = [
        [*r.operators[operator_id_of("out")].operator_states["s"].items]
        for r in restores(assign_state(snapshot(operator("out", states)), job(3)), "out")
    ]
    assert sorted(item for mine in dealt for item in mine) == [b"a", b"b", b"c"]
    assert [len(mine) for mine in dealt] == [1, 1, 1]


def test_a_coordinator_gets_its_own_state_and_what_readers_have_received() -> None:
    received = [
        OperatorSubtaskState(operator_states={RECEIVED_STATE: OperatorStateSnapshot(Redistribution.UNION, [item])})
        for item in (b"3", b"4")
    ]
    own = OperatorStateSnapshot(Redistribution.UNION, [b"{}"])
    assignment = assign_state(snapshot(operator("numbers", received, coordinator=own)), job(1))
    (state,) = assignment.coordinators.values()
    assert state.operator_states[COORDINATOR_STATE] == own
    assert list(state.operator_states[RECEIVED_STATE].items) == [b"3", b"4"]


def test_state_follows_its_uid_into_another_chain() -> None:
    metadata = snapshot(operator("window", keyed(2)), operator("out", items(Redistribution.SPLIT, [b"a"], [b"b"])))
    for chaining in (True, False):
        assignment = assign_state(metadata, job(2, chaining=chaining))
        assert [len(r.operators[operator_id_of("window")].keyed) for r in restores(assignment, "window")] == [1, 1]
        assert [
            list(r.operators[operator_id_of("out")].operator_states["s"].items) for r in restores(assignment, "out")
        ] == [[b"a"], [b"b"]]


def test_a_checkpoint_says_its_number_and_a_savepoint_does_not() -> None:
    of_checkpoint = assign_state(snapshot(operator("window", keyed(2))), job())
    of_savepoint = assign_state(snapshot(operator("window", keyed(2)), savepoint=True), job())
    assert {r.checkpoint_id for r in of_checkpoint.tasks.values()} == {5}
    assert {r.checkpoint_id for r in of_savepoint.tasks.values()} == {None}


def test_a_vertex_is_finished_if_every_subtask_of_every_operator_of_it_was() -> None:
    done = frozenset({0, 1})
    states = [OperatorSubtaskState()] * 2
    metadata = snapshot(
        operator("numbers", states, finished=done),
        operator("window", states, finished=done),
        operator("out", states, finished=frozenset({0})),
    )
    assignment = assign_state(metadata, job(3))
    assert [r.is_finished for r in restores(assignment, "numbers")] == [True] * 3
    assert [r.is_finished for r in restores(assignment, "out")] == [False] * 3


def test_a_vertex_that_had_finished_is_not_restored_behind_one_that_has_not() -> None:
    """It would say END at once, and what the other sends would be read by nobody."""
    states, done = [OperatorSubtaskState()] * 2, frozenset({0, 1})
    metadata = snapshot(operator("window", states, finished=done), operator("out", states, finished=done))
    with pytest.raises(StateAssignmentError, match=r"had finished.*numbers.*had not"):
        assign_state(metadata, job())


# --- what does not fit ------------------------------------------------------------------------------------------------


def test_state_without_an_operator_is_refused_with_a_report() -> None:
    metadata = snapshot(operator("window", keyed(2)), operator("numbers", [OperatorSubtaskState()] * 2))
    with pytest.raises(StateAssignmentError) as refusal:
        assign_state(metadata, job(window_uid="other"))
    text = str(refusal.value)
    assert "state of operators that the job does not have: Window (uid window)" in text
    assert "matched  Source: numbers (uid numbers): as it was" in text
    assert "new      Window (uid other): starts empty" in text
    assert "execution.state-recovery.ignore-unclaimed-state" in text


def test_it_may_be_left_behind() -> None:
    metadata = snapshot(operator("window", keyed(2)))
    assignment = assign_state(metadata, job(window_uid="other"), ignore_unclaimed_state=True)
    assert [o.uid for o in assignment.report.dropped] == ["window"]
    assert operator_id_of("window") not in restores(assignment, "other")[0].operators


def test_an_operator_without_state_is_missed_by_nobody() -> None:
    metadata = snapshot(operator("map", [OperatorSubtaskState(watermark=3)] * 2))
    assert assign_state(metadata, job()).report.dropped == ()


def test_the_max_parallelism_is_the_snapshots_where_the_program_sets_none() -> None:
    state = operator("window", keyed(2, 64), max_parallelism=64)
    assignment = assign_state(snapshot(state), job(2))
    assert vertex_with(assignment.graph, "window").max_parallelism == 64


def test_one_that_the_program_sets_must_be_the_snapshots() -> None:
    state = operator("window", keyed(2, 64), max_parallelism=64)
    with pytest.raises(StateAssignmentError, match="max parallelism 100, and its state was saved with 64"):
        assign_state(snapshot(state), job(2, max_parallelism=100))


def test_more_subtasks_than_key_groups_are_refused() -> None:
    state = operator("window", keyed(2, 2), max_parallelism=2)
    with pytest.raises(StateAssignmentError, match="a parallelism of up to 2"):
        assign_state(snapshot(state), job(3))


def with_types(graph: JobGraph, uid: str, **types: Any) -> JobGraph:
    vertices = [
        replace(
            v,
            operators=tuple(replace(o, **types) if o.uid == uid else o for o in v.operators),
        )
        for v in graph.vertices
    ]
    return replace(graph, vertices=tuple(vertices))


@pytest.mark.parametrize(("which", "what"), [("key_type", "keys"), ("window_type", "windows")])
def test_keyed_state_of_another_type_of_keys_or_windows_is_refused(which: str, what: str) -> None:
    metadata = snapshot(operator("window", keyed(2), **{which: "string"}))
    graph = with_types(job(3), "window", **{which: "long"})
    with pytest.raises(KeyedStateMismatchError) as refusal:
        assign_state(metadata, graph, ignore_unclaimed_state=True)
    assert (refusal.value.uid, refusal.value.written, refusal.value.expected) == ("window", "string", "long")
    assert f"Window (uid window) was saved by {what} of type string, which now are of type long" in str(refusal.value)


def test_keys_whose_type_is_not_said_are_taken_at_their_word() -> None:
    def restored(saved: OperatorState) -> list[str]:
        """The files of keyed state that go to each subtask."""
        assignment = assign_state(snapshot(saved), with_types(job(), "window", key_type="long"))
        window = operator_id_of("window")
        dealt = [restore.operators[window] for restore in assignment.tasks.values() if window in restore.operators]
        return [handle.files["keyed"].uri for operator_restore in dealt for handle in operator_restore.keyed]

    without_state = operator("window", [OperatorSubtaskState()] * 2, key_type="string")
    assert restored(without_state) == []
    of_earlier_version = operator("window", keyed(2))
    assert restored(of_earlier_version) == ["file:///c/0", "file:///c/1"]
    as_it_was = operator("window", keyed(2), key_type="long")
    assert restored(as_it_was) == ["file:///c/0", "file:///c/1"]


# --- records in flight ------------------------------------------------------------------------------------------------


def channel(producer: int, consumer: int, *, is_output: bool = False, edge_id: int = 0) -> ChannelState:
    name = f"{producer}-{consumer}-{'out' if is_output else 'in'}"
    return ChannelState(edge_id, producer, consumer, FileHandle(f"file:///c/{name}", 1, "0" * 64), 0, 1, is_output)


def in_flight(assignment: Assignment) -> list[list[tuple[int, int, bool]]]:
    return [[(c.producer, c.consumer, c.is_output) for c in r.channels] for r in restores(assignment, "window")]


OPERATORS = (operator("numbers", [OperatorSubtaskState()] * 2), operator("window", keyed(2)))
CHANNELS = [channel(1, 1), channel(0, 1, is_output=True), channel(0, 1), channel(1, 0, is_output=True)]


def test_at_the_same_parallelism_records_in_flight_stay_where_they_were_and_older_ones_come_first() -> None:
    assignment = assign_state(snapshot(*OPERATORS, channels=CHANNELS), job(2))
    assert in_flight(assignment) == [[(1, 0, True)], [(0, 1, False), (0, 1, True), (1, 1, False)]]
    assert not any(r.mixed_edges for r in assignment.tasks.values())


def test_at_another_parallelism_every_consumer_by_key_gets_all_of_them() -> None:
    assignment = assign_state(snapshot(*OPERATORS, channels=CHANNELS), job(3))
    every = [(0, 1, False), (0, 1, True), (1, 0, True), (1, 1, False)]
    assert in_flight(assignment) == [every] * 3
    assert all(r.mixed_edges == {0} for r in restores(assignment, "window"))


def test_elsewhere_one_consumer_gets_each_of_them() -> None:
    metadata = snapshot(*OPERATORS, channels=CHANNELS)
    assignment = assign_state(metadata, job(1, partitioning=Partitioning.REBALANCE))
    assert in_flight(assignment) == [[(0, 1, False), (0, 1, True), (1, 0, True), (1, 1, False)]]
    assert restores(assignment, "window")[0].mixed_edges == {0}


def test_an_edge_whose_sides_have_kept_their_parallelism_is_not_mixed_by_another_one() -> None:
    """A partitioner that deals out at random would not give each row to one subtask again."""

    def joined(other_parallelism: int) -> JobGraph:
        graph = StreamGraph("job", {}, buffer_timeout_ms=100, chaining_enabled=False)
        graph.nodes[1] = StreamNode(1, "numbers", "factory", 2, is_source=True, uid="numbers")
        graph.nodes[2] = StreamNode(2, "others", "factory", other_parallelism, is_source=True, uid="others")
        graph.nodes[3] = StreamNode(3, "Window", "factory", 2, uid="window")
        graph.edges.append(StreamEdge(1, 3, Partitioning.CUSTOM, 0, partitioner=(max, abs)))
        graph.edges.append(StreamEdge(2, 3, Partitioning.KEY_GROUP, 1, partitioner=abs))
        return create_job_graph(graph, JobId("f" * 32))

    states = [operator(uid, [OperatorSubtaskState()] * 2) for uid in ("numbers", "others", "window")]
    channels = [channel(0, 1), channel(1, 0, edge_id=1)]
    metadata = snapshot(*states, channels=channels)
    edges = {**metadata.edges, 1: EdgeIdentity(operator_id_of("others"), operator_id_of("window"), 1)}
    dealt = restores(assign_state(replace(metadata, edges=edges), joined(3)), "window")
    assert [[c.edge_id for c in r.channels] for r in dealt] == [[1], [0, 1]]
    assert [r.mixed_edges for r in dealt] == [{1}, {1}]


def test_records_between_operators_that_are_joined_no_more_are_refused() -> None:
    metadata = snapshot(*OPERATORS, channels=CHANNELS)
    metadata = replace(metadata, edges={0: EdgeIdentity(operator_id_of("window"), operator_id_of("numbers"), 0)})
    with pytest.raises(StateAssignmentError, match="records in flight between operators"):
        assign_state(metadata, job(2))
    assert in_flight(assign_state(metadata, job(2), ignore_unclaimed_state=True)) == [[], []]
