"""Python environments of jobs: resolved once per set of requirements, kept in the storage while jobs name them.

The row of an environment says where it is, and when somebody asked for it last; `led_environments` deletes those that
nobody needs. Blocking; any thread of a web process.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.db.models import Sum

from backend.accounts.errors import Unavailable
from backend.accounts.submission import CodeNotListed
from backend.cluster.connections import without_connection
from backend.cluster.database_clock import now_ms
from backend.cluster.environment_files import EnvironmentFiles, environment_files
from backend.cluster.models import ClusterIdentity, PythonEnvironment
from backend.cluster.program_files import StorageProblem, storage_problems
from backend.cluster.storage_calls import STORED_S, ask
from backend.dispatcher import resolving
from backend.dispatcher.errors import BadRequest
from runtime.common.options import PYTHON_REQUIREMENTS
from runtime.core.python_requirements import RequirementsError, parse_requirements

ENVIRONMENTS = "Python environments"
"""Their storage, in words for users."""
WAIT_S = 330.0
"""For the resolver, which resolves for one request of the process at a time."""

_resolver = threading.Lock()


def environment_of(text: str) -> str:
    """Return the path of the environment with the packages of an option `python.requirements`; "": it needs none.

    Raises:
        BadRequest: a line is no requirement, there is no such wheel, or the engine's packages are in the way.
        SubmissionRefused: the cluster runs only programs that are listed.
        Unavailable: the index does not answer, or others are before.
        StorageProblem: the storage is full, or cannot be used.
    """
    try:
        requirements = parse_requirements(text.splitlines())
    except RequirementsError as error:
        raise BadRequest(f"{PYTHON_REQUIREMENTS.key}: {error}") from error
    if not requirements:
        return ""
    if settings.TIDEMARK_ALLOWED_PROGRAMS:
        raise CodeNotListed(PYTHON_REQUIREMENTS.key)
    pins = resolving.installed()
    key = resolving.key_of(requirements, pins)
    with storage_problems(ENVIRONMENTS):
        files = environment_files()
        known = _used(key, files)
        if known is not None:
            return known
        with without_connection():
            if not _resolver.acquire(timeout=WAIT_S):
                raise Unavailable("The Python packages of other programs are being resolved; try again.")
        try:
            return _used(key, files) or _made(key, requirements, pins, files)
        finally:
            _resolver.release()


def _used(key: str, files: EnvironmentFiles) -> str | None:
    """Note that an environment is used, so that it stays, and return its path; None: there is none."""
    if PythonEnvironment.objects.filter(id=key).update(used_at=now_ms()) != 1:
        return None
    path = PythonEnvironment.objects.filter(id=key).values_list("path", flat=True).first()
    return path if path is not None and ask(ENVIRONMENTS, lambda: files.has(path)) else None


def _check_room(size: int) -> None:
    limit: int = settings.TIDEMARK_ENVIRONMENTS_MIB << 20
    taken: int = PythonEnvironment.objects.aggregate(taken=Sum("size"))["taken"] or 0
    if limit and taken + size > limit:
        raise StorageProblem(
            f"The Python packages of all jobs take {taken >> 20} MiB, these take {size >> 20} MiB more, and the "
            f"cluster stores {limit >> 20} MiB (TIDEMARK_ENVIRONMENTS_MIB). What no job has is deleted after a day.",
            is_full=True,
        )


def _made(key: str, requirements: Sequence[str], pins: dict[str, str], files: EnvironmentFiles) -> str:
    cluster_id = ClusterIdentity.get_id()
    with TemporaryDirectory(prefix="tidemark-environment-") as directory:
        try:
            with without_connection():
                archive, packages = resolving.resolve(requirements, pins, Path(directory))
        except resolving.RequirementsRefusedError as error:
            raise BadRequest(str(error).splitlines()) from error
        except resolving.IndexUnreachableError as error:
            raise Unavailable(str(error)) from error
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = archive.stat().st_size
        _check_room(size)
        path = ask(ENVIRONMENTS, lambda: files.write(archive, digest, key, cluster_id), answer_s=STORED_S)
    now = now_ms()
    values = {"path": path, "size": size, "packages": packages, "made_at": now, "used_at": now}
    row, is_new = PythonEnvironment.objects.get_or_create(id=key, defaults=values)
    if is_new:
        return path
    former = row.path
    if not ask(ENVIRONMENTS, lambda: files.has(former)):
        # its archive is gone
        if PythonEnvironment.objects.filter(id=key, path=former).update(**values) == 1:
            return path
        former = PythonEnvironment.objects.values_list("path", flat=True).get(id=key)
    # another web process was first, and jobs name what it made
    ask(ENVIRONMENTS, lambda: files.delete(path))
    return former
