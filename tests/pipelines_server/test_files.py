"""Export and import: no secret leaves or enters."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.pipelines.models import Pipeline
from tests.accounts.cast import client_of
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create, save

CANARY = "canary-3141592"


def with_url() -> dict[str, object]:
    made = document()
    urls = f"see postgresql://me:{CANARY}@host:5432/db?sslpassword={CANARY}&a=b and redis://:{CANARY}@h"
    made["nodes"]["n2"]["params"] = {"label": urls}
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
    assert "see postgresql://host:5432/db?sslpassword=&a=b and redis://h" in exported["text"]
    imported = api.post(f"{BASE}/import", {"document": with_url()}, format="json").json()
    assert imported["stripped"] == ["/nodes/n2/params/label"]
    made = api.get(f"{BASE}/{imported['pipeline']['id']}/versions/1").json()
    assert CANARY not in json.dumps(made)


PARAMETERS = "/options/pipeline.global-job-parameters"
#: part of a document, with a secret in it, and the place
SECRETS = [
    ("settings", {"options": {"s3.secret-key": CANARY}}, "/options/s3.secret-key"),
    ("settings", {"options": {"my.api-key": CANARY}}, "/options/my.api-key"),
    ("settings", {"options": {"x.api.key": CANARY}}, "/options/x.api.key"),
    ("parameters", [{"name": "db_password", "type": "string", "default": CANARY}], "/0/default"),
    (
        "nodes",
        {"n1": {"type": "sink.x", "name": "x", "uid": "x", "params": {"auth": [{"accessToken": CANARY}]}}},
        "/n1/params/auth/0/accessToken",
    ),
    (
        "nodes",
        {"n1": {"type": "sink.x", "name": "x", "uid": "x", "params": {"credentials": {"of": [["", CANARY]]}}}},
        "/n1/params/credentials/of/0/1",
    ),
    ("settings", {"options": {"pipeline.global-job-parameters": f"password:{CANARY}"}}, PARAMETERS),
    ("samples", {"n1": {"pinned": True, "rows": [[{"api/token": CANARY}, 1]]}}, "/n1/rows/0/0/api~1token"),
]


@pytest.mark.parametrize(("part", "value"), [case[:2] for case in SECRETS])
def test_values_of_secrets_are_refused(api: APIClient, part: str, value: object) -> None:
    made = {**document(edges={}), part: value}
    answer = api.post(f"{BASE}/import", {"document": made}, format="json")
    assert answer.status_code == 400
    assert CANARY not in answer.content.decode()
    assert f"document/{part}" in answer.json()["errors"][0]["field"]
    assert Pipeline.objects.count() == 0


def test_words_that_only_look_like_secrets_are_taken(api: APIClient) -> None:
    made = document()
    made["nodes"]["n2"]["params"] = {
        "key": "auction",
        "keys": ["token"],
        "password": "",
        "token": {"$parameter": "first"},
        "secret": True,
        "label": "https://host/?tokens",
    }
    assert api.post(f"{BASE}/import", {"document": made}, format="json").status_code == 201


@pytest.mark.parametrize(("part", "value", "place"), SECRETS)
def test_what_an_import_would_refuse_stays_behind(api: APIClient, part: str, value: object, place: str) -> None:
    made = {**document(edges={}), part: value}
    pipeline = create(api)
    assert save(api, pipeline, 1, made).status_code == 200
    of_version = [api.get(f"{BASE}/{pipeline}/export?format={kind}").json() for kind in ("json", "python")]
    of_draft = [
        api.post(f"{BASE}/export", {"document": made, "format": kind}, format="json").json()
        for kind in ("json", "python")
    ]
    for exported in (*of_version, *of_draft):
        assert CANARY not in json.dumps(exported)
        assert exported["stripped"] == [f"/{part}{place}"]
    assert of_version[0]["text"] == of_draft[0]["text"]
    again = api.post(f"{BASE}/import", {"document": json.loads(of_draft[0]["text"])}, format="json")
    assert (again.status_code, again.json()["stripped"]) == (201, [])


def test_a_secret_that_is_no_text_is_left_out_without_another_type(api: APIClient) -> None:
    made = document(parameters=[{"name": "pin_token", "type": "long", "default": 4711}])
    exported = api.post(f"{BASE}/export", {"document": made}, format="json").json()
    assert exported["stripped"] == ["/parameters/0/default"]
    left = json.loads(exported["text"])
    assert left["parameters"][0]["default"] is None
    assert api.post(f"{BASE}/validate", {"document": left}, format="json").json()["problems"] == []


def test_what_is_drawn_is_exported_without_being_saved(api: APIClient, victor: User) -> None:
    made = with_url()
    exported = client_of(victor).post(f"{BASE}/export", {"document": made}, format="json").json()
    assert (exported["file_name"], exported["stripped"]) == ("hot-auctions.json", ["/nodes/n2/params/label"])
    assert "see postgresql://host:5432/db?sslpassword=&a=b and redis://h" in exported["text"]
    program = api.post(f"{BASE}/export", {"document": document(), "format": "python"}, format="json").json()
    assert (program["file_name"], program["stripped"]) == ("hot-auctions.py", [])
    assert program["text"] == api.post(f"{BASE}/compile", {"document": document()}, format="json").json()["source"]
    assert Pipeline.objects.count() == 0
    for wrong in ("exe", ["json"], None):
        answer = api.post(f"{BASE}/export", {"document": made, "format": wrong}, format="json")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "format")
    assert api.post(f"{BASE}/export", {}, format="json").status_code == 400
