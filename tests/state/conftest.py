"""Leaves no database open behind a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.state.backends import dispose_of_all


@pytest.fixture(autouse=True)
def no_database_stays_open() -> Iterator[None]:
    yield
    dispose_of_all()
