"""Small programs, as text, for tests of what is done with submitted ones."""

from __future__ import annotations

import zipfile
from pathlib import Path
from textwrap import dedent

GOOD = """
import sys

from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment

print("defining", sys.argv[1:])
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3], Types.LONG()).map(lambda n: n + 1).name("plus one").print()
env.execute("three numbers")
raise AssertionError("a submitted program ends at execute()")
"""


def write_program(directory: Path, text: str, name: str = "job.py") -> Path:
    """A program file; the first line of `text` is line 1 if it begins with a line break."""
    path = directory / name
    path.write_text(dedent(text).removeprefix("\n"), encoding="utf-8")
    return path


def write_archive(directory: Path, modules: dict[str, str], name: str = "bundle.zip") -> Path:
    """A zip of modules: path in the archive → text."""
    path = directory / name
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in modules.items():
            archive.writestr(inner, dedent(text).removeprefix("\n"))
    return path
