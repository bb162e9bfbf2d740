"""Export and import: no secret leaves or enters."""

from __future__ import annotations

import json

import pytest
from rest_framework.test import APIClient

from backend.pipelines.models import Pipeline
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create, save

CANARY = "canary-3141592"


def with_url() -> dict[str, object]:
    made = document()
    made["nodes"]["n2"]["params"] = {"label": f"see postgresql://me:{CANARY}@host:5432/db and redis://:{CANARY}@h"}
    return made


def test_what_is_exported_is_imported_as_the_same_pipeline(api: APIClient) -> None:
    exported = api.get(f"{BASE}/{create(api)}/export?format=json").json()
    assert exported["file_name"] == "hot-auctions-v1.json"
    again = api.post(f"{BASE}/import", {"document": json.loads(exported["text"])}, format="json")
    assert again.status_code == 201
    hashes = {row["head"]["semantic_hash"] for row in api.get(BASE).json()["pipelines"]}
    assert (len(hashes), Pipeline.objects.count()) == (1, 2)


def test_users_and_passwords_of_urls_stay_behind(api: APIClient) -> None:
    pipeline = create(api)
    save(api, pipeline, 1, with_url())
    exported = api.get(f"{BASE}/{pipeline}/export").json()
    assert CANARY not in json.dumps(exported)
    assert exported["stripped"] == ["/nodes/n2/params/label"]
    assert "see postgresql://host:5432/db and redis://h" in exported["text"]
    imported = api.post(f"{BASE}/import", {"document": with_url()}, format="json").json()
    assert imported["stripped"] == ["/nodes/n2/params/label"]
    made = api.get(f"{BASE}/{imported['pipeline']['id']}/versions/1").json()
    assert CANARY not in json.dumps(made)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("settings", {"options": {"s3.secret-key": CANARY}}),
        ("settings", {"options": {"x.api.key": CANARY}}),
        ("parameters", [{"name": "db_password", "type": "string", "default": CANARY}]),
        (
            "nodes",
            {"n1": {"type": "sink.x", "name": "x", "uid": "x", "params": {"auth": [{"accessToken": CANARY}]}}},
        ),
    ],
)
def test_values_of_secrets_are_refused(api: APIClient, part: str, value: object) -> None:
    made = {**document(edges={}), part: value}
    answer = api.post(f"{BASE}/import", {"document": made}, format="json")
    assert answer.status_code == 400
    assert CANARY not in answer.content.decode()
    assert f"document/{part}" in answer.json()["errors"][0]["field"]
    assert Pipeline.objects.count() == 0


def test_words_that_only_look_like_secrets_are_taken(api: APIClient) -> None:
    made = document()
    made["nodes"]["n2"]["params"] = {"key": "auction", "keys": ["token"], "password": ""}
    assert api.post(f"{BASE}/import", {"document": made}, format="json").status_code == 201
