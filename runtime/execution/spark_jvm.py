"""Options with which the JVM of an embedded session starts quickly.

Most of a start was loading and verifying Spark's classes. `class_archive` writes an archive of them (class-data
sharing) when Tidemark is set up, and every JVM that finds it maps it. A JVM that plans no queries needs neither the
optimizing compiler nor a parallel collector, whose threads take the cores from everybody else while it starts.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from runtime.execution.errors import JavaMissingError

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
CLASS_PATH: Final = "spark.driver.extraClassPath"
#: environment variable: options of the short-lived JVM that puts together the command line of the other
LAUNCHER_OPTIONS: Final = "SPARK_LAUNCHER_OPTS"
#: environment variables with options of every JVM, and of every program of Spark
JAVA_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS")
LIGHT: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: what a user sets for a JVM of their own choice, beside which `LIGHT` would be refused or absurd
_OWN_CHOICE: Final = re.compile(r"-XX:\+Use\w+GC|-XX:[+-]?Tiered")
_ARCHIVE: Final = re.compile(r"-XX:(Shared|Archive)|-Xshare")


def find_java() -> Path:
    """Return the program that Spark will start.

    Raises:
        JavaMissingError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home is not None:
        java = Path(home) / "bin" / "java"
        if java.exists():
            return java
        raise JavaMissingError(f"JAVA_HOME is {home}, but there is no bin/java in it; Spark needs Java 17 or 21")
    found = shutil.which("java")
    if found is None:
        raise JavaMissingError("no Java found: install Java 17 or 21, or point JAVA_HOME at one; Spark needs it")
    return Path(found)


def archive_path(java: Path, settings: Mapping[str, str]) -> Path:
    """Return where the archive of classes is for this Java, this PySpark and this class path; it may not exist."""
    program = java.resolve()
    stat = program.stat()
    of_java = (program, stat.st_size, stat.st_mtime_ns)
    of_spark = (pyspark.__file__, pyspark.__version__, os.environ.get("SPARK_HOME"), settings.get(CLASS_PATH))
    parts = (*of_java, *of_spark)
    name = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tidemark" / f"spark-{name}.jsa"


def quick_options(java: Path, settings: Mapping[str, str], *, plans_queries: bool) -> str:
    """Return the options of the session's JVM: ours, then the user's, which win.

    Args:
        java: see `find_java`.
        settings: of Spark.
        plans_queries: whether the JVM plans queries of Spark SQL, and is at work itself.
    """
    own = settings.get(JAVA_OPTIONS, "")
    everywhere = f"{own} {_options_of_the_environment()}"
    options = []
    if not plans_queries and not _OWN_CHOICE.search(everywhere):
        options.append(LIGHT)
    archive = archive_path(java, settings)
    if archive.exists() and not _ARCHIVE.search(everywhere):
        options.append(f"-XX:SharedArchiveFile={archive}")
    return " ".join([*options, own]).strip()


def _options_of_the_environment() -> str:
    return " ".join(os.environ.get(name, "") for name in JAVA_VARIABLES)


@contextmanager
def quick_launcher() -> Iterator[None]:
    """Have the JVM that is started inside be launched by a light one."""
    if LAUNCHER_OPTIONS in os.environ or _OWN_CHOICE.search(_options_of_the_environment()):
        yield
        return
    os.environ[LAUNCHER_OPTIONS] = LIGHT
    try:
        yield
    finally:
        del os.environ[LAUNCHER_OPTIONS]
