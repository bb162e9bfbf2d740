"""The examples of docs/testing.md are tests; each block of Python on the page is run on its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.job_runs import record_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[Any]:
    """(line, source of the block, name of a test in it) for all tests on the page, those that start Spark marked."""
    found = []
    page = PAGE.read_text(encoding="utf-8")
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start(1))
        marks = [pytest.mark.spark] if "assert_same_result_in_all_modes" in match[1] else []
        tests = re.findall(r"^def (test_\w+)\(\):", match[1], re.MULTILINE)
        assert tests, f"the block in line {line} of {PAGE} has no test"
        found += [pytest.param(line, match[1], test, id=test, marks=marks) for test in tests]
    return found


@pytest.mark.parametrize(("line", "source", "test"), examples())
def test_example(line: int, source: str, test: str) -> None:
    # no module of that name can be imported: classes of a block travel by value, as those of a main program do
    namespace: dict[str, Any] = {"__name__": f"docs_testing_line_{line + 1}"}
    exec(compile("\n" * line + source, str(PAGE), "exec"), namespace)
    if "run_job" in source or "MiniCluster" in source:
        record_run("mini-cluster")
    namespace[test]()


def test_every_public_name_is_on_the_page_or_belongs_to_one_that_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    init = (PAGE.parents[1] / "runtime" / "testing" / "__init__.py").read_text(encoding="utf-8")
    names = set(re.findall(r"import (\w+) as \1", init)) | set(re.findall(r"^    (\w+) as \1", init, re.MULTILINE))
    assert {name for name in names if name not in page} <= {
        "CONTINUOUS_ON_MINI_CLUSTER",
        "CollectingSink",
        "JobMode",
        "JobResult",
        "OneInputHarness",
        "OutputRecord",
        "TwoInputHarness",
        "assert_survives_rescaling",
        "assert_two_inputs_survive_rescaling",
    }
