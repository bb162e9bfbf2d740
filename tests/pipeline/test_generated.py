"""Properties of pipelines made at random, every node type among them."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.core.arrow import arrow_schema
from runtime.graph.job_graph import JobGraph
from runtime.graph.normal_form import normal_form
from runtime.pipeline import (
    Document,
    Program,
    StreamFacts,
    canonical_text,
    compile_pipeline,
    load_catalog,
    read_document,
)
from tests.pipeline.generator import SERVERS, grown
from tests.pipeline.programs import EngineView, graph_of, run_with_taps, seen_by_the_engine
from tests.pipeline.taps import plain_type, what_flowed

CATALOG = load_catalog([])
#: of each node type, in `make test` and in the slow tests: 25 types × 20 are 500 pipelines
FEW, MANY = 1, 20


def pipelines(count: int) -> list[Any]:
    return [pytest.param(kind, number, id=f"{kind}-{number}") for kind in CATALOG.types for number in range(count)]


def checked(kind: str, number: int, directory: Path) -> None:
    document = read_document(grown(random.Random(f"{kind} {number}"), CATALOG, directory, kind))
    program = compile_pipeline(document, CATALOG)
    assert program.is_deployable, program.problems
    # the same bytes again, from the text of the document too
    again = read_document(canonical_text(document))
    assert compile_pipeline(again, CATALOG).source == program.source
    assert again.semantic_hash == document.semantic_hash
    ast.parse(program.source)
    # the same graph, wherever the program is
    here = graph_of(program, "job", "/here/a.py")
    there = graph_of(program, "job", "/there/deeper/b.py")
    assert normal_form(here) == normal_form(there)
    check_operators(document, program, here)
    check_streams(program)
    if kind not in SERVERS:
        check_what_flows(program, directory)


def check_operators(document: Document, program: Program, graph: JobGraph) -> None:
    """Every operator is found by its line, and has its node's uid unless the node holds the code that adds it."""
    uids = {node.uid: node_id for node_id, node in document.nodes.items()}
    for operator in (operator for vertex in graph.vertices for operator in vertex.operators):
        place = program.source_map.at_definition(operator.defined_at)
        assert place is not None and place.node is not None, operator
        if document.nodes[place.node].type != "python.stream":
            assert place.node == uids[operator.uid.split("/")[0]], operator


def check_streams(program: Program) -> None:
    """The engine knows the same of every stream: its type, whether it ends, whether its rows take others back."""
    for place, view in seen_by_the_engine(program).items():
        facts = facts_of(program, place)
        inferred = EngineView(facts.row, facts.bounded, facts.changelog == "retract")
        assert view == inferred, place


def facts_of(program: Program, place: tuple[str, str]) -> StreamFacts:
    facts = program.validation.facts[place]
    assert isinstance(facts, StreamFacts)
    return facts


def check_what_flows(program: Program, directory: Path) -> None:
    taps = directory / "taps"
    taps.mkdir()
    for node, port in run_with_taps(program, taps):
        facts = facts_of(program, (node, port))
        for batch in what_flowed(taps, f"{node}.{port}"):
            assert batch["names"] == list(facts.columns)
            if facts.row is not None:
                assert batch["type"] == facts.row.type_string()
                assert batch["arrow"] == [plain_type(kind) for kind in arrow_schema(facts.row).types]
            if facts.changelog == "append":
                assert batch["kinds"] in ([], ["INSERT"]), (node, port)
            if facts.event_time:
                assert batch["times"], (node, port)


@pytest.mark.parametrize(("kind", "number"), pipelines(FEW))
def test_a_generated_pipeline_is_what_it_is_inferred_to_be(kind: str, number: int, tmp_path: Path) -> None:
    checked(kind, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), pipelines(MANY)[FEW:])
def test_hundreds_of_generated_pipelines_are_what_they_are_inferred_to_be(
    kind: str, number: int, tmp_path: Path
) -> None:
    checked(kind, number, tmp_path)


COMPILE_ALL = """
import json, pathlib, sys
from runtime.pipeline import compile_pipeline, load_catalog, read_document
catalog = load_catalog([])
found = []
for value in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    document = read_document(value)
    program = compile_pipeline(document, catalog)
    found.append([document.semantic_hash, program.source, program.source_map.to_json()])
pathlib.Path(sys.argv[2]).write_text(json.dumps(found))
"""


def compiled_by_a_child(documents: Path, seed: int) -> list[Any]:
    """Compile documents in a process of its own; returns the hash, the program and its lines of each."""
    made = documents.with_name(f"compiled-{seed}")
    subprocess.run(
        [sys.executable, "-c", COMPILE_ALL, str(documents), str(made)],
        cwd=documents.parent,
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(Path.cwd())},
        check=True,
    )
    found = json.loads(made.read_text())
    assert isinstance(found, list)
    return found


def check_hash_seeds(values: list[dict[str, Any]], seeds: Sequence[int], directory: Path) -> None:
    here = []
    for document in map(read_document, values):
        program = compile_pipeline(document, CATALOG)
        here.append([document.semantic_hash, program.source, program.source_map.to_json()])
    here = json.loads(json.dumps(here))
    documents = directory / "documents"
    documents.write_text(json.dumps(values))
    for seed in seeds:
        for value, one, other in zip(values, here, compiled_by_a_child(documents, seed), strict=True):
            assert one == other, (seed, value)


def test_the_program_does_not_depend_on_process_and_hash_seed(tmp_path: Path) -> None:
    values = [grown(random.Random(kind), CATALOG, tmp_path, kind) for kind in [*CATALOG.types][::3]]
    check_hash_seeds(values, [12_345], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hundreds_of_programs_do_not_depend_on_process_and_hash_seed(tmp_path: Path) -> None:
    """The documents are those of the test of what is inferred."""
    values = [
        grown(random.Random(f"{kind} {number}"), CATALOG, tmp_path, kind)
        for kind in CATALOG.types
        for number in range(MANY)
    ]
    # 0: hashes are not random
    check_hash_seeds(values, (0, 12_345, 4_294_967_295), tmp_path)
