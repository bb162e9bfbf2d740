"""Processes whose wall clock is wrong."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("wrong_clock.c")


def wrong_clock(directory: Path) -> Path:
    """Build the library that gives processes another clock; skips the test if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    built = directory / "wrong_clock.so"
    subprocess.run((compiler, "-shared", "-fPIC", "-o", built, SOURCE, "-ldl"), check=True)
    return built


def skewed(library: Path, skew_s: int) -> dict[str, str]:
    """Return the environment of a process whose clock is so far ahead."""
    return {"LD_PRELOAD": str(library), "WRONG_CLOCK_SKEW_S": str(skew_s)}
