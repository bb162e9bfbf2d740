"""Waiting for a condition in tests with real processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> float:
    """Wait until `condition()` holds; returns how many seconds that took.

    Raises:
        AssertionError: it does not within `timeout_s`.
    """
    started = time.monotonic()
    while not condition():
        elapsed = time.monotonic() - started
        assert elapsed < timeout_s, f"{what}: not within {timeout_s:g} s"
        _PAUSE.wait(0.02)
    return time.monotonic() - started
