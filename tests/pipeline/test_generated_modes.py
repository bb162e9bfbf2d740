"""Pipelines made at random, every node type among them, give the same rows in every execution mode."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import Document, Program, compile_pipeline, load_catalog, read_document
from runtime.pipeline.facts import StreamFacts
from tests.pipeline.generator import SERVERS, grown
from tests.pipeline.programs import run_with_taps
from tests.pipeline.taps import settled_rows, what_flowed

CATALOG = load_catalog([])
GROWN = [kind for kind in CATALOG.types if kind not in SERVERS]
#: of each node type, in `make test` and in the slow tests
FEW, MANY = 1, 10
STREAMED = "0 ms"
"""Interval of watermarks: behind each row, so that rows are late, or not, whatever the batches are."""
SHUFFLING = ("window.", "join.window", "join.interval", "aggregate")
"""Types of nodes that emit several rows at one time, in the order of their state."""
TAKING_THE_FIRST = ("top_n", "deduplicate")
"""Types of nodes that keep the first of rows that are equal to them."""
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


def settled_ports(document: Document, program: Program) -> set[tuple[str, str]]:
    """Return the ports whose rows are the same whatever the order in which rows of the same time arrive."""
    unsettled: set[str] = set()
    shuffled: set[str] = set()
    for node_id in document.order:
        node = document.nodes[node_id]
        above = [(edge.source, edge.source_port) for edge in document.inputs_of(node_id)]
        sources = {source for source, _ in above}
        if sources & shuffled or node.type.startswith(SHUFFLING):
            shuffled.add(node_id)
        # each change counts as a row, and a batch makes fewer of them
        facts = [program.validation.facts[port] for port in above]
        is_changelog = any(isinstance(each, StreamFacts) and each.changelog == "retract" for each in facts)
        counts_changes = node.params.get("changelog") == "rows" and is_changelog
        if counts_changes or sources & unsettled or (node.type in TAKING_THE_FIRST and sources & shuffled):
            unsettled.add(node_id)
    return {place for place in program.streams if place[0] not in unsettled}


def check_modes(kind: str, number: int, directory: Path) -> None:
    value = grown(random.Random(f"modes {kind} {number}"), CATALOG, directory, kind, by_clock=False)
    value["settings"] = {"parallelism": 1}
    for node in value["nodes"].values():
        node.pop("parallelism", None)
    document = read_document(value)
    program = compile_pipeline(document, CATALOG)
    assert program.is_deployable, program.problems
    settled = settled_ports(document, program)

    def shown(mode: str, options: dict[str, str], watermark_interval: str | None = STREAMED) -> dict[Any, list[str]]:
        found = rows(program, directory / mode, options, watermark_interval)
        return {place: found[place] for place in settled}

    expected = shown("continuous", {})
    for name, options in MODES.items():
        assert shown(name, options) == expected, name
    # in a batch nothing is late: as in a stream whose watermark comes with the end
    expected = shown("one watermark", {}, None)
    assert shown("batch", {"execution.runtime-mode": "BATCH"}, None) == expected


@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW)))
def test_a_pipeline_gives_the_same_rows_in_every_mode(kind: str, number: int, tmp_path: Path) -> None:
    check_modes(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(range(FEW, MANY)))
def test_hundreds_of_pipelines_give_the_same_rows_in_every_mode(kind: str, number: int, tmp_path: Path) -> None:
    check_modes(kind, number, tmp_path)
