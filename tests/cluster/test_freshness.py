"""The rule that says when a document is too old to be called live."""

from __future__ import annotations

from backend.cluster.freshness import STALE_AFTER_MS, Freshness, Source


def test_a_document_is_live_while_the_jobmanager_vouches_for_it() -> None:
    assert Freshness(Source.LIVE, 400).to_json() == {
        "age_ms": 400, "source": "live", "is_stale": False, "reason": "",
    }  # fmt: skip
    # a job that no jobmanager has told of yet: SQL has all there is
    assert Freshness(Source.DATABASE, 400).reason == ""


def test_a_document_grows_old_by_itself() -> None:
    read = Freshness(Source.LIVE, 400)
    assert read.after(STALE_AFTER_MS - 400).reason == ""
    assert read.after(12_000).reason == "The JobManager has sent no heartbeat for 12 s."
    assert read.after(12_000).to_json()["is_stale"]


def test_an_unknown_age_is_no_young_one() -> None:
    assert Freshness(Source.DATABASE).reason == "No JobManager has sent a heartbeat."
    assert Freshness(Source.DATABASE).after(5_000).age_ms is None
    assert Freshness(Source.DATABASE, redis_answers=False).reason == "Redis does not answer."
    kept = Freshness(Source.KEPT, 7_500, redis_answers=False)
    assert kept.reason == "Redis does not answer. The JobManager has sent no heartbeat for 7 s."


def test_a_job_that_has_ended_does_not_grow_old() -> None:
    assert not Freshness(Source.DATABASE, is_final=True, redis_answers=False).to_json()["is_stale"]
    assert not Freshness(Source.LIVE, 10**9, is_final=True).to_json()["is_stale"]
