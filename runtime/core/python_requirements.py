"""Python packages that a job needs: lines of a requirements file, and the option that holds them. Pure; any thread.

Only names with versions are taken, as in "geopy>=2,<3": no options, files or URLs, which would have whoever resolves
them read or fetch what the user names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

MAX_REQUIREMENTS = 200
"""Lines of one job. Fewer: frozen lists do not fit; more: a resolver that is busy for minutes."""
_COMMENT = re.compile(r"(?:^|\s)#.*")


class RequirementsError(ValueError):
    """A line is no requirement that is taken; the message may be shown to users."""


def parse_requirements(lines: Iterable[str]) -> list[str]:
    """Return the requirements in lines of a requirements file, normalized, sorted and without repetitions.

    Raises:
        RequirementsError: a line is something else.
    """
    found = {_parse(text) for line in lines if (text := _COMMENT.sub("", line).strip())}
    if len(found) > MAX_REQUIREMENTS:
        raise RequirementsError(f"there are {len(found)} Python requirements, and at most {MAX_REQUIREMENTS} are taken")
    return sorted(found)


def _parse(text: str) -> str:
    shown = text[:80]
    if text.startswith("-"):
        raise RequirementsError(f"{shown!r}: options are not taken, only packages, such as geopy>=2")
    if "${" in text:
        # pip puts in what its own environment has: the password of an index could be found out by comparisons
        raise RequirementsError(f"{shown!r}: variables are not taken")
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise RequirementsError(f"{shown!r} is no Python requirement, such as geopy>=2,<3") from None
    if requirement.url is not None:
        raise RequirementsError(f"{shown!r}: URLs and paths are not taken, only packages of the cluster's index")
    requirement.name = canonicalize_name(requirement.name)
    return str(requirement)
