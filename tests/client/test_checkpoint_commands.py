"""`tidemark savepoint JOB`, stop, checkpoint, checkpoints, rescale and run -s: what they ask, what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client.fake_cluster import JOB_ID, REQUEST_ID, FakeCluster, document, freshness

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]
WAITING = {"state": "IN_PROGRESS", "result": None}


def done(**result: Any) -> dict[str, Any]:
    return {"state": "COMPLETED", "result": result}


def asked(cluster: FakeCluster, method: str) -> tuple[str, Any]:
    """Path and body of the first call of that method."""
    return next((path, body) for called, path, body in cluster.calls if called == method)


@pytest.mark.parametrize("words", [("savepoint",), ("savepoint", "take")])
def test_savepoint_waits_and_says_where_it_is(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, words: tuple[str, ...]
) -> None:
    cluster.operations = [WAITING, WAITING, done(location="file:///sp", checkpoint_id=3)]
    assert tidemark(*words, "three numbers", "/some/where", "--type", "native") == 0
    path, body = asked(cluster, "POST")
    assert path == f"/v1/jobs/{JOB_ID}/savepoints"
    trigger_id = body.pop("triggerId")
    assert len(trigger_id) == 32
    assert body == {"target-directory": "/some/where", "cancel-job": False, "formatType": "NATIVE"}
    assert capsys.readouterr().out.splitlines()[-1] == "Savepoint completed. Path: file:///sp"


def test_savepoint_says_once_that_nobody_is_heard_who_could_take_it(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.operations = [WAITING, WAITING, WAITING, done(location="file:///sp", checkpoint_id=3)]
    cluster.documents = [document(), document(freshness=freshness("Nobody is heard of."))]
    assert tidemark("savepoint", JOB_ID) == 0
    shown = capsys.readouterr()
    assert shown.err == "tidemark: Nobody is heard of. Still waiting; Ctrl-C ends the waiting only.\n"
    assert shown.out.endswith("Savepoint completed. Path: file:///sp\n")


def test_a_savepoint_that_failed_is_one_line(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.operations = [done(error="the disk is full")]
    assert tidemark("savepoint", JOB_ID) == 1
    assert capsys.readouterr().err == "tidemark: the disk is full\n"


def test_detached_tells_the_request(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    assert tidemark("savepoint", JOB_ID, "--detached") == 0
    assert tidemark("stop", JOB_ID, "--detached") == 0
    assert capsys.readouterr().out.splitlines() == [f"Request {REQUEST_ID}"] * 2


def test_stop_suspends_or_drains(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.operations = [done(location="file:///sp", checkpoint_id=3)]
    assert tidemark("stop", JOB_ID) == 0
    assert tidemark("stop", JOB_ID, "--drain", "-p", "/some/where") == 0
    stops = [body for method, path, body in cluster.calls if path.endswith("/stop")]
    assert [(stop["drain"], stop["targetDirectory"]) for stop in stops] == [(False, None), (True, "/some/where")]
    assert capsys.readouterr().out.splitlines()[-1] == f"Job {JOB_ID} has stopped. Savepoint: file:///sp"


@pytest.mark.parametrize(
    ("words", "directory"),
    [
        (("-s", "/some/where", JOB_ID), "/some/where"),
        ((JOB_ID, "-s", "/some/where"), "/some/where"),
        ((JOB_ID, "-s"), None),
        (("-s", JOB_ID), None),
    ],
)
def test_cancel_takes_a_savepoint_first(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, words: tuple[str, ...], directory: str | None
) -> None:
    cluster.operations = [WAITING, done(location="file:///sp", checkpoint_id=3)]
    cluster.documents = [document("CANCELLING"), document("CANCELED")]
    assert tidemark("cancel", *words) == 0
    path, body = asked(cluster, "POST")
    assert path == f"/v1/jobs/{JOB_ID}/savepoints"
    del body["triggerId"]
    assert body == {"target-directory": directory, "cancel-job": True, "formatType": "CANONICAL"}
    assert not [call for call in cluster.calls if call[0] == "PATCH"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["Savepoint completed. Path: file:///sp", f"Job {JOB_ID} is CANCELED"]


def test_a_job_of_which_no_savepoint_can_be_taken_is_not_waited_for(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.operations = [done(error="the disk is full")]
    assert tidemark("cancel", JOB_ID, "-s") == 1
    assert capsys.readouterr().err == "tidemark: the disk is full\n"
    assert tidemark("cancel", JOB_ID, "-s", "-d") == 0
    assert capsys.readouterr().out == f"Request {REQUEST_ID}\n"
    for words in ((), ("-s",)):
        with pytest.raises(SystemExit, match="2"):
            tidemark("cancel", *words)
        assert "the following arguments are required: JOB" in capsys.readouterr().err


def test_checkpoint_takes_one(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.operations = [done(location="file:///chk-7", checkpoint_id=7)]
    assert tidemark("checkpoint", JOB_ID, "--full") == 0
    assert asked(cluster, "POST")[1]["checkpointType"] == "FULL"
    assert capsys.readouterr().out.splitlines()[-1] == "Checkpoint 7 completed. Path: file:///chk-7"


def vertices(**parallelism: int) -> list[dict[str, Any]]:
    [vertex] = document()["vertices"]
    return [vertex | {"id": name * 32, "name": f"vertex {name}", "parallelism": n} for name, n in parallelism.items()]


def test_rescale_leaves_vertices_alone_that_had_less(tidemark: Tidemark, cluster: FakeCluster) -> None:
    cluster.documents = [document(vertices=vertices(a=2, b=2, c=1))]
    cluster.operations = [done(location=None)]
    assert tidemark("rescale", JOB_ID, "4") == 0
    path, body = asked(cluster, "PUT")
    assert path == f"/v1/jobs/{JOB_ID}/resource-requirements"
    # the lower one is not changed
    bounds = {"parallelism": {"lowerBound": -1, "upperBound": 4}}
    assert body == {"a" * 32: bounds, "b" * 32: bounds}


def test_rescale_with_a_lower_bound_says_what_the_job_has(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    scaling = "3 of 8 wanted slots; waits for slots"
    cluster.documents = [document(vertices=vertices(a=2)), document(vertices=vertices(a=3), scaling=scaling)]
    cluster.operations = [done(location=None)]
    assert tidemark("rescale", JOB_ID, "8", "--min", "2") == 0
    assert asked(cluster, "PUT")[1] == {"a" * 32: {"parallelism": {"lowerBound": 2, "upperBound": 8}}}
    assert capsys.readouterr().out.splitlines()[-2:] == ["vertex a: 2 → 3", scaling]
    assert tidemark("rescale", JOB_ID, "2", "--min", "3") == 1
    assert "--min 3 is more than the parallelism 2" in capsys.readouterr().err


def test_rescale_of_one_vertex(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document(vertices=vertices(a=2, b=2)), document(vertices=vertices(a=2, b=4))]
    cluster.operations = [done(location=None)]
    assert tidemark("rescale", JOB_ID, "4", "--vertex", "vertex b") == 0
    assert list(asked(cluster, "PUT")[1]) == ["b" * 32]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"Job {JOB_ID} runs with its new parallelism",
        "vertex b: 2 → 4",
    ]
    assert tidemark("rescale", JOB_ID, "4", "--vertex", "vertex") == 1
    assert "matches 2 of the job's vertices, which are 'vertex a', 'vertex b'" in capsys.readouterr().err


def test_checkpoints_are_listed(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    entry = {
        "id": 7,
        "status": "COMPLETED",
        "checkpoint_type": "CHECKPOINT",
        "trigger_timestamp": 1_700_000_000_000,
        "end_to_end_duration": 1234,
        "num_acknowledged_subtasks": 4,
        "num_subtasks": 4,
        "checkpointed_size": 2048,
        "state_size": 4096,
        "external_path": "file:///chk-7",
        "discarded": False,
    }
    failed = entry | {"id": 8, "status": "FAILED", "failure_message": "it took too long"}
    restored = {"id": 5, "restore_timestamp": 1, "is_savepoint": True, "external_path": "file:///sp"}
    cluster.checkpoints = {
        "counts": {"restored": 1, "total": 3, "in_progress": 0, "completed": 2, "failed": 1},
        "latest": {"restored": restored},
        "history": [failed, entry, entry | {"id": 6, "discarded": True}],
    }
    assert tidemark("checkpoints", JOB_ID) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "triggered 3, in progress 0, completed 2, failed 1, restored 1"
    assert lines[1].startswith("restored from savepoint 5") and lines[1].endswith("file:///sp")
    assert [line.split()[0] for line in lines[3:]] == ["ID", "8", "7", "6"]
    assert lines[4].endswith("it took too long")
    assert "1,234 ms" in lines[5] and lines[5].endswith("file:///chk-7")
    assert lines[6].endswith("deleted")
    assert tidemark("checkpoints", JOB_ID, "--json") == 0
    assert json.loads(capsys.readouterr().out)["history"][1]["id"] == 7
    taken = entry | {"id": 2, "checkpoint_type": "SAVEPOINT", "external_path": "file:///savepoint-a"}
    cluster.checkpoints["latest"] = {"restored": None, "savepoint": taken}
    assert tidemark("checkpoints", JOB_ID) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("file:///savepoint-a"), "the history ends before it"
    cluster.checkpoints["history"] = [taken]
    assert tidemark("checkpoints", JOB_ID) == 0
    assert capsys.readouterr().out.count("file:///savepoint-a") == 1


def test_checkpoints_are_listed_with_their_phases(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    phases = {"start-delay": 20.0, "alignment": 1_700.4, "sync": 5.0, "async": 60.0, "rest": 2.0}
    slowest = {"vertex": "b", "name": "window", "index": 3, "is_unaligned": False}
    done = {
        "id": 8,
        "status": "COMPLETED",
        "trigger_timestamp": 1_000,
        "duration": 1_800,
        "commit_duration": 12,
        "text": "1.7 s of 1.8 s in subtask 3 of window",
        "subtasks": [slowest | {"end_to_end_duration": 1_788, "phases": phases}],
    }
    failed = {
        "id": 9,
        "status": "FAILED",
        "trigger_timestamp": 9_000,
        "duration": 600_000,
        "text": "subtask 3 of window had not acknowledged",
        "failure_message": "it expired",
        "subtasks": [slowest | {"phases": {}}],
    }
    cluster.gantt = {"checkpoints": [failed, done]}
    assert tidemark("checkpoints", "--phases", JOB_ID) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["LOST", "IN"]
    assert first.endswith("subtask 3 of window had not acknowledged; it expired")
    assert first.count("–") == 5
    assert "1,700 ms" in second and "12 ms" in second
    assert tidemark("checkpoints", "--phases", "--json", JOB_ID) == 0
    assert json.loads(capsys.readouterr().out) == cluster.gantt
    cluster.gantt = {"checkpoints": []}
    assert tidemark("checkpoints", "--phases", JOB_ID) == 0
    assert capsys.readouterr().out == "No checkpoint yet.\n"


def test_batches_are_listed_with_their_phases(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    batch = {
        "checkpoint": 8,
        "number": 7,
        "kind": "data",
        "time": 1_000,
        "read_records": 12_000,
        "write_records": 3,
        "phases": {"plan": 20.4, "run": 310.0, "store": 15.0, "commit": 5.0},
        "duration": 350.4,
        "caught_up": True,
    }
    savepoint = {name: value for name, value in batch.items() if name != "number"} | {"kind": "snapshot"}
    cluster.batches = {"micro_batches": True, "batches": [savepoint, batch]}
    assert tidemark("batches", JOB_ID) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["BATCH", "CHECKPOINT", "KIND", "TIME", "READ", "WRITTEN"]
    assert first.split()[:3] == ["–", "8", "snapshot"] and "12,000" in second and second.endswith("nothing left")
    assert tidemark("batches", "--json", JOB_ID) == 0
    assert json.loads(capsys.readouterr().out) == cluster.batches
    cluster.batches = {"micro_batches": True, "batches": []}
    assert tidemark("batches", JOB_ID) == 0
    assert capsys.readouterr().out == "No batch yet.\n"
    cluster.batches = {"micro_batches": False, "batches": []}
    assert tidemark("batches", JOB_ID) == 1
    assert "not executed in micro-batches" in capsys.readouterr().err


def test_run_starts_from_a_savepoint(tidemark: Tidemark, cluster: FakeCluster, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("print(1)\n")
    assert tidemark("run", "-d", "-s", "/sp", "-n", "--claim-mode", "claim", str(program)) == 0
    body = next(body for _, path, body in cluster.calls if path.endswith("/run"))
    assert (body["savepointPath"], body["allowNonRestoredState"], body["claimMode"]) == ("/sp", True, "CLAIM")


# --- savepoint list ---------------------------------------------------------------------------------------------------

OTHER_ID = "cd" * 16


def saved(job_id: str = JOB_ID, **fields: Any) -> dict[str, Any]:
    return {
        "location": f"file:///sp/{job_id[:4]}",
        "job_id": job_id,
        "job_name": "three numbers",
        "job_state": "RUNNING",
        "created_at": 1_700_000_000_000,
        "size": 2048,
        "kind": "savepoint",
        "format": "CANONICAL",
        "checkpoint_id": 3,
        "requested_by": "alice",
        "exists": True,
        "used_by": [],
        "needed_by": None,
    } | fields


def test_savepoint_list_shows_those_that_are_there(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    unsure = saved("12" * 16, exists=None, size=None, location="s3://bucket/sp")
    gone = saved("34" * 16, exists=False)
    cluster.savepoints = [saved(needed_by=OTHER_ID), unsure, gone]
    assert tidemark("savepoint", "list") == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["TAKEN", "JOB", "NAME", "FORMAT", "SIZE", "NEEDED", "BY", "PATH"]
    assert first.split()[2:] == [
        "abababab",
        "three",
        "numbers",
        "CANONICAL",
        "2.0",
        "KiB",
        "cdcdcdcd",
        "file:///sp/abab",
    ]
    assert second.split()[2:] == ["12121212", "three", "numbers", "CANONICAL", "–", "–", "s3://bucket/sp"]
    assert tidemark("savepoint", "list", "--all") == 0
    assert capsys.readouterr().out.splitlines()[3].endswith("gone: file:///sp/3434")


def test_savepoint_list_has_all_of_them(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.savepoint_page = 2
    cluster.savepoints = [saved(location=f"file:///sp/{number}") for number in range(5)]
    assert tidemark("savepoint", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == cluster.savepoints


def test_savepoint_list_can_be_that_of_one_job(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.savepoints = [saved(OTHER_ID)]
    assert tidemark("savepoint", "list", "three numbers") == 0
    assert capsys.readouterr().out == "There are no such savepoints.\n"
    cluster.savepoints.append(saved())
    assert tidemark("savepoint", "list", "three numbers", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [saved()]


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["savepoint", JOB_ID], {"jobid": JOB_ID, "location": "file:///sp", "checkpoint_id": 3}),
        (["stop", JOB_ID], {"jobid": JOB_ID, "location": "file:///sp", "checkpoint_id": 3}),
        (["checkpoint", JOB_ID], {"jobid": JOB_ID, "location": "file:///sp", "checkpoint_id": 3}),
        (["cancel", "-s", JOB_ID], {"jobid": JOB_ID, "state": "CANCELED", "location": "file:///sp"}),
        (["savepoint", JOB_ID, "--detached"], {"jobid": JOB_ID, "request-id": REQUEST_ID}),
        (["cancel", "-d", JOB_ID], {"jobid": JOB_ID}),
    ],
)
def test_scripts_get_one_json_document(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, words: list[str], result: dict[str, Any]
) -> None:
    cluster.operations = [done(location="file:///sp", checkpoint_id=3)]
    cluster.documents = [document("CANCELED")]
    assert tidemark(*words, "--json") == 0
    assert json.loads(capsys.readouterr().out) == result
