"""The environment: names and uids, chaining, parallelism, plans, and options from code and from the environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Configuration, ExecutionConfig, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from runtime.datastream.data_stream import DataStreamError
from runtime.datastream.stream_execution_environment import configuration_from_environment
from runtime.execution.errors import JobExecutionError
from runtime.graph.errors import GraphError
from runtime.task import python_files
from tests.datastream.running import environment, sorted_values_of, values_of


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(NumberSequenceSource(1, 6), WatermarkStrategy.no_watermarks(), "numbers")


def same(value: Any) -> Any:
    return value


def chains(env: StreamExecutionEnvironment) -> list[str]:
    return [vertex.name for vertex in env.create_job_graph(None).vertices]


# --- names, uids, chains ----------------------------------------------------------------------------------------------


def test_operators_have_names_and_uids() -> None:
    env = environment()
    mapped = numbers(env).map(same).name("same").uid("the-same").set_description("does nothing")
    sink = mapped.sink_to(BlackHoleSink()).name("hole").uid("the-hole").set_description("takes all")
    assert mapped.get_name() == "same"
    assert sink is not None
    [vertex] = env.create_job_graph(None).vertices
    assert [(operator.name, operator.uid) for operator in vertex.operators[1:]] == [
        ("same", "the-same"),
        ("Sink: hole", "the-hole"),
    ]
    assert vertex.operators[1].description == "does nothing"


def test_default_names_are_flinks() -> None:
    env = environment()
    stream = numbers(env)
    names = [
        stream.get_name(),
        stream.map(same).get_name(),
        stream.flat_map(same).get_name(),
        stream.filter(same).get_name(),
        stream.key_by(same).sum(0).get_name(),
        env.from_collection([1]).get_name(),
    ]
    assert names == ["numbers", "Map", "FlatMap", "Filter", "Sum", "Collection Source"]


@pytest.mark.parametrize(
    ("define", "expected"),
    [
        (lambda s: s.map(same).name("a").map(same).name("b"), ["Source: numbers -> a -> b -> Sink: BlackHoleSink"]),
        (
            lambda s: s.map(same).name("a").start_new_chain().map(same).name("b"),
            ["Source: numbers", "a -> b -> Sink: BlackHoleSink"],
        ),
        (
            lambda s: s.map(same).name("a").disable_chaining().map(same).name("b"),
            ["Source: numbers", "a", "b -> Sink: BlackHoleSink"],
        ),
        (lambda s: s.rebalance().map(same).name("a"), ["Source: numbers", "a -> Sink: BlackHoleSink"]),
        (
            lambda s: s.map(same).name("a").slot_sharing_group("other"),
            ["Source: numbers", "a -> Sink: BlackHoleSink"],
        ),
        (lambda s: s.map(same).name("a").set_parallelism(2), ["Source: numbers", "a", "Sink: BlackHoleSink"]),
    ],
    ids=["all", "start_new_chain", "disable_chaining", "rebalance", "slot_sharing_group", "parallelism"],
)
def test_operators_are_chained_unless_told_otherwise(
    define: Callable[[DataStream], DataStream], expected: list[str]
) -> None:
    env = environment()
    define(numbers(env)).sink_to(BlackHoleSink())
    assert chains(env) == expected


def test_chaining_can_be_switched_off_for_the_whole_program() -> None:
    env = environment().disable_operator_chaining()
    assert not env.is_chaining_enabled()
    numbers(env).map(same).sink_to(BlackHoleSink()).disable_chaining()
    assert len(chains(env)) == 3
    assert sorted_values_of(numbers(environment(1, {"pipeline.operator-chaining.enabled": "false"})).map(same)) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


@pytest.mark.parametrize(
    "stream",
    [
        lambda s: s.union(s),
        lambda s: s.rebalance(),
        lambda s: s.key_by(same),
        lambda s: s.get_side_output(OutputTag("side")),
    ],
    ids=["union", "rebalance", "key_by", "side output"],
)
def test_what_is_no_operator_has_no_name_or_parallelism(stream: Callable[[DataStream], DataStream]) -> None:
    made = stream(numbers(environment()))
    for call in (made.get_name, lambda: made.name("x"), lambda: made.uid("x"), lambda: made.set_parallelism(1)):
        with pytest.raises(DataStreamError, match="not the output of one operator"):
            call()


# --- parallelism ------------------------------------------------------------------------------------------------------


def test_parallelism_is_the_operators_own_or_the_environments() -> None:
    env = environment(3)
    assert env.get_parallelism() == 3
    stream = numbers(env).map(same).set_parallelism(2)
    env.set_parallelism(4)
    stream.map(same).sink_to(BlackHoleSink()).set_parallelism(1)
    assert [vertex.parallelism for vertex in env.create_job_graph(None).vertices] == [3, 2, 4, 1]


def test_without_a_setting_the_parallelism_is_the_number_of_cpus() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    assert env.get_parallelism() == env.get_default_local_parallelism() == os.cpu_count()
    env.set_parallelism(3).set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert env.get_parallelism() == os.cpu_count()


def test_a_collection_is_read_by_one_subtask_and_cannot_be_otherwise() -> None:
    env = environment(3)
    collection = env.from_collection([1])
    with pytest.raises(DataStreamError, match="cannot run in parallel"):
        collection.set_parallelism(2)
    assert collection.set_parallelism(1) is collection
    forced = numbers(env).force_non_parallel()
    with pytest.raises(DataStreamError, match="cannot run in parallel"):
        forced.set_parallelism(3)


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True])
def test_a_parallelism_is_a_positive_int(parallelism: Any) -> None:
    stream = numbers(environment())
    with pytest.raises(DataStreamError, match="positive int"):
        stream.set_parallelism(parallelism)
    with pytest.raises(DataStreamError, match="positive int"):
        stream.set_max_parallelism(parallelism)
    with pytest.raises(DataStreamError, match="positive int"):
        stream.sink_to(BlackHoleSink()).set_parallelism(parallelism)


def test_max_parallelism_limits_the_parallelism() -> None:
    env = environment(2).set_max_parallelism(7)
    assert env.get_max_parallelism() == 7
    numbers(env).map(same).set_max_parallelism(9).start_new_chain().sink_to(BlackHoleSink())
    assert [vertex.max_parallelism for vertex in env.create_job_graph(None).vertices] == [7, 9]
    numbers(env).set_max_parallelism(1).sink_to(BlackHoleSink())
    with pytest.raises(GraphError, match="parallelism 2 exceeds its max parallelism 1"):
        env.create_job_graph(None)


# --- options ----------------------------------------------------------------------------------------------------------


def test_options_come_from_the_environment_the_configuration_and_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CONF_PARALLELISM_DEFAULT", "5")
    monkeypatch.setenv("TIDEMARK_CONF_EXECUTION_BUFFER__TIMEOUT_INTERVAL", "7 ms")
    monkeypatch.setenv("TIDEMARK_CONF_PIPELINE_NAME", "from the environment")
    env = StreamExecutionEnvironment.get_execution_environment()
    assert (env.get_parallelism(), env.get_buffer_timeout()) == (5, 7)
    configuration = Configuration()
    configuration.set_integer("parallelism.default", 6)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert (env.get_parallelism(), env.get_buffer_timeout()) == (6, 7)
    env.set_parallelism(2).set_buffer_timeout(0)
    assert (env.get_parallelism(), env.get_buffer_timeout()) == (2, 0)
    configuration.set_string("execution.buffer-timeout.interval", "9 ms")
    env.configure(configuration)
    assert (env.get_parallelism(), env.get_buffer_timeout()) == (6, 9)
    assert env.get_configuration().get_string("pipeline.name", "") == "from the environment"
    numbers(env).sink_to(BlackHoleSink())
    assert env.create_job_graph(None).name == "from the environment"
    assert env.create_job_graph("from the call").name == "from the call"


def test_only_variables_with_the_prefix_are_options() -> None:
    read = configuration_from_environment({"TIDEMARK_CONF_A_B__C": "1", "TIDEMARK_HOME": "/x", "PATH": "/bin"})
    assert read.to_dict() == {"a.b-c": "1"}


def test_the_environment_s_configuration_is_not_the_callers() -> None:
    given = Configuration()
    env = StreamExecutionEnvironment.get_execution_environment(given)
    env.set_parallelism(9)
    assert given.to_dict() == {}
    assert env.get_configuration().to_dict()["parallelism.default"] == "9"


def test_buffer_timeouts_are_the_operators_own_or_the_environments() -> None:
    env = environment().set_buffer_timeout(50)
    stream = numbers(env).set_buffer_timeout(-1)
    stream.rebalance().map(same).rebalance().map(same).sink_to(BlackHoleSink())
    assert [edge.buffer_timeout_ms for edge in env.create_job_graph(None).edges] == [-1, 50]
    with pytest.raises(DataStreamError, match="buffer timeout"):
        stream.set_buffer_timeout(-2)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 5])
def test_the_buffer_timeout_changes_nothing_that_is_delivered(timeout_ms: int) -> None:
    env = environment(2).set_buffer_timeout(timeout_ms)
    assert sorted_values_of(numbers(env).rebalance().map(same)) == [1, 2, 3, 4, 5, 6]


def test_the_execution_config_is_a_view_of_the_configuration() -> None:
    env = environment()
    env.get_config().enable_object_reuse().set_auto_watermark_interval(0).set_parallelism(2)
    assert env.get_parallelism() == 2
    options = env.get_configuration().to_dict()
    assert options["pipeline.object-reuse"] == "true"
    assert env.get_config().get_auto_watermark_interval() == 0


def test_jars_of_what_is_python_here_can_be_named_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    jars = ("file:///x/flink-sql-connector-kafka-5.0.0-2.2.jar", "flink-connector-kafka.jar;/y/kafka-clients-4.1.0.jar")
    with caplog.at_level("INFO"):
        env.add_jars(*jars, "file:///x/flink-sql-avro-confluent-registry-2.2.0.jar")
    assert "flink-sql-connector-kafka-5.0.0-2.2.jar, flink-connector-kafka.jar, kafka-clients-4.1.0.jar" in caplog.text
    for other in ("file:///x/mine.jar", "flink-sql-connector-kafka-evil.jar", "flink-connector-pulsar-4.0.jar", ""):
        with pytest.raises(DataStreamError, match=r"add_jars: .*may hold Java classes"):
            env.add_jars(jars[0], other)


def test_python_files_can_be_imported_by_functions(tmp_path: Path) -> None:
    module = tmp_path / "helper_of_a_test.py"
    module.write_text("def double(value):\n    return value * 2\n")
    env = environment()
    env.add_python_file(str(module))
    with pytest.raises(DataStreamError, match="does not exist"):
        env.add_python_file(str(tmp_path / "missing.py"))

    def double(value: int) -> int:
        import importlib

        return importlib.import_module("helper_of_a_test").double(value)

    assert sorted_values_of(numbers(env).map(double)) == [2, 4, 6, 8, 10, 12]


def test_packages_of_an_environment_can_be_imported_by_functions_and_replace_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = tmp_path / "draft.zip"
    with zipfile.ZipFile(draft, "w") as packages:
        packages.writestr("package_of_a_test/__init__.py", "def double(value):\n    return value * 2\n")
        packages.writestr("colorsys.py", "raise RuntimeError('the engine has another')\n")
    archive = draft.rename(tmp_path / f"{sha256(draft.read_bytes()).hexdigest()}.zip")
    monkeypatch.setattr(python_files, "_copies", lambda kind: tmp_path / kind)
    monkeypatch.setattr(sys, "path", list(sys.path))
    env = environment()
    env.get_configuration().set_string("python.environment", str(archive))

    def double(value: int) -> int:
        import importlib

        importlib.import_module("colorsys")
        return importlib.import_module("package_of_a_test").double(value)

    assert sorted_values_of(numbers(env).map(double)) == [2, 4, 6, 8, 10, 12]
    archive.unlink()
    for copy in (tmp_path / "environments").iterdir():
        shutil.rmtree(copy)
    env = environment()
    env.get_configuration().set_string("python.environment", str(archive))
    with pytest.raises(JobExecutionError, match="the job's Python packages cannot be unpacked to"):
        sorted_values_of(numbers(env).map(double))


def test_requirements_are_read_when_they_are_named(tmp_path: Path) -> None:
    env = environment()
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("Geopy >= 2\n# maps\n")
    env.set_python_requirements(str(wanted))
    assert env.get_configuration().to_dict()["python.requirements"] == "geopy>=2"
    wanted.write_text("-r others.txt\n")
    with pytest.raises(DataStreamError, match="options are not taken"):
        env.set_python_requirements(str(wanted))
    with pytest.raises(DataStreamError, match="No such file"):
        env.set_python_requirements(str(tmp_path / "missing.txt"))
    with pytest.raises(DataStreamError, match="a directory of packages is not supported"):
        env.set_python_requirements(str(wanted), str(tmp_path))


# --- plans ------------------------------------------------------------------------------------------------------------


class Tagged(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> list[Any]:
        return [value]


def test_the_execution_plan_is_flinks_json_and_may_be_asked_for_before_running() -> None:
    env = environment(2)
    numbers(env).map(same).name("same").key_by(same).sum(0).sink_to(BlackHoleSink()).name("hole")
    plan = json.loads(env.get_execution_plan())
    assert [(node["type"], node["pact"], node["parallelism"]) for node in plan["nodes"]] == [
        ("Source: numbers", "Data Source", 2),
        ("same", "Operator", 2),
        ("Sum", "Operator", 2),
        ("Sink: hole", "Data Sink", 2),
    ]
    strategies = [node["predecessors"][0]["ship_strategy"] for node in plan["nodes"][1:]]
    assert strategies == ["FORWARD", "HASH", "FORWARD"]
    assert env.execute().get_job_id() is not None
    with pytest.raises(DataStreamError, match="nothing to execute"):
        env.get_execution_plan()


def test_types_are_known_along_the_stream() -> None:
    stream = numbers(environment())
    assert stream.get_type() == Types.LONG()
    assert stream.filter(same).get_type() == Types.LONG()
    assert stream.map(same).get_type() is None
    assert stream.map(str, Types.STRING()).key_by(same).get_type() == Types.STRING()
    assert stream.process(Tagged()).get_side_output(OutputTag("t", Types.INT())).get_type() == Types.INT()
    assert stream.get_execution_environment() is stream.map(same).get_execution_environment()


def test_what_is_no_source_or_sink_is_refused_at_once() -> None:
    env = environment()
    with pytest.raises(TypeError, match="needs a Source"):
        env.from_source([1], WatermarkStrategy.no_watermarks(), "list")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs a Sink"):
        numbers(env).sink_to("file.txt")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Partitioner"):
        numbers(env).partition_custom("key", same)


def test_several_streams_of_one_environment_run_as_one_job() -> None:
    env = environment()
    numbers(env).sink_to(BlackHoleSink())
    assert values_of(env.from_collection([7])) == [7]
