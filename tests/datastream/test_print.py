"""Output of `print` and of print() inside a function, on the program's own standard output."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Row, Types
from runtime.datastream import StreamExecutionEnvironment
from tests.datastream.running import environment
from tests.job_runs import record_run


def run(env: StreamExecutionEnvironment) -> None:
    record_run("mini-cluster")
    env.execute()


@pytest.mark.parametrize(
    ("parallelism", "identifier", "prefixes"),
    [
        (1, None, {""}),
        (1, "id", {"id> "}),
        (3, None, {"1> ", "2> ", "3> "}),
        (3, "id", {"id:1> ", "id:2> ", "id:3> "}),
    ],
)
def test_lines_begin_with_the_identifier_and_the_number_of_the_subtask(
    parallelism: int, identifier: str | None, prefixes: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment(parallelism)
    env.from_collection(list(range(9)), Types.INT()).print(identifier)
    run(env)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line[-1] for line in lines) == [str(digit) for digit in range(9)]
    assert {line[:-1] for line in lines} == prefixes


def test_the_parallelism_that_counts_is_the_sinks_own(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment(3)
    env.from_collection(["x"]).print().set_parallelism(1).name("shown")
    run(env)
    assert capsys.readouterr().out == "x\n"


@pytest.mark.parametrize(
    ("value", "type_info", "line"),
    [
        (("China", 135), None, "('China', 135)"),
        (("hi", 0), Types.TUPLE([Types.STRING(), Types.INT()]), "(hi,0)"),
        (Row(1, "Hello"), Types.ROW([Types.INT(), Types.STRING()]), "+I[1,Hello]"),
        (True, Types.BOOLEAN(), "true"),
        (True, None, "True"),
        (1e10, Types.DOUBLE(), "1.0E10"),
        ("zwölf ✈", Types.STRING(), "zwölf ✈"),
    ],
    ids=repr,
)
def test_values_are_shown_as_pyflink_shows_them(
    value: Any, type_info: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment()
    env.from_collection([value], type_info).print()
    run(env)
    assert capsys.readouterr().out == f"{line}\n"


def test_print_in_a_function_is_seen_too(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_collection([1, 2]).map(lambda value: print("saw", value)).print()
    run(env)
    assert sorted(capsys.readouterr().out.splitlines()) == ["None", "None", "saw 1", "saw 2"]


def test_much_output_arrives_whole_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_collection([f"{number:07}" + "x" * 93 for number in range(30_000)], Types.STRING()).print()
    run(env)
    lines = capsys.readouterr().out.splitlines()
    assert [int(line[:7]) for line in lines] == list(range(30_000))
