"""Documents that nobody's editor has made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.pipelines.models import Draft, Pipeline, Version
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create, save


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


BODIES: dict[str, Any] = {
    "no object": "[]",
    "nothing": "{}",
    "no document": '{"document": null}',
    "a text": '{"document": "x"}',
    "a deep list": f'{{"document": {nested(100_000)}}}',
    "a list as deep as Python reads": f'{{"document": {{"format": "tidemark.pipeline", "layout": {nested(900)}}}}}',
    "infinity": json.dumps({"document": document()}).replace("100", "1e999"),
    "not a number": json.dumps({"document": document()}).replace("100", "NaN"),
    "a huge number": json.dumps({"document": document()}).replace("100", "9" * 10_000),
    "half a character": json.dumps({"document": document("\ud800")}),
    "a name with NUL": json.dumps({"document": document("a\0b")}),
    "a parameter with NUL": json.dumps({"document": document()}).replace("bids-1", "a\\u0000b"),
    "a name of two lines": json.dumps({"document": document("a\nb")}),
    "a name from the right": json.dumps({"document": document("a\u202eb")}),
    "a blank name": json.dumps({"document": document("  ")}),
    "a long name": json.dumps({"document": document("x" * 201)}),
    "too many nodes": json.dumps(
        {"document": document(nodes={f"n{i}": document()["nodes"]["n1"] for i in range(1001)}, edges={})}
    ),
    "too many bytes": json.dumps({"document": document(description=["x" * (2 << 20)])}),
    "a later version": json.dumps({"document": {**document(), "version": 99}}),
    "an unknown part": json.dumps({"document": document(__proto__={})}),
    "an edge to nowhere": json.dumps({"document": document(edges={"e1": {"from": ["n1", "out"], "to": ["x", "in"]}})}),
    "half of a body": '{"document": {',
    "no JSON": "\0\0\0",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_it_is_refused_and_nothing_is_stored(api: APIClient, body: Any) -> None:
    answer = api.generic("POST", BASE, body, content_type="application/json")
    assert answer.status_code == 400, answer.content[:300]
    assert len(answer.content) < 2000
    assert (Pipeline.objects.count(), Version.objects.count()) == (0, 0)


def test_a_huge_body_is_refused_before_it_is_read(api: APIClient) -> None:
    answer = api.generic("POST", BASE, '{"document": "' + "x" * (6 << 20), content_type="application/json")
    assert answer.status_code == 413


@pytest.mark.parametrize("text", ["\u202e", "'\"\\\n`$(rm)", '"""', "\u2028", "{{7*7}}", "<script>"], ids=ascii)
def test_any_text_in_a_parameter_comes_back_as_it_was(api: APIClient, text: str) -> None:
    pipeline = create(api)
    written = document()
    written["nodes"]["n2"]["params"] = {"label": text}
    saved = save(api, pipeline, 1, written)
    assert saved.status_code == 200, saved.json()
    assert api.get(f"{BASE}/{pipeline}/versions/2").json()["document"]["nodes"]["n2"]["params"]["label"] == text


@pytest.mark.parametrize("field", ["message", "tags"])
def test_texts_beside_the_document_are_checked(api: APIClient, field: str) -> None:
    values: list[Any] = ["a\0b", "\ud800", "x" * 1001, 7, {"a": 1}]
    for value in values:
        given = [value] if field == "tags" else value
        answer = api.post(BASE, json.dumps({"document": document(), field: given}), content_type="application/json")
        assert answer.status_code == 400, value
    assert Pipeline.objects.count() == 0


@pytest.mark.parametrize("key", ["short", "with blank", "x" * 101, "ümlaut-key"])
def test_a_key_is_printable(api: APIClient, key: str) -> None:
    answer = api.generic(
        "POST",
        BASE,
        json.dumps({"document": document()}),
        content_type="application/json",
        HTTP_IDEMPOTENCY_KEY=key,
    )
    assert answer.status_code == 400


def test_a_hostile_draft_is_refused(api: APIClient) -> None:
    pipeline = create(api)
    for name in ("a deep list", "infinity", "half a character", "too many bytes"):
        body = BODIES[name].replace('{"document"', '{"base": 1, "document"', 1)
        answer = api.generic(
            "PUT", f"{BASE}/{pipeline}/draft", body, content_type="application/json", HTTP_IF_NONE_MATCH="*"
        )
        assert answer.status_code == 400, name
    assert Draft.objects.count() == 0
