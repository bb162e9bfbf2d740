"""Pipelines, their versions and drafts. Any process, any thread; plain SQL.

Nothing is overwritten unseen: whoever saves says what it has seen (the head's number, the draft's tag), and a
conditional update decides who of two was first. A repeated request whose answer was lost is answered as before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from backend.cluster.services import now_ms
from backend.pipelines.documents import Checked, check
from backend.pipelines.models import OPEN_STATES, Draft, Pipeline, Version

logger = logging.getLogger(__name__)

MAX_LISTED = 500
MAX_NUMBER = 2**31 - 1
"""Of a version; databases take no larger ones."""


@dataclass(frozen=True, slots=True)
class SeenDraft:
    """Names the draft of their own that the author of a version has seen.

    Attributes:
        tag: `Draft.tag`; None: there was no draft.
    """

    tag: str | None


class PipelineError(Exception):
    """Base of this module's errors; the message may be shown to the user."""


class PipelineUnknownError(PipelineError):
    """No pipeline has this id."""

    def __init__(self, pipeline_id: str) -> None:
        super().__init__(f"Pipeline {pipeline_id[:40]} not found.")


class VersionUnknownError(PipelineError):
    """The pipeline has no such version."""

    def __init__(self, pipeline: Pipeline, number: int) -> None:
        super().__init__(f"Pipeline {pipeline.name!r} has no version {number}.")


class HeadMovedError(PipelineError):
    """Somebody has saved a version meanwhile.

    Attributes:
        head: that version.
    """

    def __init__(self, head: Version) -> None:
        super().__init__(f"Version {head.number} was saved in the meantime.")
        self.head = head


class DraftMovedError(PipelineError):
    """The draft is another one than the writer has seen: it was written elsewhere, or is gone.

    Attributes:
        draft: as it is now; None: there is none.
    """

    def __init__(self, draft: Draft | None) -> None:
        super().__init__("The draft has been changed elsewhere." if draft else "The draft no longer exists.")
        self.draft = draft


class KeyTakenError(PipelineError):
    """The idempotency key belongs to another request."""

    def __init__(self) -> None:
        super().__init__("The Idempotency-Key was used for another request.")


class ArchivedError(PipelineError):
    """The pipeline is archived and must be brought back first."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(f"Pipeline {pipeline.name!r} is archived.")


class NotArchivedError(PipelineError):
    """Only archived pipelines are deleted."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(f"Pipeline {pipeline.name!r} is not archived: archive it first.")


class BeingDeployedError(PipelineError):
    """A deployment of the pipeline is under way."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(f"Pipeline {pipeline.name!r} is being deployed: wait until that has ended.")


# --- pipelines --------------------------------------------------------------------------------------------------------


def list_pipelines(*, archived: bool = False, text: str = "", tag: str = "") -> Sequence[Pipeline]:
    """Return pipelines, those changed last first.

    Args:
        archived: whether the archived ones, or the others.
        text: is in the name, whatever the case.
        tag: is among the tags.
    """
    rows = Pipeline.objects.filter(archived_at__isnull=not archived).select_related("owner").order_by("-updated_at")
    if text:
        rows = rows.filter(name__icontains=text)
    # not every database can look into a JSON list
    found = (row for row in rows if not tag or tag in row.tags)
    return [row for row, _ in zip(found, range(MAX_LISTED), strict=False)]


def get_pipeline(pipeline_id: str) -> Pipeline:
    """Return a pipeline.

    Raises:
        PipelineUnknownError: there is none with this id.
    """
    found = Pipeline.objects.select_related("owner").filter(id=pipeline_id).first()
    if found is None:
        raise PipelineUnknownError(pipeline_id)
    return found


def create_pipeline(
    checked: Checked, user: User, *, message: str = "", tags: Sequence[str] = (), key: str | None = None
) -> tuple[Pipeline, Version]:
    """Create a pipeline with its first version.

    Args:
        checked: the document.
        user: its owner.
        message: of the version.
        tags: of the pipeline.
        key: requests of this user with the same key, even concurrent ones, create one pipeline.

    Raises:
        KeyTakenError: the key belongs to another request.
    """
    now = now_ms()
    try:
        with transaction.atomic():
            known = _version_of_key(user, key)
            if known is None:
                pipeline = Pipeline(
                    name=checked.name, owner=user, tags=list(tags), head=1, created_at=now, updated_at=now
                )
                pipeline.save(force_insert=True)
                version = _save_version(pipeline, 1, checked, user, message, key, now)
                logger.info("%s created pipeline %s (%s)", user, pipeline.id, pipeline.name)
                return pipeline, version
    except IntegrityError:
        known = _version_of_key(user, key)
        if known is None:
            raise
    if known.number != 1 or known.document != checked.text:
        raise KeyTakenError
    return known.pipeline, known


def change_pipeline(pipeline: Pipeline, *, tags: Sequence[str] | None = None, archived: bool | None = None) -> None:
    """Change what belongs to no version; None: stays."""
    values: dict[str, Any] = {}
    if tags is not None:
        values["tags"] = list(tags)
    if archived is not None:
        values["archived_at"] = (pipeline.archived_at or now_ms()) if archived else None
    Pipeline.objects.filter(id=pipeline.id).update(**values, updated_at=now_ms())
    pipeline.refresh_from_db()


def delete_pipeline(pipeline: Pipeline) -> None:
    """Delete an archived pipeline with all its versions and drafts.

    Raises:
        NotArchivedError: it is not archived.
        BeingDeployedError: a deployment of it is under way.
    """
    with transaction.atomic():
        found = Pipeline.objects.select_for_update().filter(id=pipeline.id).first()
        if found is not None and found.archived_at is None:
            raise NotArchivedError(found)
        if found is not None:
            if found.deployments.filter(state__in=OPEN_STATES).exists():
                raise BeingDeployedError(found)
            found.delete()


# --- versions ---------------------------------------------------------------------------------------------------------


def list_versions(pipeline: Pipeline) -> QuerySet[Version]:
    """Return all versions without their documents, newest first."""
    return pipeline.versions.select_related("author").defer("document").order_by("-number")


def get_version(pipeline: Pipeline, number: int | None = None) -> Version:
    """Return a version; None: the head.

    Raises:
        VersionUnknownError: there is none with this number.
    """
    wanted = pipeline.head if number is None else number
    found = None
    if 0 < wanted <= MAX_NUMBER:
        found = pipeline.versions.select_related("author").filter(number=wanted).first()
    if found is None:
        raise VersionUnknownError(pipeline, wanted)
    return found


def heads_of(pipelines: Iterable[Pipeline]) -> Mapping[str, Version]:
    """Return the head of each pipeline, without its document, by the pipeline's id."""
    rows = Version.objects.filter(pipeline__in=list(pipelines), number=F("pipeline__head"))
    return {row.pipeline_id: row for row in rows.select_related("author").defer("document")}


def save_version(
    pipeline: Pipeline,
    checked: Checked,
    user: User,
    *,
    head: int,
    draft: SeenDraft | None = None,
    message: str = "",
    key: str | None = None,
) -> Version:
    """Save a document as the next version; the user's draft ends if it is part of it.

    A document that is the head's already makes no version.

    Args:
        pipeline: the pipeline.
        checked: the document.
        user: the author.
        head: number of the head that the author has seen.
        draft: the own draft that the document has come from: it ends. None: the author says nothing of it, and it
            ends only if it is the very document.
        message: of the version.
        key: requests of this user with the same key save one version.

    Raises:
        HeadMovedError: there is another head.
        DraftMovedError: the draft is another one than `draft`, and another document. Nothing is saved.
        ArchivedError: the pipeline is archived.
        KeyTakenError: the key belongs to another request.
    """
    try:
        with transaction.atomic():
            known = _version_of_key(user, key)
            if known is None:
                return _next_version(pipeline, checked, user, head, draft, message, key)
    except IntegrityError:
        known = _version_of_key(user, key)
        if known is None:
            raise
    if known.pipeline_id != pipeline.id or known.document != checked.text:
        raise KeyTakenError
    return known


def _next_version(
    pipeline: Pipeline,
    checked: Checked,
    user: User,
    head: int,
    draft: SeenDraft | None,
    message: str,
    key: str | None,
) -> Version:
    before = pipeline.versions.filter(number=head).select_related("author").first()
    is_same = before is not None and before.document == checked.text
    now = now_ms()
    changes = {} if is_same else {"head": head + 1, "name": checked.name, "updated_at": now}
    seen = Pipeline.objects.filter(id=pipeline.id, head=head, archived_at=None)
    # also a lock, where nothing changes
    if before is None or seen.update(**(changes or {"head": head})) != 1:
        current = get_pipeline(pipeline.id)
        if current.archived_at is not None:
            raise ArchivedError(current)
        newest = get_version(current)
        # the answer to the same request was lost
        if newest.number == head + 1 and newest.author_id == user.pk and newest.document == checked.text:
            with suppress(DraftMovedError):
                _end_draft(pipeline, user, checked, draft, is_version=True)
            return newest
        raise HeadMovedError(newest)
    _end_draft(pipeline, user, checked, draft, is_version=is_same)
    if is_same:
        return before
    logger.info("%s saved version %d of pipeline %s (%s)", user, head + 1, pipeline.id, checked.name)
    return _save_version(pipeline, head + 1, checked, user, message, key, now)


def _end_draft(pipeline: Pipeline, user: User, checked: Checked, seen: SeenDraft | None, *, is_version: bool) -> None:
    """End the user's draft if it is part of a document that is saved.

    Args:
        pipeline: the pipeline.
        user: whose draft it is.
        checked: the document.
        seen: as the author has seen it; None: the author says nothing of it.
        is_version: whether the document was a version before: then an earlier request may have ended the draft.

    Raises:
        DraftMovedError: it is another one than `seen`, and another document; it stays.
    """
    # locked: a write of it waits until this transaction has ended, and finds it gone
    draft = pipeline.drafts.select_for_update().filter(user=user).first()
    tag = None if draft is None else draft.tag
    is_seen = seen is not None and seen.tag == tag
    if draft is not None and (is_seen or draft.document == checked.text):
        draft.delete()
    elif seen is not None and not is_seen and not (is_version and draft is None):
        raise DraftMovedError(draft)


def restore_version(pipeline: Pipeline, number: int, user: User, *, head: int, key: str | None = None) -> Version:
    """Save an old version's document as the next version. The user's draft stays.

    Raises:
        VersionUnknownError: there is none with this number.
        HeadMovedError, ArchivedError, KeyTakenError: see `save_version`.
        backend.pipelines.documents.DocumentRefused: this release does not take the document any more.
    """
    old = get_version(pipeline, number)
    return save_version(pipeline, check(old.value), user, head=head, message=f"Version {number} again", key=key)


def _save_version(
    pipeline: Pipeline, number: int, checked: Checked, user: User, message: str, key: str | None, now: int
) -> Version:
    version = Version(
        pipeline=pipeline,
        number=number,
        document=checked.text,
        semantic_hash=checked.semantic_hash,
        message=message,
        author=user,
        created_at=now,
        idempotency_key=key,
    )
    version.save(force_insert=True)
    return version


def _version_of_key(user: User, key: str | None) -> Version | None:
    if key is None:
        return None
    return Version.objects.select_related("pipeline", "author").filter(author=user, idempotency_key=key).first()


# --- drafts -----------------------------------------------------------------------------------------------------------


def get_draft(pipeline: Pipeline, user: User) -> Draft | None:
    """Return the user's own draft; nobody sees another one's."""
    return pipeline.drafts.filter(user=user).first()


def drafts_of(pipelines: Iterable[Pipeline], user: User) -> Mapping[str, Draft]:
    """Return the user's drafts without their documents, by the pipeline's id."""
    rows = Draft.objects.filter(pipeline__in=list(pipelines), user=user).defer("document")
    return {row.pipeline_id: row for row in rows}


def editors_of(pipeline: Pipeline, user: User) -> QuerySet[Draft]:
    """Return the drafts of others, without their documents: that they edit is to be known, what they write is not."""
    return pipeline.drafts.filter(~Q(user=user)).select_related("user").defer("document").order_by("-updated_at")


def put_draft(pipeline: Pipeline, user: User, checked: Checked, *, base: int, tag: str | None) -> Draft:
    """Write the user's draft.

    Args:
        pipeline: the pipeline.
        user: whose draft it is.
        checked: the document.
        base: number of the version that it began with.
        tag: `Draft.tag` as the writer has seen it; None: it has seen no draft.

    Raises:
        DraftMovedError: the draft is another one. Unless it is what would be written: the answer was lost then.
        VersionUnknownError: the pipeline has no version `base`.
        ArchivedError: the pipeline is archived.
    """
    if pipeline.archived_at is not None:
        raise ArchivedError(pipeline)
    if not pipeline.versions.filter(number=base).exists():
        raise VersionUnknownError(pipeline, base)
    values = {
        "base": base,
        "document": checked.text,
        "semantic_hash": checked.semantic_hash,
        "updated_at": now_ms(),
    }
    if tag is None:
        written = _create_draft(pipeline, user, values)
    else:
        written = _update_draft(pipeline, user, values, tag)
    if written is not None:
        return written
    draft = get_draft(pipeline, user)
    if draft is not None and draft.document == checked.text and draft.base == base:
        return draft
    raise DraftMovedError(draft)


def _create_draft(pipeline: Pipeline, user: User, values: Mapping[str, Any]) -> Draft | None:
    draft = Draft(pipeline=pipeline, user=user, **values)
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        return None
    return draft


def _update_draft(pipeline: Pipeline, user: User, values: Mapping[str, Any], tag: str) -> Draft | None:
    seen_id, _, seen_revision = tag.partition(".")
    # what this writer has written: somebody may write again at once
    draft = Draft(pk=int(seen_id), pipeline=pipeline, user=user, revision=int(seen_revision) + 1, **values)
    mine = Draft.objects.filter(pk=draft.pk, pipeline=pipeline, user=user, revision=int(seen_revision))
    return draft if mine.update(**values, revision=draft.revision) == 1 else None


def discard_draft(pipeline: Pipeline, user: User, tag: str | None = None) -> None:
    """Throw the user's draft away.

    Args:
        pipeline: the pipeline.
        user: whose draft it is.
        tag: as the user has seen it; None: whatever it is.

    Raises:
        DraftMovedError: it is another one.
    """
    draft = get_draft(pipeline, user)
    if draft is None:
        return
    rows = Draft.objects.filter(pk=draft.pk)
    if tag is not None:
        rows = rows.filter(revision=draft.revision if draft.tag == tag else -1)
    if rows.delete()[0] == 0 and tag is not None:
        raise DraftMovedError(get_draft(pipeline, user))
