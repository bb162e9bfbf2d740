"""What `tidemark pipeline` does with a file: read, validate, compile, format, test.

Imports the engine, which takes seconds; `pipeline_command` imports this module when it is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from runtime.client.errors import ClientError
from runtime.client.pipeline_tests import PipelineTestResult, run_pipeline_test
from runtime.client.terminal import FAILURE, SUCCESS, Terminal
from runtime.pipeline import (
    Document,
    DocumentError,
    Problem,
    canonical_text,
    compile_pipeline,
    load_catalog,
    read_document,
    validate,
)
from runtime.pipeline.document import MAX_BYTES
from runtime.pipeline.expectations import PipelineTestError, read_tests


def _read(path: Path) -> Document:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ClientError(f"{path} has more than {MAX_BYTES >> 20} MiB")
        return read_document(path.read_bytes().decode())
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ClientError(f"{path} is not UTF-8") from None
    except DocumentError as error:
        raise ClientError(f"{path}: {error}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror}") from None


def validate_file(options: argparse.Namespace, terminal: Terminal) -> int:
    """Say what is wrong with a pipeline; fails if it could not run."""
    document = _read(options.file)
    found = validate(document, load_catalog())
    lines = [_line(document, problem) for problem in found.problems]
    verdict = "can run" if found.is_deployable else "cannot run yet"
    terminal.result(
        {"deployable": found.is_deployable, "problems": [problem.to_json() for problem in found.problems]},
        *lines,
        f"{document.name}: {len(document.nodes)} nodes; it {verdict}",
    )
    return SUCCESS if found.is_deployable else FAILURE


def compile_file(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write the program that a pipeline stands for."""
    document = _read(options.file)
    program = compile_pipeline(document, load_catalog())
    for problem in program.problems:
        terminal.complain(_line(document, problem))
    if not program.is_deployable:
        raise ClientError(f"{options.file} cannot run yet: no program was written")
    if options.output is None:
        print(program.source, end="", file=terminal.out, flush=True)
    else:
        _write(options.output, program.source)
        terminal.line(f"Wrote {options.output}. Run it: tidemark run {options.output}")
    return SUCCESS


def format_file(options: argparse.Namespace, terminal: Terminal) -> int:
    """Rewrite a pipeline's file in its one order."""
    document = _read(options.file)
    text = canonical_text(document, load_catalog().param_orders)
    if text == options.file.read_text(encoding="utf-8"):
        terminal.line(f"{options.file} is in order")
        return SUCCESS
    _write(options.file, text)
    terminal.line(f"Rewrote {options.file}")
    return SUCCESS


def test_file(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the tests of a pipeline; fails if one of them does."""
    document, catalog = _read(options.file), load_catalog()
    try:
        tests = read_tests(document, catalog)
    except PipelineTestError as error:
        raise ClientError(f"{options.file}: {error}") from None
    missing = [name for name in options.only or () if name not in {test.name for test in tests}]
    if missing:
        raise ClientError(f"{options.file} has no test {missing[0]!r}")
    chosen = [test for test in tests if not options.only or test.name in options.only]
    if not chosen:
        raise ClientError(f"{options.file} has no tests")
    program = compile_pipeline(document, catalog)
    results = [run_pipeline_test(document, catalog, program, test) for test in chosen]
    failed = sum(not result.passed for result in results)
    terminal.result(
        {"passed": not failed, "tests": [result.to_json() for result in results]},
        *(line for result in results for line in _result_lines(document, result)),
        f"{document.name}: {len(results) - failed} of {len(results)} tests passed",
    )
    return FAILURE if failed else SUCCESS


def _result_lines(document: Document, result: PipelineTestResult) -> Iterator[str]:
    """Yield how a test went: "+" before rows that nobody expected, "-" before those that are missing."""
    yield f"{'passed' if result.passed else 'FAILED'}  {result.name}"
    if result.passed:
        return
    if result.message:
        yield f"  {result.message}"
    for (node, port), rows in result.rows.items():
        signs = {"missing": "-", "unexpected": "+"}
        lines = [f"    {signs[row.state]} {json.dumps(row.row)}" for row in rows if row.state in signs]
        if lines:
            yield f"  {document.nodes[node].name!r}, {port}:"
            yield from lines


def _line(document: Document, problem: Problem) -> str:
    where = "" if problem.node is None else f"{document.nodes[problem.node].name!r}: "
    return f"{problem.severity.value}: {where}{problem.message} [{problem.code.value}]"
