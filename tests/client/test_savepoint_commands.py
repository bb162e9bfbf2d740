"""`tidemark savepoint`: what it shows of a snapshot, what it refuses, and what it deletes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.checkpoint.locations import to_uri
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.client import cli
from tests.checkpoint.faulty import FaultyFileSystem
from tests.checkpoint.snapshots import savepoint_options, stored

Captured = pytest.CaptureFixture[str]


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
    assert capsys.readouterr().out.startswith("4 files and the metadata are as they were written (")
    damaged = next(path for path in savepoint.iterdir() if "channels" in path.name)
    damaged.write_bytes(b"frame one, frame 2wo")
    for more in ([], ["--verify-only"]):
        assert cli.main(["savepoint", "inspect", *more, str(savepoint)]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(f"tidemark: snapshot file {to_uri(damaged)} is damaged: its sha256")
        assert not captured.out


@pytest.mark.parametrize("action", ["inspect", "dispose"])
def test_what_is_no_savepoint_is_refused_in_one_line(action: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "photo").write_bytes(b"x")
    assert cli.main(["savepoint", action, str(tmp_path)]) == 1
    uri = to_uri(tmp_path)
    assert capsys.readouterr().err == f"tidemark: {uri} is no checkpoint or savepoint: it has no _metadata file\n"
    assert (tmp_path / "photo").exists()


def test_dispose_deletes(savepoint: Path, capsys: Captured) -> None:
    assert cli.main(["savepoint", "dispose", "-y", str(savepoint)]) == 0
    assert capsys.readouterr().out == f"Deleted {to_uri(savepoint)}\n"
    assert not savepoint.exists()
    assert cli.main(["savepoint", "dispose", "-y", str(savepoint)]) == 1
