"""Uploaded programs in storages of two kinds, which may be away or full, be moved, and be used by two at once."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as pafs
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db import InterfaceError, OperationalError, connection
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import program_files as program_files_module
from backend.cluster.models import Artifact, ClusterIdentity, Job
from backend.cluster.program_files import ProgramFiles, StorageProblem, copy_programs_of_home, program_files
from backend.dispatcher import artifacts, programs, submissions
from backend.dispatcher.programs import ProgramRequest
from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.client.extract import ExtractedJob
from runtime.client.rest import RestClient
from runtime.common import options
from runtime.task import python_files
from runtime.task.python_files import DamagedProgramError, local_copy
from tests.checkpoint.faulty import FaultyFileSystem, failing
from tests.cluster.stack import ROOT
from tests.dispatcher.test_jars import PROGRAM, archive, jar_id, upload
from tests.dispatcher.web_server import TOKEN, WebProcess, running_web

pytestmark = pytest.mark.usefixtures("home")


def in_a_bucket(directory: Path) -> ArrowFileSystem:
    """An object store: URIs of buckets, kept below a directory."""
    directory.mkdir(exist_ok=True)
    return ArrowFileSystem(lambda uri: (pafs.SubTreeFileSystem(str(directory), pafs.LocalFileSystem()), ""))


@pytest.fixture(params=["directory", "object store"])
def files(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> FaultyFileSystem:
    """The storage of this test, in which faults can be had."""
    is_local = request.param == "directory"
    settings.TIDEMARK_STORAGE_DIR = str(tmp_path / "storage") if is_local else "s3://bucket/tidemark"
    faulty = FaultyFileSystem(ArrowFileSystem() if is_local else in_a_bucket(tmp_path / "objects"))
    monkeypatch.setattr(program_files_module, "default_file_system", lambda: faulty)
    monkeypatch.setattr(artifacts, "_sweep", artifacts._Sweep())
    return faulty


def test_a_program_is_uploaded_run_and_deleted(api: APIClient, files: FaultyFileSystem) -> None:
    content = archive(job__slash____init__="", job__slash____main__=PROGRAM)
    name = jar_id(upload(api, "job.zip", content))
    answer = api.post(f"/v1/jars/{name}/run")
    assert answer.status_code == 200, answer.content
    stored = program_files()
    path = Artifact.objects.get().path
    assert files.read(stored.uri(path)) == content
    python_files = Job.objects.get().graph["configuration"][options.PYTHON_FILES.key]
    assert python_files == stored.import_location(path)
    Job.objects.update(state="FINISHED")
    assert api.delete(f"/v1/jars/{name}").status_code == 200
    assert stored.unknown(()) == []


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EIO, 503)])
def test_an_upload_that_cannot_be_stored_says_why_and_changes_nothing(
    api: APIClient, files: FaultyFileSystem, code: int, status: int
) -> None:
    jar_id(upload(api, "kept.py", PROGRAM))
    files.fail = failing("write_new", code=code)
    answer = upload(api, "job.py", PROGRAM + "\n")
    assert answer.status_code == status
    assert "storage of uploaded programs" in answer.json()["errors"][0]
    assert answer.headers.get("Retry-After") == ("5" if status == 503 else None)
    files.fail = lambda operation, uri: None
    assert [file["name"] for file in api.get("/v1/jars").json()["files"]] == ["kept.py"]
    assert len(program_files().unknown(())) == 1


def test_programs_are_listed_while_the_storage_is_away_and_not_called_missing(
    api: APIClient, files: FaultyFileSystem
) -> None:
    name = jar_id(upload(api, "job.py", PROGRAM))
    files.fail = failing("exists")
    assert len(api.get("/v1/jars").json()["files"]) == 1
    assert api.post(f"/v1/jars/{name}/plan").status_code == 503
    files.fail = lambda operation, uri: None
    assert api.post(f"/v1/jars/{name}/plan").status_code == 200


def test_a_failed_row_leaves_no_file(api: APIClient, files: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **values: Any) -> None:
        raise RuntimeError("no row")

    monkeypatch.setattr(artifacts, "_record", refuse)
    assert upload(api, "job.py", PROGRAM).status_code == 500
    assert program_files().unknown(()) == []


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_file_whose_row_may_be_written_is_kept(
    alice: User, files: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    record = artifacts._record

    def committed(*args: Any, **values: Any) -> None:
        record(*args, **values)
        raise error("connection already closed")

    with monkeypatch.context() as patched:
        patched.setattr(artifacts, "_record", committed)
        with pytest.raises(error):
            artifacts.store(uploaded("job.py"), alice)
    assert program_files().has(Artifact.objects.get().path)


@pytest.mark.django_db(transaction=True)
def test_an_upload_is_not_lost_by_a_deletion_at_the_same_moment(
    api: APIClient, alice: User, files: FaultyFileSystem
) -> None:
    jar_id(upload(api, "job.py", PROGRAM))

    def deleted(operation: str, uri: str) -> None:
        # the file was found a moment ago, and will be taken for the second upload's
        if operation == "exists" and Artifact.objects.exists():
            files.fail = lambda operation, uri: None
            answer = files.files.exists(uri)
            artifacts.delete(Artifact.objects.get())
            monkey.exists = lambda asked: answer
        connection.close()  # this is a thread of the storage, which asks no database otherwise

    monkey = SimpleNamespace(exists=None)
    original = files.exists
    files.fail = deleted

    def exists(uri: str) -> bool:
        found = original(uri)
        kept, monkey.exists = monkey.exists, None
        return bool(kept(uri)) if kept else found

    files.exists = exists  # type: ignore[method-assign]
    jar_id(upload(api, "job.py", PROGRAM))
    artifact = Artifact.objects.get()
    assert files.read(program_files().uri(artifact.path)) == PROGRAM.encode()


@pytest.mark.django_db(transaction=True)
def test_a_deletion_leaves_the_files_of_an_upload_that_has_no_row_yet(
    api: APIClient, alice: User, files: FaultyFileSystem
) -> None:
    name = jar_id(upload(api, "one.py", PROGRAM))

    def before_landing(uri: str) -> None:
        files.before_landing = lambda uri: None
        assert api.delete(f"/v1/jars/{name}").status_code == 200
        connection.close()  # as above

    files.before_landing = before_landing
    jar_id(upload(api, "two.py", PROGRAM))
    artifact = Artifact.objects.get()
    assert (artifact.file_name, len(artifact.files)) == ("two.py", 1)
    assert program_files().has(artifact.path)


def test_a_program_that_is_deleted_while_it_is_planned_is_not_run(
    api: APIClient, files: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))

    def overtaken(artifact: Artifact, request: ProgramRequest, has_left: Callable[[], bool]) -> ExtractedJob:
        extracted = programs.extract(artifact, request, has_left)
        assert api.delete(f"/v1/jars/{name}").status_code == 200
        return extracted

    monkeypatch.setattr(submissions, "extract", overtaken)
    answer = api.post(f"/v1/jars/{name}/run")
    assert (answer.status_code, answer.json()["errors"]) == (409, ["tiny.py has been deleted: upload it again."])
    assert not Job.objects.exists()


def test_a_name_that_changes_leaves_the_file_that_jobs_import_from(api: APIClient, files: FaultyFileSystem) -> None:
    content = archive(__main__=PROGRAM)
    for name in ("one.zip", "two.zip", "one.zip"):
        upload(api, name, content)
    artifact = Artifact.objects.get()
    assert [path.rpartition("/")[2] for path in artifact.files] == ["two.zip", "one.zip"]
    assert all(program_files().has(path) for path in artifact.files)
    assert api.delete(f"/v1/jars/{artifact.id}").status_code == 200
    assert program_files().unknown(()) == []


def test_what_a_killed_web_left_is_swept_at_the_second_look(
    files: FaultyFileSystem, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, seconds = program_files(), [0.0]
    sweep = artifacts._Sweep(lambda: seconds[0])
    kept = artifacts.store(uploaded("kept.py"), alice)
    own = ClusterIdentity.get_id()
    others = [f"{'a' * 64}.00000000", "a" * 64, f"{'a' * 64}.01234567-00000000"]
    for entry in (f"{'a' * 64}.{own}-00000000", *others):
        files.make_directory(stored.uri(entry))
        files.write_new(stored.uri(f"{entry}/job.py"), b"half")
    for now, left in ((0.0, 5), (10.0, 5), (artifacts.LEFTOVER_AFTER_S, 4)):
        seconds[0] = now
        sweep.run(stored)
        assert len(stored.unknown(())) == left
    assert stored.has(kept.path)
    assert sorted(stored.unknown([kept.path])) == sorted(others)


CLUSTER = """
import sys
import django
django.setup()
from django.contrib.auth.models import User
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.core.management import call_command
from backend.cluster.models import ClusterIdentity
from backend.cluster.program_files import program_files
from backend.dispatcher import artifacts

call_command("migrate", verbosity=0)
seconds = [0.0]
artifacts._sweep = artifacts._Sweep(lambda: seconds[0])
user = User.objects.create(username="alice")
program_files().make_root()
left = program_files().root.removeprefix("file://") + "/" + "b" * 64 + "." + ClusterIdentity.get_id() + "-00000000"
__import__("os").mkdir(left)
for n in range(3):
    upload = TemporaryUploadedFile(f"{sys.argv[1]}.py", "text/x-python", 0, "utf-8")
    upload.write(f"# {sys.argv[1]} {n}".encode())
    upload.flush()
    print(artifacts.store(upload, user).path)
    seconds[0] += artifacts.LEFTOVER_AFTER_S
"""


@pytest.mark.slow
def test_two_clusters_on_one_storage_leave_each_others_programs(tmp_path: Path) -> None:
    paths: set[str] = set()
    for name in ("first", "second", "third"):
        # each has a database of its own in its home
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "backend.config.settings"}
        environment |= {"TIDEMARK_HOME": str(tmp_path / name), "TIDEMARK_STORAGE_DIR": str(tmp_path / "storage")}
        environment.pop("DATABASE_URL", None)
        command = [sys.executable, "-c", CLUSTER, name]
        run = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        paths.update(run.stdout.split())
    assert len(paths) == 9
    stored = tmp_path / "storage" / "artifacts"
    assert {path.relative_to(stored).as_posix() for path in stored.glob("*/*")} == paths
    # what each of them had left itself is swept
    assert {path.name for path in stored.iterdir()} == {path.partition("/")[0] for path in paths}


def test_a_program_of_an_earlier_release_is_where_it_was(api: APIClient, home: Path) -> None:
    digest = sha256(PROGRAM.encode()).hexdigest()
    (home / "artifacts" / digest).mkdir(parents=True)
    (home / "artifacts" / digest / "old.py").write_text(PROGRAM)
    Artifact.objects.create(id=digest, file_name="old.py", size=len(PROGRAM), uploaded_at=1, files=[f"{digest}/old.py"])
    assert api.post(f"/v1/jars/{digest}_old.py/plan").status_code == 200
    assert api.delete(f"/v1/jars/{digest}_old.py").status_code == 200
    assert list((home / "artifacts").iterdir()) == []


def test_the_program_of_a_job_is_found_after_the_storage_was_moved() -> None:
    digest = "0f" * 32
    bucket = ProgramFiles(ArrowFileSystem(), "s3://bucket/x/artifacts")
    local = ProgramFiles(ArrowFileSystem(), "file:///srv/artifacts")
    old = f"/home/.tidemark/artifacts/{digest}/a.zip,/opt/lib"
    new = f"s3://bucket/x/artifacts/{digest}.0123abcd/a.zip"
    newer = f"s3://bucket/x/artifacts/{digest}.89abcdef-0123abcd/a.zip"
    assert bucket.located(old) == f"s3://bucket/x/artifacts/{digest}/a.zip,/opt/lib"
    assert local.located(new) == f"/srv/artifacts/{digest}.0123abcd/a.zip"
    assert local.located(newer) == f"/srv/artifacts/{digest}.89abcdef-0123abcd/a.zip"
    assert local.located("/opt/artifacts/a.zip") == "/opt/artifacts/a.zip"


def test_slots_copy_an_archive_from_an_object_store_once_and_as_a_whole(tmp_path: Path) -> None:
    store = FaultyFileSystem(in_a_bucket(tmp_path / "objects"))
    (tmp_path / "job.zip").write_bytes(b"content")
    stored = ProgramFiles(store, "s3://bucket/artifacts")
    path = stored.write(tmp_path / "job.zip", sha256(b"content").hexdigest(), "job.zip", "89abcdef")
    copies = tmp_path / "copies"
    store.fail = failing("pieces", times=1)
    with pytest.raises(OSError):
        local_copy(stored.uri(path), store, copies)
    assert [each for each in copies.rglob("*") if each.is_file()] == []
    copied = {local_copy(stored.uri(path), store, copies) for _ in range(3)}
    assert [each.read_bytes() for each in copied] == [b"content"]
    assert len([call for call in store.calls if call[0] == "pieces"]) == 2
    damaged = stored.write(tmp_path / "job.zip", "0" * 64, "job.zip", "89abcdef")
    with pytest.raises(DamagedProgramError):
        local_copy(stored.uri(damaged), store, copies)


def test_a_problem_of_the_storage_tells_no_paths() -> None:
    with (
        pytest.raises(StorageProblem, match="No space left") as problem,
        program_files_module.storage_problems("logs"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/place")
    assert problem.value.is_full and "secret" not in str(problem.value)


def uploaded(name: str) -> TemporaryUploadedFile:
    """A file as Django hands it over."""
    file = TemporaryUploadedFile(name, "text/plain", len(PROGRAM), None)
    file.write(PROGRAM.encode())
    file.flush()
    file.seek(0)
    return file


def test_programs_of_a_home_are_copied_once_into_a_storage_that_is_configured_later(
    alice: User, files: FaultyFileSystem, home: Path
) -> None:
    path = f"{'b' * 64}/old.py"
    (home / "artifacts" / path).parent.mkdir(parents=True)
    (home / "artifacts" / path).write_text(PROGRAM)
    Artifact.objects.create(id="b" * 64, file_name="old.py", size=1, uploaded_at=1, files=[path])
    assert (copy_programs_of_home(), copy_programs_of_home()) == (1, 0)
    assert files.read(program_files().uri(path)) == PROGRAM.encode()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_web_processes_without_a_common_home_serve_the_same_programs(tmp_path: Path) -> None:
    shared = {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'db.sqlite3'}",
        "TIDEMARK_STORAGE_DIR": str(tmp_path / "storage"),
        "TIDEMARK_SECRET_KEY": "of the tests" * 3,
    }
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "job.zip").write_bytes(archive(__main__=PROGRAM))
    with running_web(tmp_path / "a", **shared) as first, running_web(tmp_path / "b", **shared) as second:
        jar = RestClient(first.server).upload(tmp_path / "job.zip")
        assert [file["id"] for file in get(second, "/v1/jars")["files"]] == [jar]
        assert get(second, f"/v1/jars/{jar}/plan")["plan"]["name"] == "tiny"
    assert not (tmp_path / "a" / "artifacts").exists() and not (tmp_path / "b" / "artifacts").exists()


def get(web: WebProcess, path: str) -> Any:
    """Return the answer of a web process, decoded from JSON."""
    asked = urllib.request.Request(web.server.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def test_a_row_whose_commit_was_not_answered_keeps_its_file(
    api: APIClient, files: FaultyFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = artifacts._record

    def committed(*args: Any, **values: Any) -> Artifact | None:
        monkeypatch.setattr(artifacts, "_record", real)
        assert real(*args, **values) is not None
        raise OperationalError("the connection was lost after COMMIT")

    monkeypatch.setattr(artifacts, "_record", committed)
    assert upload(api, "job.py", PROGRAM).status_code == 503
    name = api.get("/v1/jars").json()["files"][0]["id"]
    assert api.post(f"/v1/jars/{name}/plan").status_code == 200
    assert api.delete(f"/v1/jars/{name}").status_code == 200


def test_a_program_whose_file_is_gone_can_be_deleted(api: APIClient, files: FaultyFileSystem) -> None:
    name = jar_id(upload(api, "job.py", PROGRAM))
    files.delete_directory(program_files().root)
    assert api.delete(f"/v1/jars/{name}").status_code == 200
    assert api.get("/v1/jars").json()["files"] == []


def test_all_names_of_a_program_of_an_earlier_release_are_copied(
    alice: User, files: FaultyFileSystem, home: Path
) -> None:
    """An earlier release kept the file of each name in one directory; a job may import from an older name."""
    digest = "b" * 64
    (home / "artifacts" / digest).mkdir(parents=True)
    for name in ("one.zip", "two.zip"):
        (home / "artifacts" / digest / name).write_text(PROGRAM)
    Artifact.objects.create(id=digest, file_name="two.zip", size=1, uploaded_at=1, files=[f"{digest}/two.zip"])
    assert (copy_programs_of_home(), copy_programs_of_home()) == (2, 0)
    assert files.read(program_files().uri(f"{digest}/one.zip")) == PROGRAM.encode()


def test_copies_of_slots_are_shared_whatever_the_umask_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0o002)
    try:
        assert (
            python_files._copies("artifacts")
            == python_files._copies("artifacts")
            == tmp_path / f"tidemark-{os.getuid()}" / "artifacts"
        )
    finally:
        os.umask(before)


def test_copied_programs_are_nobody_elses_business(alice: User, home: Path, tmp_path: Path, settings: Settings) -> None:
    settings.TIDEMARK_STORAGE_DIR = str(tmp_path / "storage")
    path = f"{'b' * 64}/old.py"
    (home / "artifacts" / path).parent.mkdir(parents=True)
    (home / "artifacts" / path).write_text(PROGRAM)
    Artifact.objects.create(id="b" * 64, file_name="old.py", size=1, uploaded_at=1, files=[path])
    assert copy_programs_of_home() == 1
    assert (tmp_path / "storage" / "artifacts").stat().st_mode & 0o777 == 0o700
