"""PyFlink programs, with `pyflink` replaced by `runtime`, print what they print on Flink 2.3.0.

goldens/<program>.txt were recorded by record_goldens.py. Where a program's output has no order between keys or between
side outputs (timers of one time, chained sinks), lines are compared as a set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.job_runs import record_run
from tests.support.programs import run_program

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "pyflink_programs").glob("*.py"))
WITHOUT_ORDER = {"count_windows", "event_time_windows", "session_windows", "side_outputs", "window_states"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_pyflink_program_prints_what_it_prints_on_flink(program: Path, tmp_path: Path) -> None:
    ported = tmp_path / program.name
    ported.write_text(program.read_text().replace("pyflink", "runtime"))
    run = run_program(ported, env={"TIDEMARK_CONF_EXECUTION_TARGET": "mini-cluster"})
    record_run("mini-cluster")
    assert (run.exit_code, run.stderr) == (0, "")
    printed = run.stdout.splitlines()
    recorded = (HERE / "goldens" / f"{program.stem}.txt").read_text().splitlines()
    if program.stem in WITHOUT_ORDER:
        printed.sort()
        recorded.sort()
    assert printed == recorded


def test_every_golden_belongs_to_a_program() -> None:
    goldens = {path.stem for path in (HERE / "goldens").glob("*.txt")}
    assert goldens == {program.stem for program in PROGRAMS}
