"""PyFlink programs, with `pyflink` replaced by `runtime`, print what they print on Flink 2.3.0.

goldens/<program>.txt were recorded by record_goldens.py. Where the two differ on purpose, differences.py says so, line
by line. Where a program's output has no order between keys or between side outputs (timers of one time, chained sinks),
lines are compared as a set.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.datastream.differences import DIFFERENCES, DIFFERENCES_IN_BATCH, Difference, expected_lines
from tests.job_runs import record_run
from tests.support.programs import run_program

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "pyflink_programs").glob("*.py"))
IN_BATCH = sorted((HERE / "goldens_in_batch").glob("*.txt"))
WITHOUT_ORDER = {
    "count_windows",
    "early_windows",
    "event_time_windows",
    "parallel_subtasks",
    "session_windows",
    "side_output_windows",
    "side_outputs",
    "window_states",
}


def printed_by(programs: Sequence[str], environment: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    """Run programs in one process; returns by name what each printed, and its traceback if it failed."""
    done = run_program(HERE / "run_programs.py", *programs, env=environment)
    assert (done.exit_code, done.stderr) == (0, "")
    return {name: (printed, error) for name, printed, error in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> dict[str, tuple[str, str | None]]:
    """Program → what it printed and its traceback, of all programs that are to be tested, run in one process."""
    # other modules have parameters of this name too
    own = [item for item in request.session.items if item.path == request.path]
    wanted = [
        str(item.callspec.params["program"]) for item in own if isinstance(item, pytest.Function) and _has_runs(item)
    ]
    return printed_by(wanted, {"TIDEMARK_CONF_EXECUTION_TARGET": "mini-cluster"})


def _has_runs(item: pytest.Function) -> bool:
    return "runs" in item.fixturenames


@pytest.fixture(scope="module")
def runs_in_batch() -> dict[str, tuple[str, str | None]]:
    """The same of the programs that Flink was asked to execute as batches."""
    environment = {"TIDEMARK_CONF_EXECUTION_TARGET": "mini-cluster", "TIDEMARK_CONF_EXECUTION_RUNTIME__MODE": "BATCH"}
    programs = [str(HERE / "pyflink_programs" / f"{golden.stem}.py") for golden in IN_BATCH]
    return printed_by(programs, environment)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_pyflink_program_prints_what_it_prints_on_flink(
    program: Path, runs: dict[str, tuple[str, str | None]]
) -> None:
    record_run("mini-cluster")
    text, error = runs[program.stem]
    assert error is None, error
    printed = text.splitlines()
    golden = (HERE / "goldens" / f"{program.stem}.txt").read_text()
    recorded = expected_lines(golden.splitlines(), DIFFERENCES.get(program.stem, ()))
    if program.stem in WITHOUT_ORDER:
        printed.sort()
        recorded.sort()
    assert printed == recorded


@pytest.mark.parametrize("golden", IN_BATCH, ids=lambda golden: golden.stem)
def test_a_pyflink_program_prints_what_it_prints_on_flink_as_a_batch(
    golden: Path, runs_in_batch: dict[str, tuple[str, str | None]]
) -> None:
    record_run("mini-cluster")
    text, error = runs_in_batch[golden.stem]
    assert error is None, error
    # keys follow one another in another order
    differences = [*DIFFERENCES.get(golden.stem, ()), *DIFFERENCES_IN_BATCH.get(golden.stem, ())]
    recorded = expected_lines(golden.read_text().splitlines(), differences)
    assert sorted(text.splitlines()) == sorted(recorded)


def test_every_golden_belongs_to_a_program() -> None:
    goldens = {path.stem for path in (HERE / "goldens").glob("*.txt")}
    assert goldens == {program.stem for program in PROGRAMS}
    assert goldens >= DIFFERENCES.keys()
    in_batch = {golden.stem for golden in IN_BATCH}
    assert goldens >= in_batch >= DIFFERENCES_IN_BATCH.keys()


def test_a_difference_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="did not print 'b'"):
        expected_lines(["a"], [Difference("why", {"": ("b", "c")})])
    with pytest.raises(ValueError, match="no difference"):
        expected_lines(["a"], [Difference("why", {"": ("a", "a")})])
    assert expected_lines(["a", "b"], [Difference("why", {"": ("b", "c")})]) == ["a", "c"]
