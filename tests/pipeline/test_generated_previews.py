"""A preview shows what the job does: for pipelines made at random, every node type among them, on bounded input."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import compile_pipeline, load_catalog, read_document
from runtime.pipeline.facts import StreamFacts
from tests.pipeline.generator import SERVERS, grown
from tests.pipeline.programs import previewed, run_with_taps
from tests.pipeline.taps import in_order, settled_rows, what_flowed

CATALOG = load_catalog([])
GROWN = [kind for kind in CATALOG.types if kind not in SERVERS]
#: of each node type, in `make test` and in the slow tests
FEW, MANY = 1, 20


def pipelines(numbers: range) -> list[Any]:
    return [pytest.param(kind, number, id=f"{kind}-{number}") for kind in GROWN for number in numbers]


def check_preview(kind: str, number: int, directory: Path) -> None:
    value = grown(random.Random(f"preview {kind} {number}"), CATALOG, directory, kind, by_clock=False)
    # as in a preview: one subtask of everything, and no checkpoints
    value["settings"] = {"parallelism": 1}
    for node in value["nodes"].values():
        node.pop("parallelism", None)
    program = compile_pipeline(read_document(value), CATALOG)
    assert program.is_deployable, program.problems
    taps = directory / "taps"
    taps.mkdir()
    streams = run_with_taps(program, taps)
    ports, end = previewed(program, directory / "pipeline.py")
    assert end["state"] == "finished", end
    for place in streams:
        batches = what_flowed(taps, ".".join(place))
        flowed = [row for batch in batches for row in batch["shown"]]
        frame = ports[place]
        facts: StreamFacts = program.validation.facts[place]  # type: ignore[assignment]
        # which rows are taken back on the way depends on the order of rows of the same time, which no operator promises
        settled = settled_rows if facts.changelog != "append" else in_order
        if facts.changelog == "append":
            assert frame["rows"] == len(flowed), place
        if max(frame["rows"], len(flowed)) <= 200:
            assert settled(frame["sample"]) == settled(flowed), place
        declared = facts.to_json()["columns"]
        if flowed and declared is not None:
            assert frame["columns"] == [[column["name"], column["type"]] for column in declared], place


@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW)))
def test_a_preview_shows_what_the_job_does(kind: str, number: int, tmp_path: Path) -> None:
    check_preview(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW, MANY)))
def test_hundreds_of_previews_show_what_the_job_does(kind: str, number: int, tmp_path: Path) -> None:
    check_preview(kind, number, tmp_path)
