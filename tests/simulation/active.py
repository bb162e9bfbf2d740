"""The running simulation: functions of the job travel to the slots as bytes and find their world here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World

_worlds: list[World] = []


def world() -> World:
    """The simulation that runs in this process."""
    return _worlds[-1]


@contextmanager
def running(new: World) -> Iterator[None]:
    """Make a simulation the one that functions find."""
    _worlds.append(new)
    try:
        yield
    finally:
        _worlds.pop()
