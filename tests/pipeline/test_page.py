"""docs/pipelines.md is about the node types and problems that there are. To take a change over:

python tests/pipeline/test_page.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from runtime.pipeline import Code, compile_pipeline, load_catalog, read_document
from runtime.pipeline.catalog import own_types
from runtime.pipeline.node_type import Port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
BEGIN, END = "<!-- made by tests/pipeline/test_page.py -->\n", "\n## Problems"


def names(ports: tuple[Port, ...]) -> str:
    return ", ".join(f"`{port.name}`" + ("…" if port.many else "") for port in ports) or "–"


def table() -> str:
    lines = ["| type | inputs | outputs | what it does |", "|---|---|---|---|"]
    for node_type in own_types():
        fullest = {"late_output": True, "late_outputs": True, "bad": "dead_letters", "branches": [["…", ""]]}
        fullest |= {"side_outputs": [{"tag": "…"}]}
        ports = node_type.ports(fullest)
        lines.append(f"| `{node_type.type}` | {names(ports.inputs)} | {names(ports.outputs)} | {node_type.summary} |")
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:start] + "\n" + table() + page[end:]


def test_the_page_lists_the_node_types() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


def test_the_page_describes_every_problem() -> None:
    problems = PAGE.read_text(encoding="utf-8").split("## Problems")[1].split("\n## ")[0]
    described = re.findall(r"^\| `([a-z-]+)` \|", problems, re.MULTILINE)
    assert sorted(described) == sorted(code.value for code in Code)


def test_the_pipeline_of_the_page_can_be_deployed() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    # the others are parts of documents
    (block,) = [block for block in blocks if '"format"' in block]
    assert compile_pipeline(read_document(json.loads(block)), load_catalog([])).is_deployable


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
