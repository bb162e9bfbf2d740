"""Runs tests of a pipeline: each in a child, as a preview over the rows that the test gives.

Blocking; any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runtime.client.preview import Frame, Given, NodeLines, preview_program
from runtime.client.spare_children import SpareChildren
from runtime.common.secrets import SecretName
from runtime.pipeline.catalog import Catalog
from runtime.pipeline.compile import Program
from runtime.pipeline.document import Document
from runtime.pipeline.expectations import PipelineTest, Place, RowDifference, compared, sources_of
from runtime.pipeline.facts import StreamFacts

MAX_ROWS: Final = 10_000
"""Of a port that a test looks at."""
WALL_S: Final = 15.0


@dataclass(frozen=True)
class PipelineTestResult:
    """How a test went.

    Attributes:
        message: why it could not be judged; "" = it was.
        node: at which it failed, if that is known.
        rows: place → comparison; of places that nothing is known of, none.
        output: what the program has printed, its end.
    """

    name: str
    message: str
    node: str | None
    rows: Mapping[Place, Sequence[RowDifference]]
    output: str

    @property
    def passed(self) -> bool:
        """Return whether everything that was expected has come, and nothing else."""
        return not self.message and all(row.state == "same" for rows in self.rows.values() for row in rows)

    def to_json(self) -> dict[str, Any]:
        """Return the form for the page and `--json`."""
        return {
            "name": self.name,
            "passed": self.passed,
            "message": self.message,
            "node": self.node,
            "places": [
                {"node": node, "port": port, "rows": [{"state": row.state, "row": row.row} for row in rows]}
                for (node, port), rows in self.rows.items()
            ],
            "output": self.output,
        }


def run_pipeline_test(
    document: Document,
    catalog: Catalog,
    program: Program,
    test: PipelineTest,
    *,
    wall_s: float = WALL_S,
    secrets: Mapping[SecretName, str] | None = None,
    spares: SpareChildren | None = None,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> PipelineTestResult:
    """Run one test.

    Args:
        document: the pipeline.
        catalog: the node types.
        program: what the document was compiled to.
        test: one of its tests.
        wall_s: after so long it is stopped.
        secrets, spares: see `preview_program`.
        is_abandoned: asked while it runs; True stops it.
    """
    for place in test.expect:
        blocking = _blocking(document, program, place)
        if blocking is not None:
            return PipelineTestResult(test.name, blocking, place[0], {}, "")
    ports: dict[Place, Frame] = {}
    ends: list[Frame] = []

    def take(frame: Frame) -> None:
        if frame["kind"] == "end":
            ends.append(frame)
        else:
            ports[frame["node"], frame["port"]] = frame

    preview_program(
        program.source,
        [NodeLines(of.node, of.first, of.last) for of in program.source_map.statements if of.node is not None],
        program.streams,
        take,
        given=given_rows(program, dict.fromkeys(sources_of(document, catalog), ()) | dict(test.given)),
        whole=MAX_ROWS,
        wall_s=wall_s,
        secrets=secrets,
        spares=spares,
        is_abandoned=is_abandoned,
    )
    [end] = ends
    message, node = ("", None) if end["state"] == "finished" else (end["message"], end["node"])
    rows = {}
    for place, expected in test.expect.items():
        frame = ports.get(place, {"rows": 0, "sample": []})
        if not message and frame["rows"] > len(frame["sample"]):
            message, node = f"has more than {len(frame['sample'])} rows to compare", place[0]
        rows[place] = compared(expected, frame["sample"])
    return PipelineTestResult(test.name, message, node, rows, end["output"])


def given_rows(program: Program, items: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Given]:
    """Return given rows with the columns of their event times, as far as they are known."""
    made = {}
    for node_id, rows in items.items():
        ports = [port for node, port in program.streams if node == node_id]
        first = "out" if "out" in ports or not ports else ports[0]
        facts = program.validation.facts.get((node_id, first))
        made[node_id] = Given(rows, facts.time_column if isinstance(facts, StreamFacts) else None)
    return made


def _blocking(document: Document, program: Program, place: Place) -> str | None:
    """Return why a node is not in the program, if it is not."""
    node_id, port = place
    is_there = place in program.streams if port != "in" else node_id in program.validation.complete(document)
    if is_there:
        return None
    own = next((problem for problem in program.problems if problem.node == node_id and problem.is_blocking), None)
    name = document.nodes[node_id].name
    if own is not None:
        return f"{name!r} cannot run: {own.message}"
    above = next((problem for problem in program.problems if problem.is_blocking), None)
    reason = "it is disabled" if above is None else f"{_named(document, above.node)}{above.message}"
    return f"{name!r} does not run: {reason}"


def _named(document: Document, node_id: str | None) -> str:
    return "" if node_id is None else f"{document.nodes[node_id].name!r}: "
