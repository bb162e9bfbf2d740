"""Programs from PyPI that tests run from an environment of their own: what they need must not change ours.

`make test-slow` makes it from requirements-tools.txt and names it in TIDEMARK_TOOLS.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DIRECTORY = os.environ.get("TIDEMARK_TOOLS")

needs_tools = pytest.mark.skipif(not _DIRECTORY, reason="TIDEMARK_TOOLS names no environment; make test-slow makes one")


def tool(name: str) -> Path:
    """Return the path of a command."""
    return Path(str(_DIRECTORY)) / "bin" / name


def tool_packages() -> Path:
    """Return the directory of the packages."""
    [found] = (Path(str(_DIRECTORY)) / "lib").glob("python*/site-packages")
    return found
