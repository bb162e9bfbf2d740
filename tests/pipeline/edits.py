"""Makes edits of pipelines at random, of the kinds that matter to state, and runs a pipeline before and after an edit.

The sources of the first run hold their end back, so that its savepoint has state in it.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.checkpoint.compatibility import CompatibilityReport, Verdict, compatibility
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.common.options import IGNORE_UNCLAIMED_STATE, RECOVERY_PATH, RESTART_STRATEGY
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.ids import new_job_id
from runtime.graph.chaining import create_job_graph
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.operators.source import (
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.pipeline import Catalog, Program, StreamFacts, compile_pipeline, read_document, validate
from runtime.testing.collecting_sink import CollectingSink
from tests.checkpoint.running_jobs import JobClock, RunningJob, options_of
from tests.pipeline.generator import Grown, grown
from tests.pipeline.programs import environment_of, executed

Value = dict[str, Any]
Place = tuple[str, str]
"""A node and one of its output ports."""

STATEFUL = (
    "window.aggregate",
    "aggregate",
    "deduplicate",
    "top_n",
    "window.top_n",
    "join.window",
    "join.interval",
    "join.version",
    "window.python",
    "python.process",
    "python.broadcast",
    "sink.files",
)
"""Types of which each pair has at least one."""


# --- edits ------------------------------------------------------------------------------------------------------------


class Edits:
    """Edits of one document.

    Args:
        draw: where choices come from.
        document: is changed.
        catalog: of its types.
        directory: for files of sources and sinks.
    """

    def __init__(self, draw: random.Random, document: Value, catalog: Catalog, directory: Path) -> None:
        self.draw = draw
        self.document = document
        self.nodes: dict[str, Value] = document["nodes"]
        self.edges: dict[str, Value] = document["edges"]
        self._facts = validate(read_document(document), catalog).facts
        self._shapes = Grown(draw, catalog, directory)

    def having(self, *params: str) -> Value | None:
        """Return a node with all of these parameters."""
        found = [node for node in self.nodes.values() if all(node["params"].get(name) for name in params)]
        return self.draw.choice(found) if found else None

    def input_of(self, node: Value) -> StreamFacts | None:
        """Return what a node gets at its first input."""
        (node_id,) = [node_id for node_id, other in self.nodes.items() if other is node]
        for edge in self.edges.values():
            if edge["to"][0] == node_id:
                source, port = edge["from"]
                facts = self._facts.get((source, port))
                return facts if isinstance(facts, StreamFacts) else None
        return None

    def change_key(self) -> bool:
        node = self.having("keys")
        facts = None if node is None else self.input_of(node)
        if node is None or facts is None:
            return False
        node["params"]["keys"] = self._shapes.some(self._shapes.keys(facts))
        return True

    def change_column_type(self) -> bool:
        node = self.having("type")
        if node is None:
            return False
        column = self.draw.choice(node["params"]["type"])
        column[1] = self.draw.choice([kind for kind in ("long", "double", "string", "int") if kind != column[1]])
        return True

    def add_aggregate(self) -> bool:
        node = self.having("aggregates")
        facts = None if node is None else self.input_of(node)
        if node is None or facts is None:
            return False
        node["params"]["aggregates"].append(["another", f"max({self._shapes.number(facts)})"])
        return True

    def remove_aggregate(self) -> bool:
        node = self.having("aggregates")
        if node is None or len(node["params"]["aggregates"]) < 2:
            return False
        node["params"]["aggregates"].pop()
        return True

    def change_aggregate(self) -> bool:
        node = self.having("aggregates")
        if node is None:
            return False
        changes = (("sum(", "max("), ("max(", "min("), ("last(", "first("), ("avg(", "sum("), ("count(*)", "count(1)"))
        before, after = self.draw.choice(changes)
        aggregate = self.draw.choice(node["params"]["aggregates"])
        is_changed = before in aggregate[1]
        aggregate[1] = aggregate[1].replace(before, after)
        return is_changed

    def turn_aggregates(self) -> bool:
        """Write the aggregates in the opposite order."""
        node = self.having("aggregates")
        if node is None or len(node["params"]["aggregates"]) < 2:
            return False
        node["params"]["aggregates"].reverse()
        return True

    def change_window(self) -> bool:
        node = self.having("window")
        if node is None:
            return False
        windows = [
            {"kind": "tumbling", "size": "10 s"},
            {"kind": "tumbling", "size": "30 s"},
            {"kind": "sliding", "size": "20 s", "slide": "10 s"},
            {"kind": "cumulative", "max": "1 min", "step": "10 s"},
            {"kind": "session", "gap": "9 s"},
        ]
        node["params"]["window"] = self.draw.choice(
            [window for window in windows if window != node["params"]["window"]]
        )
        return True

    def change_other_parameter(self) -> bool:
        choices: dict[str, Sequence[Any]] = {
            "keep": ["first", "last"],
            "ttl": [None, "1 h"],
            "how": ["inner", "left", "full"],
            "n": [1, 2, 5],
            "rank": [None, "place"],
            "lateness": ["0 s", "3 s"],
            "upper": ["0 s", "5 s"],
            "method": ["process", "aggregate"],
            "left_outer": [True, False],
        }
        found = [(node, name) for node in self.nodes.values() for name in choices if name in node["params"]]
        if not found:
            return False
        node, name = self.draw.choice(found)
        node["params"][name] = self.draw.choice([value for value in choices[name] if value != node["params"][name]])
        return True

    def turn_order(self) -> bool:
        node = self.having("by")
        if node is None:
            return False
        order = self.draw.choice(node["params"]["by"])
        order["descending"] = not order["descending"]
        return True

    def change_python_state(self) -> bool:
        changes = (
            ("ValueStateDescriptor('seen', Types.LONG())", "ValueStateDescriptor('seen', Types.INT())"),
            ("ValueStateDescriptor('seen', Types.LONG())", "ValueStateDescriptor('count', Types.LONG())"),
            ("('rules', Types.LONG(), Types.STRING())", "('rules', Types.INT(), Types.STRING())"),
        )
        before, after = self.draw.choice(changes)
        for node in self.nodes.values():
            code = node["params"].get("code")
            if code and any(before in line for line in code):
                node["params"]["code"] = [line.replace(before, after) for line in code]
                return True
        return False

    def put_filter(self) -> bool:
        edge = self.draw.choice(list(self.edges.values()))
        target, edge["to"] = edge["to"], ["between", "in"]
        self.nodes["between"] = {
            "type": "filter",
            "name": "Between",
            "uid": "between",
            "params": {"condition": "1 = 1"},
        }
        self.edges["behind"] = {"from": ["between", "out"], "to": target}
        return True

    def remove_node(self) -> bool:
        between = []
        for node_id in self.nodes:
            into = [edge_id for edge_id, edge in self.edges.items() if edge["to"][0] == node_id]
            out = [edge_id for edge_id, edge in self.edges.items() if edge["from"][0] == node_id]
            if len(into) == 1:
                between.append((node_id, into[0], out))
        if not between:
            return False
        node_id, ends_here, begin_here = self.draw.choice(between)
        before = self.edges.pop(ends_here)["from"]
        for edge_id in begin_here:
            self.edges[edge_id]["from"] = before
        del self.nodes[node_id]
        return True

    def change_type_of_node(self) -> bool:
        """Make another node of the same uid."""
        node = self.having("keys")
        facts = None if node is None else self.input_of(node)
        if node is None or facts is None:
            return False
        keys = node["params"]["keys"]
        made: dict[str, Value] = {
            "aggregate": {"keys": keys, "aggregates": [["n", "count(*)"]]},
            "deduplicate": {"keys": keys, "keep": self.draw.choice(["first", "last"])},
            "top_n": {"keys": keys, "n": 2, "by": [{"expression": self._shapes.number(facts), "descending": True}]},
            "filter": {"condition": "1 = 1"},
        }
        kind = self.draw.choice([kind for kind in made if kind != node["type"]])
        node["type"], node["params"] = kind, made[kind]
        return True

    def change_source(self) -> bool:
        sources = [node for node in self.nodes.values() if node["type"].startswith("source.")]
        node = self.draw.choice(sources)
        other = self._shapes.source(self.draw.choice(["source.inline", "source.generator", "source.files"]))
        node["type"], node["params"] = self._shapes.nodes[other]["type"], self._shapes.nodes[other]["params"]
        return True

    def change_uid(self) -> bool:
        node = self.draw.choice(list(self.nodes.values()))
        node["uid"] += "-again"
        return True

    def rename(self) -> bool:
        self.draw.choice(list(self.nodes.values()))["name"] += " again"
        return True

    def disable(self) -> bool:
        self.draw.choice(list(self.nodes.values()))["disabled"] = True
        return True

    def change_parallelism(self) -> bool:
        self.document["settings"]["parallelism"] = 3 - self.document["settings"]["parallelism"]
        return True

    def change_max_parallelism(self) -> bool:
        self.document["settings"]["max_parallelism"] = self.draw.choice([64, 128])
        return True


KINDS: tuple[Callable[[Edits], bool], ...] = (
    Edits.change_key,
    Edits.change_column_type,
    Edits.add_aggregate,
    Edits.remove_aggregate,
    Edits.change_aggregate,
    Edits.change_window,
    Edits.change_other_parameter,
    Edits.turn_order,
    Edits.change_python_state,
    Edits.put_filter,
    Edits.remove_node,
    Edits.change_type_of_node,
    Edits.change_source,
    Edits.change_uid,
    Edits.rename,
    Edits.disable,
    Edits.change_parallelism,
    Edits.change_max_parallelism,
    Edits.turn_aggregates,
)


WITHOUT_EFFECT = (Edits.put_filter, Edits.rename, Edits.turn_aggregates)
"""Edits that change no result, if they are not refused."""


@dataclass(frozen=True)
class Best:
    """A top-N that is there before and after an edit."""

    node: str
    keys: tuple[str, ...]
    n: int
    """After the edit."""


@dataclass(frozen=True)
class Pair:
    """A pipeline before and after an edit; both can be deployed."""

    edit: str
    before: Program
    after: Program
    best: tuple[Best, ...]
    same: tuple[Place, ...]
    """Outputs at which both must give the same in all; none where the edit matters, or the order of arrival does."""
    directory: Path
    """For what is collected."""

    def collects(self) -> dict[Place, Path]:
        """Return where the results of which outputs are collected."""
        places = dict.fromkeys([*((best.node, "out") for best in self.best), *self.same])
        return {place: self.directory / f"of-{'-'.join(place)}" for place in places}


def pair_of(number: int, catalog: Catalog, directory: Path) -> Pair:
    """Return a pair at random; the kinds of edits and the stateful types take turns."""
    draw = random.Random(f"edit {number}")
    kind = KINDS[number % len(KINDS)]
    for _ in range(60):
        document = grown(draw, catalog, directory, STATEFUL[draw.randrange(len(STATEFUL))])
        if kind in WITHOUT_EFFECT:
            # in one order, so that results can be compared
            document["settings"]["parallelism"] = 1
            for node in document["nodes"].values():
                node.pop("parallelism", None)
        edited = copy.deepcopy(document)
        if not kind(Edits(draw, edited, catalog, directory)):
            continue
        after = compile_pipeline(read_document(edited), catalog)
        if after.is_deployable:
            before = compile_pipeline(read_document(document), catalog)
            there = [
                Best(node_id, tuple(node["params"]["keys"]), node["params"]["n"])
                for node_id, node in edited["nodes"].items()
                if _is_same_best(document["nodes"].get(node_id), node)
                and all((node_id, "out") in program.streams for program in (before, after))
            ]
            same = (
                before.streams.keys() & after.streams.keys() if kind in WITHOUT_EFFECT and _is_in_order(edited) else ()
            )
            return Pair(kind.__name__, before, after, tuple(there), tuple(sorted(same)), directory)
    raise AssertionError(f"{kind.__name__} is never possible")


def _is_in_order(document: Value) -> bool:
    """Return whether records arrive in one order, whenever the pipeline is stopped: of one source, at one subtask."""
    nodes = document["nodes"].values()
    sources = [node for node in nodes if node["type"].startswith("source.")]
    parallelisms = {document["settings"]["parallelism"], *(node.get("parallelism", 1) for node in nodes)}
    return len(sources) == 1 and parallelisms == {1}


def _is_same_best(before: Value | None, after: Value) -> bool:
    """Return whether a node is a top-N before and after, and takes its rows back in the same form: with a rank, or
    without."""
    if before is None or not before["type"] == after["type"] == "top_n":
        return False
    return bool(before["params"].get("rank") == after["params"].get("rank"))


# --- runs -------------------------------------------------------------------------------------------------------------


class HeldSource(Source):
    """A source whose splits never end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.boundedness = source.boundedness
        self.splits_at_once = source.splits_at_once
        self.split_format = source.split_format
        self.dead_letter_tag = source.dead_letter_tag

    def produced_type(self) -> TypeInformation | None:
        return self._source.produced_type()

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return _HeldEnumerator(self._source.create_enumerator(parallelism, restored))

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return _HeldReader(self._source.create_reader(split, position, context), context)

    def split_to_json(self, split: SourceSplit) -> Any:
        return self._source.split_to_json(split)

    def split_from_json(self, value: Any) -> SourceSplit:
        return self._source.split_from_json(value)


class _HeldEnumerator(SplitEnumerator):
    def __init__(self, enumerator: SplitEnumerator) -> None:
        self._enumerator = enumerator

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        found = self._enumerator.next_split(subtask_index)
        return NoSplit.LATER if found is NoSplit.NEVER else found

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._enumerator.add_splits_back(splits)

    def snapshot(self) -> Any:
        return self._enumerator.snapshot()


class _HeldReader(SplitReader):
    def __init__(self, reader: SplitReader, context: ReaderContext) -> None:
        self._reader = reader
        self._clock = context.clock

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        found = self._reader.read(max_rows)
        return ReadStatus.NOTHING_YET if found is ReadStatus.END_OF_SPLIT else found

    def next_read_ms(self) -> int | None:
        return self._clock.now_ms() + 100

    def take_dead_letters(self) -> RecordBatch | None:
        return self._reader.take_dead_letters()

    def close(self) -> None:
        self._reader.close()

    @property
    def position(self) -> Any:
        return self._reader.position


def graph_with(
    program: Program, options: dict[str, str], collects: Mapping[Place, Path], *, holds: bool = False
) -> JobGraph:
    """Return the job graph of a program with further options.

    Args:
        collects: outputs whose results are collected, with the directories for them.
        holds: whether its sources hold their end back.
    """
    names = executed(program)
    env = environment_of(names)
    for place, directory in collects.items():
        sink = names[program.streams[place]].sink_to(CollectingSink(directory))
        sink.name(f"collected {'.'.join(place)}").uid(f"collected-{'-'.join(place)}")
    for key, value in {"execution.target": "mini-cluster", RESTART_STRATEGY.key: "none", **options}.items():
        env.get_configuration().set_string(key, value)
    graph = env.create_stream_graph("edited")
    for stream_node in graph.nodes.values():
        if holds and isinstance(stream_node.factory, SourceOperatorFactory):
            stream_node.factory = replace(stream_node.factory, source=HeldSource(stream_node.factory.source))
    return create_job_graph(graph, new_job_id())


def savepoint_of(
    program: Program, clock: JobClock, directory: Path, collects: Mapping[Place, Path]
) -> tuple[str, JobGraph]:
    """Run a program until its sources have nothing more, and stop it; returns the savepoint and the graph."""
    graph = graph_with(program, options_of(directory), collects, holds=True)
    with RunningJob(graph, clock).start() as job:
        job.settle()
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
        job.run()
    return location, graph


@dataclass(frozen=True)
class End:
    """How a job has ended."""

    state: JobState
    failures: tuple[str, ...]


def end_of(job: RunningJob) -> End:
    """Return how a job has ended."""
    return End(job.state, tuple(entry.cause.message for entry in job.driver.status().exceptions))


def restored(
    program: Program,
    clock: JobClock,
    directory: Path,
    location: str,
    collects: Mapping[Place, Path],
    *,
    leaves_behind: bool,
) -> tuple[JobGraph, End]:
    """Run a program from a savepoint to its end."""
    given = {RECOVERY_PATH.key: location, IGNORE_UNCLAIMED_STATE.key: str(leaves_behind).lower()}
    graph = graph_with(program, {**options_of(directory), **given}, collects)
    with RunningJob(graph, clock) as job:
        job.run_to_any_end()
        return graph, end_of(job)


def run_to_the_end(program: Program, clock: JobClock, directory: Path, collects: Mapping[Place, Path]) -> End:
    """Run a program from its beginning."""
    with RunningJob(graph_with(program, options_of(directory), collects), clock) as job:
        job.run_to_any_end()
        return end_of(job)


@dataclass(frozen=True)
class Told:
    """A report, and the snapshot that it is about."""

    metadata: CheckpointMetadata
    report: CompatibilityReport

    @property
    def is_unsure(self) -> bool:
        return any(line.verdict is Verdict.UNKNOWN for line in self.report.operators)


def told(location: str, graph: JobGraph) -> Told:
    """Return the report of a graph on a savepoint, both as they come out of a database."""
    metadata = SavepointReader.read(location).metadata
    return Told(metadata, compatibility(metadata, graph))
