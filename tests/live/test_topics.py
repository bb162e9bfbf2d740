"""Topics and their documents: what they hold, and that patches of them lead from one to the next."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cluster.checkpoint_document import DETAILS, TRACES
from backend.cluster.cluster_document import cluster_document, job_entry
from backend.cluster.freshness import Freshness, Source
from backend.cluster.live_document import ended_document
from backend.live.feed import Feed
from backend.live.merge_patch import apply_merge_patch
from backend.live.topic_types import Figures, LiveJobFigures, OperatorFigures
from backend.live.topics import (
    VertexUnknownError,
    group_of,
    is_topic,
    job_document,
    job_of_topic,
    operators_document,
    preview_of_topic,
    source_of,
    topic_document,
    vertex_document,
)
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.core.ids import Attempt, SlotId, TaskId, operator_id_of
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import Stall
from runtime.task.messages import TaskState
from tests.cluster.snapshots import METRICS, SINK, statistics
from tests.dispatcher import rows
from tests.live.live_jobs import NOW, RunningJob, uid_of

JOB, VERTEX = "job:" + "0" * 32, "job:" + "0" * 32 + "/vertex:" + "a" * 32
OPERATORS = JOB + "/operators"
FRESH = Freshness(Source.LIVE, 400)


def figures(*values: Any, of: str) -> Any:
    return dict(zip(Figures._fields, values, strict=True))[of]


# --- names ------------------------------------------------------------------------------------------------------------


def test_topics() -> None:
    preview = "preview:" + "0" * 32
    assert all(map(is_topic, ("cluster", JOB, VERTEX, OPERATORS, preview)))
    assert [job_of_topic(topic) for topic in (JOB, VERTEX, OPERATORS, preview, "cluster")] == ["0" * 32, *[None] * 4]
    assert preview_of_topic(preview) == "0" * 32 and preview_of_topic(JOB) is None
    for other in ("", "jobs", "job:", "job:zz", "job:" + "0" * 33, "job:" + "A" * 32, None, 7, ["cluster"]):
        assert not is_topic(other)
    for other in (
        JOB + "/vertex:",
        JOB + "/vertex:zz",
        JOB + "/",
        VERTEX + "/",
        VERTEX.replace("job", "preview"),
        OPERATORS + "/",
        OPERATORS + ":",
    ):
        assert not is_topic(other)


def test_parts_of_a_job_have_its_source_and_its_hints() -> None:
    assert source_of(VERTEX) == source_of(OPERATORS) == source_of(JOB) == JOB
    assert source_of("cluster") == "cluster"
    assert group_of(VERTEX) == group_of(OPERATORS) == group_of(JOB) == "job." + "0" * 32


# --- documents --------------------------------------------------------------------------------------------------------


def test_the_clusters_document_has_jobs_and_taskmanagers_by_id_and_no_null() -> None:
    job = RunningJob(2, 2)
    entry, earlier = job_entry(job.running(500, Random(1))), {"id": "e", "name": "of an earlier release"}
    document = topic_document("cluster", cluster_document([rows.taskmanager_entry(NOW)], [entry, earlier], NOW, 7))
    assert (document["version"], document["now"]) == (7, NOW)
    assert list(document["taskmanagers"]) == [rows.TASKMANAGER]
    told = document["jobs"][entry["id"]]
    assert told["tasks"] == {"RUNNING": 4} and told["figures"] == [entry[name] for name in LiveJobFigures._fields]
    # null cannot be patched in, and what advances by itself is the reader's to count
    assert not {"id", "duration", "tasks_total", "last_checkpoint", "limit"} & told.keys()
    assert document["jobs"]["e"] == {"name": "of an earlier release", "figures": [0.0, None, None]}


def test_a_jobs_document_has_everything_by_id_and_no_subtasks() -> None:
    job = RunningJob(3, 2)
    source = job.running(500, Random(1))
    document = job_document(source)
    static, moving = document["static"], document["moving"]
    assert static["order"] == job.vertices == list(moving["vertices"]) == list(moving["figures"])
    first = static["vertices"][job.vertices[0]]
    assert (first["is_source"], first["operators"]) == (True, [uid_of(0, 0), uid_of(0, 1)])
    second = static["operators"][uid_of(2, 1)]
    assert second.pop("id") == operator_id_of(uid_of(2, 1))
    assert second == {"name": "op 1", "defined_at": "", "input": {"operator": uid_of(2, 0), "side_output": ""}}
    assert [each["operator"] for each in static["vertices"][job.vertices[1]]["inputs"]] == [uid_of(0, 1)]
    assert "operators" not in moving
    assert moving["vertices"][job.vertices[1]]["parallelism"] == 2
    [records_in] = [figures(*moving["figures"][v], of="records_in") for v in job.vertices[:1]]
    assert records_in == source["vertices"][0]["metrics"]["records_in"] > 0
    assert "subtasks" not in json.dumps(document["moving"]["vertices"])


def test_a_vertexs_document_has_its_subtasks() -> None:
    job = RunningJob(2, 3)
    source = job.running(500, Random(1))
    document = vertex_document(source, job.vertices[1])
    assert list(document["subtasks"]) == list(document["figures"]) == ["0", "1", "2"]
    assert document["subtasks"]["2"]["pid"] == 4713
    reported = source["vertices"][1]["subtasks"][2]["metrics"]["bytes_out"]
    assert figures(*document["figures"]["2"], of="bytes_out") == reported
    with pytest.raises(VertexUnknownError):
        vertex_document(source, "f" * 32)


def test_vertices_and_subtasks_have_the_size_of_their_state_in_the_latest_completed_checkpoint() -> None:
    job = RunningJob(2, 3)
    completed = statistics().latest_completed
    assert completed is not None
    stored = replace(
        statistics(), latest_completed=replace(completed, vertices={job.vertices[1]: completed.vertices[SINK]})
    )
    tasks = job.tasks(500, Random(1))
    source = job.document(NOW + 500, replace(job.status, tasks=tasks, checkpoints=stored))
    rows = job_document(source)["moving"]["figures"]
    each = METRICS.state_bytes
    assert [Figures(*rows[vertex]).state_size for vertex in job.vertices] == [None, 2 * each]
    subtasks = vertex_document(source, job.vertices[1])["figures"]
    # the third has come since
    assert [Figures(*row).state_size for row in subtasks.values()] == [each, each, None]


def test_the_operators_of_a_job_are_a_document_of_their_own() -> None:
    job = RunningJob(3, 2)
    source = job.running(500, Random(1))
    document = operators_document(source)
    assert document["version"] == source["version"]
    assert list(document["figures"]) == list(job_document(source)["static"]["operators"])
    figures = OperatorFigures(*document["figures"][uid_of(1, 1)])
    assert figures._asdict() == pytest.approx(source["operators"][uid_of(1, 1)], abs=0.5)
    assert isinstance(figures.records_in_per_second, int)
    assert figures.records_in > figures.records_out > 0 and figures.records_in_per_second > 0
    assert topic_document(f"{job.topic}/operators", source) == document


LOADS = [(50, 950), (980, 0), (20, 0)]


def test_operators_that_have_dropped_late_records_are_told_with_their_number() -> None:
    job = RunningJob(2, 2)
    operator = job.graph.vertices[1].operators[1]

    def told(dropped: int) -> Any:
        tasks = [
            replace(task, metrics={**task.metrics, f"{operator.operator_id}.numLateRecordsDropped": dropped})
            for task in job.tasks(1_000, Random(1))
        ]
        return job_document(job.document(NOW, replace(job.status, tasks=tasks)))["derived"].get("late_records")

    assert told(0) is None
    assert told(7) == {operator.uid: 14}


def test_the_skew_of_vertices_is_derived_and_small() -> None:
    job = RunningJob(50, 8)
    random = Random(1)
    for second in range(8):
        tasks = [
            # the sixth subtask of a vertex gets the more the further down it is
            replace(task, metrics={**task.metrics, "numRecordsIn": 1_000 + 10 * n * (task.task.subtask_index == 5)})
            for n, task in enumerate(job.tasks(second * 1000, random))
        ]
        source = job.document(NOW + second * 1000, replace(job.status, state=JobState.RUNNING, tasks=tasks))
    skew = job_document(source)["derived"]["skew"]
    assert next(iter(skew)) == job.vertices[-1] and len(skew) == 10
    cv, max_to_average, subtask, live_cv, live_max, live_subtask = skew[job.vertices[-1]]
    assert subtask == 5 and max_to_average == pytest.approx(4_970 / (1_000 + 3_970 / 8), abs=0.01) and cv > 0.8
    assert 0 < live_cv < 0.1 and 1 < live_max < 1.1 and 0 <= live_subtask < 8
    assert len(json.dumps(skew)) <= 1_000
    ended = ended_document(source, "FAILED", [], NOW, NOW + 9_000)
    assert "skew" not in job_document(ended)["derived"]


def test_what_holds_a_job_up_is_derived_and_told_in_words() -> None:
    job = RunningJob(3, 1)
    for second in range(8):
        tasks = [
            replace(
                task,
                metrics={
                    **task.metrics,
                    "busyTimeMsPerSecond": busy,
                    "backPressuredTimeMsPerSecond": held,
                    "currentOutputWatermark": NOW,
                },
            )
            for task, (busy, held) in zip(job.tasks(second * 1000, Random(1)), LOADS, strict=True)
        ]
        status = replace(job.status, state=JobState.RUNNING, tasks=tasks)
        source = job.document(NOW + second * 1000, status)
        if second == 1:
            assert "causes" not in source, "a second says nothing"
    assert job_document(source)["derived"] == {
        "causes": {
            "limit": {
                "cause": "busy",
                "vertex": job.vertices[1],
                "text": "is busy 98 % of the time; step 0 -> step 0 again, upstream of it, is back-pressured",
                "figures": {"busy": 980, "running": 980},
                "waiting": [job.vertices[0]],
            }
        },
        "event_time": {"newest": NOW, "is_live": False, "held_by": {}, "speed": 0.0},
    }
    traces = {"1": {"status": "COMPLETED"}, "2": {"status": "IN_PROGRESS"}}
    ended = ended_document(source | {TRACES: traces, DETAILS: traces}, "FAILED", [], NOW, NOW + 9_000)
    assert ended[TRACES].keys() == ended[DETAILS].keys() == {"1"}
    assert "causes" not in job_document(ended)["derived"]


def test_checkpoints_in_progress_have_failed_when_a_job_ends_that_nobody_runs() -> None:
    source = RunningJob(1, 1).running(500, Random(1))
    history = {"1": {"id": 1, "status": "COMPLETED"}, "2": {"id": 2, "status": "IN_PROGRESS"}}
    counts = {"restored": 0, "total": 4, "in_progress": 1, "completed": 1, "failed": 2}
    source["checkpoints"] |= {"history": history, "counts": counts}
    ended = ended_document(source, "FAILED", [], NOW, NOW + 9_000)["checkpoints"]
    assert ended["history"].keys() == {"1"}
    assert ended["counts"] == counts | {"in_progress": 0, "failed": 3}
    del source["checkpoints"]
    assert "checkpoints" not in ended_document(source, "FAILED", [], NOW, NOW + 9_000)


def test_a_document_that_an_earlier_version_has_saved_is_readable() -> None:
    source = RunningJob(1, 1).running(500, Random(1))
    later = ("event_time", "operators")
    for name in (
        "scaling",
        "has_autoscaler_bounds",
        "failure",
        "failures",
        "stalls",
        "autoscaler",
        "checkpoints",
        *later,
    ):
        del source[name]
    for name in ("lower_bound", "upper_bound"):
        del source["vertices"][0][name]
    document = job_document(source)
    moving = document["moving"]
    # nobody has judged: that is not the same as that nothing is wrong
    assert document["derived"] == {}
    assert moving["stalls"] == operators_document(source)["figures"] == {}
    assert "checkpoints" not in moving and "scaling" not in moving["job"]
    del source["vertices"][0]["metrics"]["state_size"]
    assert Figures(*job_document(source)["moving"]["figures"][source["vertices"][0]["id"]]).state_size is None


def test_a_new_exception_leaves_the_keys_of_the_others() -> None:
    source = RunningJob(1, 1).running(500, Random(1))
    older = [_exception(5, "b"), _exception(5, "a"), _exception(3, "c")]
    before = job_document(source | {"exceptions": older})["moving"]["exceptions"]
    after = job_document(source | {"exceptions": [_exception(9, "d"), *older]})["moving"]["exceptions"]
    assert len(after) == 4 and before.items() <= after.items()
    assert {key: each["message"] for key, each in after.items()} == {"3-0": "c", "5-0": "a", "5-1": "b", "9-0": "d"}


# --- sequences --------------------------------------------------------------------------------------------------------


def _exception(timestamp: int, message: str) -> dict[str, Any]:
    texts = {"name": "ValueError", "message": message, "stacktrace": "", "task_name": "", "location": ""}
    return {"timestamp": timestamp, **texts, "taskmanager": "", "attempt": 1, "suppressed": []}


def _next_document(job: RunningJob, step: int, random: Random) -> dict[str, Any]:
    """The document after something has happened: figures move, tasks fail, parallelisms change …"""
    vertices = job.vertices
    tasks = [t for t in job.tasks(step * 500, random) if random.random() < 0.8]
    tasks = [replace(t, state=random.choice(list(TaskState))) if random.random() < 0.2 else t for t in tasks]
    stalls = [
        Stall(SlotId(n), Attempt(1), TaskId(vertices[0], n) if n else None, "map", float(step), "File x")
        for n in range(random.randrange(3))
    ]
    status = replace(
        job.status,
        tasks=tasks,
        stalls=stalls,
        parallelism={vertex: random.randint(1, 3) for vertex in vertices},
        failures=step,
        next_attempt_ms=random.choice([None, 5.0]),
        checkpoints=random.choice([statistics(), CheckpointsSnapshot(statistics().settings)]),
    )
    job.row.state = random.choice(["RUNNING", "RESTARTING", "FAILING"])
    job.row.waiting_for = random.choice(["", "needs 4 slots"])
    decided = {"enabled": True, "vertices": {vertices[0]: {"wanted": 4, "reason": "busy"}}, "last_decision": None}
    return job.document(
        NOW + step * 500,
        status,
        exceptions=[_exception(random.randrange(3), str(n)) for n in range(random.randrange(4))],
        scaling=random.choice(["", "4 of 8 slots"]),
        autoscaler=random.choice([{}, {"enabled": False}, decided, decided | {"last_decision": 7}]),
    )


@given(seed=st.integers(0, 2**32), steps=st.integers(2, 8))
@settings(max_examples=150, deadline=None)
def test_patches_lead_through_any_sequence_of_documents(seed: int, steps: int) -> None:
    random = Random(seed)
    job = RunningJob(3, 3)
    topics = [job.topic, f"{job.topic}/operators", *(f"{job.topic}/vertex:{vertex}" for vertex in job.vertices)]
    feeds = {topic: Feed(topic) for topic in topics}
    shown: dict[str, Any] = {}
    for step in range(steps):
        source = _next_document(job, step, random)
        for topic in topics:
            document = json.loads(json.dumps(topic_document(topic, source)))
            message = feeds[topic].next_message(document, FRESH)
            assert message is not None, "something has changed"
            is_snapshot = message["type"] == "snapshot"
            shown[topic] = message["data"] if is_snapshot else apply_merge_patch(shown[topic], message["patch"])
            assert shown[topic] == document
