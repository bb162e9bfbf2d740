"""Fixtures of the Dispatcher's tests: the cast, a running job, its TaskManager. Redis is not there: SQL has it all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from backend.cluster import bus
from backend.cluster.models import Job, TaskManager
from tests.accounts.cast import alice, anonymous, api, no_failed_logins, oscar, victor
from tests.dispatcher import rows

__all__ = ["alice", "anonymous", "api", "no_failed_logins", "oscar", "victor"]


@pytest.fixture(autouse=True)
def no_redis(settings: Settings) -> Iterator[None]:
    """Nobody listens on port 1: connecting fails at once."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    yield
    bus.disconnect()


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """TIDEMARK_HOME of this test."""
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path


@pytest.fixture
def job(db: None) -> Job:
    """A running job."""
    return rows.running_job()


@pytest.fixture
def taskmanager(db: None) -> TaskManager:
    """Return the TaskManager of the job."""
    return rows.taskmanager()
