"""The child's side of plan extraction: runs one program as `__main__` and answers with its job on a pipe.

    python -m runtime.client.extract_child FD LIFELINE < request.json

Not for use by hand: `runtime.client.extract` starts it. Everything that the program prints goes to stderr's place; the
answer, {"graph", "warnings", "texts", "streams"} or {"error": {"message", "traceback"}}, is the only thing written to
FD. LIFELINE is a pipe that ends with the process that started this one.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from runtime.client.child_process import begin, limit, names_of
from runtime.client.errors import late_text
from runtime.client.hints import hint
from runtime.client.later_executions import Program, later_executions
from runtime.client.program_text import texts_of
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.ids import new_job_id, operator_id_of
from runtime.datastream import DataStream, DataStreamError, StreamExecutionEnvironment
from runtime.datastream.extraction import install_extraction
from runtime.datastream.option_notes import former_keys, ignored_options, unknown_options
from runtime.graph.chaining import create_job_graph, stateful_operators_without_uid, uids_of
from runtime.graph.codec import job_graph_to_json
from runtime.graph.stream_graph import StreamGraph, StreamNode
from runtime.operators.sink import Sink
from runtime.operators.source import Source


class ProgramEnd(BaseException):
    """Ends the program at its `execute()`. Not an Exception: the program's own `except Exception` must let it pass."""


class GraphRecorder:
    """The Extraction of this process: keeps the job that the program executes.

    Args:
        configuration: options that every environment starts with.
        given: keys of the options that the program was submitted with.
        program: the program's file.
        import_from: where slots find it, if it is an archive.
        name: of that file, as its user knows it.
        streams: names of the program whose streams are asked for.
    """

    def __init__(
        self,
        configuration: Configuration,
        given: Iterable[str],
        program: Path,
        import_from: str,
        name: str,
        streams: Sequence[str],
    ) -> None:
        self.configuration = configuration
        self._given = tuple(given)
        self._program = program
        self._name = name
        self._streams = streams
        #: slots import from an archive, too
        self._python_files = import_from if program.suffix != ".py" else None
        self.answer: dict[str, Any] | None = None
        self.refusal: DataStreamError | None = None
        """Raised at every execution: the program may have caught the first."""

    def executed(self, graph: StreamGraph) -> NoReturn:
        """Keep the job, end the program.

        Raises:
            GraphError: the program cannot run; told as the program's error, with its line.
            DataStreamError: it executes another job afterwards; the same.
        """
        if self.answer is None:
            if self.refusal is not None:
                raise self.refusal
            later = self._later_executions()
            submitted = self._as_submitted(graph)
            places = [node.defined_at.rpartition(":")[0] for node in submitted.nodes.values()]
            self.answer = {
                "graph": job_graph_to_json(create_job_graph(submitted, new_job_id())),
                "warnings": [*later, *_warnings(graph, self._given)],
                "texts": texts_of(self._program, self._name, places),
                "streams": self._named_streams(submitted),
            }
        raise ProgramEnd

    def _named_streams(self, graph: StreamGraph) -> dict[str, list[tuple[str, str]]]:
        """Return name → operator id and side output of each output that the stream of that name is made of."""
        names = names_of(str(self._program))
        streams = {name: names.get(name) for name in self._streams}
        uids = uids_of(graph) if streams else {}
        found: dict[str, list[tuple[str, str]]] = {}
        for name, stream in streams.items():
            # no reason to refuse the program: its job runs without these
            with suppress(Exception):
                if isinstance(stream, DataStream):
                    found[name] = [(operator_id_of(uids[node_id]), tag or "") for node_id, tag in stream.outputs()]
        return found

    def _later_executions(self) -> list[str]:
        """Return warnings about jobs that may follow.

        Raises:
            DataStreamError: one certainly does.
        """
        shown = str(self._program)
        program = Program(
            is_own_file=lambda file: file.startswith(shown),
            is_environment=lambda value: isinstance(value, StreamExecutionEnvironment),
        )
        later = later_executions(sys._getframe(), program)
        if not later:
            return []
        call = next((call for call in later if call.is_certain), later[0])
        where = f"{_shown_file(call.file, self._program, self._name)}, line {call.line}"
        if call.is_certain:
            self.refusal = DataStreamError(
                f"the program executes a second job ({where}): a submitted program ends at its first execute(). "
                "Define both in one job, or submit one program for each"
            )
            raise self.refusal
        return [f"a submitted program ends at its first execute(): a later one ({where}) is never reached"]

    def _as_submitted(self, graph: StreamGraph) -> StreamGraph:
        """Return the graph with the files that slots need, and with places under the names that the user knows."""
        for node in graph.nodes.values():
            file, _, line = node.defined_at.rpartition(":")
            if file.startswith(str(self._program)):
                node.defined_at = f"{_shown_file(file, self._program, self._name)}:{line}"
        if self._python_files is not None:
            key = options.PYTHON_FILES.key
            files = [self._python_files, *filter(None, [graph.configuration.get(key)])]
            graph.configuration = {**graph.configuration, key: ",".join(files)}
        return graph


def _warnings(graph: StreamGraph, given: Iterable[str]) -> list[str]:
    """Return warnings about a program.

    Args:
        graph: what it has defined.
        given: keys of the options that it was submitted with.
    """
    found = [f"{old} is a former key: write {new}" for old, new in former_keys(graph.configuration).items()]
    found += [f"{key} has no effect: {reason}" for key, reason in ignored_options(graph.configuration).items()]
    found += [f"{key} is not a known option: only the program itself can read it" for key in unknown_options(given)]
    found += [_about_relative(node.display_name, paths) for node in graph.nodes.values() if (paths := _relative(node))]
    names = stateful_operators_without_uid(graph)
    if names:
        advice = "give each a .uid(), or a changed program may not find its state again"
        found.append(f"no uid: {', '.join(names)}; {advice}")
    return found


def _relative(node: StreamNode) -> list[str]:
    """Return the relative paths that a source or sink uses."""
    used = getattr(node.factory, "source", None) or getattr(node.factory, "sink", None)
    paths = used.paths() if isinstance(used, Source | Sink) else ()
    return [path for path in paths if not Path(path).is_absolute()]


def _about_relative(name: str, paths: Sequence[str]) -> str:
    shown = ", ".join(paths)
    return (
        f"{name} uses a relative path, {shown}: it is looked for on the TaskManagers' machines, relative to their "
        "working directories; write an absolute path that is the same on all of them"
    )


def main() -> NoReturn:
    """Run the program that stdin describes and answer; never returns, whatever threads the program has left."""
    answer_fd, request = begin()
    limit(request["memory_bytes"], request["cpu_s"])
    answering = threading.Lock()

    def answer(document: dict[str, Any]) -> None:
        # once only: never released
        answering.acquire()
        with os.fdopen(answer_fd, "w", encoding="utf-8") as pipe:
            json.dump(document, pipe)
        os._exit(0)

    left_s = max(0.0, request["deadline_s"] - time.monotonic())
    timer = threading.Timer(left_s, lambda: answer(_late(request)))
    timer.daemon = True
    timer.start()
    done = run_program(request)
    sys.stdout.flush()
    sys.stderr.flush()
    answer(done)
    raise AssertionError("the process has ended")


def run_program(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program up to its `execute()`.

    Args:
        request: program (path), display_name, import_from, entry, environment, args, parallelism, configuration,
            streams.

    Returns:
        The answer.
    """
    path = Path(request["program"])
    is_archive = path.suffix != ".py"
    try:
        configuration = _configuration(request)
    except ConfigurationError as error:
        return _error(str(error))
    name: str = request["display_name"]
    recorder = GraphRecorder(
        configuration, request["configuration"], path, request["import_from"], name, request["streams"]
    )
    install_extraction(recorder)
    sys.argv = [str(path), *request["args"]]
    if request["environment"] is not None:
        # last, as in slots
        sys.path.append(request["environment"])
    try:
        if is_archive and request["entry"] is not None:
            sys.path.insert(0, str(path))
            runpy.run_module(request["entry"], run_name="__main__", alter_sys=True)
        else:
            if is_archive:
                sys.path.insert(0, str(path))
            runpy.run_path(str(path), run_name="__main__")
    except ProgramEnd:
        pass
    except SystemExit as end:
        if recorder.answer is None:
            text = f": {end.code}" if isinstance(end.code, str) else f" (exit code {end.code or 0})"
            answer = _error(f"{name} ended without a call of execute(){text}")
            if isinstance(end.code, int):
                answer["error"]["exit_code"] = end.code
            return answer
    except MemoryError:
        if recorder.answer is None:
            return _error(f"{name} needs more than {request['memory_bytes'] >> 20} MiB of memory to define its job")
    except BaseException as error:
        # after execute() a program may fail as it likes: it has been stopped in the middle of its code
        if recorder.answer is None:
            return _describe(error, path, name)
    if recorder.answer is None:
        why = recorder.refusal or "ended without a call of execute(): it defines no job"
        return _error(f"{name}: {why}" if recorder.refusal else f"{name} {why}")
    return recorder.answer


def _configuration(request: dict[str, Any]) -> Configuration:
    configuration = Configuration.from_dict(request["configuration"])
    if request["parallelism"] is not None:
        configuration.set(options.PARALLELISM_DEFAULT, request["parallelism"])
    elif configuration.get(options.PARALLELISM_DEFAULT) is None:
        # the CPUs of this machine say nothing about the cluster's slots
        configuration.set(options.PARALLELISM_DEFAULT, 1)
    return configuration


def _error(message: str, details: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "traceback": details}}


def _late(request: dict[str, Any]) -> dict[str, Any]:
    """Describe a program that is still running, at the line of its own that its main thread is at."""
    shown, name = request["program"], request["display_name"]
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    stack = traceback.extract_stack(frame)
    own = [index for index, entry in enumerate(stack) if entry.filename.startswith(shown)]
    message = late_text(name, request["timeout_s"])
    if not own:
        return _error(message)
    at = stack[own[-1]]
    where = f" at {_shown_file(at.filename, Path(shown), name)}, line {at.lineno}"
    lines = "".join(traceback.format_list(stack[own[0] :])).replace(shown, name)
    return _error(message + where + (f": {at.line}" if at.line else ""), lines)


def _describe(error: BaseException, path: Path, name: str) -> dict[str, Any]:
    """Describe the error at the user's line; of the traceback, keep what lies below the first line of the program."""
    shown = str(path)
    text = " ".join(str(error).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename is not None and error.filename.startswith(shown):
        line = f"{_shown_file(error.filename, path, name)}, line {error.lineno}"
        return _error(f"{line}: {type(error).__name__}: {error.msg}", "".join(traceback.format_exception_only(error)))
    frames = [
        frame for frame in traceback.extract_tb(_from_user(error.__traceback__, shown)) if frame.filename != __file__
    ]
    own = [frame for frame in frames if frame.filename.startswith(shown)]
    where = f"{_shown_file(own[-1].filename, path, name)}, line {own[-1].lineno}: " if own else f"{name}: "
    lines = traceback.format_list(frames) + traceback.format_exception_only(error)
    advice = hint(error, name, is_archive=path.suffix != ".py")
    return _error(where + what + (f" ({advice})" if advice else ""), "".join(lines).replace(shown, name))


def _from_user(trace: TracebackType | None, program: str) -> TracebackType | None:
    """Return the traceback from the program's first frame on; all of it if it has none."""
    step = trace
    while step is not None:
        if step.tb_frame.f_code.co_filename.startswith(program):
            return step
        step = step.tb_next
    return trace


def _shown_file(filename: str, path: Path, name: str) -> str:
    inner = filename.removeprefix(str(path)).lstrip(os.sep)
    return f"{name}/{inner}" if inner else name


if __name__ == "__main__":
    main()
