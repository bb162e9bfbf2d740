"""Fixtures of the simulated control plane."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """The cluster logs each fault that it meets: thousands in a run."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
