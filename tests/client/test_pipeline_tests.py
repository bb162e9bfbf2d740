"""Tests of pipelines, run in real children, and by `tidemark pipeline test`."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from runtime.client.cli import main
from runtime.client.pipeline_tests import PipelineTestResult, run_pipeline_test
from runtime.pipeline import compile_pipeline, load_catalog, read_document
from runtime.pipeline.expectations import read_tests
from runtime.pipeline.templates import templates
from tests.pipeline.pipelines import chain, node, orders

CATALOG = load_catalog([])
PER_ITEM = node(
    "window.aggregate",
    "Per item",
    keys=["item"],
    window={"kind": "tumbling", "size": "1 s"},
    aggregates=[["n", "count(*)"], ["cents", "sum(cents)"]],
    late_output=True,
)
PEN = {"id": 1, "item": "pen", "cents": 100}
GIVEN = [
    [{**PEN, "at": 100}, None],
    [{**PEN, "at": 900}, None],
    ["watermark", 999],
    [{**PEN, "at": 200}, None],
    [{**PEN, "at": 1_500}, None],
]
GOOD = {
    "name": "late",
    "given": {"n0": GIVEN},
    "expect": {"n1": [{"n": 2, "cents": 200}, {"n": 1, "cents": 100}], "n1/late": [{"item": "pen", "at": 200}]},
}
BAD = {"name": "wrong", "given": {"n0": GIVEN}, "expect": {"n1": [{"item": "pen", "n": 3}, {"item": "pen", "n": 1}]}}


def pipeline(*tests: dict[str, Any]) -> dict[str, Any]:
    return chain(orders(), copy.deepcopy(PER_ITEM), node("sink.print", "Show"), tests=list(tests))


def run(value: dict[str, Any]) -> PipelineTestResult:
    document = read_document(value)
    [test] = read_tests(document, CATALOG)
    return run_pipeline_test(document, CATALOG, compile_pipeline(document, CATALOG), test)


def test_given_watermarks_decide_what_is_late() -> None:
    result = run(pipeline(GOOD))
    assert result.passed, result


def test_a_failing_test_shows_its_rows() -> None:
    result = run(pipeline(BAD))
    assert not result.passed and result.message == ""
    states = [(row.state, row.row["n"]) for row in result.rows["n1", "out"]]
    assert states == [("missing", 3), ("same", 1), ("unexpected", 2)]


def test_a_test_of_what_cannot_run_says_why() -> None:
    value = pipeline(GOOD)
    value["nodes"]["n1"]["params"]["keys"] = ["nothing"]
    result = run(value)
    assert not result.passed and result.node == "n1"
    assert "'Per item' cannot run" in result.message


def test_the_command_runs_the_tests_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(pipeline(GOOD, BAD)))
    assert main(["pipeline", "test", str(file)]) == 1
    told = capsys.readouterr().out
    assert "passed  late" in told and "FAILED  wrong" in told and "1 of 2 tests passed" in told
    assert '    - {"item": "pen", "n": 3}' in told and '    + {"item": "pen", "n": 2' in told
    assert main(["pipeline", "test", str(file), "--only", "late", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["passed"] and [test["name"] for test in answer["tests"]] == ["late"]
    assert main(["pipeline", "test", str(file), "--only", "other"]) != 0
    assert "has no test 'other'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", templates())
def test_a_template_passes_its_own_tests_as_users_run_them(name: str) -> None:
    document = templates()[name]
    program = compile_pipeline(document, CATALOG)
    for test in read_tests(document, CATALOG):
        result = run_pipeline_test(document, CATALOG, program, test, wall_s=60.0)
        assert result.passed, result
