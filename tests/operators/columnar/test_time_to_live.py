"""Time to live of running aggregates, best rows and deduplication: keys are forgotten after their last write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Duration, Row, Types
from runtime.common.time import Time
from runtime.core.column_keys import ColumnKeys
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.deduplicate import DeduplicateOperatorFactory
from runtime.operators.columnar.running_aggregate import RunningAggregateOperatorFactory
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness
from tests.datastream.running import environment

TTL_MS = 100
RECORD = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
KEYS = ColumnKeys(["key"], RECORD)


def counts(ttl_ms: int | None = TTL_MS) -> RunningAggregateOperatorFactory:
    return RunningAggregateOperatorFactory(aggregate_spec(RECORD, ["key"], ["sum(n) AS total"], {}, ()), ttl_ms)


def best(ttl_ms: int | None = TTL_MS, rank: str | None = None) -> TopNOperatorFactory:
    return TopNOperatorFactory(top_n_spec(RECORD, ["key"], 2, "n", True, rank), ttl_ms)


FACTORIES: dict[str, Callable[[], Any]] = {
    "aggregate": counts,
    "top_n": best,
    "ranked": lambda: best(rank="place"),
    "first": lambda: DeduplicateOperatorFactory(KEYS, RECORD, "first", TTL_MS),
    "last": lambda: DeduplicateOperatorFactory(KEYS, RECORD, "last", TTL_MS),
}
FOREVER: dict[str, Callable[[], Any]] = {
    "aggregate": lambda: counts(None),
    "top_n": lambda: best(None),
    "ranked": lambda: best(None, "place"),
    "first": lambda: DeduplicateOperatorFactory(KEYS, RECORD, "first"),
    "last": lambda: DeduplicateOperatorFactory(KEYS, RECORD, "last"),
}

Step = tuple[int, list[tuple[str, int]]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 40, 60, 99, 100, 101, 250]),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=3),
    ),
    max_size=8,
)


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row.get_row_kind().short_string, *row) for row in rows]


def writes(kind: str, rows: list[Row], results: list[Row]) -> bool:
    """Return whether rows of a key change what is kept of it: the best rows and the first one often do not."""
    return bool(results) if kind in ("top_n", "ranked", "first") else bool(rows)


def expected(kind: str, steps: list[Step]) -> list[tuple[Any, ...]]:
    """Each life of a key is what an operator that forgets nothing makes of its rows."""
    lives: dict[str, tuple[list[Row], int]] = {}
    results: list[tuple[Any, ...]] = []
    now = 0
    for wait, pairs in steps:
        now += wait
        for key in sorted({key for key, _ in pairs}):
            rows = [Row(key=key, n=n) for k, n in pairs if k == key]
            before, written = lives.get(key, ([], now))
            if now - written >= TTL_MS:
                before = []
            with OneInputHarness(FOREVER[kind](), input_type=RECORD, key_selector=KEYS) as harness:
                harness.process(before)
                old = len(harness.values)
                harness.process(rows)
                new = harness.values[old:]
            results += shown(new)
            is_written = writes(kind, rows, new) or not before
            lives[key] = ([*before, *rows], now if is_written else written)
    return results


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("restores", [False, True])
@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_a_key_begins_anew_when_nothing_was_written_for_so_long(kind: str, restores: bool, steps: list[Step]) -> None:
    clock = ManualClock(1_000_000)
    got: list[tuple[Any, ...]] = []
    harness = OneInputHarness(FACTORIES[kind](), input_type=RECORD, key_selector=KEYS, clock=clock)
    try:
        for wait, pairs in steps:
            clock.advance(wait)
            done = len(harness.values)
            for key in sorted({key for key, _ in pairs}):
                harness.process([Row(key=k, n=n) for k, n in pairs if k == key])
            got += shown(harness.values[done:])
            if restores:
                snapshot = harness.snapshot()
                harness.close()
                harness = OneInputHarness(
                    FACTORIES[kind](), input_type=RECORD, key_selector=KEYS, clock=clock, snapshot=snapshot
                )
    finally:
        harness.close()
    assert got == expected(kind, steps)


def test_forgotten_best_rows_are_no_longer_in_snapshots_or_memory() -> None:
    clock = ManualClock(1_000)
    with OneInputHarness(best(), input_type=RECORD, clock=clock) as harness:
        harness.process([Row(key=str(n), n=n) for n in range(100)])
        full = harness.snapshot()
        clock.advance(TTL_MS)
        harness.process([Row(key="new", n=1)])
        assert harness.operator._store.all_rows().height == 1  # type: ignore[attr-defined]
        left = harness.snapshot()
    with OneInputHarness(best(), input_type=RECORD, clock=clock, snapshot=left) as harness:
        harness.process([Row(key="5", n=0), Row(key="new", n=0)])
        assert [row.get_row_kind().short_string for row in harness.values] == ["+I", "+I"]
        assert harness.operator._store.all_rows().height == 3  # type: ignore[attr-defined]
    assert full is not left


@pytest.mark.parametrize("kind", FACTORIES)
def test_a_time_to_live_may_be_added_to_saved_state_and_removed_from_it(kind: str) -> None:
    clock = ManualClock(1_000)
    with_time, without = FACTORIES[kind](), FOREVER[kind]()
    states = [factory.declared_states.states[0] for factory in (with_time, without)]
    # of the rows of top_n the type tells whether they have times: the report must not take it for another one
    assert states[0].is_readable_as(states[1])
    assert states[1].is_readable_as(states[0])

    def played(factory: Any, snapshot: Any, *numbers: int) -> tuple[list[tuple[Any, ...]], Any]:
        with OneInputHarness(factory, input_type=RECORD, key_selector=KEYS, clock=clock, snapshot=snapshot) as harness:
            harness.process([Row(key="a", n=n) for n in numbers])
            return shown(harness.values), harness.snapshot()

    _, saved = played(without, None, 1, 2)
    whole, _ = played(without, saved, 3)
    clock.advance(50 * TTL_MS)
    # what was saved without one begins to age at the restore
    kept, timed = played(with_time, saved, 3)
    assert kept == whole
    _, resaved = played(with_time, saved)
    clock.advance(TTL_MS - 1)
    assert played(without, timed, 4)[0] == played(without, played(without, saved, 3)[1], 4)[0]
    clock.advance(1)
    fresh, _ = played(with_time, None, 3)
    assert played(with_time, resaved, 3)[0] == fresh


def test_the_time_to_live_is_set_on_the_keyed_stream() -> None:
    keyed = environment().from_collection([Row(key="a", n=1)], RECORD).key_by_columns("key")
    made = [
        keyed.with_state_ttl(Time.milliseconds(5)).aggregate_columns("count(*) AS c"),
        keyed.with_state_ttl(Duration.of_millis(5)).top_n(1, "n"),
        keyed.with_state_ttl(Time.milliseconds(5)).deduplicate("last"),
    ]
    assert [stream._node().factory.ttl_ms for stream in made] == [5, 5, 5]
    assert keyed.deduplicate()._node().factory.ttl_ms is None
    with pytest.raises(ValueError, match="at least 1 ms"):
        keyed.with_state_ttl(Time.milliseconds(0))
