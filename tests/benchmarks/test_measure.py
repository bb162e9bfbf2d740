"""Contestants run in turn, medians count, and a result that differs ends the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cli
from benchmarks.measure import Measured, Options, Outcome, Run, Target, Work, WrongResultError, measure
from benchmarks.report import document, table

OPTIONS = Options(Path("data"), slots=2, execution="mini-cluster", repeats=3, scale=1.0)


def running(name: str, seconds: list[float], order: list[str], result: object = 7) -> Run:
    left = list(seconds)

    def run() -> Outcome:
        order.append(name)
        return Outcome(left.pop(0), 1_000, result, details={"p99_ms": 5.0})

    return run


def measured(*targets: Target) -> tuple[Measured, list[str]]:
    order: list[str] = []
    contestants = {
        "loop": running("loop", [1.0, 9.0, 1.1], order),
        "tidemark": running("tidemark", [2.0, 2.2, 8.0], order),
    }
    return measure(Work("work", "some work", contestants, targets), 3), order


def test_contestants_run_in_turn() -> None:
    assert measured()[1] == ["loop", "tidemark"] * 3


def test_medians_are_compared() -> None:
    found, _ = measured(Target("tidemark", "loop", at_least=0.6), Target("tidemark", "loop", at_least=0.4))
    assert found.ratio("tidemark", "loop") == pytest.approx(0.5)
    assert [verdict.reached for verdict in found.verdicts()] == [False, True]


def test_a_target_may_be_a_figure_of_its_own() -> None:
    found, _ = measured(
        Target("tidemark", "", at_most=4.0, figure="p99_ms"),
        Target("tidemark", "", at_least=400.0, figure="rows_per_second"),
        Target("tidemark", "absent", at_least=1.0),
    )
    assert [(verdict.measured, verdict.reached) for verdict in found.verdicts()] == [
        (5.0, False),
        (pytest.approx(1_000 / 2.2), True),
    ]


def test_a_wrong_result_is_an_error_that_names_it() -> None:
    contestants = {"loop": running("loop", [1.0], [], 7), "tidemark": running("tidemark", [1.0], [], 8)}
    with pytest.raises(WrongResultError, match="work: tidemark found 8, loop 7"):
        measure(Work("work", "", contestants), 1)


def test_the_table_has_a_line_per_contestant_and_target() -> None:
    lines = table([measured(Target("tidemark", "loop", at_least=0.6))[0]]).splitlines()
    assert lines[2] == "| work | loop | 1,000 | 1.100 | 1.00–9.00 |  | 909 |"
    assert lines[-1] == "| work | tidemark / loop | ≥ 0.60 | 0.50 | **missed** |"


def test_the_document_names_machine_and_versions_and_keeps_every_repeat() -> None:
    found = [measured(Target("tidemark", "loop", at_least=0.6))[0]]
    run = json.loads(json.dumps(document({"cpus": 2}, OPTIONS, found)))
    work = run["works"][0]
    assert run["machine"]["cpus"] == 2
    assert [repeat["seconds"] for repeat in work["contestants"]["tidemark"]["repeats"]] == [2.0, 2.2, 8.0]
    assert work["targets"][0]["reached"] is False


def test_works_are_chosen_by_the_words_that_their_names_begin_with() -> None:
    works = cli.all_works(OPTIONS)
    assert [work.name for work in cli.chosen(works, ["nexmark q1", "start"])] == ["nexmark q1", "start"]
    assert len(cli.chosen(works, ["ndjson"])) == 5
    assert len(cli.chosen(works, [])) == len({work.name for work in works}) == len(works)
    with pytest.raises(ValueError, match="no work 'nexmark q6'"):
        cli.chosen(works, ["nexmark q6"])
