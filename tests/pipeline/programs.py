"""Runs programs of pipelines in this process: to their graph, or to their end on a MiniCluster."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runtime.client.preview_child import PreviewRun
from runtime.common.options import AUTO_WATERMARK_INTERVAL, EXECUTION_TARGET, RESTART_STRATEGY
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment
from runtime.execution.errors import JobExecutionError
from runtime.graph.changelog import changelogs
from runtime.graph.job_graph import JobGraph
from runtime.graph.validation import topological_order
from runtime.operators.source import Boundedness
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.pipeline import Program
from runtime.testing import ManualClock
from tests.pipeline.taps import TapSink


def executed(program: Program, file: str = "/somewhere/pipeline.py") -> dict[str, Any]:
    """Run a program up to its `execute()`; returns its names."""
    text, _, last = program.source.rstrip().rpartition("\n")
    assert ".execute(" in last
    names: dict[str, Any] = {"__name__": "a_pipeline", "__file__": file}
    exec(compile(text, file, "exec"), names)
    return names


def environment_of(names: dict[str, Any]) -> StreamExecutionEnvironment:
    return next(value for value in names.values() if isinstance(value, StreamExecutionEnvironment))


def graph_of(program: Program, name: str, file: str = "/somewhere/pipeline.py") -> JobGraph:
    """Return the job graph of a program."""
    return environment_of(executed(program, file)).create_job_graph(name)


class EngineView(NamedTuple):
    """Facts of a stream as the engine's graph has them."""

    type_info: TypeInformation | None
    ends: bool
    """Whether all sources above come to an end."""
    is_changelog: bool
    """Whether rows take others back."""


def seen_by_the_engine(program: Program) -> dict[tuple[str, str], EngineView]:
    """Return what the engine knows of the streams of a program, which is not run."""
    names = executed(program)
    streams = {place: names[variable] for place, variable in program.streams.items()}
    for place, stream in streams.items():
        stream.changelog_as_rows().sink_to(BlackHoleSink()).name("/".join(place))
    graph = environment_of(names).create_stream_graph("seen")
    order = topological_order(graph)
    leaving = changelogs(graph.nodes, graph.edges, order)
    ends: dict[int, bool] = {}
    for node_id in order:
        factory = graph.nodes[node_id].factory
        if isinstance(factory, SourceOperatorFactory):
            ends[node_id] = factory.source.boundedness is Boundedness.BOUNDED
        else:
            ends[node_id] = all(ends[edge.source] for edge in graph.in_edges(node_id))
    sinks = {node.name: node_id for node_id, node in graph.nodes.items() if node.is_sink}
    return {
        place: EngineView(
            stream.get_type(),
            ends[sinks["/".join(place)]],
            any(
                edge.source in leaving and edge.side_output_tag is None
                for edge in graph.in_edges(sinks["/".join(place)])
            ),
        )
        for place, stream in streams.items()
    }


def run_with_taps(
    program: Program,
    taps: Path,
    timeout_s: float = 60.0,
    watermark_interval: str | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[tuple[str, str], Any]:
    """Run a program on a MiniCluster to its end, with a tap at every port; returns the streams.

    Args:
        program: the program.
        taps: directory for what the taps write down.
        timeout_s: after so long the job is cancelled.
        watermark_interval: "0 ms": a watermark follows each row; None: as the program says, and its clock stands still.
        options: others of the job.
    """
    names = executed(program)
    env = environment_of(names)
    env.get_configuration().set_string(EXECUTION_TARGET.key, "mini-cluster")
    env.get_configuration().set_string(RESTART_STRATEGY.key, "none")
    if watermark_interval is not None:
        env.get_configuration().set_string(AUTO_WATERMARK_INTERVAL.key, watermark_interval)
    for key, value in (options or {}).items():
        env.get_configuration().set_string(key, value)
    streams = {place: names[variable] for place, variable in program.streams.items()}
    for (node, port), stream in streams.items():
        stream.sink_to(TapSink(str(taps), f"{node}.{port}")).name(f"tap {node}.{port}")
    handle = env.execute_async("tapped", clock=ManualClock(1_767_225_600_000)).handle
    try:
        handle.wait(timeout_s)
    except JobExecutionError:
        raise
    except BaseException:
        handle.cancel()
        raise
    return streams


def previewed(program: Program, file: Path, rows: int = 10_000) -> tuple[dict[tuple[str, str], Any], dict[str, Any]]:
    """Preview a program in this process; returns the last frame of each (node, port), and the end."""
    file.write_text(program.source, encoding="utf-8")
    lines = [[of.node, of.first, of.last] for of in program.source_map.statements if of.node is not None]
    streams = [[node, port, variable] for (node, port), variable in program.streams.items()]
    pipe = io.StringIO()
    request = {"program": str(file), "lines": lines, "streams": streams, "rows": rows, "wall_s": 60.0}
    end = PreviewRun(request, pipe).run()
    frames = [json.loads(line) for line in pipe.getvalue().splitlines()]
    return {(frame["node"], frame["port"]): frame for frame in frames}, end
