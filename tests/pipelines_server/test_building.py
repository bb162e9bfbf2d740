"""The catalog, validation and compilation over REST."""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.accounts.cast import client_of
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create


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
