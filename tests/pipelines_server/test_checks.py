"""Tests, plans and renames of drafts over REST, with real children."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.pipelines import previews
from tests.accounts.cast import client_of
from tests.pipeline.pipelines import chain, node, orders
from tests.pipelines_server.documents import BASE
from tests.support.processes import children_running

DEAR = node("filter", "Dear", condition="cents > 200")
GIVEN = [
    [{"id": 1, "item": "pen", "cents": 100, "at": 1}, None],
    [{"id": 2, "item": "ink", "cents": 900, "at": 2}, None],
]
TEST = {"name": "dear ones", "given": {"n0": GIVEN}, "expect": {"n1": [{"id": 2}]}}


@pytest.fixture
def warm(settings: Settings) -> Iterator[None]:
    """A process with the engine is kept ready, and ended at the end."""
    settings.TIDEMARK_WARM_PREVIEWS = True
    yield
    previews.spares.close()


def draft(*tests: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(chain(orders(), DEAR, node("sink.print", "Show"), tests=list(tests)))


def post(api: APIClient, route: str, **body: Any) -> Any:
    return api.post(f"{BASE}/{route}", body, format="json")


def test_tests_of_a_draft_are_run(api: APIClient) -> None:
    wrong = {**TEST, "name": "wrong", "expect": {"n1": [{"id": 1}]}}
    answer = post(api, "tests", document=draft(TEST, wrong))
    assert answer.status_code == 200, answer.json()
    one, other = answer.json()["results"]
    assert (one["name"], one["passed"], one["message"]) == ("dear ones", True, "")
    assert not other["passed"]
    states = [(row["state"], row["row"]["id"]) for row in other["places"][0]["rows"]]
    assert states == [("missing", 1), ("unexpected", 2)]
    only = post(api, "tests", document=draft(TEST, wrong), only=["wrong"]).json()["results"]
    assert [result["name"] for result in only] == ["wrong"]


def test_tests_that_cannot_be_run_are_refused(api: APIClient) -> None:
    for bad in ({**TEST, "given": {"n2": []}}, {**TEST, "expect": {"gone": []}}):
        assert post(api, "tests", document=draft(bad)).status_code == 400
    assert post(api, "tests", document=draft(TEST), only=["other"]).status_code == 400
    assert post(api, "tests", document=draft(TEST), only="dear ones").status_code == 400
    assert post(api, "tests", document=draft()).json() == {"results": []}


def test_rows_that_are_given_for_a_look_up_need_no_connection(api: APIClient) -> None:
    """The other test needs it, and fails with what is missing; neither is refused."""
    look_up = {"connection": "pg", "table": "items", "on": [["item", "item"]], "type": [["colour", "string"]]}
    row = {"id": 1, "item": "pen", "cents": 150, "at": 1_000}
    found = {**row, "colour": "blue"}
    tests = [
        {"name": "given", "given": {"n1": [[found, None]]}, "expect": {"n1": [found]}},
        {"name": "asked", "given": {"n0": [[row, None]]}, "expect": {"n1": [found]}},
    ]
    document = chain(orders(), node("join.lookup", "Colours", **look_up), node("sink.print", "Show"), tests=tests)
    given, asked = post(api, "tests", document=document).json()["results"]
    assert given["passed"], given
    assert not asked["passed"] and "have no network here" in asked["message"]


def test_a_plan_names_the_nodes_of_its_vertices(api: APIClient) -> None:
    answer = post(api, "plan", document=draft()).json()
    assert answer["message"] == ""
    assert sorted(node for nodes in answer["nodes"].values() for node in nodes) == ["n0", "n1", "n2"]
    assert {vertex["id"] for vertex in answer["plan"]["nodes"]} == answer["nodes"].keys()


def test_a_plan_of_a_program_that_fails_says_why(api: APIClient) -> None:
    failing = {**draft(), "code": ["raise ValueError('mine')"]}
    answer = post(api, "plan", document=failing).json()
    assert answer["plan"] is None and "mine" in answer["message"]
    empty = {**draft(), "nodes": {}, "edges": {}}
    assert post(api, "plan", document=empty).json()["message"] == "There is nothing to run yet."


def test_a_rename_is_one_patch_for_all_nodes_below(api: APIClient) -> None:
    answer = post(api, "rename", document=draft(), node="n0", port="out", column="cents", to="price").json()
    assert answer["nodes"] == ["n0", "n1"] and answer["by_hand"] == []
    paths = {step["path"]: step["value"] for step in answer["patch"]}
    assert paths["/nodes/n1/params/condition"] == "price > 200"
    for change in ({"to": "item"}, {"column": "nothing"}, {"node": "gone"}, {"to": ""}, {"node": "n1"}):
        wanted = {"node": "n0", "port": "out", "column": "cents", "to": "price", **change}
        assert post(api, "rename", document=draft(), **wanted).status_code == 400, change


def test_who_edits_finds_a_process_ready(warm: None, api: APIClient, victor: User) -> None:
    def children() -> list[int]:
        return [child.pid for child in children_running("preview_child")]

    assert post(client_of(victor), "validate", document=draft()).status_code == 200
    assert children() == []
    assert post(api, "validate", document=draft()).status_code == 200
    [ready] = children()
    [result] = post(api, "tests", document=draft(TEST)).json()["results"]
    assert result["passed"], result
    # each serves one request
    [next_one] = children()
    assert next_one != ready


def test_who_may_run_what(api: APIClient, oscar: User, victor: User) -> None:
    for client in map(client_of, (oscar, victor)):
        for route in ("tests", "plan"):
            assert post(client, route, document=draft()).status_code == 403
