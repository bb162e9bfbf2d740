"""Routes of pipelines and versions."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.pipelines.models import Pipeline, Version
from tests.accounts.cast import client_of
from tests.pipelines_server.documents import BASE, document

KEY = "a-key-of-mine"


def create(api: APIClient, name: str = "Hot auctions", **headers: str) -> str:
    answer = api.post(BASE, {"document": document(name)}, format="json", headers=headers)
    assert answer.status_code == 201, answer.json()
    return str(answer.json()["id"])


def save(api: APIClient, pipeline: str, head: int, body: dict[str, Any], **headers: str) -> Any:
    return api.post(
        f"{BASE}/{pipeline}/versions", {"document": body}, format="json", headers={"If-Match": f'"{head}"', **headers}
    )


def test_a_pipeline_is_created_with_its_first_version(api: APIClient) -> None:
    pipeline = create(api)
    answer = api.get(f"{BASE}/{pipeline}").json()
    assert (answer["name"], answer["owner"], answer["head"]["number"]) == ("Hot auctions", "alice", 1)
    assert (answer["draft"], answer["editors"]) == (None, [])
    version = api.get(f"{BASE}/{pipeline}/versions/1").json()
    assert version["document"]["nodes"]["n1"]["params"] == {"kind": "bids", "events": 100}
    assert [row["id"] for row in api.get(BASE).json()["pipelines"]] == [pipeline]


def test_the_same_key_creates_one_pipeline(api: APIClient, bobs: APIClient) -> None:
    headers = {"Idempotency-Key": KEY}
    assert create(api, **headers) == create(api, **headers)
    other = api.post(BASE, {"document": document("Other")}, format="json", headers=headers)
    assert (other.status_code, other.json()["errors"][0]["code"]) == (409, "key_taken")
    # keys are each user's own
    assert create(bobs, **headers) != create(api, **headers)
    assert Pipeline.objects.count() == 2


def test_a_save_needs_the_head_that_was_seen(api: APIClient) -> None:
    pipeline = create(api)
    answer = api.post(f"{BASE}/{pipeline}/versions", {"document": document()}, format="json")
    assert answer.status_code == 428
    for text in ("7", '"x"', '"0"', "*", '"99999999999999999999"'):
        answer = api.post(
            f"{BASE}/{pipeline}/versions", {"document": document()}, format="json", headers={"If-Match": text}
        )
        assert answer.status_code == 400, text


def test_the_second_of_two_editors_gets_what_the_first_has_saved(api: APIClient, bobs: APIClient) -> None:
    pipeline = create(api)
    first = save(api, pipeline, 1, document(rows=200))
    assert (first.status_code, first.json()["number"], first["ETag"]) == (200, 2, '"2"')
    second = save(bobs, pipeline, 1, document(rows=300))
    assert second.status_code == 412
    assert second.json()["errors"][0]["code"] == "head_moved"
    assert second.json()["current"]["number"] == 2
    assert second.json()["current"]["document"]["nodes"]["n1"]["params"]["events"] == 200
    assert save(bobs, pipeline, 2, document(rows=300)).json()["number"] == 3


def test_a_save_whose_answer_was_lost_is_answered_again(api: APIClient, bobs: APIClient) -> None:
    pipeline = create(api)
    for headers in ({}, {"Idempotency-Key": KEY}):
        head = Pipeline.objects.get().head
        body = document(rows=200 + head)
        assert save(api, pipeline, head, body, **headers).json()["number"] == head + 1
        assert save(api, pipeline, head, body, **headers).json()["number"] == head + 1
    # with the key even after others have saved
    save(bobs, pipeline, 3, document(rows=999))
    assert save(api, pipeline, 2, document(rows=202), **{"Idempotency-Key": KEY}).json()["number"] == 3
    assert Version.objects.count() == 4


def test_a_key_of_another_save_is_refused(api: APIClient) -> None:
    pipeline = create(api)
    save(api, pipeline, 1, document(rows=200), **{"Idempotency-Key": KEY})
    answer = save(api, pipeline, 2, document(rows=300), **{"Idempotency-Key": KEY})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "key_taken")


def test_an_unchanged_document_makes_no_version(api: APIClient) -> None:
    pipeline = create(api)
    assert save(api, pipeline, 1, document()).json()["number"] == 1
    assert Version.objects.count() == 1


def test_what_is_moved_on_the_canvas_keeps_the_hash(api: APIClient) -> None:
    pipeline = create(api)
    moved = document(layout={"positions": {"n1": [5, 5], "n2": [200, 0]}}, description=["New"])
    before, after = api.get(f"{BASE}/{pipeline}/versions/1").json(), save(api, pipeline, 1, moved).json()
    assert (after["number"], after["semantic_hash"]) == (2, before["semantic_hash"])
    diff = api.get(f"{BASE}/{pipeline}/diff").json()
    assert (diff["before"], diff["after"], diff["nodes"]["moved"], diff["nodes"]["changed"]) == (1, 2, ["n1"], [])
    assert diff["settings"] == [{"pointer": "/description", "before": [], "after": ["New"]}]


def test_a_difference_names_node_and_field(api: APIClient) -> None:
    pipeline = create(api)
    changed = document(rows=7)
    changed["nodes"]["n3"] = {**changed["nodes"].pop("n2"), "name": "Print"}
    changed["edges"]["e1"]["to"] = ["n3", "in"]
    save(api, pipeline, 1, changed)
    diff = api.get(f"{BASE}/{pipeline}/diff?before=1&after=2").json()
    assert (diff["nodes"]["added"], diff["nodes"]["removed"]) == (["n3"], ["n2"])
    [node] = diff["nodes"]["changed"]
    assert node == {
        "id": "n1",
        "name": "Bids",
        "changes": [{"pointer": "/params/events", "before": 100, "after": 7}],
    }
    [edge] = diff["edges"]["changed"]
    assert edge["changes"] == [{"pointer": "/to/0", "before": "n2", "after": "n3"}]


def test_an_old_version_becomes_the_next_one(api: APIClient) -> None:
    pipeline = create(api)
    save(api, pipeline, 1, document(rows=200))
    answer = api.post(f"{BASE}/{pipeline}/restore", {"version": 1}, format="json", headers={"If-Match": '"2"'})
    assert (answer.json()["number"], answer.json()["message"]) == (3, "Version 1 again")
    assert answer.json()["document"]["nodes"]["n1"]["params"]["events"] == 100
    answer = api.post(f"{BASE}/{pipeline}/restore", {"version": 9}, format="json", headers={"If-Match": '"3"'})
    assert answer.status_code == 404


def test_an_archived_pipeline_is_hidden_and_is_not_saved(api: APIClient) -> None:
    pipeline = create(api)
    assert api.delete(f"{BASE}/{pipeline}").status_code == 409
    assert api.patch(f"{BASE}/{pipeline}", {"archived": True}, format="json").json()["archived_at"] is not None
    assert api.get(BASE).json()["pipelines"] == []
    assert len(api.get(f"{BASE}?archived=true").json()["pipelines"]) == 1
    assert save(api, pipeline, 1, document(rows=2)).status_code == 409
    answer = api.put(
        f"{BASE}/{pipeline}/draft",
        {"document": document(rows=2), "base": 1},
        format="json",
        headers={"If-None-Match": "*"},
    )
    assert answer.status_code == 409
    assert api.delete(f"{BASE}/{pipeline}").status_code == 200
    assert (Pipeline.objects.count(), Version.objects.count()) == (0, 0)
    assert api.get(f"{BASE}/{pipeline}").status_code == 404


def test_pipelines_are_found_by_name_and_tag(api: APIClient) -> None:
    one, two = create(api, "Flights"), create(api, "Orders")
    api.patch(f"{BASE}/{two}", {"tags": ["shop", "shop", "live"]}, format="json")
    assert [row["id"] for row in api.get(f"{BASE}?text=fLiG").json()["pipelines"]] == [one]
    [found] = api.get(f"{BASE}?tag=shop").json()["pipelines"]
    assert (found["id"], found["tags"]) == (two, ["shop", "live"])
    assert api.get(f"{BASE}?text=%00").json()["pipelines"] == []


def test_roles(api: APIClient, oscar: User, victor: User) -> None:
    pipeline = create(api)
    for client in (client_of(oscar), client_of(victor)):
        assert client.get(f"{BASE}/{pipeline}").status_code == 200
        assert client.get(f"{BASE}/{pipeline}/versions").status_code == 200
        assert client.get(f"{BASE}/{pipeline}/draft").status_code == 403
        assert client.post(BASE, {"document": document()}, format="json").status_code == 403
        assert save(client, pipeline, 1, document(rows=2)).status_code == 403
        assert client.patch(f"{BASE}/{pipeline}", {"archived": True}, format="json").status_code == 403
        assert client.delete(f"{BASE}/{pipeline}").status_code == 403
        assert client.put(f"{BASE}/connections/pg", {"kind": "postgres"}, format="json").status_code == 403


@pytest.mark.parametrize("path", ["x", "0" * 32, "0" * 31 + "g"])
def test_an_unknown_pipeline_is_not_found(api: APIClient, path: str) -> None:
    assert api.get(f"{BASE}/{path}").status_code in (400, 404)
    assert api.get(f"{BASE}/{path}/versions/1").status_code in (400, 404)


def test_a_version_of_another_pipeline_is_not_found(api: APIClient) -> None:
    one, two = create(api, "One"), create(api, "Two")
    save(api, one, 1, document("One", rows=2))
    assert api.get(f"{BASE}/{one}/versions/2").status_code == 200
    for number in ("2", "0", str(2**31), "9" * 30):
        assert api.get(f"{BASE}/{two}/versions/{number}").status_code == 404, number
