"""Every short program of examples/ prints what expected/<program>.txt says, on a MiniCluster and on Spark.

Programs run one after the other in one process per target, with two subtasks unless they say otherwise. Subtasks print
in no order, so lines are compared sorted and without the number of the subtask in front.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.job_runs import record_run
from tests.support.programs import ROOT, run_program, survivors
from tests.support.waiting import wait_until

EXPECTED = Path(__file__).parent / "expected"
#: these have data of their own to work on, and tests of their own
WITH_DATA = {"flight_delays", "flights_batch", "flights_live", "worst_hours"}
PROGRAMS = sorted(path.stem for path in EXPECTED.glob("*.txt"))
SUBTASK = re.compile(r"^((?:[a-z ]+:)?)\d+> ")
Runs = dict[str, tuple[str, str | None]]


def run_all(target: str, home: Path) -> Runs:
    """Program → what it printed and its traceback."""
    options = {
        "TIDEMARK_CONF_EXECUTION_TARGET": target,
        "TIDEMARK_CONF_PARALLELISM_DEFAULT": "2",
        "TIDEMARK_HOME": str(home),
    }
    programs = [ROOT / "examples" / f"{name}.py" for name in PROGRAMS]
    done = run_program(ROOT / "tests/datastream/run_programs.py", *programs, env=options, timeout_s=110)
    assert done.exit_code == 0, done.stderr
    wait_until(lambda: not survivors(done.mark), 10, "the end of the programs' processes")
    return {name: (printed, error) for name, printed, error in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def mini_cluster_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return run_all("mini-cluster", tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def spark_runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return run_all("spark", tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize(
    "runs", ["mini_cluster_runs", pytest.param("spark_runs", marks=pytest.mark.spark)], ids=["mini-cluster", "spark"]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_prints_what_is_expected(program: str, runs: str, request: pytest.FixtureRequest) -> None:
    printed, error = request.getfixturevalue(runs)[program]
    record_run("mini-cluster" if runs == "mini_cluster_runs" else "spark local")
    assert error is None, error
    lines = sorted(SUBTASK.sub(r"\1", line) for line in printed.splitlines())
    assert lines == sorted((EXPECTED / f"{program}.txt").read_text().splitlines())


def test_every_example_has_an_expected_output() -> None:
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")} - WITH_DATA - {"__init__"}
    assert programs == set(PROGRAMS)
    assert len(programs) >= 15
