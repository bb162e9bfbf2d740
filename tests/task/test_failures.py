"""A failure names the operator that failed, and the place in the program that defines it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from inspect import currentframe
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Row, Types, WatermarkStrategy
from runtime.connectors import FileSink, FileSource, StreamFormat
from runtime.core.places import users_place
from runtime.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.execution.errors import JobExecutionError
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import ChainedOperator
from runtime.task.failures import describe_failure
from tests.datastream.running import environment
from tests.job_runs import record_run

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


def line() -> int:
    """The line that calls this."""
    frame = currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def operators_of(env: StreamExecutionEnvironment) -> dict[str, ChainedOperator]:
    return {o.name: o for vertex in env.create_job_graph("job").vertices for o in vertex.operators}


def test_a_failure_is_told_in_text_that_every_reader_can_have() -> None:
    failure = describe_failure(ValueError("bad \ud800 \0 record"))
    assert failure.message == "ValueError: bad \ufffd \ufffd record"
    assert failure.traceback.endswith(failure.message)


def test_every_operator_has_the_line_of_its_own_call() -> None:
    env = environment()
    start = line()
    (
        env.from_collection([Row(1), Row(2), Row(3)], ROW)
        .where("n > 0 AND n < 1000")
        .key_by_columns("n")
        .aggregate_columns("sum(n) AS total", "max(n) AS greatest")
        .print("totals")
    )
    places = {name: operator.defined_at for name, operator in operators_of(env).items()}
    assert places == {
        "Source: Collection Source": f"{__file__}:{start + 2}",
        "Where": f"{__file__}:{start + 3}",
        "Aggregate": f"{__file__}:{start + 5}",
        "Sink: Print to Std. Out": f"{__file__}:{start + 6}",
    }


def test_the_place_of_a_helper_of_the_users_is_the_helpers() -> None:
    env = environment()
    cleaned(env.from_collection([1], Types.LONG())).print()
    assert operators_of(env)["cleaned"].defined_at == f"{__file__}:{CLEANED}"


def cleaned(stream: DataStream) -> DataStream:
    return stream.filter(lambda n: n > 0).name("cleaned")


CLEANED = cleaned.__code__.co_firstlineno + 1


def test_libraries_are_passed_over_unless_there_is_nothing_else() -> None:
    library = (json.__file__, 3)
    engine = (users_place.__code__.co_filename, 5)
    assert users_place([engine, library, ("mine.py", 7), ("above.py", 9)]) == ("mine.py", 7)
    assert users_place([engine, library, ("<frozen runpy>", 1)]) == library
    assert users_place([engine]) is None


def test_graphs_of_earlier_versions_have_no_places() -> None:
    env = environment()
    env.from_collection([1], Types.LONG()).print()
    value = job_graph_to_json(env.create_job_graph("job"))
    for vertex in value["vertices"]:
        for operator in vertex["operators"]:
            del operator["defined_at"]
    assert {o.defined_at for vertex in job_graph_from_json(value).vertices for o in vertex.operators} == {""}


class FailsOnOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise KeyError("no model")

    def map(self, value: Any) -> Any:
        return value


def in_a_function(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    numbers = env.from_collection([1, 0], Types.LONG()).map(lambda n: n, Types.LONG()).name("before")
    made = numbers.map(lambda n: 1 // n, Types.LONG()).name("divide")
    made.print()
    return "divide", line() - 2


def in_open(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    env.from_collection([1], Types.LONG()).map(FailsOnOpen(), Types.LONG()).name("model").print()
    return "model", line() - 1


def in_a_column(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    rows = env.from_collection([Row("x")], Types.ROW_NAMED(["text"], [Types.STRING()]))
    rows.select("CAST(text AS bigint) AS n").name("cast").print()
    return "cast", line() - 1


def in_a_sink(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    (tmp_path / "file").write_text("")
    env.from_collection([Row(1)], ROW).sink_to(FileSink.for_ndjson(tmp_path / "file").build()).name("out")
    return "Sink: out", line() - 1


def in_a_reader(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    (tmp_path / "text").write_bytes(b"\xff\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "text").build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").print()
    return "Source: lines", line() - 1


def in_an_enumerator(env: StreamExecutionEnvironment, tmp_path: Path) -> tuple[str, int]:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "absent").build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").print()
    return "Source: lines", line() - 1


@pytest.mark.parametrize(
    "program", [in_a_function, in_open, in_a_column, in_a_sink, in_a_reader, in_an_enumerator], ids=lambda f: f.__name__
)
def test_a_failure_says_where_its_operator_is_defined(
    program: Callable[[StreamExecutionEnvironment, Path], tuple[str, int]], tmp_path: Path
) -> None:
    env = environment()
    name, number = program(env, tmp_path)
    record_run("mini-cluster")
    client = env.execute_async()
    with pytest.raises(JobExecutionError, match=re.escape(f"(operator {name!r} is defined at {__file__}:{number})")):
        client.get_job_execution_result().result(30)
    cause = client.get_status().exceptions[0].cause
    assert cause.traceback.endswith(f"\noperator {name!r} is defined at {__file__}:{number}")
    assert cause.defined_at == f"{__file__}:{number}"
    assert cause.operator_id is not None
