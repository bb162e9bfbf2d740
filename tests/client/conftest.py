"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.client import cli, watch
from tests.client.fake_cluster import TOKEN, FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster().serving() as serving:
        yield serving


@pytest.fixture
def tidemark(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., int]:
    """Run a command in `tmp_path` against the cluster; returns the exit code."""
    monkeypatch.setenv("TIDEMARK_URL", cluster.url)
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    # answers come at once: waiting for the next one would only take time
    monkeypatch.setattr(watch, "POLL_S", 0.001)
    return lambda *arguments: cli.main(arguments)
