"""Plans against the shapes that Flink 2.3 prints."""

from __future__ import annotations

import json

from runtime.graph.partitioning import Partitioning
from runtime.graph.plan import execution_plan, job_plan, operator_plan
from tests.graph.programs import Program, edge


def word_count() -> Program:
    p = Program()
    source = p.source("words", parallelism=1)
    late_sink = p.add("Map", source)
    p.sink("Print to Std. Out", p.add("Window", edge(late_sink, Partitioning.KEY_GROUP), description="Tumbling(5 s)"))
    return p


def test_the_execution_plan_has_flinks_shape() -> None:
    assert execution_plan(word_count().graph) == {
        "nodes": [
            {
                "id": 1,
                "type": "Source: words",
                "pact": "Data Source",
                "contents": "Source: words",
                "parallelism": 1,
            },
            {
                "id": 2,
                "type": "Map",
                "pact": "Operator",
                "contents": "Map",
                "parallelism": 2,
                "predecessors": [{"id": 1, "ship_strategy": "REBALANCE", "side": "second"}],
            },
            {
                "id": 3,
                "type": "Window",
                "pact": "Operator",
                "contents": "Tumbling(5 s)",
                "parallelism": 2,
                "predecessors": [{"id": 2, "ship_strategy": "HASH", "side": "second"}],
            },
            {
                "id": 4,
                "type": "Sink: Print to Std. Out",
                "pact": "Data Sink",
                "contents": "Sink: Print to Std. Out",
                "parallelism": 2,
                "predecessors": [{"id": 3, "ship_strategy": "FORWARD", "side": "second"}],
            },
        ]
    }


def test_sinks_come_last() -> None:
    p = Program()
    source = p.source()
    p.sink("early", source)
    p.add("Map", source)
    assert [n["type"] for n in execution_plan(p.graph)["nodes"]] == ["Source: numbers", "Map", "Sink: early"]


def test_the_job_plan_has_the_shape_of_the_rest_api() -> None:
    graph = word_count().build()
    source, mapped, window = graph.vertices
    assert job_plan(graph) == {
        "jid": "0" * 32,
        "name": "job",
        "type": "STREAMING",
        "nodes": [
            {
                "id": window.vertex_id,
                "operator": "",
                "parallelism": 2,
                "operator_strategy": "",
                "description": "Tumbling(5 s)<br/>+- Sink: Print to Std. Out<br/>",
                "optimizer_properties": {},
                "inputs": [
                    {"id": mapped.vertex_id, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "HASH"}
                ],
            },
            {
                "id": mapped.vertex_id,
                "operator": "",
                "parallelism": 2,
                "operator_strategy": "",
                "description": "Map<br/>",
                "optimizer_properties": {},
                "inputs": [
                    {"id": source.vertex_id, "num": 0, "exchange": "pipelined_bounded", "ship_strategy": "REBALANCE"}
                ],
            },
            {
                "id": source.vertex_id,
                "operator": "",
                "parallelism": 1,
                "operator_strategy": "",
                "description": "Source: words<br/>",
                "optimizer_properties": {},
            },
        ],
    }
    json.dumps(job_plan(graph))


def test_a_chain_is_drawn_as_a_tree() -> None:
    p = Program()
    mapped = p.add("Map", p.source())
    p.sink("left", p.add("Filter", mapped))
    p.sink("right", mapped, description="a < b & 'c'")
    (node,) = job_plan(p.build())["nodes"]
    assert node["description"].split("<br/>") == [
        "Source: numbers",
        "+- Map",
        "   :- Filter",
        "   :  +- Sink: left",
        "   +- a &lt; b &amp; 'c'",
        "",
    ]


def test_the_operator_plan_has_every_operator_and_how_records_reach_it() -> None:
    graph = word_count().build()
    plan = operator_plan(graph)
    by_id = {node["id"]: node for node in plan["nodes"]}
    assert [node["name"] for node in plan["nodes"]] == ["Source: words", "Map", "Window", "Sink: Print to Std. Out"]
    assert [node["parallelism"] for node in plan["nodes"]] == [1, 2, 2, 2]
    edges = {(by_id[e["source"]]["name"], by_id[e["target"]]["name"]): e["ship_strategy"] for e in plan["edges"]}
    assert edges == {
        ("Source: words", "Map"): "REBALANCE",
        ("Map", "Window"): "HASH",
        ("Window", "Sink: Print to Std. Out"): "FORWARD",
    }
    # the window and the sink are one chain
    assert [node["vertex"] for node in plan["nodes"]] == [
        vertex.vertex_id for vertex in graph.vertices for _ in vertex.operators
    ]
    json.dumps(plan)
