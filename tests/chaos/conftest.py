"""The self-proving job for tests in this process; whatever becomes of the test, nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.in_process import ProvingJob


@pytest.fixture
def job(tmp_path: Path) -> Iterator[ProvingJob]:
    """Not started."""
    proving = ProvingJob(tmp_path)
    yield proving
    proving.cancel()
