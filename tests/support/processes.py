"""Finds processes of this one, while any of them may end."""

from __future__ import annotations

import contextlib

import psutil


def children_running(part: str, recursive: bool = False) -> list[psutil.Process]:
    """Return the live children of this process whose command line contains a text.

    Those that have ended are left out, also zombies that nobody has waited for yet.

    Args:
        part: of the command line.
        recursive: whether to search all descendants.
    """
    found = []
    for child in psutil.Process().children(recursive):
        with contextlib.suppress(psutil.NoSuchProcess):
            if part in " ".join(child.cmdline()):
                found.append(child)
    return found
