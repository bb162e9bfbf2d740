"""Programs of several modules become one archive, from which the job can be planned."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from runtime.client.errors import ClientError
from runtime.client.extract import extract_job_graph
from runtime.client.program_files import Program, read_program

JOB = """
from helpers import add
from shapes.squares import square
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda n: add(square(n))).print()
env.execute("several modules")
"""
HELPERS = "def add(n):\n    return n + 1\n"
SQUARES = "def square(n):\n    return n * n\n"


def write(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        path = directory / f"{name.replace('__slash__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def names(program: Program) -> list[str]:
    return [name for name in zipfile.ZipFile(io.BytesIO(program.content)).namelist() if not name.endswith("/")]


def planned(program: Program, directory: Path) -> str:
    """The name of the job that the uploaded file defines."""
    file = directory / program.name
    file.write_bytes(program.content)
    return extract_job_graph(file, entry=program.entry).graph.name


def test_a_directory_is_a_program(tmp_path: Path) -> None:
    job = write(
        tmp_path / "my-job", my_job=JOB, helpers=HELPERS, shapes__slash____init__="", shapes__slash__squares=SQUARES
    )
    write(job / ".venv", junk="")
    write(job / "venv", junk="")
    (job / "venv" / "pyvenv.cfg").touch()
    write(job / "__pycache__", junk="")
    program = read_program(job, [], None)
    assert (program.name, program.entry) == ("my-job.zip", "my_job")
    assert names(program) == ["helpers.py", "my_job.py", "shapes/__init__.py", "shapes/squares.py"]
    assert planned(program, tmp_path) == "several modules"


def test_files_beside_a_program_are_named(tmp_path: Path) -> None:
    job = write(tmp_path / "job", my_job=JOB) / "my_job.py"
    beside = write(tmp_path / "lib", helpers=HELPERS, shapes__slash____init__="", shapes__slash__squares=SQUARES)
    program = read_program(job, [f"{beside / 'helpers.py'},{beside / 'shapes'}"], None)
    assert (program.name, program.entry) == ("my_job.zip", "my_job")
    assert planned(program, tmp_path) == "several modules"


def test_archives_and_plain_directories_give_what_is_in_them(tmp_path: Path) -> None:
    job = write(tmp_path / "job", **{"my job": JOB}) / "my job.py"
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("shapes/squares.py", SQUARES)
    plain = write(tmp_path / "plain", helpers=HELPERS)
    program = read_program(job, [str(tmp_path / "lib.zip"), str(plain)], None)
    assert program.entry is None, "a name that is no module's becomes __main__"
    assert names(program) == ["__main__.py", "helpers.py", "shapes/squares.py"]
    assert planned(program, tmp_path) == "several modules"


def test_a_main_module_goes_first_and_entry_before_it(tmp_path: Path) -> None:
    job = write(tmp_path / "job", __main__="", main="", job="")
    assert read_program(job, [], None).entry is None
    assert read_program(job, [], "job").entry == "job"
    (job / "__main__.py").unlink()
    assert read_program(job, [], None).entry == "main"


def test_the_same_files_are_the_same_upload(tmp_path: Path) -> None:
    first = read_program(write(tmp_path / "job", main=JOB), [], None)
    (tmp_path / "job" / "main.py").touch()
    assert read_program(tmp_path / "job", [], None) == first


def test_one_file_is_sent_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, job=JOB) / "job.py"
    assert read_program(file, [], "m") == Program("job.py", JOB.encode(), "m")


@pytest.mark.parametrize(
    ("path", "py_files", "entry", "message"),
    [
        ("unclear", [], None, r"no __main__.py: say which module starts the job, --entry a or b"),
        ("empty", [], None, "has no module in it"),
        ("missing.py", [], None, "missing.py: No such file"),
        ("job.py", ["missing.py"], None, "missing.py: No such file"),
        ("job.py", ["broken.zip"], None, "not a zip archive"),
        ("job.py", ["other/job.py"], None, "already has another job.py"),
        ("job.py", ["other"], "main", "--entry is for archives and directories"),
    ],
)
def test_what_cannot_be_sent_is_told(
    tmp_path: Path, path: str, py_files: list[str], entry: str | None, message: str
) -> None:
    write(tmp_path, job=JOB, unclear__slash__a="", unclear__slash__b="", other__slash__job="")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.zip").write_text("x")
    with pytest.raises(ClientError, match=message):
        read_program(tmp_path / path, [str(tmp_path / name) for name in py_files], entry)
