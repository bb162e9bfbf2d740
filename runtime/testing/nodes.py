"""check_node_type: the suite that every node type of a pipeline has to pass, Tidemark's own and those of others.

    def test_my_node() -> None:
        check_node_type(MyNode)

Nothing is contacted: an example's program is written and looked at, not run.
"""

from __future__ import annotations

import ast
import json
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, parse_type
from runtime.pipeline.catalog import Catalog, own_types
from runtime.pipeline.compile import Program, compile_pipeline
from runtime.pipeline.document import canonical_text, read_document
from runtime.pipeline.json_schema import schema_faults, violations, with_defaults
from runtime.pipeline.node_type import Example, NodeType

__all__ = ["check_node_type", "example_pipeline"]

#: a text that would break out of a literal that is made carelessly
HOSTILE = '"\'"""\\\n\r\u202e{x}#'
_TIMES = ("sql_timestamp", "long", "instant")


def check_node_type(node_type: type[NodeType]) -> None:
    """Check a node type: its form, its ports, and that each example is inferred and compiled.

    Raises:
        AssertionError: something is wrong; the message says what.
    """
    made = node_type()
    name = made.type
    faults = list(schema_faults(made.schema))
    assert not faults, f"{name}: the schema is wrong: {'; '.join(faults)}"
    assert json.loads(json.dumps(made.to_json())) == made.to_json(), f"{name}: what the page gets is not JSON"
    assert made.title and made.summary and made.category, f"{name}: a title, a summary and a category are needed"
    empty: dict[str, Any] = {}
    for params in (empty, with_defaults(made.schema, empty)):
        ports = made.ports(params)
        for names in ([port.name for port in ports.inputs], [port.name for port in ports.outputs]):
            assert len(set(names)) == len(names), f"{name}: two ports have one name"
        assert isinstance(made.label(params), str), f"{name}: a label is a text"
    assert made.examples, f"{name}: an example is needed"
    for example in made.examples:
        _check_example(made, example)


def _check_example(node_type: NodeType, example: Example) -> None:
    what = f"{node_type.type}, example {example.title!r}"
    wrong = list(violations(node_type.schema, with_defaults(node_type.schema, dict(example.params))))
    assert not wrong, f"{what}: {wrong}"
    catalog = Catalog({**{own.type: own for own in own_types()}, node_type.type: node_type})
    program = _compiled(node_type, example, catalog, "A node")
    again = _compiled(node_type, example, catalog, "A node")
    assert program.source == again.source, f"{what}: the program is another one the second time"
    hostile = _compiled(node_type, example, catalog, f"A node {HOSTILE}")
    plain, other = (_without_texts(found.source) for found in (program, hostile))
    assert plain == other, f"{what}: the node's name gets out of its literal"
    facts = {port for node, port in program.validation.facts if node == "node"}
    ports = {port.name for port in node_type.ports(dict(example.params)).outputs}
    assert facts == ports, f"{what}: {facts} are inferred, and the ports are {ports}"


def _compiled(node_type: NodeType, example: Example, catalog: Catalog, name: str) -> Program:
    what = f"{node_type.type}, example {example.title!r}"
    document = read_document(example_pipeline(node_type, example, name))
    assert read_document(canonical_text(document, catalog.param_orders)).semantic_hash == document.semantic_hash
    program = compile_pipeline(document, catalog)
    problems = [problem for problem in program.problems if problem.is_blocking]
    assert not problems, f"{what}: {[problem.to_json() for problem in problems]}"
    ast.parse(program.source)
    return program


def _without_texts(source: str) -> str:
    """Return a program's structure, with all texts and names of variables replaced."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        elif isinstance(node, ast.Name):
            node.id = "name"
    return ast.dump(tree)


def example_pipeline(node_type: NodeType, example: Example, name: str = "A node") -> dict[str, Any]:
    """Return a pipeline around an example: a source without rows for each input, with event time where it can be."""
    nodes: dict[str, Any] = {
        "node": {"type": node_type.type, "name": name, "uid": "node", "params": dict(example.params)},
    }
    nodes["node"]["type_version"] = node_type.version
    edges: dict[str, Any] = {}
    for port in node_type.ports(dict(example.params)).inputs:
        row = parse_type(example.inputs.get(port.name, example.rows))
        assert isinstance(row, RowTypeInfo)
        columns = [[column, kind.type_string()] for column, kind in zip(row.field_names, row.field_types, strict=True)]
        times = [column for kind in _TIMES for column, text in columns if text == kind]
        time = {"kind": "column", "column": times[0], "bound": "0 s"} if times else {"kind": "none"}
        params = {"type": columns, "rows": [], "time": time}
        source = f"from_{port.name}"
        nodes[source] = {"type": "source.inline", "name": f"Input {port.name}", "uid": source, "params": params}
        edges[f"to_{port.name}"] = {"from": [source, "out"], "to": ["node", port.name]}
    return {
        "format": "tidemark.pipeline",
        "version": 1,
        "name": "Example",
        "settings": {"checkpointing": {"interval": "10 s"}},
        "nodes": nodes,
        "edges": edges,
    }
