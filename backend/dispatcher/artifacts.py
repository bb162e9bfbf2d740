"""Uploaded programs: checked, copied into the cluster's storage, and recorded in SQL.

Clients know an artifact as "<sha256>_<file name>", like a Flink jar's id of prefix and name. The file name is derived
from the name that the client sent, without separators. A program exists because its row does: the row is written after
the file, and deleted before it. A file without a row, of a web process that was killed in between, is swept an hour
later. Blocking; any thread.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import Error as DatabaseFailure
from django.db import transaction

from backend.accounts.submission import check_program
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import TERMINAL_STATES, Artifact, ClusterIdentity, Job
from backend.cluster.program_files import ProgramFiles, owner_of, program_files, storage_problems
from backend.cluster.replacement_machine import OPEN_STATES
from backend.cluster.services import now_ms
from backend.cluster.storage_calls import PROGRAMS, STORED_S, ask
from backend.dispatcher.archives import SUFFIXES as ARCHIVE_SUFFIXES
from backend.dispatcher.archives import check_archive
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.quota import give_back, set_aside

logger = logging.getLogger(__name__)

SUFFIXES = (".py", *ARCHIVE_SUFFIXES)
MAX_NAME_LENGTH = 120
LEFTOVER_AFTER_S = 3600.0
"""A file that has had no row for so long is deleted. Less than the time between writing a file and its row: running
uploads would lose theirs."""
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


def public_id(artifact: Artifact) -> str:
    """Return the id that clients use."""
    return artifact.public_id


def find_row(public: str) -> Artifact | None:
    """Return the artifact with a client's id, of which the sha256 suffices, even if its file is gone; or None."""
    match = _ID.fullmatch(public)
    return None if match is None else Artifact.objects.filter(id=match[1]).first()


def find(public: str) -> Artifact | None:
    """Return the artifact with a client's id, of which the sha256 suffices; None if there is none.

    Raises:
        StorageProblem: the storage cannot be asked.
    """
    found = find_row(public)
    if found is None:
        return None
    with storage_problems(PROGRAMS):
        files = program_files()
        return found if ask(PROGRAMS, lambda: files.has(found.path)) else None


def store(upload: TemporaryUploadedFile, user: Any, pending: str | None = None) -> Artifact:
    """Store an uploaded program. The same content uploaded again is the same artifact under its new name.

    Args:
        upload: the file.
        user: the uploader.
        pending: what was set aside for it already; given back.

    Raises:
        RefusedFile: its name or content is not that of a program.
        FileTooLarge: it is larger than `TIDEMARK_MAX_UPLOAD_BYTES`.
        SubmissionRefused: the cluster does not take it.
        QuotaExceeded: the user has no room for it.
        backend.dispatcher.archives.ArchiveError: it is an archive that the checks refuse.
        StorageProblem: the storage is full, or cannot be used; nothing was changed.
    """
    name = safe_name(upload.name or "")
    received = Path(upload.temporary_file_path())
    digest, size = _measure(upload)
    check_program(name, digest)
    module = check_archive(received) if name.endswith(ARCHIVE_SUFFIXES) else None
    values = {
        "file_name": name,
        "size": size,
        "uploaded_at": now_ms(),
        "uploaded_by_id": user.pk,
        "entry": {} if module is None else {"module": module},
    }
    with storage_problems(PROGRAMS):
        files = program_files()
        known = _files_of(digest)
        paths = [path for path in known.paths if path.endswith(f"/{name}")]
        kept = ask(PROGRAMS, lambda: next(filter(files.has, paths), None))
    if kept is not None and known.user_id == user.pk:
        # takes no more than it did
        artifact = _record(digest, kept, values, is_kept=True)
        if artifact is not None:
            return artifact
        # deleted a moment ago
        kept = None
    copies = len(known.paths) + (kept is None)
    pending = set_aside(user, size, copies, instead=pending, digest=digest)
    try:
        return _store(received, digest, name, kept, values)
    finally:
        give_back(pending)


def _store(received: Path, digest: str, name: str, kept: str | None, values: dict[str, Any]) -> Artifact:
    if kept is not None:
        artifact = _record(digest, kept, values, is_kept=True)
        if artifact is not None:
            return artifact
        # deleted a moment ago
    cluster_id = ClusterIdentity.get_id()
    with storage_problems(PROGRAMS):
        files = program_files()
        path = ask(PROGRAMS, lambda: files.write(received, digest, name, cluster_id), answer_s=STORED_S)
    try:
        artifact = _record(digest, path, values)
    except DatabaseFailure:
        # perhaps only the answer was lost, and the row needs the file; else it is swept
        raise
    except BaseException:
        _delete(files, [path])
        raise
    assert artifact is not None
    _sweep.run(files)
    return artifact


def delete(artifact: Artifact) -> None:
    """Remove an artifact and its files.

    Raises:
        ArtifactInUse: a job that has not ended needs it, or one that goes on in another execution.
    """
    with transaction.atomic():
        # locked: a submission that is under way has its job before, or no artifact any more
        locked = Artifact.objects.select_for_update().filter(id=artifact.id).first()
        if locked is None:
            return
        jobs = Job.objects.filter(artifact=locked).only("id", "name")
        job = jobs.exclude(state__in=TERMINAL_STATES).first()
        if job is not None:
            raise ArtifactInUse(f"{locked.file_name} is needed by job {job.name} ({job.id}), which has not ended.")
        job = jobs.filter(id__in=ExecutionSwitch.objects.filter(state__in=OPEN_STATES).values("old_job_id")).first()
        if job is not None:
            raise ArtifactInUse(
                f"{locked.file_name} is needed by job {job.name} ({job.id}), whose execution is being switched."
            )
        paths = list(locked.files)
        locked.delete()
    _delete(program_files(), paths)


def _delete(files: ProgramFiles, paths: Sequence[str]) -> None:
    """Delete files that have no row any more; a storage that does not answer has them swept later."""
    with suppress(StorageSilentError):
        ask(PROGRAMS, lambda: files.delete(paths))


def safe_name(given: str) -> str:
    """Return a file name for the storage, made from the last part of the client's name.

    Raises:
        RefusedFile: it does not end like a program's name.
    """
    name = PurePosixPath(given.replace("\\", "/")).name
    name = _UNSAFE.sub("_", name).lstrip(".-")[-MAX_NAME_LENGTH:]
    if not name.endswith(SUFFIXES) or name in SUFFIXES:
        raise RefusedFile(f"A program is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, not {given[-60:]!r}.")
    return name


def _measure(upload: TemporaryUploadedFile) -> tuple[str, int]:
    """Return the sha256 of the file that was received, hex, and its size."""
    limit: int = settings.TIDEMARK_MAX_UPLOAD_BYTES
    digest, size = hashlib.sha256(), 0
    for chunk in upload.chunks():
        size += len(chunk)
        if size > limit:
            raise FileTooLarge(f"The file is larger than {limit} bytes, the limit of an upload.")
        digest.update(chunk)
    if size == 0:
        raise RefusedFile("The file is empty.")
    return digest.hexdigest(), size


class _Known(NamedTuple):
    """Files that are stored of a program, and whose they are."""

    paths: Sequence[str] = ()
    user_id: int | None = None


def _files_of(digest: str) -> _Known:
    found = Artifact.objects.filter(id=digest).only("files", "uploaded_by").first()
    return _Known() if found is None else _Known(found.files, found.uploaded_by_id)


def _record(digest: str, path: str, values: dict[str, Any], is_kept: bool = False) -> Artifact | None:
    """Record a file as the newest of its artifact; if it was there before, only unless it was deleted meanwhile.

    Earlier files stay until the artifact is deleted: jobs import from them.
    """
    with transaction.atomic():
        artifact, is_new = Artifact.objects.select_for_update().get_or_create(id=digest, defaults=values)
        if is_kept and path not in artifact.files:
            if is_new:
                artifact.delete()
            return None
        for field, value in values.items():
            setattr(artifact, field, value)
        artifact.files = [*(kept for kept in artifact.files if kept != path), path]
        artifact.save()
    return artifact


class _Sweep:
    """Deletes what killed web processes of this cluster left in the storage: entries without a row, seen twice.

    Entries that do not name this cluster are another's, or an earlier release's, and stay.

    Args:
        monotonic: clock in seconds; no clocks of machines are compared.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._looked: float | None = None

    def run(self, files: ProgramFiles) -> None:
        """Delete what had no row at the last look either; at most once in `LEFTOVER_AFTER_S`."""
        with self._lock:
            now = self._monotonic()
            if self._looked is not None and now - self._looked < LEFTOVER_AFTER_S:
                return
            self._looked = now
            seen = self._seen
        try:
            # listed before the rows are read: a file that is there now has its row, or gets it soon
            listed = ask(PROGRAMS, lambda: files.unknown(()))
            rows = Artifact.objects.values_list("files", flat=True)
            known = {path.partition("/")[0] for paths in rows for path in paths}
            cluster_id = ClusterIdentity.get_id()
            unknown = {name for name in listed if name not in known and owner_of(name) == cluster_id}
            for name in unknown & seen:
                ask(PROGRAMS, partial(files.delete_entry, name))
                logger.info("deleted %s, which an interrupted upload left behind", name)
        except (OSError, DatabaseFailure, StorageSilentError) as error:
            # the upload itself is stored
            logger.warning("leftovers of uploads could not be deleted: %s", error)
            return
        with self._lock:
            self._seen = unknown - seen


_sweep = _Sweep()
