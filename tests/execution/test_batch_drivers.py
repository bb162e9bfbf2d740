"""What an ended driver has left on Spark is ended, whatever the queries of others do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from runtime.execution.batch_drivers import stop_queries


class Query:
    """A running query as the JVM shows it."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self._name, self._error = name, error
        self.is_stopped = False

    def name(self) -> str:
        return self._name

    def stop(self) -> None:
        if self._error is not None:
            raise self._error
        self.is_stopped = True


class Running(Mapping[str, Query | None]):
    """A view of a Java map: a key whose entry has gone since gives None."""

    def __init__(self, entries: Mapping[str, Query | None]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Query | None:
        return self._entries.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def test_a_query_that_ends_meanwhile_keeps_none_of_the_group_alive() -> None:
    own, another, other_job = Query("job-1 source"), Query("job-1 window"), Query("job-10 source")
    stop_queries(Running({"gone": None, "a": own, "b": other_job, "c": another}), "job-1")
    assert (own.is_stopped, another.is_stopped, other_job.is_stopped) == (True, True, False)


def test_a_query_that_does_not_stop_keeps_no_other_alive() -> None:
    first, last = Query("job source"), Query("job window")
    with pytest.raises(RuntimeError, match="timed out"):
        stop_queries(Running({"a": first, "b": Query("job join", RuntimeError("timed out")), "c": last}), "job")
    assert first.is_stopped and last.is_stopped
