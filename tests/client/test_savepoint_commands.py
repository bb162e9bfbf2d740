"""`tidemark savepoint`: what it shows of a snapshot, what it refuses, and what it deletes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.checkpoint.locations import to_uri
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.client import cli
from tests.checkpoint.faulty import FaultyFileSystem
from tests.checkpoint.snapshots import savepoint_options, stored
from tests.client.fake_cluster import FakeCluster, freshness

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that happens to run in the tree."""
    for name in ("TIDEMARK_URL", "TIDEMARK_TOKEN", "TIDEMARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    files = FaultyFileSystem()
    SnapshotFiles(files).write_metadata(stored(files, savepoint_options(tmp_path / "sp"), num_keys=20))
    return tmp_path / "sp"


def test_inspect_shows_operators_and_states(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "inspect", str(savepoint)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"savepoint  canonical  {to_uri(savepoint)}"
    assert lines[1].startswith("job 'numbers' " + "ab" * 16)
    assert "4 files" in lines[1]
    assert lines[2] == "in flight: 18 B in 2 channels"
    assert lines[4].split() == ["OPERATOR", "UID", "PARALLELISM", "MAX", "KEYS", "FORMAT", "SIZE"]
    assert lines[5].split()[:6] == ["Source:", "numbers", "source", "1", "16", "–"]
    assert lines[6].split()[:6] == ["count", "counter", "2", "16", "string", "canonical"]
    states = [line.split() for line in lines[9:]]
    assert [state[0] for state in states] == ["coordinator", "count", "timers", "buffer"]
    assert states[1][:5] == ["count", "count", "value", "long", "20"]


def test_inspect_gives_json(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "inspect", "--json", f"{savepoint}/_metadata"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["is_savepoint"] is True
    assert len(document["files"]) == 4
    assert [operator["uid"] for operator in document["operators"]] == ["source", "counter"]
    assert [operator["key_type"] for operator in document["operators"]] == ["", "string"]
    assert document["operators"][1]["states"][0]["entries"] == 20


def test_inspect_can_verify_only(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "inspect", "--verify-only", str(savepoint)]) == 0
    assert capsys.readouterr().out.startswith("4 files and the metadata are intact (")
    damaged = next(path for path in savepoint.iterdir() if "channels" in path.name)
    damaged.write_bytes(b"frame one, frame 2wo")
    for more in ([], ["--verify-only"]):
        assert cli.main(["savepoint", "inspect", *more, str(savepoint)]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(f"tidemark: snapshot file {to_uri(damaged)} is damaged: its SHA-256")
        assert not captured.out


@pytest.mark.parametrize("action", ["inspect", "dispose"])
def test_what_is_no_savepoint_is_refused_in_one_line(action: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "photo").write_bytes(b"x")
    assert cli.main(["savepoint", action, *(["-y"] if action == "dispose" else []), str(tmp_path)]) == 1
    uri = to_uri(tmp_path)
    assert capsys.readouterr().err == f"tidemark: {uri} is not a checkpoint or savepoint: it has no _metadata file\n"
    assert (tmp_path / "photo").exists()


def test_dispose_deletes(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "dispose", "-y", str(savepoint)]) == 0
    assert capsys.readouterr().out == f"Deleted {to_uri(savepoint)}\n"
    assert not savepoint.exists()
    assert cli.main(["savepoint", "dispose", "-y", str(savepoint)]) == 1


def test_dispose_has_the_cluster_delete_which_knows_what_its_jobs_need(
    tidemark: Callable[..., int], cluster: FakeCluster, savepoint: Path, capsys: Captured
) -> None:
    route, uri = "/v1/savepoint-disposal", to_uri(savepoint)
    needed = {"failure-cause": {"message": "job 7 may have to restore from it"}}
    cluster.answers = {
        f"POST {route}": (202, {"request-id": "1"}),
        f"GET {route}/1": (200, {"status": {"id": "COMPLETED"}, "operation": needed}),
    }
    assert tidemark("savepoint", "dispose", "-y", str(savepoint)) == 1
    assert capsys.readouterr().err == f"tidemark: {uri} was not deleted: job 7 may have to restore from it\n"
    assert cluster.calls[0][2]["savepoint-path"] == uri
    cluster.answers[f"GET {route}/1"] = (200, {"status": {"id": "COMPLETED"}, "operation": {}})
    assert tidemark("savepoint", "dispose", "-y", str(savepoint)) == 0
    assert savepoint.exists(), "it was the cluster's to delete"
    # a place that the cluster lets no job write to
    cluster.answers[f"POST {route}"] = (400, {"errors": ["not below a directory that is allowed"]})
    assert tidemark("savepoint", "dispose", "-y", str(savepoint)) == 0
    assert not savepoint.exists()


def test_dispose_says_that_nobody_is_heard_who_could_delete_and_bears_with_a_server_that_is_restarted(
    tidemark: Callable[..., int], cluster: FakeCluster, savepoint: Path, capsys: Captured
) -> None:
    silent = "The JobManager has sent no heartbeat for 12 s."
    pending, done = {"status": {"id": "IN_PROGRESS"}}, {"status": {"id": "COMPLETED"}, "operation": {}}
    cluster.cluster, cluster.disposals = {"freshness": freshness(silent)}, [pending, pending, done]
    cluster.outages = [0, 503]
    assert tidemark("savepoint", "dispose", "-y", str(savepoint)) == 0
    errors = capsys.readouterr().err.splitlines()
    assert "trying again" in errors[0]
    assert errors[1:] == [f"tidemark: {silent} Still waiting; Ctrl-C ends the waiting only."]


def test_dispose_does_not_guess_when_the_cluster_is_down(
    monkeypatch: pytest.MonkeyPatch, savepoint: Path, capsys: Captured
) -> None:
    monkeypatch.setenv("TIDEMARK_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TIDEMARK_TOKEN", "x")
    assert cli.main(["savepoint", "dispose", "-y", str(savepoint)]) == 1
    assert "--offline deletes without asking" in capsys.readouterr().err
    assert cli.main(["savepoint", "dispose", "-y", "--offline", str(savepoint)]) == 0
    assert not savepoint.exists()


def test_dispose_does_not_delete_a_checkpoint_that_a_stopped_cluster_may_need(
    savepoint: Path, capsys: Captured
) -> None:
    checkpoint = savepoint.rename(savepoint.parent / "chk-3-1.0")
    assert cli.main(["savepoint", "dispose", "-y", str(checkpoint)]) == 1
    assert "there is no cluster to ask" in capsys.readouterr().err
    assert checkpoint.exists()
    assert cli.main(["savepoint", "dispose", "-y", "--offline", str(checkpoint)]) == 0
    assert not checkpoint.exists()


@pytest.mark.parametrize("options", [[], ["--offline"], ["--json"]])
def test_dispose_deletes_nothing_where_nobody_can_be_asked(savepoint: Path, options: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "runtime.client.cli", "savepoint", "dispose", *options, str(savepoint)]
    environment = {**os.environ, "TIDEMARK_HOME": str(tmp_path / "no-cluster")}
    done = subprocess.run(command, input="n\n", capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "was not deleted: there is no terminal to ask for confirmation; -y deletes without asking" in done.stderr
    assert (savepoint / "_metadata").exists()


def test_dispose_tells_a_script_what_it_has_deleted(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "dispose", "-y", "--json", str(savepoint)]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": to_uri(savepoint)}
