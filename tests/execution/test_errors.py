"""Users' mistakes: each gets one clear message on one line that says where."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink
from runtime.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from runtime.datastream.data_stream import DataStreamError
from runtime.execution.errors import JobExecutionError
from runtime.graph.errors import GraphError
from tests.datastream.running import environment
from tests.job_runs import record_run
from tests.support.programs import run_program

HERE = re.escape(str(Path(__file__).resolve()))


def failure_of(stream: DataStream, name: str = "job") -> str:
    """The message with which the job of a stream fails."""
    stream.sink_to(BlackHoleSink())
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError) as caught:
        stream.get_execution_environment().execute(name)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"job {name!r} failed: ")
    return message.removeprefix(f"job {name!r} failed: ")


def words(env: StreamExecutionEnvironment | None = None) -> DataStream:
    return (env or environment()).from_collection(["a", "b", ""], Types.STRING())


# --- user functions ---------------------------------------------------------------------------------------------------


class FirstLetter(MapFunction):
    def map(self, value: str) -> str:
        return value[0]


def first_letter(value: str) -> str:
    return value[0]


@pytest.mark.parametrize(
    "function", [FirstLetter(), first_letter, lambda value: value[0]], ids=["class", "def", "lambda"]
)
def test_a_failing_function_names_operator_record_and_line(function: Any) -> None:
    message = failure_of(words().map(function).name("first letter"))
    expected = rf"operator 'first letter' \(subtask 1/1\) failed on record '': IndexError.* at {HERE}:\d+: .*value\[0\]"
    assert re.match(expected, message), message


def test_a_failing_function_behind_an_exchange_names_its_subtask() -> None:
    message = failure_of(words(environment(3)).map(first_letter).name("first letter"))
    assert re.match(r"operator 'first letter' \(subtask [123]/3\) failed on record ''", message), message


def test_a_failure_inside_a_library_names_the_line_of_the_user_that_called_it() -> None:
    message = failure_of(words().map(lambda value: json.loads(value)).name("parse"))
    assert re.match(rf"operator 'parse' .* on record 'a': json.*JSONDecodeError: .* at {HERE}:\d+", message), message


def test_a_line_beyond_the_limit_names_file_line_and_option(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("short\n" + "x" * 2000 + "\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    env = environment(1, {"taskmanager.network.max-record-size": "1000 b"})
    message = failure_of(env.from_source(source, WatermarkStrategy.no_watermarks(), "lines"))
    expected = (
        rf"source .*lines.*: {re.escape(str(path))}, line 2 \(byte 6\): the line has more than 1,000 bytes; "
        r"taskmanager\.network\.max-record-size allows no more"
    )
    assert re.match(expected, message), message


@pytest.mark.parametrize("output", ["print", "collect", "cache"])
def test_a_record_beyond_the_limit_is_not_sent_to_the_client(output: str) -> None:
    env = environment(1, {"taskmanager.network.max-record-size": "1000 b"})
    texts = env.from_collection([3, 2000], Types.LONG()).map(lambda n: "x" * n, Types.STRING())
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError) as caught:
        if output == "print":
            texts.print()
            env.execute("large")
        elif output == "collect":
            with texts.execute_and_collect() as records:
                list(records)
        else:
            # the lengths alone are printed: only the cache is sent the records
            texts.cache().map(len).print()
            env.execute("large")
    message = str(caught.value)
    assert re.search(r"emitted a record of 2,0\d\d bytes; taskmanager\.network\.max-record-size allows 1,000", message)


def test_the_restarts_of_a_job_that_failed_for_good_are_told() -> None:
    env = environment(1, {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"})
    words(env).map(first_letter).sink_to(BlackHoleSink())
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match="job 'x' failed after 1 restarts: operator 'Map'"):
        env.execute("x")


# --- keys and types ---------------------------------------------------------------------------------------------------


def test_a_key_that_cannot_be_encoded_is_refused_with_the_reason() -> None:
    keyed = words(environment(2)).key_by(lambda value: {"word": value}).map(lambda value: value)
    message = failure_of(keyed)
    assert "dict" in message
    assert "key" in message


def test_a_failing_key_selector_names_the_record() -> None:
    keyed = words(environment(2)).key_by(lambda value: value[0]).map(lambda value: value)
    message = failure_of(keyed)
    assert "the key selector failed on '': IndexError" in message


def test_a_partitioner_that_chooses_no_subtask_is_refused() -> None:
    dealt = words(environment(2)).partition_custom(lambda key, subtasks: 7, lambda value: value)
    assert "the partitioner chose channel 7 of 2 for 'a'" in failure_of(dealt.map(lambda value: value))


def test_a_result_that_does_not_fit_the_output_type_names_record_and_type() -> None:
    message = failure_of(words().map(lambda value: value, Types.INT()).name("to int"))
    assert "operator 'to int'" in message
    assert "'a'" in message
    assert "INT" in message


def test_a_value_that_does_not_fit_its_collection_s_type_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="element 1 of the collection"):
        environment().from_collection([1, "two"], Types.INT())


def test_a_row_without_a_field_names_the_field() -> None:
    row = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    message = failure_of(words().map(lambda value: (value, "old"), row).name("rows"))
    assert "age" in message


# --- programs that cannot run -----------------------------------------------------------------------------------------


def test_an_empty_program_is_refused() -> None:
    with pytest.raises(DataStreamError, match="nothing to execute"):
        environment().execute()


@pytest.mark.parametrize(
    ("define", "culprit"),
    [
        (lambda stream, lock: stream.map(lambda value: lock), "'lock' is a _thread.lock"),
        (lambda stream, lock: stream.key_by(lambda value: lock).map(str), "key_selector.variable 'lock'"),
    ],
    ids=["function", "key selector"],
)
def test_code_that_cannot_be_pickled_is_refused_before_anything_runs(
    define: Callable[[DataStream, Any], DataStream], culprit: str
) -> None:
    env = environment()
    define(words(env), threading.Lock()).sink_to(BlackHoleSink())
    with pytest.raises(GraphError, match="cannot be pickled") as caught:
        env.execute()
    assert culprit in str(caught.value)
    assert "open()" in str(caught.value)


def test_forward_between_different_parallelisms_is_refused() -> None:
    env = environment(2)
    words(env).forward().map(str).sink_to(BlackHoleSink())
    with pytest.raises(GraphError, match="forward partitioning needs equal parallelism"):
        env.execute()


def test_a_missing_file_is_named() -> None:
    env = environment()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/nowhere/flights.ndjson").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights")
    message = failure_of(lines)
    assert "/nowhere/flights.ndjson" in message
    assert "flights" in message


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    env = environment()
    words(env).map(lambda word: (word,), Types.ROW_NAMED(["word"], [Types.STRING()])).sink_to(
        FileSink.for_ndjson(str(tmp_path / "file")).build()
    ).name("words")
    record_run("mini-cluster")
    with pytest.raises(JobExecutionError, match=re.escape(str(tmp_path / "file"))) as caught:
        env.execute()
    assert "words" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("pipeline.auto-watermark-interval", "often"),
        ("parallelism.default", "0"),
        ("parallelism.default", "many"),
        ("execution.target", "yarn"),
        ("restart-strategy.type", "sometimes"),
        ("taskmanager.network.memory.channel-window", "0 b"),
    ],
)
def test_an_option_that_cannot_be_read_is_named_with_its_value(option: str, value: str) -> None:
    with pytest.raises(Exception, match=re.escape(option)) as caught:
        env = environment(1, {option: value})
        words(env).sink_to(BlackHoleSink())
        env.execute()
    assert value.split()[0] in str(caught.value)


# --- as the user sees it ----------------------------------------------------------------------------------------------

PROGRAM = """
from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([3, 0], Types.INT()).map(lambda value: 3 // value).name("divide").print()
env.execute("division")
"""


def test_a_failing_program_ends_with_the_message_and_an_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "division.py"
    program.write_text(PROGRAM)
    run = run_program(program, env={"TIDEMARK_CONF_EXECUTION_TARGET": "mini-cluster"}, timeout_s=30)
    record_run("mini-cluster")
    assert run.exit_code == 1
    last = run.stderr.strip().splitlines()[-1]
    assert "job 'division' failed: operator 'divide'" in last
    assert "on record 0: ZeroDivisionError" in last
    assert f"at {program}:6" in last


def test_what_close_raises_after_the_last_record_fails_the_job() -> None:
    class Closing(MapFunction):
        def map(self, value: int) -> int:
            return value

        def close(self) -> None:
            raise OSError("the connection was gone")

    message = failure_of(words().map(Closing()).name("closes badly"))
    assert re.search(r"closes badly.*close\(\).*the connection was gone", message), message
