"""Uploaded programs: streamed to disk, checked, and stored as artifacts/<sha256>/<file name> of TIDEMARK_HOME.

A client knows an artifact as "<sha256>_<file name>", as a Flink jar is known by a prefix and its name. The name that
the client sent is for showing; what is made of it for the disk has no separators. Blocking; any thread.
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
    """The file is no program."""


class FileTooLarge(ArtifactError):
    """The file is over the limit of uploads."""


class ArtifactInUse(ArtifactError):
    """A job that has not ended needs the artifact: a restart imports from it."""


def root() -> Path:
    """Where artifacts are."""
    return Path(settings.TIDEMARK_HOME) / "artifacts"


def path_of(artifact: Artifact) -> Path:
    """Where an artifact's file is."""
    return root() / artifact.id / artifact.file_name


def public_id(artifact: Artifact) -> str:
    """What clients call it."""
    return artifact.public_id


def find(public: str) -> Artifact | None:
    """The artifact of a client's id; the sha256 alone does as well."""
    match = _ID.fullmatch(public)
    if match is None:
        return None
    found = Artifact.objects.filter(id=match[1]).first()
    return found if found is not None and path_of(found).is_file() else None


def store(upload: TemporaryUploadedFile, user: Any) -> Artifact:
    """Keep an uploaded program. The same content again is the same artifact, under its new name.

    Raises:
        RefusedFile: its name or content is none of a program.
        FileTooLarge: it is larger than `TIDEMARK_MAX_UPLOAD_BYTES`.
        backend.dispatcher.archives.ArchiveError: it is an archive with something wrong in it.
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
    """A name for the disk, made of the last part of what the client sent.

    Raises:
        RefusedFile: it ends like no program.
    """
    name = PurePosixPath(given.replace("\\", "/")).name
    name = _UNSAFE.sub("_", name).lstrip(".-")[-MAX_NAME_LENGTH:]
    if not name.endswith(SUFFIXES) or name in SUFFIXES:
        raise RefusedFile(f"A program is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {given[-60:]!r}.")
    return name


@contextmanager
def _incoming() -> Iterator[Path]:
    """A file beside the artifacts, so that it can be moved among them; gone afterwards if it was not."""
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
