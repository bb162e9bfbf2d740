"""Fixtures of the contract's tests: those of the Dispatcher's."""

from tests.dispatcher.conftest import alice, anonymous, api, home, job, no_failed_logins, no_redis, taskmanager

__all__ = ["alice", "anonymous", "api", "home", "job", "no_failed_logins", "no_redis", "taskmanager"]
