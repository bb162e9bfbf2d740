"""Plan extraction: runs a submitted program in a child process, only to learn which job it defines.

The program is code that nobody here trusts: the child has limits of memory, CPU and time, no network unless allowed, no
sight of other processes and of hidden places (`runtime.client.confinement`), an empty directory to work in, and an
environment without secrets; a launcher ends whatever it has started. What it answers is decoded
by `job_graph_from_json`, which loads no user code. Blocks for a second or more; any thread may call.
The child's side is `runtime.client.extract_child`.
"""

from __future__ import annotations

import json
import signal
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from runtime.client.children import MAX_ANSWER_BYTES, AnswerTooLargeError, ChildAbandonedError, ChildResult, run_child
from runtime.client.confinement import USUAL, Confinement
from runtime.client.errors import ExtractionAbandonedError, ExtractionError, late_text
from runtime.graph.codec import GraphFormatError, job_graph_from_json
from runtime.graph.job_graph import JobGraph
from runtime.graph.plan import job_plan

DEFAULT_TIMEOUT_S = 60.0
DEFAULT_MEMORY_BYTES = 4 << 30
"""Address space, not resident memory: Arrow and Polars alone reserve more than 1 GiB of it."""
ANSWER_S = 2.0
"""Time before the timeout in which a program that is still running is asked for the line that it is at."""
MESSAGE_TAIL_CHARS = 300
"""Of the output's last line, which says why the program gave up."""
ARCHIVE_SUFFIXES = (".zip", ".whl")


class StreamOutput(NamedTuple):
    """An output of an operator."""

    operator: str
    """Its id."""
    side_output: str
    """Id of the side output; empty: the main output."""


@dataclass(frozen=True, slots=True)
class ExtractedJob:
    """The job of a program."""

    graph: JobGraph
    graph_json: dict[str, Any]
    """`graph` as encoded by `job_graph_to_json`."""
    plan_json: dict[str, Any]
    """`runtime.graph.plan.job_plan`: what Flink's REST has under "plan"."""
    stdout_tail: str
    """End of the program's output, at most 64 KiB."""
    warnings: Sequence[str]
    """One line each."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Text of the program's files in which operators are defined, by name; see `runtime.client.program_text`."""
    streams: Mapping[str, Sequence[StreamOutput]] = field(default_factory=dict)
    """The outputs that streams of the program are made of, several after a union, by the names that were asked for."""


def extract_job_graph(
    program: Path,
    args: Sequence[str] = (),
    *,
    parallelism: int | None = None,
    configuration: Mapping[str, str] | None = None,
    entry: str | None = None,
    display_name: str | None = None,
    import_from: str | None = None,
    environment: Path | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    python_path: Sequence[Path] = (),
    streams: Sequence[str] = (),
    is_abandoned: Callable[[], bool] = lambda: False,
    confinement: Confinement = USUAL,
) -> ExtractedJob:
    """Run a program up to its `execute()` and return the job that it defines.

    Args:
        program: a `.py` file, or a `.zip` or `.whl` whose modules become importable, here and in the slots.
        args: the program's command line.
        parallelism: of operators that set none, >= 1; None: `parallelism.default` of the configuration, else 1.
        configuration: options that the program's own go before.
        entry: module in the archive that starts the job; None: its `__main__.py`.
        display_name: file name that messages show; None: that of `program`.
        import_from: where slots find an archive, a path or a URI; None: at `program`.
        environment: a directory with packages that the program needs beside the engine's.
        timeout_s: after so long the child is killed.
        memory_bytes: limit of the child's address space.
        python_path: directories to import from, beside the engine's own.
        streams: names of the program, a single file, that hold streams of which `ExtractedJob.streams` is to tell.
        is_abandoned: asked while the program runs; True kills it.
        confinement: what of this machine the program may see; itself, always.

    Raises:
        ExtractionError: the file is not a program, it failed, it defined no job, or a limit was hit.
        ExtractionAbandonedError: the job is no longer wanted.
    """
    program = program.resolve()
    name = display_name or program.name
    _check_program(program, name, entry)
    request = {
        "program": str(program),
        "display_name": name,
        "import_from": import_from or str(program),
        "entry": entry,
        "environment": None if environment is None else str(environment),
        "args": list(args),
        "parallelism": parallelism,
        "configuration": dict(configuration or {}),
        "streams": list(streams),
        "memory_bytes": memory_bytes,
        "cpu_s": int(timeout_s) + 1,
        "timeout_s": timeout_s,
        # the same clock for all processes of a machine
        "deadline_s": time.monotonic() + timeout_s - min(ANSWER_S, 0.25 * timeout_s),
    }
    readable = (*confinement.readable, str(program), *(() if environment is None else (str(environment),)))
    with tempfile.TemporaryDirectory(prefix="tidemark-extract-") as directory:
        try:
            result = run_child(
                "runtime.client.extract_child",
                json.dumps(request),
                Path(directory),
                timeout_s,
                python_path,
                is_abandoned,
                confinement=replace(confinement, readable=readable),
                memory_bytes=memory_bytes,
            )
        except ChildAbandonedError:
            raise ExtractionAbandonedError("the job is no longer wanted") from None
        except AnswerTooLargeError:
            raise ExtractionError(f"the job graph is larger than {MAX_ANSWER_BYTES >> 20} MiB") from None
    if result.timed_out and not result.has_begun:
        raise ExtractionError(f"the server is too busy: {name} had not even started after {timeout_s:g} s; try again")
    if result.timed_out:
        # it keeps its own thread from telling where it is
        raise ExtractionError(late_text(name, timeout_s), output=result.output)
    return _decode(result, name)


def _check_program(program: Path, name: str, entry: str | None) -> None:
    if not program.is_file():
        raise ExtractionError(f"{name}: no such file")
    if program.suffix not in (".py", *ARCHIVE_SUFFIXES):
        raise ExtractionError(f"{name} is not a program: it must be a .py, .zip or .whl file")
    if program.suffix == ".py":
        if entry is not None:
            raise ExtractionError(f"{name} is a single file: an entry module can be chosen for .zip and .whl only")
        return
    try:
        with zipfile.ZipFile(program) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError):
        raise ExtractionError(f"{name} is not a zip archive") from None
    if entry is None:
        if "__main__.py" not in names:
            raise ExtractionError(f"{name} has no __main__.py: name the module that starts the job as its entry")
        return
    path = entry.replace(".", "/")
    if f"{path}.py" not in names and f"{path}/__main__.py" not in names:
        raise ExtractionError(f"{name} has no module {entry}")


def _decode(result: ChildResult, name: str) -> ExtractedJob:
    try:
        answer = json.loads(result.answer) if result.answer else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        message = f"{name} ended {_how(result.exit_code)} before it defined a job"
        raise ExtractionError(_with_last_line(message, result.output), output=result.output)
    error = answer.get("error")
    if isinstance(error, dict):
        message, traceback = str(error.get("message")), str(error.get("traceback", ""))
        if error.get("exit_code"):
            message = _with_last_line(message, result.output)
        raise ExtractionError(message, traceback, result.output)
    try:
        graph = job_graph_from_json(answer.get("graph"))
    except GraphFormatError as broken:
        raise ExtractionError(f"{name}: {broken}", output=result.output) from None
    warnings, texts, streams = answer.get("warnings"), answer.get("texts"), answer.get("streams")
    return ExtractedJob(
        graph=graph,
        graph_json=answer["graph"],
        plan_json=job_plan(graph),
        stdout_tail=result.output,
        warnings=tuple(str(line) for line in warnings) if isinstance(warnings, list) else (),
        texts={str(file): str(text) for file, text in texts.items()} if isinstance(texts, dict) else {},
        streams=_streams(streams, graph) if isinstance(streams, dict) else {},
    )


def _streams(answer: Mapping[str, Any], graph: JobGraph) -> dict[str, Sequence[StreamOutput]]:
    """Return what a child has told of streams, without those of which a part is unknown to the graph."""
    known: set[str] = {operator.operator_id for vertex in graph.vertices for operator in vertex.operators}

    def is_known(output: object) -> bool:
        match output:
            case [str(operator), str()]:
                return operator in known
        return False

    return {
        name: [StreamOutput(*output) for output in outputs]
        for name, outputs in answer.items()
        if isinstance(outputs, list) and all(map(is_known, outputs))
    }


def _with_last_line(message: str, output: str) -> str:
    """Add the output's last line, in which a program that gives up (by argparse, for one) says why."""
    lines = output.strip().splitlines()
    return f"{message}: {lines[-1].strip()[:MESSAGE_TAIL_CHARS]}" if lines else message


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    with suppress(ValueError):
        return f"by {signal.Signals(-exit_code).name}"
    return f"by signal {-exit_code}"
