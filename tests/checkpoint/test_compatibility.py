"""The report says before a stop what the restore does after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from runtime.checkpoint.assignment import StateAssignmentError, assign_state
from runtime.checkpoint.compatibility import Verdict, compatibility
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState, OperatorSubtaskState
from runtime.checkpoint.metadata import decode_metadata, encode_metadata
from runtime.checkpoint.state_fates import Fate
from runtime.common import Types
from runtime.common.time import Time
from runtime.core.ids import CheckpointId, JobId
from runtime.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import JobGraph
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.window_join import How
from runtime.operators.windowing.assigners import TumblingEventTimeWindows
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import DeclaredStates, StateMeta
from tests.checkpoint.test_assignment import MAX, OPTIONS, keyed, operator, with_types
from tests.checkpoint.test_assignment import job as untyped_job


def metadata(*operators: OperatorState) -> CheckpointMetadata:
    return CheckpointMetadata(JobId("a" * 32), CheckpointId(5), 1, OPTIONS, operators)


COUNT = StateMeta("count", "value", "long", namespaced=False)
ROWS = StateMeta("rows", "columnar", "row<n long>", namespaced=False)
RULES = StateMeta("rules", "broadcast", "map<long, string>", namespaced=False)


def window(parallelism: int = 2, states: Sequence[StateMeta] | None = (COUNT,), **more: object) -> OperatorState:
    subtasks = [
        replace(subtask, keyed=None if subtask.keyed is None else replace(subtask.keyed, states=states))
        for subtask in keyed(parallelism)
    ]
    return operator("window", subtasks, **more)


def job(
    parallelism: int, states: Sequence[StateMeta] | None = (COUNT,), *, is_complete: bool = True, **more: Any
) -> JobGraph:
    declared = None if states is None else DeclaredStates(tuple(states), is_complete)
    return with_types(untyped_job(parallelism, **more), more.get("window_uid", "window"), declared_states=declared)


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
    typed = with_types(job(2), "window", key_type="LONG")
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


# --- states -----------------------------------------------------------------------------------------------------------


def fates(saved: CheckpointMetadata, graph: JobGraph) -> tuple[Verdict, dict[str, Fate]]:
    verdict = verdicts(saved, graph)["window"]
    [line] = [line for line in compatibility(saved, graph).operators if line.uid == "window"]
    return verdict, {state.name: state.fate for state in line.states}


@pytest.mark.parametrize(
    "expected",
    [
        StateMeta("count", "value", "string", namespaced=False),
        StateMeta("count", "list", "list<long>", namespaced=False),
        StateMeta("count", "value", "long", namespaced=True),
    ],
)
def test_a_state_of_another_kind_or_type_is_refused_with_both(expected: StateMeta) -> None:
    saved, graph = metadata(window()), job(2, [expected])
    assert fates(saved, graph) == (Verdict.REFUSED, {"count": Fate.REFUSED})
    [line] = [line for line in compatibility(saved, graph).operators if line.uid == "window"]
    written = "'count' of Window (uid window) was saved as value state of long"
    assert f"{written} and cannot be read as {expected.describe()}" in line.why


def test_time_to_live_may_be_added() -> None:
    saved, graph = metadata(window()), job(2, [replace(COUNT, has_ttl=True)])
    assert fates(saved, graph) == (Verdict.KEPT, {"count": Fate.KEPT})


def test_a_further_state_starts_empty_and_one_that_is_not_asked_for_is_carried_along() -> None:
    saved = metadata(window(states=[COUNT, replace(COUNT, name="old")]))
    graph = job(2, [COUNT, replace(COUNT, name="new")])
    assert fates(saved, graph) == (Verdict.KEPT, {"count": Fate.KEPT, "old": Fate.UNREAD, "new": Fate.EMPTY})


def test_vectorised_operators_refuse_what_they_do_not_know() -> None:
    saved = metadata(window(states=[ROWS, replace(ROWS, name="others")]))
    assert fates(saved, job(2, [ROWS])) == (Verdict.REFUSED, {"rows": Fate.KEPT, "others": Fate.REFUSED})


def test_an_operator_that_has_only_the_uid_in_common_loses_the_state() -> None:
    # it could not be given its keys, or its key groups, either
    saved = metadata(window(states=[ROWS], key_type="string"))
    graph = with_types(job(2, max_parallelism=64), "window", key_type="long")
    assert fates(saved, graph) == (Verdict.LOST, {"rows": Fate.LOST, "count": Fate.EMPTY})
    assert compatibility(saved, graph).loses_state
    with pytest.raises(StateAssignmentError, match=r"dropped +Window \(uid window\): it has other states now"):
        assign_state(saved, graph)
    dealt = assign_state(saved, graph, ignore_unclaimed_state=True)
    assert not any(restore.keyed for task in dealt.tasks.values() for restore in task.operators.values())


def test_what_is_asked_for_at_run_time_only_is_unknown() -> None:
    saved = metadata(window())
    assert fates(saved, job(2, [], is_complete=False)) == (Verdict.UNKNOWN, {"count": Fate.UNKNOWN})
    assert fates(saved, job(2, None)) == (Verdict.UNKNOWN, {"count": Fate.UNKNOWN})
    # the own states of an operator with a user function are compared all the same
    other = replace(COUNT, serializer="string")
    assert fates(saved, job(2, [other], is_complete=False)) == (Verdict.REFUSED, {"count": Fate.REFUSED})


def test_a_snapshot_of_an_earlier_version_names_no_states() -> None:
    assert fates(metadata(window(states=None)), job(2)) == (Verdict.UNKNOWN, {})


def test_operator_state_is_compared_where_it_has_items() -> None:
    def saved(*items: bytes) -> CheckpointMetadata:
        state = OperatorStateSnapshot(Redistribution.BROADCAST, items, "map<long, string>")
        return metadata(operator("window", [OperatorSubtaskState(operator_states={"rules": state})] * 2))

    other = replace(RULES, serializer="map<string, string>")
    assert fates(saved(b"1"), job(2, [RULES])) == (Verdict.KEPT, {"rules": Fate.KEPT})
    assert fates(saved(b"1"), job(2, [other])) == (Verdict.REFUSED, {"rules": Fate.REFUSED})
    assert fates(saved(), job(2, [other])) == (Verdict.KEPT, {})
    dealt = assign_state(saved(), job(2, [other]))
    assert not any(restore.operator_states for task in dealt.tasks.values() for restore in task.operators.values())


def test_values_that_mean_something_else_are_refused() -> None:
    saved = metadata(window(state_content="rows, sum"))
    graph = with_types(job(2), "window", state_content="rows, max")
    assert verdicts(saved, graph)["window"] is Verdict.REFUSED
    assert verdicts(saved, job(2))["window"] is Verdict.KEPT


def test_an_operator_that_had_timers_only_is_lost_where_nothing_takes_them() -> None:
    def saved(has_timers: bool | None) -> CheckpointMetadata:
        subtasks = [replace(s, keyed=replace(s.keyed, states=(), has_timers=has_timers)) for s in keyed(2) if s.keyed]
        return metadata(operator("window", subtasks))

    assert fates(saved(True), job(2, [])) == (Verdict.LOST, {"timers": Fate.LOST})
    with pytest.raises(StateAssignmentError, match="has other states now"):
        assign_state(saved(True), job(2, []))
    # a function may register them again, and one that had none has lost none
    assert fates(saved(True), job(2, [], is_complete=False)) == (Verdict.KEPT, {})
    assert fates(saved(False), job(2, [])) == (Verdict.KEPT, {})
    assert fates(saved(None), job(2, [])) == (Verdict.KEPT, {})


def test_windows_of_the_other_time_are_refused() -> None:
    def verdict(written: str, expected: str) -> Verdict:
        graph = with_types(job(2), "window", window_type=expected)
        return verdicts(metadata(window(window_type=written)), graph)["window"]

    event, processing = "TimeWindow of event time", "TimeWindow of processing time"
    assert verdict(event, event) is verdict(processing, processing) is Verdict.KEPT
    assert verdict(event, processing) is verdict(processing, event) is Verdict.REFUSED
    # earlier versions did not say of which time they are
    assert verdict("TimeWindow", event) is verdict("TimeWindow", processing) is Verdict.KEPT
    assert verdict("merging TimeWindow", f"merging {event}") is Verdict.KEPT
    assert verdict("merging TimeWindow", event) is verdict("TimeWindow", f"merging {event}") is Verdict.REFUSED
    assert verdict("panes of 10 ms", "panes of 10 ms of processing time") is Verdict.REFUSED


RECORD = Types.ROW_NAMED(["k", "a", "b"], [Types.STRING(), Types.LONG(), Types.LONG()])
Step = Callable[[KeyedStream], DataStream]


def graph_of(step: Step) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment()
    rows = env.from_collection([], RECORD)
    step(rows.key_by_columns("k")).uid("step").print().uid("out")
    return job_graph_from_json(job_graph_to_json(env.create_job_graph("job")))


def answered(before: Step, after: Step, *, by_earlier_version: bool = False) -> str:
    """Return why a step cannot go on with the state of another one; "" = it can. The report says what the restore
    does."""
    saved_by, now = graph_of(before), graph_of(after)
    [step] = [o for vertex in saved_by.vertices for o in vertex.operators if o.uid == "step"]
    assert step.declared_states is not None
    state = replace(
        window(2, [state for state in step.declared_states.states if state.is_keyed]),
        operator_id=step.operator_id,
        uid="step",
        key_type=step.key_type,
        window_type=step.window_type,
        state_content=step.state_content,
        state_parts=() if by_earlier_version else step.state_parts,
    )
    saved = decode_metadata(encode_metadata(metadata(state)), OPTIONS.directory)
    verdict = verdicts(saved, now)["step"]
    [line] = [line for line in compatibility(saved, now).operators if line.uid == "step"]
    assert (verdict is Verdict.REFUSED) == bool(line.why)
    return line.why


def totals(*texts: str, windowed: bool = False) -> Step:
    if windowed:
        windows = TumblingEventTimeWindows.of(Time.seconds(1))
        return lambda keyed: keyed.window(windows).aggregate_columns(*texts)
    return lambda keyed: keyed.aggregate_columns(*texts)


@pytest.mark.parametrize("windowed", [False, True])
def test_aggregates_that_change_places_are_refused_and_other_expressions_go_on(windowed: bool) -> None:
    def why(before: Sequence[str], after: Sequence[str], **more: bool) -> str:
        return answered(totals(*before, windowed=windowed), totals(*after, windowed=windowed), **more)

    two = ["sum(a) AS s", "sum(b) AS t"]
    assert why(two, two) == ""
    assert "sum(b), count(b), sum(a), count(a) had others; use the order" in why(two, two[::-1])
    # one in front and one less: the rest has moved up
    assert "min(b) had another place" in why(["min(a) AS x", "min(b) AS y"], ["min(b) AS y", "min(b + 1) AS z"])
    assert why(two, ["sum(a * 2) AS s", "sum(b) AS t"]) == ""
    # results may change places where what is kept does not
    spread = ["min(a) AS x", "max(a) - min(a) AS y"]
    assert why(["min(a) AS x", "max(a) AS y"], ["min(a) + max(a) AS z", *spread]) == ""
    assert "was saved for rows, min(a), and now is for rows, max(a)" in why(["min(a) AS x"], ["max(a) AS x"])
    assert why(two, two[::-1], by_earlier_version=True) == ""
    assert "rows, min, and" in why(["min(a) AS x"], ["max(a) AS x"], by_earlier_version=True)


def test_a_running_quantile_of_another_accuracy_is_refused() -> None:
    def quantile(*texts: str) -> Step:
        return totals(*(f"approx_quantile(a, {text}) AS q{n}" for n, text in enumerate(texts)))

    why = answered(quantile("0.5, 0.01"), quantile("0.5, 0.1"))
    assert "was saved for rows, sketch within 0.01(a), and now is for rows, sketch within 0.1(a)" in why
    assert answered(quantile("0.5, 0.01"), quantile("0.9, 0.01")) == ""
    assert answered(quantile("0.5, 0.01"), quantile("0.5, 0.01"), by_earlier_version=True) == ""


@pytest.mark.parametrize("windowed", [False, True])
def test_best_rows_by_something_else_are_refused_and_another_number_of_them_is_kept(windowed: bool) -> None:
    def best(n: int, by: str, descending: bool = True, rank: str | None = None) -> Step:
        windows = TumblingEventTimeWindows.of(Time.seconds(1))

        def step(keyed: KeyedStream) -> DataStream:
            return (keyed.window(windows) if windowed else keyed).top_n(n, by, descending, rank)

        return step

    assert "was saved for a descending, and now is for b descending" in answered(best(5, "a"), best(5, "b"))
    assert "and now is for a ascending" in answered(best(5, "a"), best(5, "a", descending=False))
    assert answered(best(5, "a"), best(5, '"a"')) == answered(best(5, "a + 1"), best(5, " a + 1")) == ""
    for n in (2, 9):
        assert answered(best(5, "a"), best(n, "a", rank="place")) == ""
    assert answered(best(5, "a"), best(5, "a"), by_earlier_version=True) == ""


def test_what_rows_of_an_interval_join_wait_for_is_compared() -> None:
    def content(how: How, upper_ms: int = 50) -> str:
        sides = JoinSides((RECORD, RECORD), (("k",), ("k",)))
        return ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(sides, 0, upper_ms, how=how)).state_content

    saved = metadata(window(state_content=content("inner")))
    left = with_types(job(2), "window", state_content=content("left"))
    assert verdicts(saved, left)["window"] is Verdict.REFUSED
    [line] = [line for line in compatibility(saved, left).operators if line.uid == "window"]
    assert "was saved for an inner join, and now is for a left join, 0 to 50 ms" in line.why
    # pairs that rows with other bounds still find are right; rows without a partner are told by the bounds
    assert content("inner") == content("inner", 70)
    assert content("left") != content("left", 70)
    assert verdicts(metadata(window()), left)["window"] is Verdict.KEPT
