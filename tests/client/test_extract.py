"""Plan extraction: what a program defines, what it is told when it defines nothing, and what it cannot get at."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.client.errors import ExtractionAbandonedError, ExtractionError
from runtime.client.extract import ExtractedJob, extract_job_graph
from runtime.client.extract_child import run_program
from runtime.core.ids import operator_id_of
from runtime.datastream import extraction
from runtime.graph.codec import job_graph_from_json
from tests.client.programs import GOOD, write_archive, write_program
from tests.support.waiting import wait_until


def refused(program: Path, **options: object) -> ExtractionError:
    with pytest.raises(ExtractionError) as raised:
        extract_job_graph(program, **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    return raised.value


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; it may be a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children_of(pid: int) -> list[psutil.Process]:
    """Return the extraction's processes below this one."""
    found: list[psutil.Process] = []
    for child in psutil.Process(pid).children():
        # others may end meanwhile, or have ended and not been waited for
        with contextlib.suppress(psutil.NoSuchProcess):
            if "runtime.client.launcher" in child.cmdline()[:3]:
                found += [child, *child.children(recursive=True)]
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> ExtractedJob:
    program = write_program(tmp_path_factory.mktemp("good"), GOOD)
    return extract_job_graph(program, ["--rate", "3"], parallelism=3, configuration={"pipeline.object-reuse": "true"})


def test_a_program_is_run_up_to_execute(good: ExtractedJob) -> None:
    assert good.graph.name == "three numbers"
    assert [v.name for v in good.graph.vertices] == ["Source: Collection Source", "plus one -> Sink: Print to Std. Out"]
    assert good.stdout_tail == "defining ['--rate', '3']\n"


def test_parallelism_and_options_of_the_submission_reach_the_program(good: ExtractedJob) -> None:
    assert [v.parallelism for v in good.graph.vertices] == [1, 3]
    assert good.graph.configuration["pipeline.object-reuse"] == "true"


def test_graph_and_plan_come_as_json(good: ExtractedJob) -> None:
    assert job_graph_from_json(good.graph_json) == good.graph
    assert good.plan_json["jid"] == good.graph.job_id
    assert len(good.plan_json["nodes"]) == 2


def test_operators_know_their_line_of_the_program_by_the_name_that_its_user_knows(good: ExtractedJob) -> None:
    places = [operator.defined_at for vertex in good.graph.vertices for operator in vertex.operators]
    assert places == ["job.py:8", "job.py:8", "job.py:8"]


STREAMS = """
from runtime.common import Types
from runtime.datastream import OutputTag, StreamExecutionEnvironment

odd = OutputTag("odd", Types.INT())
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2], Types.INT()).map(lambda n: n, Types.INT()).uid("numbers")
others = env.from_collection([3], Types.INT()).uid("others")
odds = numbers.get_side_output(odd)
all_of_them = numbers.union(others, odds)
not_one = 7
all_of_them.key_by(lambda n: n).print()
env.execute("streams")
"""


def test_streams_that_are_asked_for_are_told_as_outputs_of_operators(tmp_path: Path) -> None:
    names = ["odds", "all_of_them", "not_one", "missing"]
    job = extract_job_graph(write_program(tmp_path, STREAMS), streams=names)
    numbers, others = operator_id_of("numbers"), operator_id_of("others")
    assert job.streams == {"odds": [(numbers, "odd")], "all_of_them": [(numbers, ""), (others, ""), (numbers, "odd")]}
    assert extract_job_graph(write_program(tmp_path, STREAMS)).streams == {}


def test_operators_that_need_a_uid_are_warned_about(good: ExtractedJob) -> None:
    assert len(good.warnings) == 1
    assert "Source: Collection Source" in good.warnings[0]


def test_options_that_have_no_effect_are_warned_about(tmp_path: Path) -> None:
    program = write_program(tmp_path, GOOD)
    extracted = extract_job_graph(program, ["--rate", "3"], configuration={"execution.checkpointing.intervall": "1 s"})
    [warning, _] = extracted.warnings
    assert warning.startswith("execution.checkpointing.intervall has no effect: there is no such option")


def test_an_option_that_is_none_is_warned_about(tmp_path: Path) -> None:
    extracted = extract_job_graph(write_program(tmp_path, GOOD), ["--rate", "3"], configuration={"foo": "bar"})
    [warning, _] = extracted.warnings
    assert warning == "foo is not a known option: only the program itself can read it"


FILES = """
from runtime.common import WatermarkStrategy
from runtime.connectors import FileSink
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource, StreamFormat

env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), {source!r}).build()
lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
lines.sink_to(FileSink.for_ndjson({sink!r}).build()).name("out").uid("out")
env.execute("files")
"""


def test_relative_paths_are_warned_about(tmp_path: Path) -> None:
    relative = extract_job_graph(write_program(tmp_path, FILES.format(source="data/in.txt", sink="out")))
    about_source, about_sink = relative.warnings
    assert about_source.startswith("Source: lines uses a relative path, data/in.txt: it is looked for on the TaskM")
    assert about_sink.startswith("Sink: out uses a relative path, out: ")
    absolute = extract_job_graph(write_program(tmp_path, FILES.format(source="/data/in.txt", sink="file:///out")))
    assert absolute.warnings == ()


def test_an_error_names_the_users_line_and_shows_the_users_frames(tmp_path: Path) -> None:
    error = refused(write_program(tmp_path, "\ndef fail():\n    return 1 / 0\n\nfail()\n"), display_name="my.py")
    assert str(error) == "my.py, line 2: ZeroDivisionError: division by zero"
    assert "return 1 / 0" in error.traceback
    assert "runpy" not in error.traceback
    assert str(tmp_path) not in error.traceback


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("import helpers", "only my.py was uploaded: tidemark run my.py --py-files helpers.py brings your own module"),
        ("from helpers.words import split", "tidemark run my.py --py-files helpers.py"),
        (
            "from pyflink.datastream import StreamExecutionEnvironment",
            "write runtime instead of pyflink in the program's imports",
        ),
        ("open('data.csv')", "in an empty directory: use an absolute path"),
        ("from pathlib import Path\nPath('/nowhere/data.csv').read_text()", "the file has to be there"),
    ],
)
def test_errors_that_only_an_upload_meets_say_what_to_do(tmp_path: Path, text: str, advice: str) -> None:
    error = refused(write_program(tmp_path, text), display_name="my.py")
    assert advice in str(error), error


def test_an_archive_without_a_module_is_told_so(tmp_path: Path) -> None:
    error = refused(write_archive(tmp_path, {"__main__.py": "import helpers"}), display_name="bundle.zip")
    assert "bundle.zip has no helpers in it" in str(error)


def test_an_error_of_the_api_is_told_at_the_users_line(tmp_path: Path) -> None:
    program = """
    from runtime.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).execute_and_collect()
    """
    error = refused(write_program(tmp_path, program))
    assert str(error).startswith("job.py, line 4: DataStreamError: execute_and_collect() gives records back")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", "job.py, line 1: SyntaxError: '(' was never closed"),
        ("x = 1\n", "job.py ended without a call of execute(): it defines no job"),
        (
            "import argparse; argparse.ArgumentParser(prog='job').parse_args(['--no'])",
            "job.py ended without a call of execute() (exit code 2): job: error: unrecognized arguments: --no",
        ),
        ("import sys; sys.exit('no input given')", "job.py ended without a call of execute(): no input given"),
        ("import argparse; argparse.ArgumentParser().parse_args(['-x'])", "execute() (exit code 2)"),
        ("import os; os._exit(7)", "job.py ended with exit code 7 before it defined a job"),
        ("import os; os.kill(os.getpid(), 9)", "job.py ended by SIGKILL before it defined a job"),
        ("x = bytearray(1 << 42)", "job.py needs more than 4096 MiB of memory"),
    ],
)
def test_a_program_without_a_job_is_told_why(tmp_path: Path, text: str, message: str) -> None:
    assert message in str(refused(write_program(tmp_path, text)))


def test_a_program_that_swallows_its_end_still_gives_its_first_job(tmp_path: Path) -> None:
    program = """
    from runtime.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    try:
        env.execute("first")
    except BaseException:
        env.execute("second")
    """
    assert extract_job_graph(write_program(tmp_path, program)).graph.name == "first"


def test_a_program_that_hangs_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    program = """
    import subprocess, time

    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    time.sleep(600)
    """
    # on a loaded machine the child may take more than the shorter times to begin at all
    for timeout_s in (1.5, 15, 120):
        error = refused(write_program(tmp_path, program), timeout_s=timeout_s)
        if error.output:
            break
        assert f" {timeout_s:g} s" in str(error), "the other error that a program without a pid may end with"
    late = f"job.py did not get to execute() within {timeout_s} s and was stopped"
    assert str(error) == f"{late} at job.py, line 5: time.sleep(600)"
    assert error.traceback == '  File "job.py", line 5, in <module>\n    time.sleep(600)\n'
    pid = int(error.output)
    wait_until(lambda: is_gone(pid), 5.0, "the end of what the program started")


def test_a_program_that_the_machine_had_no_time_to_start_is_not_blamed(tmp_path: Path) -> None:
    # no interpreter starts so fast
    error = refused(write_program(tmp_path, "pass"), timeout_s=0.001)
    assert str(error) == "the server is too busy: job.py had not even started after 0.001 s; try again"


def test_a_program_whose_job_nobody_wants_any_more_is_killed(tmp_path: Path) -> None:
    program = write_program(
        tmp_path,
        """
    import time

    time.sleep(600)
    """,
    )
    started: list[psutil.Process] = []

    def has_started() -> bool:
        started[:] = children_of(os.getpid())
        return len(started) > 1

    began = time.monotonic()
    with pytest.raises(ExtractionAbandonedError):
        extract_job_graph(program, is_abandoned=has_started)
    assert time.monotonic() - began < 50
    assert all(is_gone(process.pid) for process in started)


def test_a_process_that_a_program_leaves_behind_holds_nothing_up(tmp_path: Path) -> None:
    program = """
    import subprocess

    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    1 / 0
    """
    error = refused(write_program(tmp_path, program), timeout_s=60.0)
    assert "ZeroDivisionError" in str(error)
    pid = int(error.output)
    wait_until(lambda: is_gone(pid), 5.0, "the end of what the program started")


def test_output_without_an_end_does_not_hold_the_time_limit_up(tmp_path: Path) -> None:
    error = refused(write_program(tmp_path, "while True: print('x' * 1000)\n"), timeout_s=20.0)
    assert "within 20 s" in str(error)


def test_a_program_sees_no_secret_and_no_file_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEMARK_ADMIN_TOKEN", "DATABASE_URL", "REDIS_URL", "SOME_PASSWORD", "TIDEMARK_CONF_A"):
        monkeypatch.setenv(name, "canary")
    program = """
    import os

    print(sorted(os.environ), os.listdir("."), os.path.samefile(os.environ["HOME"], "."))
    raise RuntimeError("canary" if "canary" in os.environ.values() else "clean")
    """
    error = refused(write_program(tmp_path, program))
    assert str(error).endswith("RuntimeError: clean")
    assert "TIDEMARK" not in error.output
    assert "[] True" in error.output


def test_only_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    error = refused(write_program(tmp_path, 'print("x" * 1_000_000)\nprint("the end")\n1 / 0\n'))
    assert len(error.output) <= 64 << 10
    assert error.output.endswith("the end\n")


# --- archives ---------------------------------------------------------------------------------------------------------

ARCHIVED = {"jobs/__init__.py": "", "jobs/main.py": "import helper\n" + GOOD, "helper.py": "VALUE = 1\n"}


def test_a_module_of_an_archive_starts_the_job_and_the_slots_get_the_archive(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, ARCHIVED)
    job = extract_job_graph(archive, entry="jobs.main", configuration={"python.files": "other.py"})
    assert job.graph.name == "three numbers"
    assert job.graph.configuration["python.files"] == f"{archive},other.py"
    assert job.graph.vertices[0].head.defined_at == "bundle.zip/jobs/main.py:10"


def test_an_archive_with_a_main_needs_no_entry(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, {"__main__.py": "import helper\n1 / 0\n", "helper.py": ""}, "bundle.whl")
    assert str(refused(archive)) == "bundle.whl/__main__.py, line 2: ZeroDivisionError: division by zero"


def test_archives_without_an_entry_are_refused_before_anything_runs(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, ARCHIVED)
    assert "has no __main__.py" in str(refused(archive))
    assert "has no module jobs.other" in str(refused(archive, entry="jobs.other"))
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"no zip")
    assert "not a zip archive" in str(refused(broken))


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    assert "no such file" in str(refused(tmp_path / "missing.py"))
    assert "it must be a .py, .zip or .whl file" in str(refused(write_program(tmp_path, "", "notes.txt")))
    assert "for .zip and .whl only" in str(refused(write_program(tmp_path, ""), entry="main"))


# --- the child's side, without a process ------------------------------------------------------------------------------


def test_an_option_that_cannot_be_read_is_the_submissions_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "_installed", None)
    request: dict[str, Any] = {
        "program": str(write_program(tmp_path, GOOD)),
        "display_name": "job.py",
        "entry": None,
        "args": [],
        "parallelism": None,
        "configuration": {"parallelism.default": "many"},
    }
    assert "parallelism.default" in run_program(request)["error"]["message"]
    assert extraction.installed_extraction() is None


def test_no_file_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    refused(write_program(tmp_path, "import os; os._exit(1)"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_second_job_of_a_program_is_refused_and_not_dropped(tmp_path: Path) -> None:
    program = """
    from runtime.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    env.execute("first")
    env.from_collection([2]).print()
    env.execute("second")
    """
    error = refused(write_program(tmp_path, program), display_name="two.py")
    assert str(error).startswith("two.py, line 5: DataStreamError: the program executes a second job (two.py, line 7)")


def test_a_second_job_that_may_follow_is_warned_of(tmp_path: Path) -> None:
    program = """
    from runtime.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    for name in ("first", "second"):
        env.from_collection([1]).print()
        env.execute(name)
    """
    extracted = extract_job_graph(write_program(tmp_path, program))
    assert extracted.graph.name == "first"
    assert extracted.warnings[0].startswith(
        "a submitted program ends at its first execute(): a later one (job.py, line 6)"
    )


def test_a_former_key_of_the_submission_is_read_with_a_word_about_the_key_to_write(tmp_path: Path) -> None:
    extracted = extract_job_graph(write_program(tmp_path, GOOD), configuration={"state.backend": "rocksdb"})
    assert "state.backend is a former key: write state.backend.type" in extracted.warnings
    assert extracted.graph.configuration["state.backend"] == "rocksdb"


def test_a_program_that_catches_the_refusal_of_its_second_job_gets_none_run(tmp_path: Path) -> None:
    program = """
    from runtime.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    try:
        env.execute("first")
    except Exception:
        pass
    env.execute("second")
    """
    assert "the program executes a second job (job.py, line 9)" in str(refused(write_program(tmp_path, program)))


PARENT = """
import pathlib, sys
from runtime.client.extract import extract_job_graph
extract_job_graph(pathlib.Path(sys.argv[1]), timeout_s=50)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_a_program_and_what_it_has_started_end_with_the_process_that_plans_it(tmp_path: Path) -> None:
    program = tmp_path / "long.py"
    program.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "while True: pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", PARENT, str(program)]) as parent:
        # the launcher, the program, and what that has started
        wait_until(lambda: len(children_of(parent.pid)) == 3, 60, "the program")
        planned = children_of(parent.pid)
        parent.kill()
    gone, alive = psutil.wait_procs(planned, timeout=10)
    for process in alive:
        process.kill()
    assert len(gone) == 3
