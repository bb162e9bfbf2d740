"""A web process that dies in mid-save, at every call to the database; and two that save at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection, connections

from backend.pipelines import services
from backend.pipelines.documents import Checked, check
from backend.pipelines.models import Draft, Pipeline, Version
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.pipelines_server.documents import document
from tests.support.databases import needs_processes

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "a-key-of-mine"
MOST_CALLS = 40


def with_lost_calls(act: Callable[[], Any], reset: Callable[[], None], is_right: Callable[[], bool]) -> int:
    """Lose each call in turn, then ask again as a client does; return the number of calls."""
    for nth in range(1, MOST_CALLS):
        for loss in Loss:
            reset()
            database = FailingDatabase(nth, loss)
            try:
                with database.in_use():
                    act()
            except OperationalError:
                # as a connection that is gone would
                connection.close()
            act()
            assert is_right(), (nth, loss, database.failed)
        if not database.failed:
            return nth - 1
    raise AssertionError("there are more calls")


def test_a_pipeline_is_created_once_whatever_is_lost(alice: User) -> None:
    checked = check(document())
    calls = with_lost_calls(
        lambda: services.create_pipeline(checked, alice, key=KEY),
        forget,
        lambda: (Pipeline.objects.count(), Version.objects.count()) == (1, 1),
    )
    assert calls >= 3


@pytest.mark.parametrize("key", [None, KEY])
def test_a_version_is_saved_once_whatever_is_lost(alice: User, key: str | None) -> None:
    drafted, changed = check(document(rows=6)), check(document(rows=7))
    seen: list[services.SeenDraft] = []

    def reset() -> None:
        Pipeline.objects.all().delete()
        pipeline, _ = services.create_pipeline(check(document()), alice)
        seen[:] = [services.SeenDraft(services.put_draft(pipeline, alice, drafted, base=1, tag=None).tag)]

    def save() -> None:
        services.save_version(Pipeline.objects.get(), changed, alice, head=1, draft=seen[0], key=key)

    def is_right() -> bool:
        rows = sorted(Version.objects.values_list("number", flat=True))
        return rows == [1, 2] and Pipeline.objects.get().head == 2 and not Draft.objects.exists()

    assert with_lost_calls(save, reset, is_right) >= 4


def test_a_draft_is_written_once_whatever_is_lost(alice: User) -> None:
    changed = check(document(rows=7))
    tags: list[str] = []

    def reset() -> None:
        Pipeline.objects.all().delete()
        pipeline, _ = services.create_pipeline(check(document()), alice)
        tags[:] = [services.put_draft(pipeline, alice, check(document()), base=1, tag=None).tag]

    def write() -> None:
        services.put_draft(Pipeline.objects.get(), alice, changed, base=1, tag=tags[0])

    def is_right() -> bool:
        return Draft.objects.get().document == changed.text and Draft.objects.get().revision == 2

    assert with_lost_calls(write, reset, is_right) >= 2


def forget() -> None:
    """Delete all pipelines."""
    Pipeline.objects.all().delete()


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Do something in threads at the same time; return results, or errors, in their order."""
    results: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def run(index: int) -> None:
        gate.wait()
        try:
            results[index] = act(index)
        except services.PipelineError as error:
            results[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@needs_processes
def test_of_eight_saves_at_once_one_is_the_next_version(alice: User) -> None:
    pipeline, _ = services.create_pipeline(check(document()), alice)
    documents = [check(document(rows=10 + index)) for index in range(8)]
    found = at_once(8, lambda index: services.save_version(pipeline, documents[index], alice, head=1))
    saved = [result for result in found if isinstance(result, Version)]
    moved = [result.head.number for result in found if isinstance(result, services.HeadMovedError)]
    assert (len(saved), moved) == (1, [2] * 7)
    assert Version.objects.count() == 2


@needs_processes
def test_eight_requests_with_one_key_create_one_pipeline(alice: User) -> None:
    checked = check(document())
    found = at_once(8, lambda index: services.create_pipeline(checked, alice, key=KEY)[0].id)
    assert len(set(found)) == 1
    assert (Pipeline.objects.count(), Version.objects.count()) == (1, 1)


def _nth(acts: list[Callable[[], Any]], index: int) -> Any:
    return acts[index]()


@needs_processes
def test_of_a_save_and_a_write_of_its_draft_at_once_none_is_lost(alice: User) -> None:
    pipeline, _ = services.create_pipeline(check(document()), alice)
    for turn in range(20):
        tag = services.put_draft(pipeline, alice, check(document(rows=10)), base=1, tag=None).tag
        seen, head = services.SeenDraft(tag), Pipeline.objects.get().head
        acts: list[Callable[[], Any]] = [
            partial(services.save_version, pipeline, check(document(rows=100 + turn)), alice, head=head, draft=seen),
            partial(services.put_draft, pipeline, alice, check(document(rows=11)), base=1, tag=tag),
        ]
        saved, written = at_once(2, partial(_nth, acts))
        # whoever was first makes the other one look again
        assert isinstance(saved, services.DraftMovedError) != isinstance(written, services.DraftMovedError)
        assert Draft.objects.exists() == isinstance(written, Draft)
        assert Pipeline.objects.get().head == head + isinstance(saved, Version)
        Draft.objects.all().delete()


def _write(pipeline: Pipeline, user: User, documents: list[Checked], seen: str | None, index: int) -> Draft:
    return services.put_draft(pipeline, user, documents[index], base=1, tag=seen)


@needs_processes
def test_of_eight_writes_of_a_draft_at_once_one_counts(alice: User) -> None:
    pipeline, _ = services.create_pipeline(check(document()), alice)
    documents = [check(document(rows=10 + index)) for index in range(8)]
    for tag in (None, "current"):
        seen = None if tag is None else Draft.objects.get().tag
        write = partial(_write, pipeline, alice, documents, seen)
        found = at_once(8, write)
        moved = [result for result in found if isinstance(result, services.DraftMovedError)]
        # one of the later writes may be what is there already
        assert len(moved) >= 6
        assert Draft.objects.count() == 1
