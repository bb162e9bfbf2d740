"""Tags of jobs: words by which people find them. Set at submission by `pipeline.tags`, later by operators.

They are in SQL alone, not in live documents: nobody waits for a leader to change them, and ended jobs keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db import transaction

from backend.cluster.cluster_document import listed_jobs
from backend.cluster.models import Job
from runtime.common import options
from runtime.common.config_options import ConfigurationError

MAX_TAGS = 16
MAX_CHARS = 40
_TAG = re.compile(rf"[\w.:/=@+-]{{1,{MAX_CHARS}}}")
_RULE = f"1 to {MAX_CHARS} letters, digits or . : / = @ + - _"


class TagError(ValueError):
    """The tags that somebody asks for are no list of tags."""


def checked_tags(tags: Iterable[object]) -> list[str]:
    """Return tags without blanks around them and without repetitions, in their order.

    Raises:
        TagError: one is no tag, or there are too many.
    """
    found: dict[str, None] = {}
    for tag in tags:
        text = tag.strip() if isinstance(tag, str) else ""
        if not _TAG.fullmatch(text):
            raise TagError(f"{str(tag)[:80]!r} is no tag: {_RULE}.")
        found[text] = None
    if len(found) > MAX_TAGS:
        raise TagError(f"A job has at most {MAX_TAGS} tags.")
    return list(found)


def tags_of_option(text: str) -> list[str]:
    """Return the tags of `pipeline.tags`, which are separated by semicolons or commas.

    Raises:
        ConfigurationError: see `checked_tags`.
    """
    try:
        return checked_tags(tag for tag in re.split("[;,]", text) if tag.strip())
    except TagError:
        accepted = f"at most {MAX_TAGS} tags of {_RULE}, separated by semicolons"
        raise ConfigurationError(options.PIPELINE_TAGS.key, text, accepted) from None


def change_tags(job_id: str, tags: Iterable[object], was: Iterable[object] | None = None) -> list[str]:
    """Change the tags of a job, whether it has ended or not, and return them.

    Args:
        job_id: the job.
        tags: those that it is to have.
        was: those that it had when they were edited: what others have added or removed since stays so. None: they are
            replaced, whatever they are now.

    Raises:
        Job.DoesNotExist: there is no such job.
        TagError: see `checked_tags`.
    """
    wanted = checked_tags(tags)
    with transaction.atomic():
        job = Job.objects.select_for_update().only("tags").get(id=job_id)
        if was is not None:
            known = checked_tags(was)
            added = [tag for tag in job.tags if tag not in known and tag not in wanted]
            removed = set(known) - set(job.tags)
            wanted = checked_tags([*(tag for tag in wanted if tag not in removed), *added])
        if wanted != job.tags:
            Job.objects.filter(id=job_id).update(tags=wanted)
    return wanted


def listed_tags() -> dict[str, list[str]]:
    """Return the tags of the jobs in the overview that have any, by job."""
    return {job.id: job.tags for job in listed_jobs() if job.tags}
