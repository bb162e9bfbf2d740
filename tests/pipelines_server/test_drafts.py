"""Drafts: each user's own, never overwritten or ended unseen."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.pipelines.models import Draft, Pipeline, Version
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create, save


@pytest.fixture
def pipeline(api: APIClient) -> str:
    return create(api)


def put(api: APIClient, pipeline: str, tag: str | None, rows: int = 5, base: int = 1) -> Any:
    headers = {"If-None-Match": "*"} if tag is None else {"If-Match": tag}
    body = {"document": document(rows=rows), "base": base}
    return api.put(f"{BASE}/{pipeline}/draft", body, format="json", headers=headers)


def save_seen(api: APIClient, pipeline: str, head: int, rows: int, draft: object) -> Any:
    """Save a version as a page does that has seen a draft: its ETag or None."""
    tag = draft.strip('"') if isinstance(draft, str) else draft
    body = {"document": document(rows=rows), "draft": tag}
    return api.post(f"{BASE}/{pipeline}/versions", body, format="json", headers={"If-Match": f'"{head}"'})


def test_a_draft_is_kept_for_its_user(api: APIClient, bobs: APIClient, pipeline: str) -> None:
    written = put(api, pipeline, None)
    assert written.status_code == 200
    read = api.get(f"{BASE}/{pipeline}/draft")
    assert read["ETag"] == written["ETag"] == f'"{read.json()["tag"]}"'
    assert read.json()["document"]["nodes"]["n1"]["params"]["events"] == 5
    assert api.get(f"{BASE}/{pipeline}").json()["draft"]["tag"] == read.json()["tag"]
    # bob learns that alice edits, and nothing else
    assert bobs.get(f"{BASE}/{pipeline}/draft").status_code == 404
    seen = bobs.get(f"{BASE}/{pipeline}").json()
    assert (seen["draft"], [editor["user"] for editor in seen["editors"]]) == (None, ["alice"])
    assert seen["editors"][0].keys() == {"user", "base", "updated_at"}


def test_nobody_writes_or_deletes_the_draft_of_another(api: APIClient, bobs: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None)["ETag"]
    stolen = put(bobs, pipeline, tag, rows=666)
    assert (stolen.status_code, stolen.json()["current"]) == (412, None)
    bobs.delete(f"{BASE}/{pipeline}/draft", headers={"If-Match": tag})
    bobs.delete(f"{BASE}/{pipeline}/draft")
    put(bobs, pipeline, None, rows=7)
    assert api.get(f"{BASE}/{pipeline}/draft").json()["document"]["nodes"]["n1"]["params"]["events"] == 5
    assert Draft.objects.count() == 2


def test_a_draft_of_another_pipeline_is_not_meant(api: APIClient, pipeline: str) -> None:
    other = create(api, "Other")
    tag = put(api, pipeline, None)["ETag"]
    assert put(api, other, tag).status_code == 412


def test_the_second_of_two_tabs_gets_what_the_first_has_written(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None)["ETag"]
    newer = put(api, pipeline, tag, rows=6)["ETag"]
    assert newer != tag
    refused = put(api, pipeline, tag, rows=7)
    assert refused.status_code == 412
    assert refused.json()["errors"][0]["code"] == "draft_moved"
    assert f'"{refused.json()["current"]["tag"]}"' == newer
    assert refused.json()["current"]["document"]["nodes"]["n1"]["params"]["events"] == 6
    assert put(api, pipeline, None, rows=7).status_code == 412
    assert put(api, pipeline, newer, rows=7).status_code == 200


def test_a_write_whose_answer_was_lost_succeeds_again(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None)["ETag"]
    assert put(api, pipeline, None)["ETag"] == tag
    newer = put(api, pipeline, tag, rows=6)["ETag"]
    assert put(api, pipeline, tag, rows=6)["ETag"] == newer


def test_a_draft_that_was_begun_again_is_another_one(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None)["ETag"]
    assert api.delete(f"{BASE}/{pipeline}/draft", headers={"If-Match": tag}).status_code == 200
    assert put(api, pipeline, tag).json()["current"] is None
    assert put(api, pipeline, None)["ETag"] != tag
    assert put(api, pipeline, tag, rows=8).status_code == 412


def test_a_draft_that_was_written_meanwhile_is_not_thrown_away(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None)["ETag"]
    put(api, pipeline, tag, rows=6)
    assert api.delete(f"{BASE}/{pipeline}/draft", headers={"If-Match": tag}).status_code == 412
    assert Draft.objects.count() == 1


def test_saving_a_version_ends_the_draft_of_its_author_only(api: APIClient, bobs: APIClient, pipeline: str) -> None:
    put(api, pipeline, None)
    put(bobs, pipeline, None, rows=9)
    assert save(api, pipeline, 1, document(rows=5)).status_code == 200
    assert [draft.user.get_username() for draft in Draft.objects.all()] == ["bob"]
    # bob's is still a draft of version 1
    assert bobs.get(f"{BASE}/{pipeline}").json()["draft"]["base"] == 1


def test_a_save_ends_the_draft_that_it_names(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None, rows=5)["ETag"]
    # what was drawn since is part of the version, too
    assert save_seen(api, pipeline, 1, 6, tag).json()["number"] == 2
    assert not Draft.objects.exists()
    assert save_seen(api, pipeline, 2, 7, None).json()["number"] == 3


def test_a_save_does_not_end_a_draft_that_was_written_meanwhile(api: APIClient, pipeline: str) -> None:
    seen = put(api, pipeline, None, rows=5)["ETag"]
    newer = put(api, pipeline, seen, rows=6)["ETag"]
    for tag in (seen, None):
        refused = save_seen(api, pipeline, 1, 5, tag)
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (412, "draft_moved")
        assert f'"{refused.json()["current"]["tag"]}"' == newer
        assert refused.json()["current"]["document"]["nodes"]["n1"]["params"]["events"] == 6
    # nothing was saved
    assert (Pipeline.objects.get().head, Version.objects.count(), Draft.objects.count()) == (1, 1, 1)
    assert save_seen(api, pipeline, 1, 5, newer).json()["number"] == 2
    assert not Draft.objects.exists()


def test_a_save_from_a_draft_that_is_gone_is_refused(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None, rows=5)["ETag"]
    api.delete(f"{BASE}/{pipeline}/draft")
    refused = save_seen(api, pipeline, 1, 5, tag)
    assert (refused.status_code, refused.json()["current"]) == (412, None)
    assert save_seen(api, pipeline, 1, 5, None).json()["number"] == 2


def test_a_draft_that_is_the_very_document_ends_whoever_has_written_it(api: APIClient, pipeline: str) -> None:
    seen = put(api, pipeline, None, rows=5)["ETag"]
    put(api, pipeline, seen, rows=6)
    assert save_seen(api, pipeline, 1, 6, seen).json()["number"] == 2
    assert not Draft.objects.exists()


def test_a_save_that_names_no_draft_works_and_ends_none(api: APIClient, pipeline: str) -> None:
    put(api, pipeline, None, rows=5)
    assert save(api, pipeline, 1, document(rows=6)).json()["number"] == 2
    restored = api.post(f"{BASE}/{pipeline}/restore", {"version": 1}, format="json", headers={"If-Match": '"2"'})
    assert restored.json()["number"] == 3
    assert api.get(f"{BASE}/{pipeline}/draft").json()["document"]["nodes"]["n1"]["params"]["events"] == 5


def test_a_save_whose_answer_was_lost_is_answered_again_and_ends_no_draft_begun_since(
    api: APIClient, pipeline: str
) -> None:
    tag = put(api, pipeline, None, rows=5)["ETag"]
    for _ in range(2):
        assert save_seen(api, pipeline, 1, 5, tag).json()["number"] == 2
    put(api, pipeline, None, rows=6, base=2)
    assert save_seen(api, pipeline, 1, 5, tag).json()["number"] == 2
    assert Draft.objects.get().base == 2


def test_a_save_that_makes_no_version_is_answered_again(api: APIClient, pipeline: str) -> None:
    tag = put(api, pipeline, None, rows=100)["ETag"]
    for _ in range(2):
        assert save_seen(api, pipeline, 1, 100, tag).json()["number"] == 1
    assert not Draft.objects.exists()


def test_the_draft_of_another_is_neither_in_the_way_nor_ended(api: APIClient, bobs: APIClient, pipeline: str) -> None:
    bobs_tag = put(bobs, pipeline, None, rows=9)["ETag"]
    assert save_seen(api, pipeline, 1, 9, bobs_tag).status_code == 412
    assert save_seen(api, pipeline, 1, 9, None).json()["number"] == 2
    assert Draft.objects.get().user.get_username() == "bob"


def test_a_save_names_a_draft_by_its_tag(api: APIClient, pipeline: str) -> None:
    wrong: list[object] = ["", "x", "1", "1.x", "-1.2", "1.99999999999999999999", 1.1, 7, True, [], {}]
    for tag in wrong:
        assert save_seen(api, pipeline, 1, 5, tag).status_code == 400, tag
    assert save_seen(api, pipeline, 1, 5, "999999999999999999.999999999999999999").status_code == 412
    assert Version.objects.count() == 1


def test_preconditions_are_needed(api: APIClient, pipeline: str) -> None:
    body = {"document": document(), "base": 1}
    assert api.put(f"{BASE}/{pipeline}/draft", body, format="json").status_code == 428
    for tag in ("x", '"1"', '"1.x"', '"-1.2"', '"1.99999999999999999999"'):
        assert put(api, pipeline, tag).status_code == 400, tag
    assert put(api, pipeline, '"999999999999999999.999999999999999999"').status_code == 412
    assert put(api, pipeline, None, base=2).status_code == 404
    for base in (0, -1, 2**31, "1", None, True, 1.5):
        body = {"document": document(), "base": base}
        answer = api.put(f"{BASE}/{pipeline}/draft", body, format="json", headers={"If-None-Match": "*"})
        assert answer.status_code == 400, base
