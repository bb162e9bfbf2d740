"""Fixtures of the audit trail's tests."""

from __future__ import annotations

from tests.accounts.cast import alice, anonymous, api, no_failed_logins, oscar, victor

__all__ = ["alice", "anonymous", "api", "no_failed_logins", "oscar", "victor"]
