"""The catalog: every type passes the public suite; types of third parties join, and broken ones do no harm."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runtime.common.typeinfo import parse_type
from runtime.operators.columnar.aggregates import KINDS
from runtime.pipeline import Code, NodeType, StreamFacts, compile_pipeline, load_catalog, read_document, validate
from runtime.pipeline.catalog import own_types
from runtime.pipeline.emit import Expr, Literal
from runtime.pipeline.json_schema import with_defaults
from runtime.pipeline.node_type import EmitContext, Example, NodeInput, Surroundings
from runtime.pipeline.problems import NodeProblem
from runtime.testing import check_node_type
from tests.pipeline.pipelines import chain, node, orders
from tests.pipeline.programs import graph_of

VENDOR = """
from runtime.pipeline import NodeType
from runtime.pipeline.emit import Imported, Literal
from runtime.pipeline.node_type import Example


class Doubled(NodeType):
    type = "acme.doubled"
    title = "Doubled"
    summary = "Doubles a column"
    category = "Acme"
    schema = {"type": "object", "properties": {"column": {"type": "string", "x-widget": "column"}}}
    examples = (Example("Price", {"column": "price"}),)

    def label(self, params):
        return "twice " + params.get("column", "what?")

    def infer(self, node):
        return {"out": node.input()}

    def emit(self, context):
        doubled = Imported("acme_nodes", "doubled")
        call = doubled(context.input(), Literal(context.node.params["column"]))
        return {"out": context.assign(context.operator(call))}


def doubled(stream, column):
    return stream.with_columns(**{column: column + " * 2"})


NODE_TYPES = [Doubled]
"""


@pytest.mark.parametrize("kind", [type(own) for own in own_types()], ids=lambda kind: kind.type)
def test_every_type_passes_the_suite_for_types(kind: type[NodeType]) -> None:
    check_node_type(kind)


def test_the_catalog_lists_the_functions_of_expressions() -> None:
    functions = {each["name"]: each for each in load_catalog([]).to_json()["functions"]}
    assert {name for name, each in functions.items() if each["is_aggregate"]} == set(KINDS)
    assert functions["round"]["detail"] == "(x: number, digits: literal = 0) → number, as x"
    assert functions.keys() >= {"date_trunc", "json_value", "CAST", "array_get"} and "x % y" not in functions


def refuses_changelogs(kind: NodeType, params: Mapping[str, Any], example: Example, port: str) -> bool:
    """Return whether a node refuses a changelog at a port, and appends at the others."""
    inputs: dict[str, tuple[StreamFacts, ...]] = {}
    for each in kind.ports(params).inputs:
        row = parse_type(example.inputs.get(each.name, example.rows))
        facts = StreamFacts(row, event_time=True, watermarks=True, unique_key=("auction",))
        inputs[each.name] = (replace(facts, changelog="retract") if each.name == port else facts,)
    try:
        kind.infer(NodeInput("n", params, inputs, around=Surroundings(is_checkpointed=True)))
    except NodeProblem as found:
        codes = {problem.code for problem in found.problems}
        assert codes <= {Code.NEEDS_APPENDS, Code.SINK_TAKES_APPENDS_ONLY}
        return True
    return False


SETTINGS_FOR_CHANGELOGS: Mapping[str, Mapping[str, Any]] = {
    "sink.files": {"format": {"kind": "text"}},
    "sink.postgres": {"mode": {"kind": "upsert", "keys": ["auction"]}},
    **{f"python.{name}": {"changelog": "rows"} for name in ("map", "flat_map", "process")},
    "python.stream": {"changelog": "take"},
}


@pytest.mark.parametrize("kind", own_types(), ids=lambda kind: kind.type)
def test_ports_say_whether_they_take_changelogs_as_inference_has_it(kind: NodeType) -> None:
    for example in kind.examples:
        params = with_defaults(kind.schema, dict(example.params))
        for port in kind.ports(params).inputs:
            assert refuses_changelogs(kind, params, example, port.name) is not port.takes_changelogs
            option = SETTINGS_FOR_CHANGELOGS.get(kind.type)
            assert (port.changelog_option != "") is (option is not None)
            if option is not None:
                changed = with_defaults(kind.schema, {**params, **option})
                (set_port,) = kind.ports(changed).inputs
                assert set_port.takes_changelogs
                text = replace(example, rows="string") if kind.type == "sink.files" else example
                assert not refuses_changelogs(kind, changed, text, port.name)


def test_labels_say_what_a_node_does_by_its_type_and_never_fail(acme: EntryPoint) -> None:
    total = node("aggregate", "Total", keys=["id"], aggregates=[["total", "sum(cents)"]])
    code = node("python.map", "Code", code=["def euros(row):", "    return (1,)"], type=[["a", "long"]])
    half = node("python.map", "Half", code=["def euros(ro"], type=[["a", "long"]])
    wrong = node("acme.doubled", "Wrong", column=7)
    doubled = node("acme.doubled", "Twice", column="cents")
    value = chain(orders(), doubled, total, code, half, wrong, node("acme.lost", "Lost"))
    found = validate(read_document(value), load_catalog([acme])).labels
    assert list(found.values())[1:] == ["twice cents", "total per id", "euros", "", "", ""]


def test_the_catalog_is_json_with_a_tag_that_changes_with_it() -> None:
    value = json.loads(json.dumps(load_catalog([]).to_json()))
    assert value == load_catalog([]).to_json()
    assert {"type", "title", "summary", "icon", "category", "schema", "ports", "docs"} <= value["types"][0].keys()
    broken = load_catalog([EntryPoint("acme", "no_such_module:x", "tidemark.nodes")]).to_json()
    assert broken["etag"] != value["etag"]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryPoint:
    (tmp_path / "acme_nodes.py").write_text(VENDOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_nodes", raising=False)
    return EntryPoint("acme", "acme_nodes", "tidemark.nodes")


def test_a_third_partys_node_is_compiled_like_our_own(acme: EntryPoint) -> None:
    catalog = load_catalog([acme])
    check_node_type(type(catalog.types["acme.doubled"]))
    value = chain(orders(), node("acme.doubled", "Twice", column="cents"), node("sink.print", "Show"))
    program = compile_pipeline(read_document(value), catalog)
    assert program.is_deployable
    assert "from acme_nodes import doubled" in program.source
    assert "Twice" in {vertex.name.split(" ->")[0] for vertex in graph_of(program, "job").vertices}


def test_an_installed_distribution_is_found_by_its_entry_point(
    acme: EntryPoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tidemark.nodes]\nacme = acme_nodes\n")
    assert "acme.doubled" in load_catalog().types


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no licence')", "no licence"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("x = 1", "NODE_TYPES"),
        ("NODE_TYPES = [int]", "is not a NodeType"),
        (VENDOR.replace('"acme.doubled"', '"filter"'), "vendor.name"),
        (VENDOR.replace('"acme.doubled"', '"time.watermark"'), "two node types"),
        (VENDOR.replace('"x-widget"', '"widget"'), "is not known"),
        (VENDOR.replace("def emit", "def omit"), "abstract"),
    ],
)
def test_a_broken_type_is_listed_with_its_traceback_and_harms_no_other(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_nodes.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_nodes", raising=False)
    catalog = load_catalog([EntryPoint("broken", "broken_nodes", "tidemark.nodes")])
    assert len(catalog.broken) == 1
    assert message in next(iter(catalog.broken.values()))
    assert catalog.types.keys() == load_catalog([]).types.keys()


def test_a_node_of_a_broken_type_says_so() -> None:
    catalog = load_catalog([EntryPoint("acme.lost", "no_such_module", "tidemark.nodes")])
    (problem,) = validate(read_document(chain(orders(), node("acme.lost", "Lost"))), catalog).problems
    assert problem.code is Code.NODE_TYPE_BROKEN and "no_such_module" in problem.hint


class Newer(NodeType):
    """Version 2 calls the limit "least"."""

    type = "test.newer"
    version = 2
    title = summary = category = "Test"
    schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {"least": {"type": "integer"}}}
    examples = (Example("One", {"least": 1}),)

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        return {"out": node.input()}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        condition = Literal(f"price >= {context.node.params['least']}")
        return {"out": context.assign(context.operator(context.input().call("where", condition)))}

    def migrate(self, params: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        return {"least": params["minimum"]}


def test_parameters_of_an_earlier_version_are_migrated() -> None:
    check_node_type(Newer)
    catalog = type(load_catalog([]))({**load_catalog([]).types, "test.newer": Newer()})
    old = node("test.newer", "Old", minimum=3) | {"type_version": 1}
    found = validate(read_document(chain(orders(), old)), catalog)
    assert found.is_deployable and found.nodes["n1"].params == {"least": 3}
    # whoever edits it sees the newer form: the parameters have to fit that first
    (note,) = found.problems
    assert (note.code, note.node, note.field) == (Code.NODE_TYPE_NEWER, "n1", "/type_version")
    mended = {step["path"]: step["value"] for step in note.fixes[0].patch}
    assert mended == {"/nodes/n1/params": {"least": 3}, "/nodes/n1/type_version": 2}
    now = old | {"params": {"least": 3}, "type_version": 2}
    assert validate(read_document(chain(orders(), now)), catalog).problems == ()
    lost = node("test.newer", "Lost") | {"type_version": 1}
    (problem,) = validate(read_document(chain(orders(), lost)), catalog).problems
    assert (problem.code, problem.field) == (Code.BAD_PARAM, "/params")


class Careless(Newer):
    """Joins texts where it should make literals."""

    type = "test.careless"

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        class Raw(Literal):
            pass

        stream = context.input().call("name", Raw(context.name))
        return {"out": context.assign(stream.call("where", Literal(1)), "x" + str(id(stream)))}


def test_the_suite_finds_a_program_that_is_another_one_each_time() -> None:
    with pytest.raises(AssertionError, match="another one the second time"):
        check_node_type(Careless)
