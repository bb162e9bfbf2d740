"""Uploaded programs: streamed to disk, checked, and stored as artifacts/<sha256>/<file name> of TIDEMARK_HOME.

Clients know an artifact as "<sha256>_<file name>", like a Flink jar's id of prefix and name. The file name is derived
from the name that the client sent, without separators. Blocking; any thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import transaction

from backend.cluster.models import TERMINAL_STATES, Artifact, Job
from backend.cluster.services import now_ms
from backend.dispatcher.archives import SUFFIXES as ARCHIVE_SUFFIXES
from backend.dispatcher.archives import check_archive

SUFFIXES = (".py", *ARCHIVE_SUFFIXES)
MAX_NAME_LENGTH = 120
_ID = re.compile(r"([0-9a-f]{64})(_.*)?", re.S)
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


class ArtifactError(Exception):
    """Base of this module's errors; the message may be shown to the user."""


class RefusedFile(ArtifactError):
    """The file is not a program."""


class FileTooLarge(ArtifactError):
    """The file exceeds the upload limit."""


class ArtifactInUse(ArtifactError):
    """A job that has not ended needs the artifact: a restart would import from it."""


def root() -> Path:
    """Return the directory of all artifacts."""
    return Path(settings.TIDEMARK_HOME) / "artifacts"


def path_of(artifact: Artifact) -> Path:
    """Return the path of an artifact's file."""
    return root() / artifact.id / artifact.file_name


def public_id(artifact: Artifact) -> str:
    """Return the id that clients use."""
    return artifact.public_id


def find(public: str) -> Artifact | None:
    """Return the artifact with a client's id, of which the sha256 suffices; None if there is none."""
    match = _ID.fullmatch(public)
    if match is None:
        return None
    found = Artifact.objects.filter(id=match[1]).first()
    return found if found is not None and path_of(found).is_file() else None


def store(upload: TemporaryUploadedFile, user: Any) -> Artifact:
    """Store an uploaded program. The same content uploaded again is the same artifact under its new name.

    Raises:
        RefusedFile: its name or content is not that of a program.
        FileTooLarge: it is larger than `TIDEMARK_MAX_UPLOAD_BYTES`.
        backend.dispatcher.archives.ArchiveError: it is an archive that the checks refuse.
    """
    name = safe_name(upload.name or "")
    with _incoming() as temporary:
        digest, size = _copy(upload, temporary)
        module = check_archive(temporary) if name.endswith(ARCHIVE_SUFFIXES) else None
        directory = root() / digest
        directory.mkdir(exist_ok=True)
        temporary.replace(directory / name)
    artifact, _ = Artifact.objects.update_or_create(
        id=digest,
        defaults={
            "file_name": name,
            "size": size,
            "uploaded_at": now_ms(),
            "uploaded_by_id": user.pk,
            "entry": {} if module is None else {"module": module},
        },
    )
    return artifact


def delete(artifact: Artifact) -> None:
    """Remove an artifact and its file.

    Raises:
        ArtifactInUse: a job that has not ended needs it.
    """
    with transaction.atomic():
        job = Job.objects.filter(artifact=artifact).exclude(state__in=TERMINAL_STATES).only("id", "name").first()
        if job is not None:
            raise ArtifactInUse(f"{artifact.file_name} is needed by job {job.name} ({job.id}), which has not ended.")
        digest = artifact.id
        artifact.delete()
    shutil.rmtree(root() / digest, ignore_errors=True)


def safe_name(given: str) -> str:
    """Return a file name for the disk, made from the last part of the client's name.

    Raises:
        RefusedFile: it does not end like a program's name.
    """
    name = PurePosixPath(given.replace("\\", "/")).name
    name = _UNSAFE.sub("_", name).lstrip(".-")[-MAX_NAME_LENGTH:]
    if not name.endswith(SUFFIXES) or name in SUFFIXES:
        raise RefusedFile(f"A program is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {given[-60:]!r}.")
    return name


@contextmanager
def _incoming() -> Iterator[Path]:
    """Yield a temporary file next to the artifacts, so that it can be moved there; delete it if it was not moved."""
    root().mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=".incoming-", dir=root())
    os.close(descriptor)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _copy(upload: TemporaryUploadedFile, target: Path) -> tuple[str, int]:
    limit: int = settings.TIDEMARK_MAX_UPLOAD_BYTES
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        for chunk in upload.chunks():
            size += len(chunk)
            if size > limit:
                raise FileTooLarge(f"The file is larger than {limit} bytes, the limit of an upload.")
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if size == 0:
        raise RefusedFile("The file is empty.")
    return digest.hexdigest(), size
