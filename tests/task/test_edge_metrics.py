"""Figures of edges and operators: over each edge of a finished job, as many records have arrived as were sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from backend.cluster.live_document import LiveDocument, edge_metrics
from backend.cluster.models import Job
from runtime.common import Types
from runtime.connectors import BlackHoleSink
from runtime.datastream import CoMapFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.testing.clock import ManualClock
from tests.datastream.running import PARALLELISMS, environment
from tests.job_runs import record_run

ODD = OutputTag("odd", Types.LONG())
COUNT = 1_000


class Split(ProcessFunction):
    """Every number once, every tenth twice; odd ones also to a side output."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        if value % 10 == 0:
            yield value
        if value % 2:
            yield ODD, value


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def same(value: int) -> int:
    return value


def program(env: StreamExecutionEnvironment) -> None:
    """Operators of one name, a side output, a broadcast, a union, a stream joined with itself."""
    numbers = env.from_collection(list(range(COUNT)), Types.LONG())
    split = numbers.rebalance().process(Split(), Types.LONG()).name("same")
    mapped = split.map(same, Types.LONG()).name("same").map(same, Types.LONG()).name("same")
    odd = split.get_side_output(ODD).key_by(same).map(same, Types.LONG()).name("same")
    keyed = mapped.key_by(same)
    for end in (
        mapped.union(odd).rescale().map(same, Types.LONG()).name("same"),
        mapped.broadcast().map(same, Types.LONG()).name("same"),
        keyed.connect(mapped.key_by(same)).map(Either(), Types.LONG()).name("same"),
    ):
        end.sink_to(BlackHoleSink())


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_what_is_sent_over_an_edge_arrives_whatever_the_names_of_operators(parallelism: int) -> None:
    env = environment(parallelism)
    program(env)
    record_run("mini-cluster")
    graph = env.create_job_graph("job")
    cluster = MiniCluster(graph, ClientOutputs(), ManualClock(1_000_000))
    while not cluster.driver.ended.is_set():
        cluster.step()
    tasks = cluster.driver.status().tasks
    found: Counter[tuple[str, str | None, int]] = Counter()
    for edge in graph.edges:
        ends = [[task for task in tasks if task.task.vertex_id == end] for end in (edge.source, edge.target)]
        metrics = edge_metrics(edge.edge_id, *ends)
        assert metrics["records_sent"] == metrics["records_received"], edge
        assert (metrics["records_per_second"], metrics["queued_bytes"], metrics["watermark"]) == (0.0, 0, "max")
        found[edge.partitioning.value, edge.side_output_tag, metrics["records_sent"]] += 1
    twice, odd = COUNT + COUNT // 10, COUNT // 2
    assert found == {
        ("REBALANCE", None, COUNT): 1,
        ("HASH", "odd", odd): 1,
        ("RESCALE", None, twice): 1,
        ("RESCALE", None, odd): 1,
        ("BROADCAST", None, twice * parallelism): 1,
        ("HASH", None, twice): 2,
    }


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_an_operator_inside_a_chain_has_figures_and_says_whose_records_it_takes(parallelism: int) -> None:
    env = environment(parallelism)
    numbers = env.from_collection(list(range(COUNT)), Types.LONG()).uid("numbers")
    split = numbers.rebalance().process(Split(), Types.LONG()).uid("split")
    split.map(same, Types.LONG()).uid("map").sink_to(BlackHoleSink()).uid("sink")
    split.get_side_output(ODD).map(same, Types.LONG()).uid("odd").key_by(same).map(same, Types.LONG()).uid("keyed")
    record_run("mini-cluster")
    graph = env.create_job_graph("job")
    cluster = MiniCluster(graph, ClientOutputs(), ManualClock(1_000_000))
    while not cluster.driver.ended.is_set():
        cluster.step()
    row = Job(id="a" * 32, name="job", state="FINISHED", created_at=0)
    document = LiveDocument(row, graph).build(cluster.driver.status(), {}, 1_000)
    twice, odd = COUNT + COUNT // 10, COUNT // 2
    counts = {uid: (each["records_in"], each["records_out"]) for uid, each in document["operators"].items()}
    assert counts == {
        "numbers": (COUNT, COUNT),
        # of both outputs
        "split": (COUNT, twice + odd),
        "map": (twice, twice),
        "sink": (twice, counts["sink"][1]),
        "odd": (odd, odd),
        "keyed": (odd, 0),
    }
    assert {each["watermark"] for each in document["operators"].values()} == {"max"}
    inputs = {o["uid"]: o.get("input") for vertex in document["vertices"] for o in vertex["operators"]}
    assert inputs == {
        "numbers": None,
        "split": None,
        "map": {"operator": "split", "side_output": ""},
        "sink": {"operator": "map", "side_output": ""},
        "odd": {"operator": "split", "side_output": "odd"},
        "keyed": None,
    }
    edges = [edge for vertex in document["vertices"] for edge in vertex["inputs"]]
    assert {(edge["operator"], edge["side_output"]) for edge in edges} == {("numbers", ""), ("odd", "")}
