"""Whether programs are taken and run at all, and which: two settings of the cluster's owner, above all roles.

`TIDEMARK_SUBMIT=0` refuses whatever would run code of users for them: uploads, plans, runs, deployments of pipelines,
previews and tests. `TIDEMARK_ALLOWED_PROGRAMS` names a file of sha256 digests, and only those programs are taken; what
has no digest that anybody could have listed, as a draft, is refused. What runs goes on, restarts and rescaling
included, and so do deployments that were accepted. Any thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from django.conf import settings
from rest_framework import exceptions

from runtime.common.options import PYTHON_FILES

logger = logging.getLogger(__name__)

OFF: Final = "Submission of programs is switched off on this cluster (TIDEMARK_SUBMIT=0)."
ONLY_LISTED: Final = (
    "This cluster runs only programs that are listed (TIDEMARK_ALLOWED_PROGRAMS); what is not saved as one is not run."
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


class SubmissionRefused(exceptions.PermissionDenied):
    """The cluster's owner does not want this program to be run, whoever asks."""

    default_code = "submission_off"


class ProgramNotListed(SubmissionRefused):
    """The program is not among those that are allowed."""

    default_code = "program_not_listed"

    def __init__(self, name: str, digest: str) -> None:
        super().__init__(f"{name} is not among the programs that this cluster runs: its sha256 {digest} is not listed.")


class CodeNotListed(SubmissionRefused):
    """An option brings code along with a program that is allowed."""

    default_code = "program_not_listed"

    def __init__(self, option: str) -> None:
        super().__init__(
            f"The option {option} brings code that is not listed, and this cluster runs only programs that are "
            "(TIDEMARK_ALLOWED_PROGRAMS): pack it into the program."
        )


def refusal(is_draft: bool = False) -> SubmissionRefused | None:
    """Return why nothing can be submitted; None: programs can be.

    Args:
        is_draft: whether what would be run is not an uploaded program.
    """
    if not settings.TIDEMARK_SUBMIT:
        return SubmissionRefused(OFF)
    if is_draft and settings.TIDEMARK_ALLOWED_PROGRAMS:
        return SubmissionRefused(ONLY_LISTED, "program_not_listed")
    return None


def check_program(name: str, digest: str, given: Collection[str] = ()) -> None:
    """Check that a program may be stored, planned and run.

    Args:
        name: of the program, for the message.
        digest: sha256 of its file, hex.
        given: keys of the options with which it is to be run.

    Raises:
        SubmissionRefused: nothing is submitted, or not this.
    """
    refused = refusal()
    if refused is not None:
        raise refused
    if settings.TIDEMARK_ALLOWED_PROGRAMS and digest not in _listed(Path(settings.TIDEMARK_ALLOWED_PROGRAMS)):
        raise ProgramNotListed(name, digest)
    if settings.TIDEMARK_ALLOWED_PROGRAMS and PYTHON_FILES.key in given:
        raise CodeNotListed(PYTHON_FILES.key)


def _listed(path: Path) -> set[str]:
    """Return the digests of a file as `sha256sum` writes it; none if it cannot be read: then nothing is allowed.

    It is read each time, so that a program can be listed while the cluster runs.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        logger.error("TIDEMARK_ALLOWED_PROGRAMS=%s cannot be read, so that every program is refused: %s", path, error)
        return set()
    digests = {words[0].lower() for line in lines if (words := line.split()) and not words[0].startswith("#")}
    malformed = sum(not _DIGEST.fullmatch(digest) for digest in digests)
    if malformed:
        logger.warning("TIDEMARK_ALLOWED_PROGRAMS=%s has %d lines that do not begin with a sha256", path, malformed)
    return digests
