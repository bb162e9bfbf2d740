"""Extraction: a program that is run only to learn what job it defines.

While an Extraction is installed in a process, `execute()` and `execute_async()` hand it the program instead of starting
a job, and never return. The runner of submitted programs installs one; a program's own process has none.
"""

from __future__ import annotations

from typing import NoReturn, Protocol

from runtime.common.configuration import Configuration
from runtime.graph.stream_graph import StreamGraph

__all__ = ["Extraction", "install_extraction", "installed_extraction"]


class Extraction(Protocol):
    """Takes the program."""

    configuration: Configuration
    """Options that every environment starts with; what the program sets itself goes before them."""

    def executed(self, graph: StreamGraph) -> NoReturn:
        """Take the program that called `execute`; ends it by raising."""


_installed: Extraction | None = None


def install_extraction(extraction: Extraction | None) -> None:
    """Let every environment of this process hand its program to `extraction`, from now on; None: to nobody."""
    global _installed
    _installed = extraction


def installed_extraction() -> Extraction | None:
    return _installed
