"""Plan extraction: runs a submitted program in a child process, only to learn which job it defines.

The program is code that nobody here trusts: the child has limits of memory, CPU and time, a process group of its own
that is killed at the end, an empty directory to work in, and an environment without secrets. What it answers is decoded
by `job_graph_from_json`, which loads no user code. Blocks for a second or more; any thread may call.
The child's side is `runtime.client.extract_child`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import runtime
from runtime.client.errors import ExtractionAbandonedError, ExtractionError
from runtime.graph.codec import GraphFormatError, job_graph_from_json
from runtime.graph.job_graph import JobGraph
from runtime.graph.plan import job_plan

DEFAULT_TIMEOUT_S = 60.0
DEFAULT_MEMORY_BYTES = 4 << 30
"""Address space, not resident memory: Arrow and Polars alone reserve more than 1 GiB of it."""
OUTPUT_TAIL_BYTES = 64 << 10
"""Last part of the program's output that is kept; the rest is dropped while it runs."""
MESSAGE_TAIL_CHARS = 300
"""Of the output's last line, which says why the program gave up."""
MAX_ANSWER_BYTES = 64 << 20
"""Largest job graph that is taken; a graph is as large as the user code and the collections in it."""
EXIT_GRACE_S = 1.0
"""Time that a child may take to end after it has closed its answer's pipe; its last words come within it."""
OVERTIME_S = 0.2
"""Time for which output that does not stop is read after the timeout."""
CHECK_S = 0.25
"""Interval of asking whether the job is still wanted."""
ARCHIVE_SUFFIXES = (".zip", ".whl")
#: the only variables of this process that a program sees
INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "JAVA_HOME", "LD_LIBRARY_PATH", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class ExtractedJob:
    """The job of a program."""

    graph: JobGraph
    graph_json: dict[str, Any]
    """What `job_graph_to_json` makes of `graph`."""
    plan_json: dict[str, Any]
    """`runtime.graph.plan.job_plan`: what Flink's REST has under "plan"."""
    stdout_tail: str
    """What the program printed last, at most 64 KiB."""
    warnings: Sequence[str]
    """One line each."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The child's answer."""

    answer: bytes
    output: str
    timed_out: bool
    exit_code: int


def extract_job_graph(
    program: Path,
    args: Sequence[str] = (),
    *,
    parallelism: int | None = None,
    configuration: Mapping[str, str] | None = None,
    entry: str | None = None,
    display_name: str | None = None,
    import_from: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    python_path: Sequence[Path] = (),
    is_abandoned: Callable[[], bool] = lambda: False,
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
        timeout_s: after so long the child is killed.
        memory_bytes: limit of the child's address space.
        python_path: directories to import from, beside the engine's own.
        is_abandoned: asked while the program runs; True kills it.

    Raises:
        ExtractionError: the program is none, it failed, it defined no job, or a limit was hit.
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
        "args": list(args),
        "parallelism": parallelism,
        "configuration": dict(configuration or {}),
        "memory_bytes": memory_bytes,
        "cpu_s": int(timeout_s) + 1,
    }
    with tempfile.TemporaryDirectory(prefix="tidemark-extract-") as directory:
        result = _run_child(json.dumps(request), Path(directory), timeout_s, python_path, is_abandoned)
    if result.timed_out:
        raise ExtractionError(
            f"{name} did not get to execute() within {timeout_s:g} s and was stopped", output=result.output
        )
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


def _run_child(
    request: str, directory: Path, timeout_s: float, python_path: Sequence[Path], is_abandoned: Callable[[], bool]
) -> _Answer:
    answer_read, answer_write = os.pipe()
    # only this process holds the write end, so that the pipe ends with it, however it ends
    lifeline_read, lifeline_write = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "runtime.client.extract_child", str(answer_write), str(lifeline_read)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=_environment(directory, python_path),
            pass_fds=(answer_write, lifeline_read),
            start_new_session=True,
        )
    except BaseException:
        os.close(answer_read)
        os.close(lifeline_write)
        raise
    finally:
        os.close(answer_write)
        os.close(lifeline_read)
    assert process.stdin is not None and process.stdout is not None
    with os.fdopen(answer_read, "rb", buffering=0), process.stdin, process.stdout:
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(request.encode())
                process.stdin.close()
            answer, output, timed_out = _read_both(answer_read, process.stdout.fileno(), timeout_s, is_abandoned)
            if not timed_out:
                # it is about to end; its exit code may tell why there is no answer
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EXIT_GRACE_S)
        finally:
            # whatever the program has started goes with it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            exit_code = process.wait()
            os.close(lifeline_write)
    return _Answer(answer, output, timed_out, exit_code)


def _environment(directory: Path, python_path: Sequence[Path]) -> dict[str, str]:
    """Return the child's environment. It inherits nothing by default: tokens, passwords and URLs of this process are
    none of the program's business.
    """
    own = Path(runtime.__file__).resolve().parent.parent
    return {
        **{name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        # defining a job is no heavy work, and threads in numbers would use up the address space on a large machine
        **dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(path) for path in (own, *python_path))),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _read_both(
    answer_fd: int, output_fd: int, timeout_s: float, is_abandoned: Callable[[], bool]
) -> tuple[bytes, str, bool]:
    """Read until the child has answered or is gone, or its time is over: (answer, tail of the output, timed out)."""
    deadline = time.monotonic() + timeout_s
    answer, output = bytearray(), bytearray()
    timed_out = True
    with selectors.DefaultSelector() as selector:
        selector.register(answer_fd, selectors.EVENT_READ)
        selector.register(output_fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(min(CHECK_S, max(0.0, deadline - time.monotonic())))
            if is_abandoned():
                raise ExtractionAbandonedError("the job is no longer wanted")
            if not ready and time.monotonic() >= deadline:
                return bytes(answer), _tail(output), timed_out
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fd)
                    if key.fd == answer_fd:
                        # the child has answered or is dying. A process that it left behind may hold the other pipe for
                        # ever: only what is in it now is of interest
                        timed_out = False
                        deadline = min(deadline, time.monotonic() + (0.0 if answer else EXIT_GRACE_S))
                elif key.fd == answer_fd:
                    answer += chunk
                    if len(answer) > MAX_ANSWER_BYTES:
                        raise ExtractionError(f"the job graph is larger than {MAX_ANSWER_BYTES >> 20} MiB")
                else:
                    output += chunk
                    if len(output) > 2 * OUTPUT_TAIL_BYTES:
                        del output[:-OUTPUT_TAIL_BYTES]
            if time.monotonic() > deadline + OVERTIME_S:
                # it writes without a pause, so that there is always something to read
                return bytes(answer), _tail(output), timed_out
    return bytes(answer), _tail(output), False


def _tail(output: bytearray) -> str:
    return output[-OUTPUT_TAIL_BYTES:].decode(errors="replace")


def _decode(result: _Answer, name: str) -> ExtractedJob:
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
    warnings = answer.get("warnings")
    return ExtractedJob(
        graph=graph,
        graph_json=answer["graph"],
        plan_json=job_plan(graph),
        stdout_tail=result.output,
        warnings=tuple(str(line) for line in warnings) if isinstance(warnings, list) else (),
    )


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
