"""Read schema over REST: tables over a connection, files in a real child."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from runtime.client.confinement import Confinement
from tests.accounts.cast import client_of
from tests.pipeline.pipelines import chain, node, pipeline
from tests.pipelines_server.documents import BASE


def read(api: APIClient, document: dict[str, Any], node_id: str = "n0") -> Any:
    return api.post(f"{BASE}/read-schema", {"document": document, "node": node_id}, format="json")


def of_files(*paths: Path, kind: str = "csv", **params: Any) -> dict[str, Any]:
    source = node("source.files", "Orders", paths=[str(path) for path in paths], format={"kind": kind}, **params)
    return chain(source, node("sink.print", "Show"))


def test_columns_of_files_are_found(api: APIClient, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("id,item\n1,pen\n")
    answer = read(api, of_files(tmp_path))
    assert answer.status_code == 200, answer.json()
    found = answer.json()
    assert found["columns"] == [["id", "long"], ["item", "string"]]
    assert (found["origin"], found["field"]) == (str(tmp_path / "b.csv"), "/params/type")
    assert found["read_at"] > 1_700_000_000_000
    (tmp_path / "b.csv").write_text("id,item\n1.5,pen\n")
    assert read(api, of_files(tmp_path)).json()["fingerprint"] != found["fingerprint"]
    # what was found is what the node declares then
    declared = of_files(tmp_path / "b.csv", type=found["columns"])
    assert api.post(f"{BASE}/validate", {"document": declared}, format="json").json()["is_deployable"]


def test_paths_may_be_a_parameter_and_a_replay_names_its_own_field(api: APIClient, tmp_path: Path) -> None:
    path = tmp_path / "o.ndjson"
    path.write_text(json.dumps({"id": 1}) + "\n")
    recording = {"kind": "files", "paths": [{"$parameter": "where"}], "time_column": "id"}
    document = chain(
        node("source.replay", "Again", recording=recording),
        node("sink.print", "Show"),
        parameters=[{"name": "where", "type": "string", "default": str(path)}],
    )
    found = read(api, document).json()
    assert (found["columns"], found["field"]) == ([["id", "long"]], "/params/recording/type")


def test_what_cannot_be_read_says_why(api: APIClient, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1\n1,2,3\n")
    for document, words in (
        (of_files(tmp_path / "gone.csv"), "no such file"),
        (of_files(tmp_path / "bad.csv"), "bad.csv"),
        (of_files(tmp_path / "bad.csv", kind="text"), "does not name yet"),
        (chain(node("source.nexmark", "Bids", kind="bids")), "does not name yet"),
        (chain(node("source.postgres", "T")), "does not name yet"),
        (chain(node("source.postgres", "T", connection="nobody", table="t")), "nobody"),
    ):
        answer = read(api, document)
        assert answer.status_code == 400 and words in answer.json()["errors"][0]["message"], answer.json()
    for node_id in ("gone", "", 7):
        assert read(api, of_files(tmp_path), node_id).status_code == 400  # type: ignore[arg-type]


def test_files_that_are_hidden_from_programs_are_hidden_here(
    api: APIClient, settings: Settings, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "keys.csv").write_text("canary,id\n1,2\n")
    assert read(api, of_files(home / "keys.csv")).status_code == 200
    settings.TIDEMARK_CONFINEMENT = Confinement((str(home),))
    answer = read(api, of_files(home / "keys.csv"))
    if answer.status_code == 200:
        pytest.skip("this kernel hides no files")
    assert answer.status_code == 400 and "canary" not in json.dumps(answer.json())


def test_who_may_look(oscar: User, victor: User, tmp_path: Path) -> None:
    for client in map(client_of, (oscar, victor)):
        assert read(client, of_files(tmp_path)).status_code == 403


def test_lookups_and_table_sources_ask_their_connection(api: APIClient) -> None:
    lookup = node("join.lookup", "Sellers", connection="gone", table="sellers", on=[["id", "id"]], type=[])
    answer = read(api, pipeline({"n0": lookup}))
    assert answer.status_code == 400 and "gone" in answer.json()["errors"][0]["message"]
