"""The catalog, validation and compilation over REST."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.pipelines import building
from backend.pipelines.building import compiled, outputs_of
from runtime.client.extract import extract_job_graph
from runtime.pipeline import read_document
from tests.accounts.cast import client_of
from tests.pipeline.pipelines import node, pipeline
from tests.pipeline.test_validate import three_hundred
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create
from tests.pipelines_server.validation_times import (
    as_in_a_web_process,
    edits_of_300_nodes,
    other_expression,
    server_time,
)


def test_the_catalog_is_asked_for_once(api: APIClient) -> None:
    answer = api.get(f"{BASE}/catalog")
    assert {"source.nexmark", "sink.print"} <= {found["type"] for found in answer.json()["types"]}
    again = api.get(f"{BASE}/catalog", headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", answer["ETag"])
    assert api.get(f"{BASE}/catalog", headers={"If-None-Match": '"x"'}).status_code == 200


def test_a_document_is_validated_for_anybody(victor: User) -> None:
    api = client_of(victor)
    good = api.post(f"{BASE}/validate", {"document": document()}, format="json").json()
    assert (good["is_deployable"], [p for p in good["problems"] if p["severity"] == "error"]) == (True, [])
    assert "price" in [column["name"] for column in good["facts"]["n1"]["out"]["columns"]]
    assert [port["name"] for port in good["ports"]["n1"]["outputs"]] == ["out"]
    bad = api.post(f"{BASE}/validate", {"document": document(edges={})}, format="json").json()
    assert bad["is_deployable"] is False
    assert "not-connected" in [problem["code"] for problem in bad["problems"] if problem["node"] == "n2"]


def test_an_answer_leaves_out_what_an_earlier_one_said(api: APIClient) -> None:
    def ask(value: dict[str, Any], known: str | None = None) -> Any:
        body = {"document": value} if known is None else {"document": value, "known": known}
        answer = api.post(f"{BASE}/validate", body, format="json")
        assert answer.status_code == 200, answer.content
        return answer.json()

    value = json.loads(json.dumps(document()))
    first = ask(value)
    assert (first["since"], set(first["ports"])) == (None, set(value["nodes"]))
    again = ask(value, first["tag"])
    assert (again["since"], again["ports"], again["facts"], again["labels"]) == (first["tag"], {}, {}, {})
    assert again["tag"] != first["tag"]
    rest = ("problems", "is_deployable", "inactive", "semantic_hash")
    assert all(again[name] == first[name] for name in rest)
    # a node whose name alone differs, one that is new, one that is gone
    value["nodes"]["n9"] = {**value["nodes"]["n2"], "name": "Other", "uid": "other"}
    value["nodes"]["n1"]["disabled"] = True
    told, whole = ask(value, again["tag"]), ask(value)
    assert "n9" in told["ports"] and len(told["ports"]) < len(whole["ports"])
    for name in ("facts", "ports", "labels"):
        assert {**first[name], **told[name]} == whole[name]
    assert all(told[name] == whole[name] for name in rest)
    assert ask(value, "0" * 32)["since"] is None
    assert api.post(f"{BASE}/validate", {"document": value, "known": 1}, format="json").status_code == 400


def test_only_so_many_answers_are_known(api: APIClient) -> None:
    first = api.post(f"{BASE}/validate", {"document": document()}, format="json").json()["tag"]
    for _ in range(building.MAX_TOLD):
        api.post(f"{BASE}/validate", {"document": document()}, format="json")
    again = api.post(f"{BASE}/validate", {"document": document(), "known": first}, format="json").json()
    assert again["since"] is None and set(again["ports"]) == set(document()["nodes"])


def test_every_template_can_be_created_and_deployed(api: APIClient) -> None:
    listed = api.get(f"{BASE}/templates").json()["templates"]
    assert len(listed) >= 8
    for template in listed:
        created = api.post(BASE, {"document": template["document"]}, format="json")
        assert (created.status_code, created.json()["name"]) == (201, template["name"])
        found = api.post(f"{BASE}/validate", {"document": template["document"]}, format="json").json()
        assert found["is_deployable"], (template["id"], found["problems"])


def test_a_document_is_compiled(api: APIClient) -> None:
    answer = api.post(f"{BASE}/compile", {"document": document()}, format="json").json()
    assert "NexmarkSource" in answer["source"]
    assert {lines["node"] for lines in answer["lines"]} >= {"n1", "n2"}
    compile(answer["source"], "program.py", "exec")


def test_a_version_is_exported_as_the_program_that_would_be_deployed(api: APIClient) -> None:
    exported = api.get(f"{BASE}/{create(api)}/export?format=python").json()
    assert exported["file_name"] == "hot-auctions-v1.py"
    assert "version 1" in exported["text"].splitlines()[0]
    assert api.get(f"{BASE}/{create(api)}/export?format=exe").status_code == 400


def test_outputs_of_nodes_are_told_as_outputs_of_operators(tmp_path: Path) -> None:
    """Of a side output, a node of two operators, a union and a node that builds streams."""
    window = {"keys": ["auction"], "window": {"kind": "tumbling", "size": "10 s"}, "aggregates": [["bids", "count(*)"]]}
    build = ["def build(env, bids):", '    dear = bids.where("price > 100").uid("dear")', "    return dear"]
    of_bids = [["auction", "long"], ["price", "long"]]
    drawn: Any = pipeline(
        {
            "bids": node("source.nexmark", "Bids", kind="bids", events=100),
            "per": node("window.aggregate", "Per auction", **window, late_output=True),
            "more": node("window.aggregate", "More", **window),
            "all": node("union", "All", match="as_is"),
            "few": node("select", "Few", columns=[["auction", "auction"], ["price", "price"]]),
            "dear": node("python.stream", "Dear", code=build, outputs=[{"name": "out", "type": of_bids}]),
            "show": node("sink.print", "Show"),
            "late": node("sink.print", "Late"),
            "end": node("sink.print", "End"),
        },
        "bids -> per",
        "bids -> more",
        "per -> all",
        "more -> all",
        "all -> show",
        "per.late -> late",
        "bids -> few",
        "few -> dear",
        "dear -> end",
    )
    program = compiled(read_document(drawn))
    assert program.is_deployable, program.problems
    file = tmp_path / "drawn.py"
    file.write_text(program.source)
    job = extract_job_graph(file, streams=list(program.streams.values()))
    uids: dict[str, str] = {o.operator_id: o.uid for vertex in job.graph.vertices for o in vertex.operators}
    found = {
        node: {port: [(uids[each["operator"]], each["side_output"]) for each in made] for port, made in ports.items()}
        for node, ports in outputs_of(program, job).items()
    }
    assert found == {
        "bids": {"out": [("bids", "")]},
        "per": {"out": [("per-auction", "")], "late": [("per-auction", "late")]},
        "more": {"out": [("more", "")]},
        "all": {"out": [("per-auction", ""), ("more", "")]},
        "few": {"out": [("few", "")]},
        "dear": {"out": [("dear", "")]},
    }


def test_an_edit_of_300_nodes_costs_a_part_of_reading_them_all() -> None:
    """From the body to the answer, in turns with documents whose nodes are all new: a slow machine slows both.

    `tests/e2e/test_speed.py` holds the seconds.
    """
    edits, wholes = [], []
    with as_in_a_web_process():
        edit = edits_of_300_nodes(other_expression)
        for number in range(1, 13):
            edits += [next(edit) for _ in range(3)]
            fresh = three_hundred()
            for index, each in enumerate(fresh["nodes"].values()):
                if index:
                    each["params"]["columns"][0][1] = f"cents + {1000 * number + index}"
            took, whole, _ = server_time(fresh, None)
            assert whole["is_deployable"]
            wholes.append(took)
    assert statistics.median(edits) <= statistics.median(wholes) / 2, (edits, wholes)
