"""`tidemark pipeline`: validate, compile, format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.client.cli import main
from tests.pipeline.pipelines import chain, node, orders


@pytest.fixture
def file(tmp_path: Path) -> Path:
    value = chain(orders(), node("filter", "Dear", condition="cents > 200"), node("sink.print", "Show"))
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(value))
    return path


def test_a_pipeline_is_compiled_to_a_program_that_runs(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "orders.py"
    assert main(["pipeline", "compile", str(file), "--output", str(program)]) == 0
    run = subprocess.run(
        [sys.executable, str(program)],
        env={"PYTHONPATH": str(Path.cwd()), "TIDEMARK_CONF_EXECUTION_TARGET": "mini-cluster", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "+I[2,ink,900,2000]" in run.stdout and "pen" not in run.stdout


def test_the_program_goes_to_stdout_unless_a_file_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "compile", str(file)]) == 0
    assert capsys.readouterr().out.startswith('"""Test. Generated from a pipeline."""')


def test_problems_are_shown_and_nothing_is_written(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace("cents > 200", "sents > 200"))
    assert main(["pipeline", "validate", str(file)]) == 1
    assert "error: 'Dear': there is no column 'sents' [unknown-column]" in capsys.readouterr().out
    assert main(["pipeline", "validate", str(file), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["deployable"] is False and answer["problems"][0]["fixes"][0]["title"] == "Use cents"
    program = tmp_path / "orders.py"
    assert main(["pipeline", "compile", str(file), "-o", str(program)]) == 1
    assert not program.exists()


def test_a_file_is_brought_into_order(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "format", str(file)]) == 0
    assert main(["pipeline", "format", str(file)]) == 0
    assert "is in order" in capsys.readouterr().out
    assert main(["pipeline", "validate", str(file)]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "is not JSON"), (b"\xff", "is not UTF-8"), (b'{"format": 1}', "/format"), (None, "No such file")],
)
def test_what_is_no_pipeline_is_refused_in_one_line(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["pipeline", "validate", str(path)]) == 1
    found = capsys.readouterr().err
    assert message in found and found.count("\n") == 1
