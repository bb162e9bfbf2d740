"""A job's checkpoints as documents."""

from __future__ import annotations

import json
from typing import Any

from backend.cluster.checkpoint_document import CheckpointDetails, all_details, all_traces, checkpoints_document
from backend.cluster.cluster_document import job_entry
from runtime.checkpoint.assignment import RestoredOperator, RestoreReport
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot, CheckpointStatistics
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId, VertexId
from tests.cluster.snapshots import METRICS, SINK, SOURCE, statistics


def test_the_document_has_counts_the_latest_ones_and_the_history_by_id() -> None:
    document = checkpoints_document(statistics())
    assert document["counts"] == {"restored": 1, "total": 4, "in_progress": 1, "completed": 2, "failed": 1}
    assert list(document["history"]) == ["4", "3", "2", "1"]
    latest = document["latest"]
    assert [latest[name]["id"] for name in ("completed", "failed", "savepoint", "restored")] == [1, 2, 3, 1]
    assert latest["completed"]["checkpointed_size"] == 300
    assert latest["completed"]["end_to_end_duration"] == 40
    assert latest["savepoint"]["format"] == "CANONICAL"
    assert latest["failed"]["failure_message"] == "it took too long"
    assert (document["history"]["4"]["status"], document["history"]["4"]["num_acknowledged_subtasks"]) == (
        "IN_PROGRESS",
        1,
    )
    assert document["summary"]["state_size"]["p50"] == 900
    assert document["config"]["interval"] == 5_000


def test_there_is_no_null_in_it_because_a_merge_patch_would_lose_it() -> None:
    for document in (
        checkpoints_document(statistics()),
        checkpoints_document(CheckpointsSnapshot(CheckpointSettings())),
    ):
        assert "null" not in json.dumps(document, allow_nan=False)


def test_the_document_tells_what_was_restored() -> None:
    kept, gone = RestoredOperator("k", "keep", 2, 4), RestoredOperator("g", "gone", 2, None)
    document = checkpoints_document(statistics(), RestoreReport("file:///sp", 7, True, (kept,), (gone,), ()))
    report = document["restore_report"]
    assert report["matched"] == [{"uid": "k", "name": "keep", "saved_parallelism": 2, "parallelism": 4}]
    assert [operator["name"] for operator in report["dropped"]] == ["gone"]


def test_details_have_vertices_and_subtasks() -> None:
    details = all_details(statistics())["1"]
    source, sink = details["vertices"][SOURCE], details["vertices"][SINK]
    assert (source["num_subtasks"], sink["num_subtasks"]) == (1, 2)
    assert sink["checkpointed_size"] == 200
    assert [subtask["index"] for subtask in sink["subtasks"]] == [0, 1]
    assert sink["subtasks"][1]["sync_duration"] == 1.6
    pending = all_details(statistics())["4"]["vertices"][SINK]
    assert (pending["status"], len(pending["subtasks"])) == ("IN_PROGRESS", 1)


def test_details_are_told_once_until_they_change() -> None:
    told = CheckpointDetails()
    changed, gone = told.changed(statistics())
    # what the bus had before is unknown
    assert (set(changed), gone) == ({"1", "2", "3", "4"}, None)
    assert told.changed(statistics()) == ({}, [])
    assert told.changed(CheckpointsSnapshot(CheckpointSettings())) == ({}, ["1", "2", "3", "4"])
    told.changed(statistics())
    told.forget()
    assert len(told.changed(statistics())[0]) == 4


def test_traces_are_told_once_until_they_change() -> None:
    told = CheckpointDetails()
    changed, gone = told.changed_traces(statistics())
    assert (set(changed), gone) == ({"1", "2", "3", "4"}, None)
    assert told.changed_traces(statistics()) == ({}, [])
    assert told.changed_traces(CheckpointsSnapshot(CheckpointSettings())) == ({}, ["1", "2", "3", "4"])
    told.changed_traces(statistics())
    told.forget()
    assert set(told.changed_traces(statistics())[0]) == set(all_traces(statistics()))


def test_traces_of_a_large_job_are_bounded() -> None:
    tracked = CheckpointStatistics(CheckpointSettings())
    vertices = {VertexId(f"{number:032x}"): 8 for number in range(50)}
    for number in range(1, 101):
        tracked.triggered(CheckpointId(number), 1_000, CheckpointOptions("file:///c", "file:///c"), vertices)
        for vertex in vertices:
            for index in range(8):
                tracked.acknowledged(CheckpointId(number), TaskId(vertex, index), METRICS, 1_000 + 13 * index)
        tracked.failed(CheckpointId(number), "it expired after 600 s", 601_000)
    assert len(json.dumps(all_traces(tracked.snapshot()))) < 250_000


def test_the_overview_says_when_the_last_checkpoint_was() -> None:
    names = ("id", "name", "state", "start_time", "end_time", "duration", "parallelism", "restarts", "waiting_for")
    document: dict[str, Any] = dict.fromkeys(names, 0) | {"vertices": []}
    assert job_entry(document)["last_checkpoint"] is None
    assert job_entry(document | {"checkpoints": checkpoints_document(statistics())})["last_checkpoint"] == 1_040
