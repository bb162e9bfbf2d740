"""Writes the archive of Spark's classes with which sessions start in half the time. `python -m`, once, at set-up."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from runtime.common.configuration import Configuration
from runtime.execution.errors import JavaMissingError
from runtime.execution.spark_jvm import JAVA_OPTIONS, archive_path, find_java
from runtime.execution.spark_session import acquire_context
from runtime.execution.spark_stages import SparkStages

#: Archives that stay, each of 60 MB: for another Java, or another way to the same packages.
KEPT: Final = 3
#: Seconds in which the JVM ends and writes what it has loaded.
WRITING_S: Final = 120.0


def write_archive() -> Path:
    """Write the archive, if there is none for this Java and this PySpark, and return its path.

    Raises:
        ExecutionError: Spark does not start.
        OSError: the file cannot be written.
        subprocess.TimeoutExpired: the JVM does not end.
    """
    path = archive_path(find_java(), {})
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    configuration = Configuration()
    configuration.set_string(JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={unfinished}")
    context = acquire_context(configuration, 1)
    # what starts workers is loaded, too
    SparkStages(context).warm_up()
    process = context._gateway.proc
    context.stop()
    # at which it ends
    process.stdin.close()
    process.wait(WRITING_S)
    unfinished.replace(path)
    archives = sorted(path.parent.glob("spark-*.jsa"), key=lambda each: each.stat().st_mtime)
    for old in archives[:-KEPT]:
        old.unlink()
    return path


def main() -> None:
    """Write the archive; without Java, do nothing: whoever starts Spark will be told."""
    try:
        print(f"classes of Spark: {write_archive()}")
    except JavaMissingError as error:
        print(f"no archive of Spark's classes: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
