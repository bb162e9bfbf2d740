"""Whatever a document holds stays inside the literals of the program, or is refused: every text of every parameter."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import DocumentError, compile_pipeline, load_catalog, read_document
from runtime.testing.nodes import example_pipeline
from tests.pipeline.generator import SERVERS, grown

CATALOG = load_catalog([])
TEXTS = (
    "x'); canary('",
    'x"); canary("',
    '"""); canary("""',
    "\\",
    "\\'); canary(#",
    "x\ncanary()\n",
    "x\r\ncanary()",
    "x\u2028canary()",
    "x\x0ccanary()",
    "{canary()}",
    "%(canary)s",
    "x\x00canary()",
    "\ud800canary()",
    "\u202ecanary()",
    "__import__('canary')",
    "1; canary()",
    "canary() # ",
)
#: what the code of examples calls
BUILTINS = {"len", "list", "max", "min", "range", "str"}
Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where there is a text, and the keys of maps whose keys are anybody's."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in ("code", "type_version"):
                yield from places(item, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*at, index))


def replaced(value: Any, at: Place, text: str) -> Any:
    made = copy.deepcopy(value)
    inner = made
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = text
    return made


def is_kept(document: Any) -> bool:
    """Check the program of a document; returns whether there is one."""
    try:
        read = read_document(document)
    except DocumentError:
        return False
    program = compile_pipeline(read, CATALOG)
    tree = ast.parse(program.source.encode())
    nodes = list(ast.walk(tree))
    bound = {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            # variables have names that are made of the document's; nobody calls one
            assert node.func.id in bound | BUILTINS, ast.unparse(node)
        if isinstance(node, ast.Attribute):
            assert "canary" not in node.attr, ast.unparse(node)
        if isinstance(node, ast.Import):
            assert "canary" not in str([alias.name for alias in node.names]), ast.unparse(node)
    return program.is_deployable


def check_every_text(document: dict[str, Any], texts: Sequence[str]) -> int:
    """Put texts in the place of every text of a document, one at a time; returns how often there is a program."""
    assert is_kept(document)
    found = [at for at in places(document) if at[0] != "format" and at[-1] != "type"]
    assert found
    return sum(is_kept(replaced(document, at, text)) for at in found for text in texts)


@pytest.mark.parametrize("kind", CATALOG.types)
def test_no_text_gets_out_of_its_literal(kind: str) -> None:
    node_type, draw = CATALOG.types[kind], random.Random(kind)
    assert check_every_text(example_pipeline(node_type, node_type.examples[0]), draw.sample(TEXTS, 3)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", CATALOG.types)
def test_no_text_at_all_gets_out_of_its_literal(kind: str) -> None:
    node_type = CATALOG.types[kind]
    for example in node_type.examples:
        assert check_every_text(example_pipeline(node_type, example), TEXTS) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in CATALOG.types if kind not in SERVERS])
def test_no_text_of_generated_pipelines_gets_out_of_its_literal(kind: str, tmp_path: Path) -> None:
    for number in range(5):
        draw = random.Random(f"hostile {kind} {number}")
        check_every_text(grown(draw, CATALOG, tmp_path, kind), draw.sample(TEXTS, 3))


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_settings_and_names_stay_in_theirs(text: str) -> None:
    node_type = CATALOG.types["filter"]
    document = example_pipeline(node_type, node_type.examples[0])
    document["parameters"] = [{"name": "least", "type": "string", "default": text}]
    document["nodes"]["node"]["slot_group"] = text
    is_kept(document)
    is_kept(document | {"name": text, "settings": {"options": {text: text}}})
    is_kept(document | {"types": {text: {"columns": [[text, "long"]]}}})
