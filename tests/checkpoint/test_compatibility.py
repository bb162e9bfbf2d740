"""The report says before a stop what the restore does after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.checkpoint.assignment import StateAssignmentError, assign_state
from runtime.checkpoint.compatibility import Verdict, compatibility
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState, OperatorSubtaskState
from runtime.core.ids import CheckpointId, JobId, operator_id_of
from runtime.graph.job_graph import JobGraph
from tests.checkpoint.test_assignment import MAX, OPTIONS, job, keyed, operator


def metadata(*operators: OperatorState) -> CheckpointMetadata:
    return CheckpointMetadata(JobId("a" * 32), CheckpointId(5), 1, OPTIONS, operators)


def window(parallelism: int = 2, **more: object) -> OperatorState:
    return operator("window", keyed(parallelism), **more)


def verdicts(saved: CheckpointMetadata, graph: JobGraph) -> dict[str, Verdict]:
    report = compatibility(saved, graph)
    try:
        assign_state(saved, graph, ignore_unclaimed_state=True)
    except StateAssignmentError:
        assert not report.is_restorable
    else:
        assert report.is_restorable, report
    return {line.uid: line.verdict for line in report.operators}


def test_state_is_kept_rescaled_new_or_lost() -> None:
    saved = metadata(window())
    assert verdicts(saved, job(2)) == {"numbers": Verdict.NEW, "window": Verdict.KEPT, "out": Verdict.NEW}
    assert verdicts(saved, job(4))["window"] is Verdict.RESCALED
    renamed = verdicts(saved, job(2, window_uid="other"))
    assert (renamed["other"], renamed["window"]) == (Verdict.NEW, Verdict.LOST)
    assert compatibility(saved, job(2, window_uid="other")).loses_state
    [lost] = [line for line in compatibility(saved, job(2, window_uid="other")).operators if line.after is None]
    assert lost.size_bytes > 0


def test_an_operator_without_state_is_not_lost() -> None:
    empty = operator("gone", [OperatorSubtaskState()])
    assert compatibility(metadata(empty), job(2)).loses_state is False


def test_other_keys_are_refused_with_a_reason() -> None:
    graph = job(2)
    typed = replace(
        graph,
        vertices=tuple(
            replace(
                vertex,
                operators=tuple(
                    replace(o, key_type="LONG") if o.operator_id == operator_id_of("window") else o
                    for o in vertex.operators
                ),
            )
            for vertex in graph.vertices
        ),
    )
    report = compatibility(metadata(window(key_type="STRING")), typed)
    [line] = [line for line in report.operators if line.verdict is Verdict.REFUSED]
    assert line.uid == "window" and "saved by keys of type STRING" in line.why
    assert report.is_restorable is False


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(2, 64), (MAX + 1, None)])
def test_another_max_parallelism_is_refused(parallelism: int, max_parallelism: int | None) -> None:
    graph = job(parallelism, max_parallelism=max_parallelism)
    assert verdicts(metadata(window()), graph)["window"] is Verdict.REFUSED


def test_new_input_for_what_had_finished_is_refused_as_a_whole() -> None:
    ended = operator("window", [OperatorSubtaskState()], finished=frozenset({0}))
    out = operator("out", [OperatorSubtaskState()], finished=frozenset({0}))
    report = compatibility(metadata(ended, out), job(1))
    assert "had finished" in report.refusal
    assert report.is_restorable is False
