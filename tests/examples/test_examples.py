"""Every short program of examples/ prints what expected/<program>.txt says, on a MiniCluster and on Spark: as a stream,
in micro-batches, and as a batch, which prints final results only: expected/batch/<program>.txt where that differs.

Programs run one after the other in one process per target, with two subtasks unless they say otherwise. Subtasks print
in no order, so lines are compared sorted and without the number of the subtask in front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

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


MICRO_BATCH = {"TIDEMARK_CONF_EXECUTION_MODE": "micro-batch", "TIDEMARK_CONF_EXECUTION_CHECKPOINTING_INTERVAL": "50 ms"}
BATCH = {"TIDEMARK_CONF_EXECUTION_RUNTIME__MODE": "BATCH"}
#: with the reason
REFUSED_AS_BATCHES = {
    "processing_time_windows": "BATCH needs bounded sources",
    "savepoint": "the job is executed as a batch, of which no snapshot is taken",
}
#: what open() prints comes with every batch
OPENED = {"cached_results": "computing"}


def environment_of(target: str, home: Path, options: Mapping[str, str]) -> dict[str, str]:
    return {
        "TIDEMARK_CONF_EXECUTION_TARGET": target,
        "TIDEMARK_CONF_PARALLELISM_DEFAULT": "2",
        "TIDEMARK_HOME": str(home),
        **options,
    }


def run_all(
    target: str,
    home: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    names: Sequence[str] = PROGRAMS,
    timeout_s: float = 110,
) -> Runs:
    """Program → what it printed and its traceback."""
    programs = [ROOT / "examples" / f"{name}.py" for name in names]
    environment = environment_of(target, home, options)
    done = run_program(ROOT / "tests/datastream/run_programs.py", *programs, env=environment, timeout_s=timeout_s)
    assert done.exit_code == 0, done.stderr
    wait_until(lambda: not survivors(done.mark), 10, "the end of the programs' processes")
    return {name: (printed, error) for name, printed, error in json.loads(done.stdout)}


def lines_of(printed: str) -> list[str]:
    return sorted(SUBTASK.sub(r"\1", line) for line in printed.splitlines())


def expected_of(program: str, *directories: str) -> list[str]:
    """Return the lines of the first of some directories that has the program, else those of a stream."""
    places = [EXPECTED / directory / f"{program}.txt" for directory in directories]
    place = next((place for place in places if place.exists()), EXPECTED / f"{program}.txt")
    return sorted(place.read_text().splitlines())


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
    assert lines_of(printed) == expected_of(program)


TARGETS = ["mini-cluster", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("target", TARGETS)
def test_examples_print_in_micro_batches_what_streams_print(target: str, tmp_path: Path) -> None:
    runs = run_all(target, tmp_path, MICRO_BATCH, timeout_s=1_500)
    record_run("mini-cluster" if target == "mini-cluster" else "spark local")
    assert not [error for _, error in runs.values() if error is not None]
    for program, (printed, _) in runs.items():
        lines, opened = lines_of(printed), OPENED.get(program)
        assert opened is None or opened in lines
        found = [line for line in lines if line != opened]
        assert found == [line for line in expected_of(program) if line != opened], program


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("target", TARGETS)
def test_examples_print_as_batches_their_final_results(target: str, tmp_path: Path) -> None:
    names = [name for name in PROGRAMS if name not in REFUSED_AS_BATCHES]
    runs = run_all(target, tmp_path, BATCH, names, 1_500)
    record_run("mini-cluster" if target == "mini-cluster" else "spark local")
    for program, (printed, error) in runs.items():
        assert error is None, error
        assert lines_of(printed) == expected_of(program, "batch"), program


@pytest.mark.slow
@pytest.mark.parametrize(("program", "reason"), REFUSED_AS_BATCHES.items())
def test_an_example_that_is_no_batch_says_why(program: str, reason: str, tmp_path: Path) -> None:
    environment = environment_of("mini-cluster", tmp_path, BATCH)
    done = run_program(ROOT / "examples" / f"{program}.py", env=environment, timeout_s=110)
    assert done.exit_code != 0 and reason in done.stderr
