"""Python requirements of jobs: resolved once, beside the engine's packages, kept while jobs name them."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster.containment import Containment
from backend.cluster.environment_files import environment_files
from backend.cluster.models import Job, PythonEnvironment
from backend.cluster.program_files import StorageProblem
from backend.dispatcher import environments, resolving
from backend.dispatcher.environments import environment_of
from backend.dispatcher.led_environments import KEPT_MS, LedEnvironments
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.task import python_files
from runtime.task.python_files import EnvironmentUnusableError, import_files, unpacked
from runtime.testing.clock import ManualClock
from tests.cluster.leading import take_leadership
from tests.dispatcher.test_jars import jar_id, upload
from tests.support.waiting import wait_until
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.usefixtures("home"), pytest.mark.django_db]

PROGRAM = """
import tide_tables
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(tide_tables.height).print()
env.execute("tides of " + tide_tables.VERSION)
"""
ASKING = """
from runtime.datastream import StreamExecutionEnvironment

def height(number):
    import tide_tables
    return tide_tables.height(number)

with open("wanted.txt", "w") as file:
    file.write("tide-tables==1.0\\n")
env = StreamExecutionEnvironment.get_execution_environment()
env.set_python_requirements("wanted.txt")
env.from_collection([1, 2]).map(height).print()
env.execute("asks itself")
"""


def module(version: str) -> dict[str, str]:
    return {"tide_tables/__init__.py": f"VERSION = {version!r}\n\ndef height(number):\n    return number * 10\n"}


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index of this test, and a place of its own for what is unpacked."""
    directory = tmp_path / "index"
    make_wheel(directory, "tide_tables", "1.0", module("1.0"), ["moon_phases>=2"])
    make_wheel(directory, "tide_tables", "2.0", module("2.0"), ["moon_phases>=2", "numpy"])
    make_wheel(directory, "moon_phases", "2.1", {"moon_phases.py": "FULL = 1\n"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setattr(python_files, "_copies", lambda kind: tmp_path / "copies" / kind)
    return directory


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Put `sys.path` and the modules back."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def run(api: APIClient, program: str, **body: Any) -> Any:
    return api.post(f"/v1/jars/{jar_id(upload(api, 'job.py', program))}/run", body, format="json")


def errors(answer: Any) -> str:
    assert answer.status_code >= 400
    return "\n".join(answer.json()["errors"])


def configuration_of(job: Job) -> Configuration:
    location = environment_files().location(job.graph["configuration"][options.PYTHON_ENVIRONMENT.key])
    return Configuration.from_dict({options.PYTHON_ENVIRONMENT.key: location})


def test_a_program_is_planned_and_run_with_the_packages_that_it_is_submitted_with(
    api: APIClient, clean_imports: None
) -> None:
    assert "tide_tables" in errors(run(api, PROGRAM))
    answer = run(api, PROGRAM, pythonRequirements=["Tide_Tables >= 1.0,<3  # of the coast", ""])
    assert answer.status_code == 200, answer.content
    job = Job.objects.get()
    assert job.name == "tides of 2.0"
    row = PythonEnvironment.objects.get()
    assert row.packages == ["moon-phases==2.1", "tide-tables==2.0"]
    assert job.configuration[options.PYTHON_ENVIRONMENT.key] == row.path
    events = [event.detail for event in AuditEvent.objects.all()]
    assert any("Tide_Tables" in str(detail) for detail in events)
    # a slot
    import_files(configuration_of(job))
    assert importlib.import_module("tide_tables").height(4) == 40
    assert importlib.import_module("moon_phases").FULL == 1
    assert sys.path[-1].startswith(str(Path(sys.modules["tide_tables"].__file__ or "").parent.parent))


def test_packages_that_the_engine_has_are_not_brought_again(api: APIClient) -> None:
    assert run(api, PROGRAM, flinkConfiguration={"python.requirements": "tide-tables\nnumpy"}).status_code == 200
    assert PythonEnvironment.objects.get().packages == ["moon-phases==2.1", "tide-tables==2.0"]


def test_a_program_can_ask_for_packages_of_its_functions(api: APIClient) -> None:
    assert run(api, ASKING).status_code == 200
    assert PythonEnvironment.objects.get().packages == ["moon-phases==2.1", "tide-tables==1.0"]
    assert Job.objects.get().graph["configuration"][options.PYTHON_ENVIRONMENT.key]


def test_the_same_requirements_are_resolved_once(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    first = environment_of("tide-tables>=1\n# comment\n")
    for wheel in index.iterdir():
        wheel.unlink()
    assert environment_of("  Tide.Tables >=1 ") == first
    assert environment_of(" \n#\n") == ""


def test_an_environment_that_has_left_the_storage_is_made_again(index: Path) -> None:
    first = environment_of("tide-tables")
    environment_files().delete(first)
    second = environment_of("tide-tables")
    assert second != first and environment_files().has(second) and PythonEnvironment.objects.get().path == second


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["sea-levels"], "no such version with a wheel"),
        (["tide-tables==7"], "1.0, 2.0"),
        (["numpy<2"], f"the engine runs on numpy {numpy.__version__}, which a job cannot replace"),
        (["old-charts"], f"numpy=={numpy.__version__}"),
        (["tide-tables==1.0", "tide-tables==2.0"], "contradict each other"),
        (["--index-url http://169.254.169.254/"], "options are not taken"),
        (["-r /etc/passwd"], "options are not taken"),
        (["evil @ file:///etc/passwd"], "URLs and paths are not taken"),
        (["evil @ http://127.0.0.1/evil.whl"], "URLs and paths are not taken"),
        (["./evil.whl"], "is no Python requirement"),
        (["a" * 5000], "no such version"),
        (["json-again"], "brings a module json, which the engine has"),
        (["engine-again"], "brings a module runtime, which the engine has"),
        (["for-others"], "no such version with a wheel"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(
    api: APIClient, index: Path, lines: list[str], told: str
) -> None:
    make_wheel(index, "old_charts", "1.0", {"old_charts.py": ""}, ["numpy<2"])
    make_wheel(index, "json_again", "1.0", {"json/__init__.py": ""})
    make_wheel(index, "engine_again", "1.0", {"runtime/__init__.py": ""})
    make_wheel(index, "for_others", "1.0", {"for_others.py": ""}, tag="cp27-cp27m-win32")
    answer = run(api, PROGRAM, pythonRequirements=lines)
    assert answer.status_code == 400 and told in errors(answer)
    assert not Job.objects.exists() and not PythonEnvironment.objects.exists()


def test_a_source_distribution_is_not_built(api: APIClient, index: Path) -> None:
    (index / "sea_levels-1.0.tar.gz").write_bytes(b"its setup.py would run here")
    assert "no such version with a wheel" in errors(run(api, PROGRAM, pythonRequirements=["sea-levels"]))


@pytest.mark.parametrize(
    "body",
    [
        {"pythonRequirements": "tide-tables"},
        {"pythonRequirements": [7]},
        {"pythonRequirements": ["a"], "flinkConfiguration": {"python.requirements": "b"}},
        {"flinkConfiguration": {"python.environment": "/etc"}},
        {"pythonRequirements": [f"a{number}" for number in range(201)]},
    ],
)
def test_other_shapes_are_refused(api: APIClient, body: dict[str, Any]) -> None:
    assert run(api, PROGRAM, **body).status_code == 400


def test_an_index_that_does_not_answer_is_no_fault_of_the_user(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    # nobody listens on port 1
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    answer = run(api, PROGRAM, pythonRequirements=["tide-tables"])
    assert answer.status_code == 503 and "does not answer" in errors(answer)


def test_a_full_disk_is_told(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        resolving, "_pip", _raise_failure("ERROR: Could not install: [Errno 28] No space left on device")
    )
    answer = run(api, PROGRAM, pythonRequirements=["tide-tables"])
    assert answer.status_code == 507 and "full" in errors(answer)


def _raise_failure(output: str) -> Any:
    def fail(*_: Any) -> None:
        raise resolving._failure(output)

    return fail


def test_packages_that_are_too_large_are_refused(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "MAX_BYTES", 100)
    assert "at most" in errors(run(api, PROGRAM, pythonRequirements=["tide-tables"]))


@pytest.mark.parametrize(("files", "mib"), [(32, 8), (1, 256)], ids=["many files", "one file"])
def test_a_wheel_that_unpacks_to_far_more_than_it_is_fills_no_disk(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, mib: int
) -> None:
    wheel = make_wheel(index, "bomb", "1.0", {"bomb.py": ""})
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(files):
            archive.writestr(f"bomb_{number}.bin", bytes(mib << 20))
    assert wheel.stat().st_size < 4 << 20
    monkeypatch.setattr(resolving, "MAX_BYTES", 16 << 20)
    directory = tmp_path / "resolved"
    directory.mkdir()
    with pytest.raises(resolving.RequirementsRefusedError, match="at most 16 MiB"):
        resolving.resolve(["bomb"], {}, directory)
    assert not list(directory.rglob("*.bin"))


def test_a_wheel_that_is_too_large_is_not_downloaded_whole(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, "ballast", "1.0", {"ballast.txt": "x" * (8 << 20)})
    monkeypatch.setattr(resolving, "MAX_BYTES", 1 << 20)
    directory = tmp_path / "resolved"
    directory.mkdir()
    with pytest.raises(resolving.RequirementsRefusedError, match="at most 1 MiB"):
        resolving.resolve(["ballast"], {}, directory)
    assert all(path.lstat().st_size <= 1 << 20 for path in directory.rglob("*"))


def test_pip_is_ended_when_it_writes_too_much_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = """
import pathlib, time
for number in range(64):
    pathlib.Path(f"{number}.part").write_bytes(bytes(1 << 18))
time.sleep(600)
"""
    monkeypatch.setattr(resolving, "MAX_BYTES", 8 << 20)
    with subprocess.Popen([sys.executable, "-c", writes], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        with pytest.raises(resolving.RequirementsRefusedError, match="at most 8 MiB"):
            resolving._watch(process, tmp_path)
        process.kill()


def test_a_wheel_of_too_many_files_is_refused(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(index, "crumbs", "1.0", {f"crumbs/{number}.txt": "" for number in range(3_000)})
    directory = tmp_path / "resolved"
    directory.mkdir()
    monkeypatch.setattr(resolving, "MAX_FILES", 500)
    with pytest.raises(resolving.RequirementsRefusedError, match="500 files"):
        resolving.resolve(["crumbs"], {}, directory)


def test_packages_of_all_jobs_have_so_much_room(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    environment_of("tide-tables")
    PythonEnvironment.objects.update(size=2 << 20)
    settings.TIDEMARK_ENVIRONMENTS_MIB = 2
    with pytest.raises(StorageProblem, match="take 2 MiB, these take 0 MiB more") as full:
        environment_of("moon-phases")
    assert full.value.is_full and len(environment_files().entries()) == 1
    settings.TIDEMARK_ENVIRONMENTS_MIB = 0
    assert environment_of("moon-phases")


def test_listed_programs_bring_no_packages(api: APIClient, settings: Settings, tmp_path: Path) -> None:
    jar = jar_id(upload(api, "job.py", PROGRAM))
    listed = tmp_path / "programs.sha256"
    listed.write_text(jar[:64])
    settings.TIDEMARK_ALLOWED_PROGRAMS = str(listed)
    answer = api.post(f"/v1/jars/{jar}/run", {"pythonRequirements": ["tide-tables"]}, format="json")
    assert answer.status_code == 403 and "python.requirements" in errors(answer)


def test_two_submissions_at_once_get_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # as in two web processes, which have no lock in common: while one resolves, the other does all of it
    monkeypatch.setattr(environments, "_resolver", threading.Semaphore(2))
    resolve, asked = resolving.resolve, iter(["by the other"])
    others: list[str] = []

    def resolve_after_another(*arguments: Any) -> Any:
        resolved = resolve(*arguments)
        if next(asked, None):
            others.append(environment_of("tide-tables"))
        return resolved

    monkeypatch.setattr(resolving, "resolve", resolve_after_another)
    path = environment_of("tide-tables")
    assert others == [path] and path == PythonEnvironment.objects.get().path
    assert environment_files().entries() == [path.partition("/")[0]]


# --- slots ------------------------------------------------------------------------------------------------------------


def test_slots_that_unpack_at_once_share_what_is_there(tmp_path: Path) -> None:
    location = environment_files().location(environment_of("tide-tables"))
    files, here = environment_files().files, tmp_path / "slots"
    with ThreadPoolExecutor(4) as pool:
        found = {str(each.result()) for each in [pool.submit(unpacked, location, files, here) for _ in range(4)]}
    assert len(found) == 1
    assert [entry.name for entry in here.iterdir()] == [Path(location).stem]


def test_an_archive_that_was_changed_is_refused(tmp_path: Path) -> None:
    location = Path(environment_files().location(environment_of("tide-tables")))
    location.chmod(0o600)
    location.write_bytes(location.read_bytes() + b"more")
    with pytest.raises(EnvironmentUnusableError, match="damaged"):
        unpacked(str(location), environment_files().files, tmp_path / "slots")
    assert not list((tmp_path / "slots").iterdir())


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    location = environment_files().location(environment_of("tide-tables"))
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnusableError, match="cannot be unpacked to"):
        unpacked(location, environment_files().files, tmp_path / "file" / "slots")


# --- the sweep --------------------------------------------------------------------------------------------------------


def test_environments_that_no_job_names_are_deleted_after_a_day(api: APIClient) -> None:
    run(api, PROGRAM, pythonRequirements=["tide-tables"])
    named = PythonEnvironment.objects.get().path
    unused = environment_of("moon-phases")
    clock = ManualClock(PythonEnvironment.objects.order_by("-used_at")[0].used_at)
    work = LedEnvironments(take_leadership("leader"), clock, Containment(), None)

    def swept() -> set[str]:
        wait_until(work.delete, 10, "the end of the sweep")
        return set(PythonEnvironment.objects.values_list("path", flat=True))

    assert swept() == {named, unused}
    clock.advance(KEPT_MS + 1)
    assert swept() == {named} and not environment_files().has(unused) and environment_files().has(named)
    Job.objects.all().delete()
    assert swept() == set() and environment_files().entries() == []


def test_what_a_killed_process_has_left_is_deleted_at_the_second_look(tmp_path: Path) -> None:
    path = environment_of("moon-phases")
    PythonEnvironment.objects.all().delete()
    work = LedEnvironments(take_leadership("leader"), ManualClock(0), Containment(), None)
    wait_until(work.delete, 10, "the end of the sweep")
    assert environment_files().has(path)
    wait_until(work.delete, 10, "the end of the sweep")
    assert environment_files().entries() == []
