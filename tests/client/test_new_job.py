"""A job made from the template passes its own test, and can be submitted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.client import cli
from runtime.client.errors import ClientError
from runtime.client.extract import extract_job_graph
from runtime.client.new_job import create_job
from tests.job_runs import record_run


def test_a_new_job_passes_its_test_and_can_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # a newcomer makes it in the checkout, whose own tests need settings of their own
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    assert cli.main(["new", "my-job"]) == 0
    directory = tmp_path / "my-job"
    assert sorted(path.name for path in directory.iterdir()) == ["my_job.py", "pytest.ini", "test_my_job.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout
    record_run("mini-cluster")
    job = extract_job_graph(directory / "my_job.py")
    assert job.graph.name == "my job"
    assert not job.warnings


@pytest.mark.parametrize("name", ["", "1st", "a/b", "../up", "class", "runtime"])
def test_a_name_that_cannot_be_a_modules_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", name]) == 1
    assert "cannot be the name of a job" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_name_that_would_hide_a_module_of_python_is_refused(tmp_path: Path) -> None:
    for name in sys.stdlib_module_names:
        with pytest.raises(ClientError, match=f"tidemark new {name}-job"):
            create_job(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["JSON", "pyarrow", "pyspark", "polars", "backend"])
def test_a_name_that_would_hide_an_installed_package_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=f"tidemark new {name}-job"):
        create_job(name, tmp_path)


def test_a_directory_that_is_there_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert cli.main(["new", "mine"]) == 1
    assert "already exists" in capsys.readouterr().err
