"""Python packages of jobs on a real stack: one job has them, another one beside it has not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from runtime.client.errors import ClientError
from tests.cluster.log_reading import read_log
from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until
from tests.support.wheels import make_wheel

# a loaded machine takes a minute to start a JVM
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

MODULE = {"tide_tables/__init__.py": "def height(number):\n    return number * 10\n"}
PROGRAM = """
import sys
from runtime.datastream import StreamExecutionEnvironment

def height(number):
    try:
        import tide_tables
    except ModuleNotFoundError as error:
        return f"{number}: {error}"
    return f"{number}: {tide_tables.height(number)}"

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3, 4]).rebalance().map(height).print()
env.execute(sys.argv[1])
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A cluster whose index of packages is a directory: nothing is downloaded."""
    index = tmp_path_factory.mktemp("index")
    make_wheel(index, "tide_tables", "1.0", MODULE)
    make_wheel(index, "tide_replaces", "1.0", {"numpy/__init__.py": "stolen = True\n"})
    make_wheel(index, "numpy", "99.0", {"numpy/__init__.py": "stolen = True\n"})
    environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="6", **environment) as made:
        yield made


@pytest.fixture
def program(stack: Stack, tmp_path: Path) -> str:
    """The uploaded program, whose function says whether it finds the package."""
    path = tmp_path / "tides.py"
    path.write_text(PROGRAM)
    return stack.client.upload(path)


def rows_of(stack: Stack, job: str) -> set[str]:
    """Return what all slots of a job have printed when it has finished."""
    wait_until(lambda: stack.client.live(job)["end_time"] != -1, 120, "the end of the job")
    document = stack.client.live(job)
    assert document["state"] == "FINISHED", json.dumps(document["failure"])
    logs = stack.home / "logs" / "jobs" / job / "attempt-0"
    text = "".join(read_log(logs / f"slot-{slot}.out") for slot in range(2))
    return {re.sub(r"^\d+> ", "", line) for line in text.splitlines()}


def test_the_function_of_one_job_has_the_package_and_that_of_another_beside_it_has_not(
    stack: Stack, program: str
) -> None:
    """The workers of both are forked from one process that has the engine imported."""

    def run(name: str, *requirements: str) -> str:
        return stack.client.run(program, [name], {}, 2, None, requirements=requirements)

    having, lacking = run("with", "tide-tables==1.0"), run("without")
    assert rows_of(stack, having) == {"1: 10", "2: 20", "3: 30", "4: 40"}
    assert rows_of(stack, lacking) == {f"{number}: No module named 'tide_tables'" for number in range(1, 5)}


@pytest.mark.parametrize("requirement", ["tide-replaces", "numpy==99.0"])
def test_what_would_replace_a_package_of_the_engine_is_refused_in_one_line(
    stack: Stack, program: str, requirement: str
) -> None:
    known = len(stack.client.jobs())
    with pytest.raises(ClientError) as refused:
        stack.client.run(program, ["replaced"], {}, 2, None, requirements=[requirement])
    told = str(refused.value)
    assert "numpy" in told and len(told.splitlines()) == 1, told
    assert len(stack.client.jobs()) == known
    assert numpy.__version__ != "99.0"
