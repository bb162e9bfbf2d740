"""Every public name of PyFlink's exists at Tidemark's module path or stands in the table of exclusions.

pyflink_names.json was made by record_names.py. The table must not excuse what exists, nor what PyFlink does not have.
"""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.common.configuration import Configuration
from runtime.common.exclusions import EXCLUSIONS, NotOffered, refusal_of
from runtime.datastream import StreamExecutionEnvironment

NAMES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "pyflink_names.json").read_text())


def all_names() -> Iterator[tuple[str, str, str]]:
    """(full PyFlink name, module, path inside the module) of modules, classes, members and other exported names."""
    for module, content in NAMES.items():
        yield module, module, ""
        for name in content["names"]:
            yield f"{module}.{name}", module, name
        for name, members in content["classes"].items():
            yield f"{module}.{name}", module, name
            for member in members:
                yield f"{module}.{name}.{member}", module, f"{name}.{member}"


def exists(module: str, path: str) -> bool:
    """Return whether Tidemark has it."""
    try:
        found: Any = importlib.import_module("runtime" + module.removeprefix("pyflink"))
        for part in path.split(".") if path else ():
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_name_exists_or_is_excluded_with_a_reason() -> None:
    missing = [name for name, module, path in all_names() if not exists(module, path) and refusal_of(name) is None]
    assert missing == []


def test_nothing_that_exists_is_excluded() -> None:
    modules = {module for module in NAMES if refusal_of(module)}
    excused = [
        name
        for name, module, path in all_names()
        if module not in modules and refusal_of(name) is not None and exists(module, path)
    ]
    assert excused == []


def test_every_pattern_of_the_table_stands_for_a_name_of_pyflink() -> None:
    names = [name for name, _, _ in all_names()]
    useless = [pattern for pattern, _ in EXCLUSIONS if not fnmatch.filter(names, pattern)]
    assert useless == []


def test_the_list_of_names_is_pyflinks() -> None:
    """A floor, so that an empty list does not make the others pass."""
    classes = [name for content in NAMES.values() for name in content["classes"]]
    assert len(NAMES) > 50
    assert len(classes) > 300
    assert "map" in NAMES["pyflink.datastream.data_stream"]["classes"]["DataStream"]


def test_an_excluded_method_is_refused_with_its_reason() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    with pytest.raises(NotOffered, match=r"StreamExecutionEnvironment.add_classpaths is not offered: classpaths lead"):
        env.add_classpaths("file:///x")  # type: ignore[attr-defined]
    with pytest.raises(NotOffered, match="use from_source"):
        env.from_collection([1]).add_sink(None)  # type: ignore[attr-defined]
    with pytest.raises(NotOffered, match="use from_source"):
        env.from_collection([1]).key_by(lambda n: n).add_sink(None)  # type: ignore[attr-defined]
    with pytest.raises(NotOffered, match="Java's serialization"):
        env.get_config().enable_force_kryo()  # type: ignore[attr-defined]
    assert not hasattr(env, "add_classpaths")
    with pytest.raises(AttributeError, match="no attribute 'add_jar'"):
        env.add_jar("file:///x.jar")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("runtime.datastream.connectors.pulsar", "PulsarSource", "no connector of its own for it yet"),
        ("runtime.datastream.connectors", "PulsarSource", "no connector of its own for it yet"),
        ("runtime.datastream.connectors.kafka", "FlinkKafkaConsumer", "replaced it by KafkaSource"),
        ("runtime.datastream.formats.orc", "OrcBulkWriters", "no ORC format"),
        ("runtime.datastream.functions", "SinkFunction", "use from_source"),
        ("runtime.common", "InputDependencyConstraint", "ignores it"),
    ],
)
def test_an_excluded_class_is_refused_with_its_reason(module: str, name: str, reason: str) -> None:
    with pytest.raises(ImportError, match=reason):
        exec(f"from {module} import {name}", {})


@pytest.mark.parametrize("name", ["dynamic_kafka", "pulsar", "rabbitmq", "kinesis", "cassandra", "elasticsearch"])
def test_what_has_no_connector_is_not_promised_one(name: str) -> None:
    assert refusal_of(f"pyflink.datastream.connectors.{name}.Source") == (
        "PyFlink's drives a jar, and Tidemark has no connector of its own for it yet"
    )


@pytest.mark.parametrize("module", sorted(NAMES))
def test_modules_can_be_looked_at_though_they_refuse_names(module: str) -> None:
    excluded = [
        name for name, of, path in all_names() if of == module and path and "." not in path and refusal_of(name)
    ]
    if refusal_of(module) and importlib.util.find_spec("runtime" + module.removeprefix("pyflink")) is None:
        return
    found = importlib.import_module("runtime" + module.removeprefix("pyflink"))
    for name in (full.rpartition(".")[2] for full in excluded):
        assert not hasattr(found, name)
        assert getattr(found, name, None) is None
        with pytest.raises(NotOffered, match="is not offered"):
            getattr(found, name)
    assert inspect.getmembers(found)
    assert inspect.getdoc(found)
