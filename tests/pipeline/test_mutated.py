"""Pipelines with a parameter changed at random: what no problem keeps back becomes a job, and can be previewed."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import DocumentError, Program, compile_pipeline, load_catalog, read_document
from tests.pipeline.generator import SERVERS, grown
from tests.pipeline.mutations import mutated
from tests.pipeline.programs import graph_of, previewed

CATALOG = load_catalog([])
#: pipelines of each node type, in `make test` and in the slow tests
FEW, MANY = 1, 20
CHANGES = 6
#: what a job cannot know before it reads its rows: they are not as somebody has declared or calculated
_OF_ROWS = ("source.", "python.", "window.python", "parse_json", "time.watermark")


def pipelines(numbers: range, without: Collection[str] = ()) -> list[Any]:
    kinds = [kind for kind in CATALOG.types if kind not in without]
    return [pytest.param(kind, number, id=f"{kind}-{number}") for kind in kinds for number in numbers]


def deployable(kind: str, number: int, directory: Path) -> Iterator[tuple[Program, str]]:
    """Yield the changed pipelines that have no problem that keeps them from being deployed."""
    draw = random.Random(f"mutated {kind} {number}")
    value = grown(draw, CATALOG, directory, kind, by_clock=False)
    for _ in range(CHANGES):
        changed, what = mutated(value, draw, CATALOG, kind)
        try:
            program = compile_pipeline(read_document(changed), CATALOG)
        except DocumentError:
            continue
        if program.is_deployable:
            yield program, what


def check_graphs(kind: str, number: int, directory: Path) -> None:
    for program, what in deployable(kind, number, directory):
        try:
            graph = graph_of(program, "job")
        except Exception as error:
            raise AssertionError(f"no problem, and no job graph: {what}") from error
        assert graph.vertices, what


@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW)))
def test_what_has_no_problem_becomes_a_job_graph(kind: str, number: int, tmp_path: Path) -> None:
    check_graphs(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW, MANY)))
def test_thousands_of_changes_without_problem_become_job_graphs(kind: str, number: int, tmp_path: Path) -> None:
    check_graphs(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(range(2), SERVERS))
def test_what_has_no_problem_is_previewed(kind: str, number: int, tmp_path: Path) -> None:
    for program, what in deployable(kind, number, tmp_path):
        if not what.startswith(_OF_ROWS):
            _, end = previewed(program, tmp_path / "pipeline.py")
            assert end["state"] == "finished", (what, end)
