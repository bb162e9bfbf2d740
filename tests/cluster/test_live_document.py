"""The live document: its keys, sums and states, and a version that grows only when something changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from backend.cluster.live_document import (
    MAX_STALLS,
    LiveDocument,
    error_name,
    exception_document,
    stall_document,
    task_metrics,
    vertex_metrics,
    vertex_state,
)
from backend.cluster.models import Job, JobException
from backend.cluster.wall_dates import WallDates
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import Attempt, OperatorId, SlotId, TaskId, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.bottleneck import BottleneckWatch
from runtime.jobmaster.events import Submitted
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.life_cycle import JobMasterMachine
from runtime.jobmaster.requirements import Bounds, Requirements
from runtime.jobmaster.status import ExceptionEntry, JobStatusSnapshot, Stall, TaskSnapshot
from runtime.jobmaster.task_figures import FigureReader
from runtime.task.messages import FailureInfo, TaskState
from tests.cluster.graphs import graph

NOW = 1_700_000_000_000


def task(state: TaskState = TaskState.RUNNING, **metrics: object) -> TaskSnapshot:
    return TaskSnapshot(TaskId(VertexId("v"), 0), "map (1/1)", SlotId(0), state, metrics)


def job() -> Job:
    return Job(id="a" * 32, name="sums", state="CREATED", created_at=NOW - 10, parallelism=2, slots_required=2)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["RUNNING", "FINISHED"], "RUNNING"),
        (["FINISHED", "FINISHED"], "FINISHED"),
        (["RUNNING", "FAILED"], "FAILED"),
        (["CANCELED", "CANCELING"], "CANCELING"),
        (["CREATED", "CREATED"], "CREATED"),
        (["RUNNING", "INITIALIZING"], "INITIALIZING"),
    ],
)
def test_a_vertex_is_in_the_state_that_flink_derives(states: list[str], expected: str) -> None:
    assert vertex_state(states) == expected


def test_times_of_a_running_task_add_up_to_a_second() -> None:
    times: dict[str, Any] = {
        "busyTimeMsPerSecond": 333.4,
        "backPressuredTimeMsPerSecond": 111.3,
        "idleTimeMsPerSecond": 555.3,
    }
    values = task_metrics(task(**times, accumulateBusyTimeMs=4000.2), False, NOW)
    assert (values["busy"], values["back_pressured"], values["idle"]) == (333, 111, 555)
    assert values["accumulated_busy"] == 4000
    assert vertex_metrics([values, values], NOW)["accumulated_busy"] == 8000


def test_a_task_that_has_ended_keeps_its_totals_and_has_no_rates() -> None:
    ended = task(TaskState.FINISHED, numRecordsIn=20, numRecordsInPerSecond=5.0, busyTimeMsPerSecond=900.0)
    values = task_metrics(ended, False, NOW)
    assert (values["records_in"], values["records_in_per_second"], values["busy"], values["idle"]) == (20, 0.0, 0, 1000)


@pytest.mark.parametrize(
    ("watermark", "shown", "lag"), [(MIN_WATERMARK, None, None), (NOW - 7, NOW - 7, 7), (MAX_WATERMARK, "max", None)]
)
def test_watermarks_that_are_no_times_are_told_apart(watermark: int, shown: object, lag: int | None) -> None:
    values = task_metrics(task(currentInputWatermark=watermark), False, NOW)
    assert (values["watermark"], values["watermark_lag"]) == (shown, lag)
    assert vertex_metrics([values, values], NOW)["watermark"] == shown


def test_a_vertex_shows_its_most_loaded_subtask_and_its_lowest_watermark() -> None:
    loaded: dict[str, Any] = {"busyTimeMsPerSecond": 800.0, "idleTimeMsPerSecond": 200.0}
    held: dict[str, Any] = {"backPressuredTimeMsPerSecond": 300.0, "idleTimeMsPerSecond": 700.0}
    busy = task_metrics(task(**loaded, numRecordsIn=3, currentInputWatermark=50), False, NOW)
    calm = task_metrics(task(**held, numRecordsIn=4, currentInputWatermark=60), False, NOW)
    values = vertex_metrics([busy, calm], NOW)
    assert (values["busy"], values["back_pressured"], values["idle"]) == (800, 300, 200)
    assert (values["records_in"], values["watermark"]) == (7, 50)


def test_the_version_grows_when_something_changes_and_not_with_the_clock() -> None:
    row = job()
    live = LiveDocument(row, graph(2))
    first = live.build(None, {}, NOW)
    assert live.build(None, {}, NOW + 500)["version"] == first["version"]
    row.waiting_for = "needs 2 slots"
    assert live.build(None, {}, NOW + 1000)["version"] == first["version"] + 1
    assert first["version"] >= NOW


def machine_of(job_graph: JobGraph, **fields: Any) -> JobStatusSnapshot:
    """Return the status of a job's machine with defaults."""
    machine = JobMasterMachine(job_graph)
    machine.handle(Submitted(), 0.0)
    return replace(machine.status(), **fields)


def test_a_restarting_job_says_why_how_often_and_until_when() -> None:
    row, job_graph = job(), graph(2)
    earlier = {"timestamp": NOW - 9, "name": "SlotLost", "message": "gone", "task_name": "", "attempt": 0}
    live = LiveDocument(row, job_graph, [earlier], failures=120)
    snapshot = machine_of(job_graph)
    document = live.build(snapshot, {}, NOW, (), WallDates(NOW - 500.0))
    assert (document["failure"], document["failures"], document["next_attempt_at"]) == (earlier, 120, -1)
    newer = {"timestamp": NOW, "name": "ValueError", "message": "bad", "task_name": "map (1/2)", "attempt": 1}
    snapshot = replace(snapshot, failures=2, next_attempt_ms=1_500.0)
    document = live.build(snapshot, {}, NOW, [newer | {"stacktrace": "…"}], WallDates(NOW - 500.0))
    assert (document["failure"], document["failures"]) == (newer, 122)
    assert document["next_attempt_at"] == NOW + 1_000


def test_tasks_and_vertices_have_the_times_that_the_machine_has_measured() -> None:
    job_graph = graph(2)
    live = LiveDocument(job(), job_graph)
    snapshot = machine_of(job_graph)
    times = [(100.0, 140.0), (120.0, 150.0)]
    timed = next(v.vertex_id for v in job_graph.vertices if v.parallelism == 2)
    tasks = [
        replace(t, started_ms=times[t.task.subtask_index][0], ended_ms=times[t.task.subtask_index][1])
        for t in snapshot.tasks
        if t.task.vertex_id == timed
    ]
    vertices = live.build(replace(snapshot, tasks=tasks), {}, NOW + 900, (), WallDates(NOW))["vertices"]
    vertex, other = (next(v for v in vertices if (v["id"] == timed) is found) for found in (True, False))
    assert (vertex["start_time"], vertex["end_time"]) == (NOW + 100, NOW + 150)
    assert [(s["start_time"], s["end_time"]) for s in vertex["subtasks"]] == [
        (NOW + 100, NOW + 140),
        (NOW + 120, NOW + 150),
    ]
    assert (other["start_time"], other["end_time"]) == (-1, -1)


def test_calls_that_do_not_return_are_told() -> None:
    job_graph = graph(2)
    task = TaskId(job_graph.vertices[0].vertex_id, 1)
    stack = 'File "/srv/artifacts/' + "0" * 64 + '/job.py", line 3, in ask'
    stalls = (Stall(SlotId(1), Attempt(2), task, "map (2/2)", 250.0, stack),)
    snapshot = machine_of(job_graph, stalls=stalls)
    [stall] = LiveDocument(job(), job_graph).build(snapshot, {}, NOW, (), WallDates(NOW))["stalls"]
    assert (stall["vertex"], stall["subtask"], stall["task_name"]) == (task.vertex_id, 1, "map (2/2)")
    assert stall["in_user_code"]
    assert (stall["since"], stall["slot"], stall["stack"]) == (NOW + 250, 1, 'File "job.py", line 3, in ask')


def test_of_many_calls_that_do_not_return_those_are_told_that_last_longest() -> None:
    job_graph = graph(2)
    stalls = tuple(Stall(SlotId(n), Attempt(2), None, "", 100.0 - n, "") for n in range(100))
    document = LiveDocument(job(), job_graph).build(machine_of(job_graph, stalls=stalls), {}, NOW, (), WallDates(NOW))
    assert [stall["slot"] for stall in document["stalls"]] == [*range(99, 99 - MAX_STALLS, -1)]


def test_vertices_name_their_inputs_and_ends() -> None:
    document = LiveDocument(job(), graph(2)).build(None, {}, NOW)
    by_name = {vertex["name"]: vertex for vertex in document["vertices"]}
    assert [v["is_source"] for v in document["vertices"]] == [True, False, False]
    assert [v["is_sink"] for v in document["vertices"]] == [False, False, True]
    assert {i["ship_strategy"] for v in by_name.values() for i in v["inputs"]} >= {"HASH"}
    assert all(len(vertex["subtasks"]) == vertex["parallelism"] for vertex in document["vertices"])


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (FailureInfo("x", "Traceback …\n  File\nValueError: bad\n"), "ValueError"),
        (FailureInfo("x", "Traceback …\nmy.module.MyError"), "my.module.MyError"),
        (FailureInfo("slot 3 was lost: gone"), "SlotLost"),
        (FailureInfo("something"), "JobFailure"),
    ],
)
def test_a_failure_has_the_name_of_its_error(failure: FailureInfo, name: str) -> None:
    assert error_name(failure) == name


def test_a_failure_has_a_column_for_each_of_its_fields() -> None:
    """The leader writes it as it is: a field without a column would end every job that fails."""
    cause = FailureInfo("broken", operator_id=OperatorId("f" * 32), defined_at="job.py:3")
    columns = {field.name for field in JobException._meta.get_fields()}
    assert exception_document(ExceptionEntry(Attempt(0), 5.0, cause, ()), 7, {}).keys() <= columns


@pytest.mark.parametrize(
    ("states", "finished"),
    [
        ((TaskState.RUNNING, TaskState.RUNNING), None),
        ((TaskState.FINISHED, TaskState.RUNNING), 1),
        ((TaskState.FINISHED, TaskState.FINISHED), None),
    ],
)
def test_a_vertex_says_how_many_subtasks_have_finished_while_others_have_not(
    states: tuple[TaskState, TaskState], finished: int | None
) -> None:
    job_graph = graph(2)
    snapshot = machine_of(job_graph)
    tasks = [replace(each, state=states[each.task.subtask_index]) for each in snapshot.tasks]
    document = LiveDocument(job(), job_graph).build(replace(snapshot, tasks=tasks), {}, NOW)
    assert {v.get("finished") for v in document["vertices"] if v["parallelism"] == 2} == {finished}


def test_a_failure_is_shown_without_what_no_row_can_hold() -> None:
    cause = FailureInfo("bad \0 record", "Traceback\nValueError: bad \ud800 record")
    entry = ExceptionEntry(Attempt(0), 5.0, cause, (FailureInfo("late \0"),))
    shown = exception_document(entry, 7, {})
    assert (shown["message"], shown["stacktrace"]) == ("bad \ufffd record", "Traceback\nValueError: bad \ufffd record")
    assert shown["suppressed"][0]["message"] == "late \ufffd"
    stall = Stall(SlotId(0), Attempt(0), None, "map", 5.0, "in \0")
    assert stall_document(stall, WallDates())["stack"] == "in \ufffd"


def test_bounds_are_those_that_a_user_gave_else_the_autoscalers_else_the_parallelism() -> None:
    row, job_graph = job(), graph(2)
    ids = [vertex.vertex_id for vertex in job_graph.vertices]
    room = {vertex: Bounds(1, 8) for vertex in ids}

    def bounds(room: Requirements | None) -> tuple[set[tuple[int, int]], bool]:
        document = LiveDocument(row, job_graph).build(None, {}, NOW, room=room)
        return {(v["lower_bound"], v["upper_bound"]) for v in document["vertices"]}, document["has_autoscaler_bounds"]

    assert bounds(None) == ({(1, 1), (2, 2)}, False)
    assert bounds(room) == ({(1, 8)}, True)
    row.requirements = {vertex: [1, 4] for vertex in ids}
    assert bounds(room) == ({(1, 4)}, False)


# --- the diagnosis ----------------------------------------------------------------------------------------------------

USERS = (
    "pendingRecords",
    "sourceIdleTime",
    "currentEmitEventTimeLag",
    "totalSendTimePerSecond",
    "lateRecordsDroppedRate",
)
"""Names that are read of operators, whose metrics are also those of users."""
OURS = (
    "busyTimeMsPerSecond",
    "runningTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "outsideTimeMsPerSecond",
    "numRecordsInPerSecond",
    "currentInputWatermark",
    "currentOutputWatermark",
    "isWatermarkIdle",
    "Status.Process.Memory.Resident",
    "Status.Process.Memory.Available",
)


def running(
    job_graph: JobGraph, metrics: Mapping[str, object], of_operators: Mapping[str, object]
) -> JobStatusSnapshot:
    """Return the status of a job whose tasks all report the same metrics, and so do their operators."""
    snapshot = machine_of(job_graph, state=JobState.RUNNING)
    operators = {v.vertex_id: [operator.operator_id for operator in v.operators] for v in job_graph.vertices}
    tasks = [
        replace(
            each,
            state=TaskState.RUNNING,
            metrics={
                "busyTimeMsPerSecond": 950.0,
                **metrics,
                **{
                    f"{operator}.{name}": value
                    for operator in operators[each.task.vertex_id]
                    for name, value in of_operators.items()
                },
            },
        )
        for each in snapshot.tasks
    ]
    return replace(snapshot, tasks=tasks)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, 10**400, "text", None, True, [1]])
def test_no_value_of_a_metric_can_spoil_a_document(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    job_graph = graph(2)
    splits = {"split.a.watermark.currentWatermark": value, "split.b.watermark.currentWatermark": 7}
    status = running(job_graph, dict.fromkeys(OURS, value), dict.fromkeys(USERS, value) | splits)
    live = LiveDocument(job(), job_graph)
    for second in range(12):
        document = live.build(status, {}, NOW + 1_000 * second, (), WallDates(NOW))
        # as browsers and PostgreSQL read it
        json.dumps(document, allow_nan=False)
        assert ("causes" in document) is (second >= 5), "nobody has judged before"
    assert caplog.records == []


def test_a_diagnosis_that_fails_leaves_the_job_its_document_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job_graph = graph(2)
    live, status = LiveDocument(job(), job_graph), running(job_graph, {}, {})
    before = live.build(status, {}, NOW, (), WallDates(NOW))
    sound = BottleneckWatch.observe

    def fails(*arguments: object) -> Any:
        raise ZeroDivisionError("a fault in the rule")

    monkeypatch.setattr(BottleneckWatch, "observe", fails)
    for second in range(1, 4):
        document = live.build(status, {}, NOW + 1_000 * second, (), WallDates(NOW))
        assert document["vertices"] == before["vertices"] and "causes" not in document
    assert [record.levelname for record in caplog.records] == ["ERROR"] and "cannot be diagnosed" in caplog.text
    monkeypatch.setattr(BottleneckWatch, "observe", sound)
    for second in range(4, 12):
        document = live.build(status, {}, NOW + 1_000 * second, (), WallDates(NOW))
    assert "causes" in document


def test_figures_that_cannot_be_read_are_not_those_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    job_graph = graph(2)
    live, status = LiveDocument(job(), job_graph), running(job_graph, {}, {})
    live.build(status, {}, NOW, (), WallDates(NOW))
    assert live.figures is not None

    def fails(*arguments: object) -> Any:
        raise ZeroDivisionError("a fault in the reader")

    monkeypatch.setattr(FigureReader, "read", fails)
    live.build(status, {}, NOW + 1_000, (), WallDates(NOW))
    assert live.figures is None
