"""RetainedCheckpoints: which checkpoints are dropped, and when which files may go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState, OperatorSubtaskState, TaskStateHandle
from runtime.checkpoint.messages import CoordinatorAction, DeleteFiles, ForgetCheckpoints, ForgetDamaged
from runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage
from runtime.checkpoint.retained_checkpoints import RetainedCheckpoints
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointStatistics
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, OperatorId, TaskId
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from tests.checkpoint.coordinator_rig import GRAPH

OPERATOR = GRAPH.vertices[0].head.operator_id
TASK = TaskId(GRAPH.vertices[0].vertex_id, 0)


def shared(*names: str) -> list[FileHandle]:
    return [FileHandle(f"file:///shared/{name}", 1, "0" * 64, True) for name in names]


def options(number: int, after: AfterSnapshot = AfterSnapshot.GO_ON) -> CheckpointOptions:
    return CheckpointOptions(f"file:///chk-{number}", "file:///shared", after=after)


def state(files: Sequence[FileHandle]) -> OperatorSubtaskState:
    by_name = {file.uri: file for file in files}
    return OperatorSubtaskState(KeyedStateHandle("test", KeyGroupRange(0, 127), 128, by_name))


def checkpoint(
    number: int,
    *names: str,
    is_owned: bool = True,
    is_claimed: bool = False,
    after: AfterSnapshot = AfterSnapshot.GO_ON,
) -> CompletedCheckpoint:
    """A checkpoint that refers to shared files."""
    operator = OperatorState(OperatorId(OPERATOR), "u", "o", 1, 128, [state(shared(*names))])
    metadata = CheckpointMetadata(GRAPH.job_id, CheckpointId(number), 0, options(number, after), [operator])
    return CompletedCheckpoint(metadata, is_owned, is_claimed)


def pending(number: int, *names: str) -> PendingCheckpoint:
    """A checkpoint in progress, of which a task has acknowledged shared files."""
    return PendingCheckpoint(
        checkpoint_id=CheckpointId(number),
        attempt=Attempt(0),
        attempts=frozenset(),
        graph=GRAPH,
        options=options(number),
        timestamp_ms=0,
        deadline_ms=0.0,
        request=None,
        stage=Stage.TASKS,
        waiting_slots=set(),
        waiting_tasks=set(),
        states={TASK: TaskStateHandle({OperatorId(OPERATOR): state(shared(*names))})},
    )


class Kept:
    """Retained checkpoints, and what they have had done."""

    def __init__(self, num_retained: int = 1) -> None:
        self.actions: list[CoordinatorAction] = []
        self.retained = RetainedCheckpoints(
            num_retained, CheckpointStatistics(CheckpointSettings()), self.actions.append
        )

    def add(self, *checkpoints: CompletedCheckpoint, under_way: Sequence[int] = ()) -> None:
        """Checkpoints complete, one after the other, while others are in progress."""
        for each in checkpoints:
            self.retained.add(each)
            self.retained.drop_subsumed([CheckpointId(n) for n in under_way])
            self.retained.release(each.checkpoint_id, [])
        self.retained.check_invariants(is_bounded=True)

    @property
    def forgotten(self) -> list[int]:
        return [n for action in self.actions if isinstance(action, ForgetCheckpoints) for n in action.checkpoint_ids]

    @property
    def deleted(self) -> list[str]:
        """Names of files and directories."""
        deletions = [action for action in self.actions if isinstance(action, DeleteFiles)]
        return [uri.rpartition("/")[2] for action in deletions for uri in (*action.files, *action.directories)]


def test_a_dropped_checkpoint_is_hidden_and_then_loses_what_it_had_alone() -> None:
    kept = Kept()
    kept.add(checkpoint(1, "a", "b"), checkpoint(2, "b", "c"))
    assert [type(action) for action in kept.actions] == [ForgetCheckpoints, DeleteFiles]
    assert (kept.forgotten, kept.deleted) == ([1], ["a", "chk-1"])
    assert kept.retained.gone_among(shared("a", "b")) == {"file:///shared/a"}
    newest = kept.retained.newest
    assert newest is not None and newest.checkpoint_id == 2


def test_as_many_are_kept_as_are_to_be_retained() -> None:
    kept = Kept(num_retained=2)
    kept.add(*(checkpoint(n) for n in range(1, 5)))
    assert kept.forgotten == [1, 2]
    assert [metadata.checkpoint_id for metadata in kept.retained.metadata()] == [3, 4]


def test_files_wait_for_checkpoints_whose_tasks_may_build_on_them() -> None:
    kept = Kept()
    kept.add(checkpoint(1, "a"))
    kept.add(checkpoint(2, "b"), under_way=[3, 4])
    assert (kept.forgotten, kept.deleted) == ([1], [])
    assert [metadata.checkpoint_id for metadata in kept.retained.metadata()] == [2, 1], "a sweep spares them"
    kept.retained.release(CheckpointId(3), [])
    assert kept.deleted == []
    kept.retained.release(CheckpointId(4), [])
    assert kept.deleted == ["a", "chk-1"]


def test_files_wait_for_a_checkpoint_that_has_turned_out_to_refer_to_them() -> None:
    kept = Kept()
    kept.add(checkpoint(1, "a"))
    kept.add(checkpoint(2, "b"), under_way=[3])
    kept.retained.release(CheckpointId(3), [pending(4, "a")])
    assert kept.deleted == []
    kept.retained.release(CheckpointId(4), [])
    assert kept.deleted == ["a", "chk-1"]


def test_a_snapshot_of_the_users_is_dropped_and_stays_and_no_checkpoint_refers_to_it() -> None:
    kept = Kept()
    kept.retained.recover([], checkpoint(1, "a", is_owned=False))
    assert kept.retained.needs_full
    kept.add(checkpoint(2, "b"))
    assert not kept.retained.needs_full
    assert (kept.forgotten, kept.deleted) == ([1], [])


def test_a_damaged_checkpoint_is_hidden_with_its_files_kept() -> None:
    kept = Kept(num_retained=2)
    kept.add(checkpoint(1, "a"), checkpoint(2, "b"))
    kept.retained.drop_damaged(CheckpointId(2))
    assert kept.actions == [ForgetDamaged(CheckpointId(2))] and kept.retained.is_forgetting
    kept.retained.forgotten(CheckpointId(2))
    assert not kept.retained.is_forgetting
    newest = kept.retained.newest
    assert newest is not None and newest.checkpoint_id == 1


def test_the_only_checkpoint_is_hidden_for_its_damage_when_another_is_recorded() -> None:
    kept = Kept()
    kept.add(checkpoint(1))
    kept.retained.drop_damaged(CheckpointId(1))
    assert (kept.retained.newest, kept.forgotten) == (None, [])
    kept.add(checkpoint(2))
    assert kept.forgotten == [1]
    kept.retained.forget_damaged()
    assert kept.forgotten == [1], "once"


@pytest.mark.parametrize("is_fenced", [False, True])
def test_at_the_end_own_checkpoints_go_unless_another_jobmaster_leads(is_fenced: bool) -> None:
    kept = Kept(num_retained=2)
    kept.retained.recover([], checkpoint(1, "a", is_claimed=True))
    kept.add(checkpoint(2, "a", "b"))
    if is_fenced:
        kept.retained.fence()
    kept.retained.drop_own()
    assert (kept.forgotten, kept.deleted) == (([], []) if is_fenced else ([2], ["b", "chk-2"]))
    # what is claimed stays in any case, with the files that were shared
    assert [metadata.checkpoint_id for metadata in kept.retained.metadata()] == [1]
    assert kept.retained.is_fenced is is_fenced


def test_the_savepoint_that_the_job_stops_with_is_known_until_it_is_damaged() -> None:
    kept = Kept()
    assert kept.retained.stopped_by is None
    kept.add(checkpoint(1, after=AfterSnapshot.SUSPEND))
    stopped_by = kept.retained.stopped_by
    assert stopped_by is not None and stopped_by.checkpoint_id == 1
    successor = Kept()
    successor.retained.recover([stopped_by], None)
    assert successor.retained.stopped_by == stopped_by
    successor.retained.drop_damaged(CheckpointId(1))
    assert successor.retained.stopped_by is None


def test_of_an_aborted_checkpoint_goes_what_nothing_else_refers_to() -> None:
    kept = Kept()
    kept.add(checkpoint(1, "a"))
    inside = FileHandle("file:///chk-2/own", 1, "0" * 64, False)
    kept.retained.delete_unneeded([*shared("a", "b", "c"), inside], [pending(3, "b")], "file:///chk-2/")
    [deletion] = kept.actions
    assert deletion == DeleteFiles(("file:///shared/c",), ("file:///chk-2/",))
    kept.retained.delete_unneeded(shared("a"), [])
    assert kept.actions == [deletion], "nothing to delete is no action"


def test_files_of_an_earlier_leader_are_unknown_if_no_checkpoint_refers_to_them() -> None:
    kept = Kept()
    theirs, known, own, other = "4-1.0-map-sst-aa", "3-1.0-map-sst-bb", "5-2.0-map-sst-cc", "notes"
    kept.add(checkpoint(1, known))
    assert kept.retained.unknown_among(shared(theirs, known, own, other), leader_epoch=2) == [
        f"file:///shared/{theirs}"
    ]
