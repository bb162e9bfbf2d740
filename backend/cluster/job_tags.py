"""Tags of jobs: words by which people find them. Set at submission by `pipeline.tags`, later by operators.

They are in SQL alone, not in live documents: nobody waits for a leader to change them, and ended jobs keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def set_tags(job: Job, tags: Iterable[object]) -> None:
    """Replace the tags of a job, whether it has ended or not.

    Raises:
        TagError: see `checked_tags`.
    """
    job.tags = checked_tags(tags)
    Job.objects.filter(id=job.id).update(tags=job.tags)


def listed_tags() -> dict[str, list[str]]:
    """Return the tags of the jobs in the overview that have any, by job."""
    return {job.id: job.tags for job in listed_jobs() if job.tags}
