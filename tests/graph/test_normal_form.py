"""The normal form: equal for equal jobs wherever their programs are, and for no others."""

from __future__ import annotations

from typing import Any

from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment
from runtime.graph.normal_form import normal_form

PROGRAM = """
from runtime.common import Types
from runtime.datastream import KeyedProcessFunction, StreamExecutionEnvironment

LIMIT = 3


def helper(value):
    return value + LIMIT


class Counted(KeyedProcessFunction):
    def __init__(self, start):
        self.start = start

    def process_element(self, value, ctx):
        yield helper(value) + self.start


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
numbers = env.from_collection([1, 2, 3], Types.LONG()).uid("numbers")
numbers.filter(lambda value: value > LIMIT).key_by(lambda value: value % 2).process(Counted(7)).uid("counted").print()
"""


def form(source: str, file: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "a_program", "__file__": file}
    exec(compile(source, file, "exec"), names)
    env: StreamExecutionEnvironment = names["env"]
    return normal_form(env.create_job_graph("job"))


def test_directory_lines_and_comments_do_not_matter() -> None:
    first = form(PROGRAM, "/here/a.py")
    assert form(PROGRAM, "/there/b.py") == first
    assert form("# a comment\n\n" + PROGRAM, "/here/a.py") == first


def test_any_change_of_the_job_matters() -> None:
    first = form(PROGRAM, "/a.py")
    for old, new in (
        ("LIMIT = 3", "LIMIT = 4"),
        ("value + LIMIT", "value - LIMIT"),
        ("Counted(7)", "Counted(8)"),
        ("value % 2", "value % 3"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ('uid("counted")', 'uid("other")'),
        ("set_parallelism(2)", "set_parallelism(1)"),
    ):
        assert form(PROGRAM.replace(old, new), "/a.py") != first, new
