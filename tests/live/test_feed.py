"""Merge patches and what a feed sends next."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.freshness import Freshness, Source
from backend.live.documents import LiveDocument
from backend.live.feed import Feed, frame_text, tick_message
from backend.live.merge_patch import apply_merge_patch, merge_patch

_LEAVES = st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.none() | st.integers(), max_size=3)
FRESH = Freshness(Source.LIVE, 400)
_DOCUMENTS = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(_LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_size=4,
)


@given(before=_DOCUMENTS, after=_DOCUMENTS)
def test_a_patch_leads_from_one_document_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    patch = merge_patch(before, after)
    assert apply_merge_patch(before, patch) == after
    assert (patch == {}) == (before == after)


def test_the_patches_of_the_rfc() -> None:
    assert merge_patch({"a": "b", "c": 1}, {"a": "z", "c": 1}) == {"a": "z"}
    assert merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == {"a": {"c": None}}
    assert merge_patch({"a": [1, 2]}, {"a": [1, 3]}) == {"a": [1, 3]}


def test_a_feed_begins_with_a_snapshot_and_goes_on_with_numbered_changes() -> None:
    feed = Feed("cluster")
    assert feed.next_message({"version": 3, "a": 1}, FRESH) == {
        "type": "snapshot",
        "topic": "cluster",
        "version": 3,
        "freshness": FRESH.to_json(),
        "data": {"version": 3, "a": 1},
    }
    assert feed.next_message({"version": 7, "a": 2}, FRESH) == {
        "type": "change",
        "topic": "cluster",
        "from": 3,
        "version": 7,
        "freshness": FRESH.to_json(),
        "patch": {"version": 7, "a": 2},
    }
    assert feed.next_message({"version": 7, "a": 2}, FRESH) is None


def test_a_version_that_goes_back_starts_over() -> None:
    feed = Feed("cluster")
    feed.next_message({"version": 7}, FRESH)
    message = feed.next_message({"version": 2}, FRESH)
    assert message is not None and message["type"] == "snapshot"
    feed.hint(3)
    assert feed.is_due


def test_hints_of_what_was_sent_are_no_reason_to_look() -> None:
    feed = Feed("cluster")
    feed.next_message({"version": 7}, FRESH)
    feed.hint(7)
    assert not feed.is_due
    feed.hint(8)
    assert feed.is_due and feed.hinted_version == 8


def test_a_tick_says_how_old_the_document_of_every_topic_is() -> None:
    cluster, job = Feed("cluster"), Feed("job:" + "a" * 32)
    cluster.next_message({"version": 7}, FRESH)
    assert tick_message([cluster, job], 5)["freshness"] == {"cluster": FRESH.to_json()}
    cluster.next_message({"version": 7}, FRESH.after(12_000))
    [told] = tick_message([cluster], 6)["freshness"].values()
    assert told["is_stale"] and told["age_ms"] == 12_400


def test_connections_with_the_same_documents_share_the_texts_of_changes() -> None:
    before: dict[str, Any] = {"version": 1, "a": 1, "gone": 2}
    after: dict[str, Any] = {"version": 2, "a": {"b": "\u00e9"}}
    other = {"version": 1, "a": 1}
    shared = LiveDocument(after, FRESH, 0.0)
    feeds = [Feed("cluster", sent) for sent in (before, before, other)]
    messages = [feed.next_message(after, FRESH, shared) for feed in feeds]
    first, second, third = [message["patch"] for message in messages if message is not None]
    assert first is second and first is not third
    assert json.loads(frame_text(messages[0] or {})) == {
        "type": "change",
        "topic": "cluster",
        "from": 1,
        "version": 2,
        "freshness": FRESH.to_json(),
        "patch": {"version": 2, "a": {"b": "\u00e9"}, "gone": None},
    }
    assert json.loads(third.text) == {"version": 2, "a": {"b": "\u00e9"}}
    snapshot = Feed("cluster").next_message(after, FRESH, shared)
    assert json.loads(frame_text(snapshot or {}))["data"] == after
