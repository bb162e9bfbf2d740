"""JVMs of embedded sessions start from an archive of Spark's classes, and light if no records go through them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.common.configuration import Configuration
from runtime.execution.spark_jvm import JAVA_OPTIONS, JAVA_VARIABLES, LIGHT, archive_path, find_java, quick_options
from runtime.execution.spark_session import acquire_context


@pytest.mark.spark
def test_a_session_maps_the_archive_that_set_up_writes() -> None:
    archive = archive_path(find_java(), {})
    if not archive.exists():
        subprocess.run([sys.executable, "-m", "runtime.execution.class_archive"], check=True)
    context = acquire_context(Configuration(), 1)
    assert str(archive.resolve()) in Path(f"/proc/{context._gateway.proc.pid}/maps").read_text()


@pytest.mark.parametrize(
    ("own", "is_light"),
    [
        ("", True),
        ("-Dsome.property=1", True),
        # two collectors would be refused, two compilers absurd
        ("-XX:+UseG1GC", False),
        ("-XX:-TieredCompilation", False),
    ],
)
@pytest.mark.parametrize("name", [None, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_a_users_options_win(own: str, is_light: bool, name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in JAVA_VARIABLES:
        monkeypatch.delenv(each, raising=False)
    if name is not None:
        monkeypatch.setenv(name, own)
    options = quick_options(find_java(), {} if name is not None else {JAVA_OPTIONS: own}, plans_queries=False)
    assert (LIGHT in options) is is_light
    assert name is not None or options.endswith(own)
    # Java takes them
    done = subprocess.run([find_java(), *options.split(), "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_jvm_that_plans_queries_keeps_its_compiler() -> None:
    assert LIGHT not in quick_options(find_java(), {}, plans_queries=True)


def test_an_archive_is_for_one_java_and_one_class_path(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("")
    assert archive_path(java, {}) == archive_path(java, {})
    other = archive_path(java, {"spark.driver.extraClassPath": "/some.jar"})
    java.write_text("another")
    assert len({archive_path(java, {}), other, archive_path(find_java(), {})}) == 3
