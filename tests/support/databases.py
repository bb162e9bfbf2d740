"""Marks of tests that need a certain database."""

from __future__ import annotations

import pytest
from django.db import connection

needs_processes = pytest.mark.skipif(
    "sqlite" in connection.settings_dict["ENGINE"], reason="SQLite's test database is one connection's"
)
