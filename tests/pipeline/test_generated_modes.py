"""Pipelines made at random, every node type among them, give the same rows in every execution mode."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import Program, compile_pipeline, load_catalog, read_document
from tests.pipeline.generator import SERVERS, grown
from tests.pipeline.programs import run_with_taps
from tests.pipeline.taps import settled_rows, what_flowed

CATALOG = load_catalog([])
GROWN = [kind for kind in CATALOG.types if kind not in SERVERS]
#: of each node type, in `make test` and in the slow tests
FEW, MANY = 1, 10
STREAMED = "0 ms"
"""Interval of watermarks: behind each row, so that rows are late, or not, whatever the batches are."""
MODES = {
    "micro-batch": {"execution.mode": "micro-batch", "execution.micro-batch.max-rows": "7"},
    "micro-batch with rocksdb": {
        "execution.mode": "micro-batch",
        "execution.micro-batch.max-rows": "20",
        "state.backend.type": "rocksdb",
    },
}


def pipelines(numbers: range) -> list[Any]:
    return [pytest.param(kind, number, id=f"{kind}-{number}") for kind in GROWN for number in numbers]


def rows(
    program: Program, taps: Path, options: dict[str, str], watermark_interval: str | None = STREAMED
) -> dict[tuple[str, str], list[str]]:
    """Run a program; returns the rows that stand at the end, by port."""
    taps.mkdir()
    streams = run_with_taps(program, taps, watermark_interval=watermark_interval, options=options)
    return {
        place: settled_rows([row for batch in what_flowed(taps, ".".join(place)) for row in batch["shown"]])
        for place in streams
    }


def check_modes(kind: str, number: int, directory: Path) -> None:
    value = grown(random.Random(f"modes {kind} {number}"), CATALOG, directory, kind, by_clock=False)
    value["settings"] = {"parallelism": 1}
    for node in value["nodes"].values():
        node.pop("parallelism", None)
    program = compile_pipeline(read_document(value), CATALOG)
    assert program.is_deployable, program.problems
    expected = rows(program, directory / "continuous", {})
    for name, options in MODES.items():
        assert rows(program, directory / name, options) == expected, name
    # in a batch nothing is late: as in a stream whose watermark comes with the end
    expected = rows(program, directory / "one watermark", {}, None)
    assert rows(program, directory / "batch", {"execution.runtime-mode": "BATCH"}, None) == expected


@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW)))
def test_a_pipeline_gives_the_same_rows_in_every_mode(kind: str, number: int, tmp_path: Path) -> None:
    check_modes(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW, MANY)))
def test_hundreds_of_pipelines_give_the_same_rows_in_every_mode(kind: str, number: int, tmp_path: Path) -> None:
    check_modes(kind, number, tmp_path)
