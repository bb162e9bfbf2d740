"""The child's side of a preview: runs a program up to its `execute()`, then its job, with taps, in this process.

    python -m runtime.client.preview_child FD LIFELINE < request.json

Not for use by hand: `runtime.client.preview` starts it. Frames go to FD as lines of JSON. One thread runs everything.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from runtime.client.child_process import begin, limit, names_of
from runtime.client.preview_samples import GivenRowError, give
from runtime.client.preview_taps import (
    FIRST_ROWS,
    LimitedSource,
    SourcesEnd,
    Tap,
    TapSink,
    is_given,
    limited_sources,
)
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.secrets import GivenSecrets
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import new_job_id
from runtime.datastream import DataStream
from runtime.datastream.extraction import install_extraction
from runtime.execution.mini_cluster import MiniCluster
from runtime.graph.chaining import create_job_graph
from runtime.graph.stream_graph import StreamGraph
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.job_state import JobState
from runtime.operators.sink_operator import SinkOperatorFactory
from runtime.operators.source import Boundedness
from runtime.operators.source_operator import SourceOperatorFactory

FRAMES_S = 0.25
"""Time until the first frames; the times between further ones double, so that a long preview has not more to show."""
SOURCES_SHARE = 0.6
"""Of the time and CPU time that are left when the first source is asked: they end then, and what they have emitted has
the rest."""
BOUNDED_SHARE = 0.85
"""The same where all sources come to an end by themselves: all of their rows are wanted, if that can be."""
#: of the job that is previewed: it starts once, keeps nothing, and has as much memory as its rows need
_OPTIONS = {options.RESTART_STRATEGY.key: "none", options.PARALLELISM_DEFAULT.key: "1"}


class _ProgramEnd(BaseException):
    """Ends the program at its `execute()`."""


class _Recorder:
    """The Extraction of this process: keeps what the program has defined, with taps at its streams.

    Args:
        program: path of the program.
        tapped: puts taps at the streams among the program's names.
    """

    def __init__(self, program: str, tapped: Callable[[Mapping[str, Any]], StreamGraph | None]) -> None:
        self.configuration = Configuration.from_dict(dict(_OPTIONS))
        self.graph: StreamGraph | None = None
        self._program = program
        self._tapped = tapped

    def executed(self, graph: StreamGraph) -> NoReturn:
        """Keep the job, end the program."""
        if self.graph is None:
            self.graph = self._tapped(names_of(self._program)) or graph
        raise _ProgramEnd


class _SimulatedClock:
    """A clock that the cluster moves to its next deadline."""

    def __init__(self) -> None:
        self._start_ms = SYSTEM_CLOCK.now_ms()
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        return self._elapsed_ms

    def advance(self, ms: float) -> None:
        self._elapsed_ms += ms


class _Lines:
    """Tells which node has made a line of the program."""

    def __init__(self, lines: Sequence[tuple[str, int, int]]) -> None:
        self._lines = lines

    def node_at(self, line: int) -> str | None:
        return next((node for node, first, last in self._lines if first <= line <= last), None)

    def node_of(self, defined_at: str) -> str | None:
        _, _, line = defined_at.rpartition(":")
        return self.node_at(int(line)) if line.isdecimal() else None


def main() -> NoReturn:
    """Preview the program that stdin describes; never returns, whatever threads the program has left."""
    answer_fd, request = begin()
    limit(request["memory_bytes"], request["cpu_s"])
    with os.fdopen(answer_fd, "w", encoding="utf-8") as pipe:
        if "given_in" in request:
            request["given"] = json.loads(Path(request["given_in"]).read_text(encoding="utf-8"))
        end = PreviewRun(request, pipe).run()
        sys.stdout.flush()
        sys.stderr.flush()
        pipe.write(json.dumps({"kind": "end", **end}) + "\n")
    os._exit(0)


class PreviewRun:
    """One preview, in this process.

    Args:
        request: "program" (path), "lines" ([node, first, last]), "streams" ([node, port, variable]), "rows" of each
            source, "wall_s"; optional: "cpu_s" (limit of this process's CPU time), "given" (node → "items" of
            `GivenSource` in place of what it makes, "time_column"), "whole" (number of rows that every port shows; all
            of them or the first), "secrets" ([name, key, value]).
        pipe: frames of ports are written to it, a line each.
    """

    def __init__(self, request: Mapping[str, Any], pipe: TextIO) -> None:
        self._request = dict(request)
        self._pipe = pipe
        self._program = str(request["program"])
        self._lines = _Lines([(node, first, last) for node, first, last in request["lines"]])
        self._taps: list[Tap] = []
        self._sent: dict[int, int] = {}
        self._simulated: bool | None = None

    def run(self) -> dict[str, Any]:
        """Run it to its end, however that comes; return the last frame, without its kind."""
        deadline = time.monotonic() + float(self._request["wall_s"])
        try:
            graph = self._defined()
            if graph is None:
                return self._end("failed", "The program does not reach execute().")
            return self._run(graph, deadline)
        except MemoryError:
            return self._end("failed", "The preview exceeded its memory limit.")
        except GivenRowError as error:
            return self._end("failed", str(error), error.node)
        except BaseException as error:
            return self._failed(error)

    def _defined(self) -> StreamGraph | None:
        recorder = _Recorder(self._program, self._tapped)
        install_extraction(recorder)
        sys.argv = [self._program]
        try:
            runpy.run_path(self._program, run_name="__main__")
        except _ProgramEnd:
            pass
        finally:
            install_extraction(None)
        return recorder.graph

    def _run(self, graph: StreamGraph, deadline: float) -> dict[str, Any]:
        self._give(graph)
        self._simulated = not any(node.factory.source.is_outside for node in graph.nodes.values() if node.is_source)
        self._limit(graph, self._sources_end(graph, deadline))
        clock: Clock = _SimulatedClock() if self._simulated else SYSTEM_CLOCK
        outputs = ClientOutputs()
        secrets = GivenSecrets({(name, key): value for name, key, value in self._request.pop("secrets", ())})
        cluster = MiniCluster(create_job_graph(graph, new_job_id()), outputs, clock, secrets=secrets)
        between_s = FRAMES_S
        due = time.monotonic() + between_s
        timed_out = False
        while not cluster.driver.ended.is_set():
            cluster.step()
            now = time.monotonic()
            if now >= due:
                self._send()
                between_s *= 2
                due = now + between_s
            if now >= deadline and not timed_out:
                timed_out = True
                cluster.cancel()
        self._send()
        status = cluster.driver.status()
        if timed_out:
            return self._end("timed out", f"The preview was stopped after {self._request['wall_s']:g} s.")
        if status.state is JobState.FINISHED:
            return self._end("finished", "")
        cause = status.exceptions[-1].cause if status.exceptions else None
        if cause is None:
            return self._end("failed", f"The job has ended as {status.state.name}.")
        node = self._lines.node_of(cause.defined_at)
        return self._end("failed", cause.message, node, self._line_in(cause.traceback), cause.traceback)

    def _tapped(self, names: Mapping[str, Any]) -> StreamGraph | None:
        """Put a tap at every output of every node, whether something reads it or not; return the program with them."""
        graph = None
        for node, port, variable in self._request["streams"]:
            stream = names.get(variable)
            if isinstance(stream, DataStream):
                tap = self._new_tap(node, port)
                name = f"tap {tap.tap_id}"
                stream.sink_to(TapSink(tap.tap_id)).name(name).uid(f"preview/tap/{tap.tap_id}")
                graph = stream.get_execution_environment().create_stream_graph(None)
        return graph

    def _give(self, graph: StreamGraph) -> None:
        """Put given rows in the place of what nodes make."""
        for name, given in self._request.get("given", {}).items():
            own = [tap for tap in self._taps if tap.node == name]
            if not own:
                continue
            tap = next((tap for tap in own if tap.port == "out"), own[0])
            [edge, *others] = graph.in_edges(self._tap_nodes(graph)[tap.tap_id])
            output = graph.nodes[edge.source]
            if others or edge.side_output_tag is not None or self._lines.node_of(output.defined_at) != name:
                raise GivenRowError(name, 0, "this node only passes on rows of other nodes")
            try:
                give(graph, output, given["items"], given.get("time_column"))
            except GivenRowError as error:
                error.node = name
                raise

    @staticmethod
    def _tap_nodes(graph: StreamGraph) -> dict[int, int]:
        """Return tap → operator."""
        sinks = {node_id: node.factory.sink for node_id, node in graph.nodes.items() if node.is_sink}
        return {sink.tap_id: node_id for node_id, sink in sinks.items() if isinstance(sink, TapSink)}

    def _sources_end(self, graph: StreamGraph, deadline: float) -> SourcesEnd:
        """Return when sources have had their share of what is left."""
        sources = [node.factory.source for node in graph.nodes.values() if node.is_source]
        is_bounded = all(source.boundedness is Boundedness.BOUNDED for source in sources)
        share = BOUNDED_SHARE if is_bounded else SOURCES_SHARE
        cpu_s = float(self._request.get("cpu_s", math.inf))
        return SourcesEnd(deadline, cpu_s, share, self._simulated is True)

    def _limit(self, graph: StreamGraph, end: SourcesEnd) -> None:
        """Let sources end early, and put taps in the place of sinks."""
        # rows are shown as they come, whatever the execution
        left_out = ("execution.checkpointing.", options.EXECUTION_MODE.key)
        configuration = {k: v for k, v in graph.configuration.items() if not k.startswith(left_out)}
        graph.configuration = {**configuration, **_OPTIONS}
        for node in graph.nodes.values():
            node.parallelism = 1
            owner = self._lines.node_of(node.defined_at)
            if node.is_source and not is_given(node.factory.source):
                factory: SourceOperatorFactory = node.factory
                rows = int(self._request["rows"])
                limited = LimitedSource(factory.source, rows, end, owner or node.name)
                node.factory = dataclasses.replace(factory, source=limited)
            if node.is_sink and not isinstance(node.factory.sink, TapSink):
                tap = self._new_tap(owner, "in")
                incoming = next((edge for edge in graph.edges if edge.target == node.node_id), None)
                row = None if incoming is None else incoming.record_type or graph.nodes[incoming.source].output_type
                node.factory = SinkOperatorFactory(TapSink(tap.tap_id), row)
                node.is_stateful = False

    def _new_tap(self, node: str | None, port: str) -> Tap:
        tap = Tap.create(node, port, max(FIRST_ROWS, int(self._request.get("whole", FIRST_ROWS))))
        self._taps.append(tap)
        return tap

    def _send(self) -> None:
        for tap in self._taps:
            if tap.node is not None and self._sent.get(tap.tap_id) != tap.version:
                self._sent[tap.tap_id] = tap.version
                self._pipe.write(json.dumps({"kind": "port", **tap.to_json()}) + "\n")
        self._pipe.flush()

    def _failed(self, error: BaseException) -> dict[str, Any]:
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == self._program else None
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == self._program:
                line = frame.lineno
        text = "".join(traceback.format_exception(error)).replace(self._program, "pipeline.py")
        message = f"{type(error).__name__}: {error}"
        return self._end("failed", message, None if line is None else self._lines.node_at(line), line, text)

    def _line_in(self, text: str) -> int | None:
        """Return the program's last line in a traceback."""
        found = None
        for part in text.splitlines():
            if self._program in part and ", line " in part:
                number = part.partition(", line ")[2].partition(",")[0].strip()
                found = int(number) if number.isdecimal() else found
        return found

    def _end(
        self, state: str, message: str, node: str | None = None, line: int | None = None, trace: str = ""
    ) -> dict[str, Any]:
        if node is None and line is not None:
            node = self._lines.node_at(line)
        return {
            "state": state,
            "message": message.replace(self._program, "pipeline.py"),
            "node": node,
            "line": line,
            "traceback": trace.replace(self._program, "pipeline.py"),
            "simulated": self._simulated,
            "limited": limited_sources(),
        }


if __name__ == "__main__":
    main()
