"""What is asked of a draft beside its problems: its tests, its job graph, and a rename. Nothing is stored. Any thread.

Tests and plans run the program in children; they take turns (`PlanningQueue`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from backend.cluster.connections import without_connection
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.planning_queue import ClientLeftError, PlanningQueue, QueueFullError
from backend.dispatcher.programs import extract_text
from backend.pipelines import previews
from backend.pipelines.building import catalog, compiled, operators_of
from backend.pipelines.deployments import file_stem
from backend.pipelines.services import PipelineError
from runtime.client.pipeline_tests import PipelineTestResult, run_pipeline_test
from runtime.common.secrets import SecretMissingError
from runtime.pipeline.document import Document
from runtime.pipeline.expectations import PipelineTestError, read_tests, sources_of
from runtime.pipeline.rename import RenameError, rename_column

MAX_TESTS: Final = 2
"""At a time in this process: each child is a Python process with the engine."""
MAX_WAITING: Final = 32
MAX_WAIT_S: Final = 60.0
_turns = PlanningQueue(MAX_TESTS, MAX_WAITING, MAX_WAIT_S)


class RefusedError(PipelineError):
    """A document's tests cannot be run, or a column cannot be renamed; the message says why."""


class TurnRefusedError(PipelineError):
    """Too many tests run just now."""


def test_results(
    document: Document, only: Collection[str] | None, has_left: Callable[[], bool]
) -> list[dict[str, Any]]:
    """Run the tests of a document, one after the other.

    Args:
        document: the pipeline.
        only: names of tests; None = all.
        has_left: returns whether the client is gone: nothing is run for it any more.

    Returns:
        Of each test `runtime.client.pipeline_tests.PipelineTestResult`, as JSON.

    Raises:
        RefusedError: the tests cannot be run.
        TurnRefusedError: not now.
    """
    try:
        tests = read_tests(document, catalog())
    except PipelineTestError as error:
        raise RefusedError(str(error)) from error
    names = {test.name for test in tests}
    unknown = next((name for name in only or () if name not in names), None)
    if unknown is not None:
        raise RefusedError(f"There is no test {unknown!r}.")
    program = compiled(document)
    sources = sources_of(document, catalog())
    results = []
    for test in tests:
        if has_left():
            break
        if only is not None and test.name not in only:
            continue
        try:
            # sources are given their rows, be they none
            secrets = previews.secrets_read(document, program, {*sources, *test.given})
            with without_connection(), _turns.turn(has_left):
                result = run_pipeline_test(
                    document,
                    catalog(),
                    program,
                    test,
                    secrets=secrets,
                    spares=previews.spares,
                    is_abandoned=has_left,
                )
        except QueueFullError as error:
            raise TurnRefusedError("Too many tests are running; try again in a few seconds.") from error
        except ClientLeftError:
            break
        except SecretMissingError as error:
            result = PipelineTestResult(test.name, str(error), None, {}, "")
        results.append(result.to_json())
    previews.warm_up()
    return results


def draft_plan(document: Document, has_left: Callable[[], bool]) -> dict[str, Any]:
    """Return the job graph of a document, and which of its vertices run which nodes.

    Raises:
        backend.dispatcher.programs.PlanningBusy, backend.dispatcher.programs.ClientLeft: not now.
    """
    program = compiled(document)
    answer: dict[str, Any] = {
        "plan": None,
        "nodes": {},
        "warnings": [],
        "message": "",
        "problems": [problem.to_json() for problem in program.problems],
    }
    if not program.streams:
        return answer | {"message": "There is nothing to run yet."}
    try:
        found = extract_text(program.source, f"{file_stem(document.name)}.py", has_left)
    except BadRequest as error:
        return answer | {"message": "\n".join(_texts(error.detail))}
    operators = operators_of(program, found.graph_json)
    nodes = {
        vertex["vertex_id"]: list(
            dict.fromkeys(
                operators[each["operator_id"]] for each in vertex["operators"] if each["operator_id"] in operators
            )
        )
        for vertex in found.graph_json["vertices"]
    }
    return answer | {"plan": found.plan_json, "nodes": nodes, "warnings": list(found.warnings)}


def _texts(detail: Any) -> list[str]:
    return [str(each) for each in detail] if isinstance(detail, list) else [str(detail)]


def renamed(document: Document, node: str, port: str, column: str, to: str) -> dict[str, Any]:
    """Return what a rename of a column changes: see `runtime.pipeline.rename`.

    Raises:
        RefusedError: the column cannot be renamed.
    """
    if node not in document.nodes:
        raise RefusedError(f"There is no node {node!r}.")
    try:
        found = rename_column(document, catalog(), node, port, column, to)
    except RenameError as error:
        raise RefusedError(str(error)) from error
    return {"patch": list(found.patch), "nodes": list(found.nodes), "by_hand": list(found.by_hand)}
