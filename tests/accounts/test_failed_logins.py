"""Failed logins: who has to wait, for all web processes, and without Redis, too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.cache import cache
from pytest_django import Settings

from backend.accounts.failed_logins import (
    FREE_FAILURES,
    MAX_FAILURES_OF_ADDRESS,
    MAX_WAIT_S,
    begin_try,
    give_back,
    note_success,
    wait_s,
)
from backend.accounts.shared_counts import PERIOD_S
from backend.cluster import bus
from tests.accounts.cast import fail
from tests.cluster.redis_fixture import running_redis

HERE, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture
def shared_redis(settings: Settings, tmp_path: Path) -> Iterator[None]:
    with running_redis(tmp_path) as url:
        settings.REDIS_URL = url
        bus.disconnect()
        yield
        bus.disconnect()


@pytest.fixture(params=["redis", "no redis"])
def counted(request: pytest.FixtureRequest, settings: Settings) -> Iterator[None]:
    """Counting in Redis, and in this process."""
    if request.param == "redis":
        request.getfixturevalue("shared_redis")
        yield
        return
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    yield
    bus.disconnect()


def test_somebody_elses_guesses_do_not_lock_the_owner_out(counted: None) -> None:
    fail("admin", ELSEWHERE, MAX_FAILURES_OF_ADDRESS - 1)
    assert wait_s("admin", ELSEWHERE) > PERIOD_S
    assert wait_s("admin", HERE) == 0


def test_each_failure_doubles_the_wait(counted: None) -> None:
    fail("admin", HERE, FREE_FAILURES - 1)
    assert wait_s("admin", HERE) == 0
    fail("admin", HERE, 6)
    # 32 s; a moment of them may have passed
    assert 16 < wait_s("admin", HERE) <= 32
    fail("admin", HERE, 10)
    assert MAX_WAIT_S / 2 < wait_s("admin", HERE) <= MAX_WAIT_S


def test_the_wait_ends(shared_redis: None) -> None:
    fail("admin", HERE, FREE_FAILURES + 5)
    [key] = bus.client().keys("*:failed-logins-of-account:*")
    # as 40 s later
    bus.client().expire(key, bus.client().ttl(key) - 40)
    assert wait_s("admin", HERE) == 0
    # a further failure is not forgiven like a first one
    assert begin_try("admin", HERE) == 0
    assert wait_s("admin", HERE) > 32


def test_an_address_that_tries_many_accounts_is_stopped(counted: None) -> None:
    for number in range(MAX_FAILURES_OF_ADDRESS):
        assert begin_try(f"user-{number}", HERE) == 0
    assert 0 < wait_s("admin", HERE) <= PERIOD_S
    assert wait_s("admin", ELSEWHERE) == 0


def test_a_client_of_version_6_is_no_other_one_for_each_of_its_addresses(counted: None) -> None:
    for number in range(FREE_FAILURES + 6):
        fail("admin", f"2001:db8::{number:x}", 1)
    assert wait_s("admin", "2001:db8::ffff") > 0
    assert wait_s("admin", "2001:db8:0:1::1") == 0


def test_who_gets_in_has_mistyped_but_the_address_goes_on_counting(counted: None) -> None:
    fail("alice", HERE, FREE_FAILURES + 6)
    note_success("alice", HERE)
    assert begin_try("alice", HERE) == 0
    note_success("alice", HERE)
    # whoever has an account of their own tries no more accounts of others than anybody else
    fail("bob", HERE, MAX_FAILURES_OF_ADDRESS - FREE_FAILURES - 5)
    assert wait_s("carol", HERE) > 0


def test_guesses_at_the_same_time_are_no_more_than_one_after_the_other(counted: None) -> None:
    with ThreadPoolExecutor(24) as pool:
        waits = list(pool.map(lambda _: begin_try("admin", HERE), range(24)))
    assert waits.count(0) == FREE_FAILURES
    # those that wait were not counted
    assert wait_s("admin", HERE) == 1


def test_a_try_that_was_not_judged_does_not_count(counted: None) -> None:
    for _ in range(MAX_FAILURES_OF_ADDRESS + 1):
        assert begin_try("admin", HERE) == 0
        give_back("admin", HERE)


def test_many_who_get_in_from_one_address_do_not_wait(counted: None) -> None:
    for number in range(MAX_FAILURES_OF_ADDRESS + 1):
        assert begin_try(f"user-{number}", HERE) == 0
        note_success(f"user-{number}", HERE)


def test_another_web_process_knows_of_failures(shared_redis: None) -> None:
    fail("admin", HERE, FREE_FAILURES + 6)
    # what this process has counted for itself
    cache.clear()
    assert wait_s("admin", HERE) > 0
    for key in bus.client().keys("*:failed-logins*"):
        assert 0 < bus.client().ttl(key) <= 4 * MAX_WAIT_S
        assert "admin" not in key and HERE not in key
