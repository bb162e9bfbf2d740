"""Configuration, options, durations and sizes."""

import pickle
from typing import Any

import pytest

from runtime.common import ConfigOptions, Configuration, ConfigurationError, Duration, ExecutionConfig
from runtime.common import options as engine_options
from runtime.common.config_options import ConfigOption, parse_memory_bytes


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("200", 200),
        ("200 ms", 200),
        ("1s", 1000),
        ("10 min", 600_000),
        ("2 h", 7_200_000),
        ("1 day", 86_400_000),
        ("PT1H", 3_600_000),
        ("pt1m30.5s", 90_500),
        ("P1DT1S", 86_401_000),
        ("1500 us", 1),
        ("-1", -1),
        (" 3 Seconds ", 3000),
    ],
)
def test_durations_are_read_in_flinks_forms(text: Any, millis: Any) -> None:
    assert Duration.parse(text).to_millis() == millis


@pytest.mark.parametrize("text", ["", "s", "1 fortnight", "1.5 s", "P", "PT", "one"])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="accepted"):
        Duration.parse(text)


@pytest.mark.parametrize("nanos", [0, 1, 1_500_000, 10**9, -(10**6), 60 * 10**9, 86_400 * 10**9])
def test_a_durations_text_reads_back(nanos: Any) -> None:
    assert Duration.parse(str(Duration(nanos))) == Duration(nanos)


def test_sizes_are_read_in_flinks_forms() -> None:
    assert [parse_memory_bytes(t) for t in ("1mb", "64 kb", "12", "2 GB", "1t", "5 bytes")] == [
        1 << 20,
        64 << 10,
        12,
        2 << 30,
        1 << 40,
        5,
    ]
    with pytest.raises(ValueError, match="accepted"):
        parse_memory_bytes("1 mile")


def test_options_have_flinks_defaults() -> None:
    empty = Configuration()
    assert empty.get(engine_options.AUTO_WATERMARK_INTERVAL) == Duration.of_millis(200)
    assert empty.get(engine_options.BUFFER_TIMEOUT).to_millis() == 100
    assert empty.get(engine_options.OPERATOR_CHAINING) is True
    assert empty.get(engine_options.OBJECT_REUSE) is False
    assert empty.get(engine_options.RESTART_STRATEGY) is None
    assert empty.get(engine_options.CHANNEL_WINDOW_BYTES) == 1 << 20
    assert empty.get(engine_options.SPARK_MASTER) is None


def test_keys_of_options_are_unique() -> None:
    keys = [option.key for option in vars(engine_options).values() if isinstance(option, ConfigOption)]
    assert len(keys) == len(set(keys)) >= 25


def test_an_option_reads_what_was_set_as_text() -> None:
    configuration = Configuration.from_dict({"heartbeat.timeout": "10 s", "parallelism.default": 3})
    assert configuration.get(engine_options.HEARTBEAT_TIMEOUT) == Duration.of_seconds(10)
    assert configuration.get(engine_options.PARALLELISM_DEFAULT) == 3


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("heartbeat.timeout", "soon"),
        ("heartbeat.timeout", "0"),
        ("parallelism.default", "0"),
        ("parallelism.default", "many"),
        ("execution.target", "yarn"),
        ("pipeline.object-reuse", "maybe"),
        ("taskmanager.network.memory.channel-window", "1 mile"),
        ("pipeline.global-job-parameters", "a"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_accepted_forms(key: Any, text: Any) -> None:
    option = next(o for o in vars(engine_options).values() if isinstance(o, ConfigOption) and o.key == key)
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_dict({key: text}).get(option)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.key, error.value) == (key, text)
    assert key in str(error)
    assert repr(text) in str(error)
    assert error.accepted in str(error)
    with pytest.raises(ConfigurationError):
        Configuration().set(option, text)


def test_typed_getters_and_setters() -> None:
    c = Configuration().set_integer("i", 5).set_boolean("b", True).set_float("f", 0.5).set_string("s", "x")
    c.set_bytearray("y", b"\x00\xff")
    assert (c.get_integer("i", 0), c.get_boolean("b", False), c.get_float("f", 0)) == (5, True, 0.5)
    assert (c.get_string("s"), c.get_string("t", "d"), c.get_string("t")) == ("x", "d", "")
    assert c.get_bytearray("y", bytearray()) == b"\x00\xff"
    assert c.get_integer("absent", 7) == 7
    with pytest.raises(ConfigurationError, match="whole number"):
        c.get_integer("s", 0)
    assert c.to_dict()["b"] == "true"
    assert c.key_set() == {"i", "b", "f", "s", "y"}


def test_configurations_are_joined_and_compared() -> None:
    a = Configuration.from_dict({"x": "1"})
    b = Configuration(a).add_all(Configuration.from_dict({"y": "2"}), "p.")
    assert b == Configuration.from_dict({"p.y": "2", "x": "1"})
    assert hash(b) == hash(Configuration(b))
    assert a.remove_config("x")
    assert not a.contains_key("x")
    assert not a.remove_config("x")


def test_values_keep_their_types_and_read_as_text() -> None:
    c = Configuration().set_string("s", "x").set_integer("i", 5).set_boolean("b", True).set_float("f", 0.5)
    c.set_bytearray("y", bytearray(b"\x00\xff"))
    target: dict[str, object] = {"other": 1}
    c.add_all_to_dict(target)
    assert target == {"other": 1, "s": "x", "i": 5, "b": True, "f": 0.5, "y": b"\x00\xff"}
    assert target["b"] is True
    assert c.get_string("i") == "5"
    assert c.to_dict() == {"s": "x", "i": "5", "b": "true", "f": "0.5", "y": "AP8="}
    assert str(Configuration().set_string("s", "x").set_boolean("b", True)) == "{s=x, b=true}"
    assert str(Configuration()) == "{}"
    # in Flink, too, a number is not its text
    assert Configuration().set_integer("i", 5) != Configuration().set_string("i", "5")
    assert c == pickle.loads(pickle.dumps(c))


def test_secrets_are_not_shown() -> None:
    c = Configuration.from_dict({"my.password": "hush", "s3.Access-Token": "hush", "a": "b"})
    assert str(c) == "{my.password=******, s3.Access-Token=******, a=b}"
    assert "hush" not in repr(c)


def test_a_max_parallelism_that_cannot_be_is_refused_at_once() -> None:
    assert ExecutionConfig().set_max_parallelism(32_768).get_max_parallelism() == 32_768
    for wrong in (0, -1, 32_769, 40_000):
        with pytest.raises(ConfigurationError, match=r"pipeline\.max-parallelism.*at most 32768"):
            ExecutionConfig().set_max_parallelism(wrong)


def test_execution_configs_are_equal_if_their_settings_are() -> None:
    assert ExecutionConfig() == ExecutionConfig()
    assert ExecutionConfig().set_parallelism(3) == ExecutionConfig().set_parallelism(3)
    assert hash(ExecutionConfig().set_parallelism(3)) == hash(ExecutionConfig().set_parallelism(3))
    assert ExecutionConfig().set_parallelism(3) != ExecutionConfig().set_parallelism(4)
    assert ExecutionConfig() != Configuration()


def test_options_of_ones_own() -> None:
    option = ConfigOptions.key("my.rate").double_type().default_value(1.5)
    assert Configuration().get(option) == 1.5
    assert Configuration().set(option, 2.0).get(option) == 2.0
    assert Configuration().get(ConfigOptions.key("my.name").string_type().no_default_value()) is None
    with pytest.raises(TypeError):
        ConfigOptions()


def test_values_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="an option's value"):
        Configuration.from_dict({"a": object()})


def test_execution_config_writes_options() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    config.set_parallelism(3).enable_object_reuse().set_auto_watermark_interval(0).set_max_parallelism(64)
    config.set_global_job_parameters({"a": 1, "b,c": "x:y"})
    assert configuration.get(engine_options.PARALLELISM_DEFAULT) == config.get_parallelism() == 3
    assert config.is_object_reuse_enabled()
    assert config.get_auto_watermark_interval() == 0
    assert config.get_global_job_parameters() == {"a": "1", "b,c": "x:y"}
    assert config.set_parallelism(-1).get_parallelism() == -1
    assert Configuration.from_dict({"pipeline.global-job-parameters": "a:1, b:2"}).get(
        engine_options.GLOBAL_JOB_PARAMETERS
    ) == {"a": "1", "b": "2"}
