"""Properties of pipelines made at random, every node type among them."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.common.time import Duration
from runtime.core.arrow import arrow_schema
from runtime.core.elements import MAX_WATERMARK
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
from tests.pipeline.taps import by_subtask, plain_type, what_flowed

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
        check_what_flows(document, program, directory)


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


def check_what_flows(document: Document, program: Program, directory: Path) -> None:
    taps = directory / "taps"
    taps.mkdir()
    # with a watermark behind each row, windows end and rows are late in the middle of the input
    for place in run_with_taps(program, taps, watermark_interval="0 ms"):
        facts = facts_of(program, place)
        for batch in what_flowed(taps, ".".join(place)):
            assert batch["names"] == list(facts.columns)
            if facts.row is not None:
                assert batch["type"] == facts.row.type_string()
                assert batch["arrow"] == [plain_type(kind) for kind in arrow_schema(facts.row).types]
            if facts.event_time:
                assert batch["times"], place
            if facts.time_column is not None:
                assert batch["times"] == [millis(row[facts.time_column]) for row in batch["shown"]], place
        subtasks = by_subtask(taps, ".".join(place))
        check_changes(facts, subtasks)
        check_watermarks(document, place, facts, subtasks)


def millis(shown: Any) -> int:
    """Return the time in ms that a row is shown with."""
    if isinstance(shown, str):
        time = datetime.fromisoformat(shown)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    return int(shown)


def check_changes(facts: StreamFacts, subtasks: list[list[dict[str, Any]]]) -> None:
    """Rows that only come, or that also go; at most one that stands for each unique key."""
    standing: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    for line in (line for lines in subtasks for line in lines if "watermark" not in line):
        for kind, row in zip(line["kinds"], line["shown"], strict=True):
            is_new = kind in ("INSERT", "UPDATE_AFTER")
            if facts.changelog == "append":
                assert kind == "INSERT", facts
            shown = {name: item for name, item in row.items() if name != "$kind"} if isinstance(row, dict) else row
            standing[json.dumps(shown, sort_keys=True)] += 1 if is_new else -1
            if facts.unique_key is not None:
                key = json.dumps([row[name] for name in facts.unique_key])
                keys[key] += 1 if is_new else -1
                # a key's rows are in order: they leave one subtask
                assert 0 <= keys[key] <= 1, (facts.unique_key, key)
    assert min(standing.values(), default=0) >= 0


def sources_above(document: Document, node_id: str) -> set[str]:
    inputs = [edge.source for edge in document.edges.values() if edge.target == node_id]
    return set().union(*(sources_above(document, each) for each in inputs)) if inputs else {node_id}


def check_watermarks(
    document: Document, place: tuple[str, str], facts: StreamFacts, subtasks: list[list[dict[str, Any]]]
) -> None:
    """A stream without watermarks has none before its end; those of a source follow the highest time in its bound."""
    seen = [line["watermark"] for lines in subtasks for line in lines if "watermark" in line]
    early = [watermark for watermark in seen if watermark != MAX_WATERMARK]
    node = document.nodes[place[0]]
    if not facts.watermarks:
        # one of several sources that ends no longer holds back the others'
        assert not early or len(sources_above(document, place[0])) > 1, place
        return
    assert MAX_WATERMARK in seen
    time = node.params.get("time")
    if isinstance(time, dict) and time.get("kind") == "column" and len(subtasks) == 1:
        times = [at for line in subtasks[0] for at in line.get("times") or ()]
        bound_ms = Duration.parse(time["bound"]).to_millis()
        assert not times or max(early) == max(times) - bound_ms - 1, place


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
