"""Generated sources and the rate limiter: the same record for the same index, and rows by the clock."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.connectors import (
    CollectionSource,
    DataGeneratorSource,
    NumberSequenceSource,
    nullable,
    random_bool,
    random_choice,
    random_float,
    random_int,
    random_string,
    random_zipf,
    sequence,
    template,
    times,
)
from runtime.connectors.field_generators import random_bits
from runtime.connectors.rate_limiter import RateLimiter
from runtime.operators.source import Boundedness, SourceError
from runtime.testing.clock import ManualClock
from tests.connectors.rigs import SourceRig, run_with_rescaling, splits_of

START = datetime.datetime(2024, 1, 1)
FIELDS = {
    "id": sequence(100),
    "price": random_int(-3, 3),
    "share": random_float(2.0, 4.0),
    "name": random_string(21),
}
MORE = {
    "kind": random_choice(["a", "ü", "never"], [3, 1, 0]),
    "ok": random_bool(0.9),
    "card": random_zipf(50, 1.2),
    "at": times(START, step_ms=0.5, jitter_ms=100, late_share=0.1, late_by_ms=5000),
    "mail": template("{{{kind}}}-{card:03d}@{index}", kind=random_choice(["x"]), card=random_zipf(7)),
    "maybe": nullable(random_int(1, 3), 0.25),
}


def test_fields_are_in_their_ranges_and_do_not_depend_on_batches_or_parallelism() -> None:
    source = DataGeneratorSource.of_fields(FIELDS, count=500, seed=7)
    rows = SourceRig(source).run(64).values
    assert [row.id for row in rows] == list(range(100, 600))
    assert {row.price for row in rows} == set(range(-3, 4))
    assert all(2.0 <= row.share < 4.0 for row in rows) and 2.9 < sum(r.share for r in rows) / 500 < 3.1
    assert all(len(row.name) == 21 and set(row.name) <= set("0123456789abcdef") for row in rows)
    assert len({row.name for row in rows}) == 500
    assert sorted(map(repr, SourceRig(source, 3).run(17).values)) == sorted(map(repr, rows))
    assert sorted(map(repr, run_with_rescaling(source, 33))) == sorted(map(repr, rows))
    other = DataGeneratorSource.of_fields(FIELDS, count=500, seed=8)
    assert SourceRig(other).run().values[0].name != rows[0].name


def test_more_fields_have_the_shares_that_are_asked_for() -> None:
    count = 20_000
    source = DataGeneratorSource.of_fields(MORE, count=count, seed=3)
    rows = SourceRig(source).run(4096).values
    kinds = Counter(row.kind for row in rows)
    assert set(kinds) == {"a", "ü"} and 0.74 < kinds["a"] / count < 0.76
    assert 0.89 < sum(row.ok for row in rows) / count < 0.91
    cards = Counter(row.card for row in rows)
    assert set(cards) == set(range(1, 51))
    weights = [k**-1.2 for k in range(1, 51)]
    assert all(abs(cards[k] / count - w / sum(weights)) < 0.01 for k, w in enumerate(weights, 1))
    off = [(row.at - START).total_seconds() * 1000 - i * 0.5 for i, row in enumerate(rows)]
    late = [ms for ms in off if ms < -100]
    assert max(off) <= 100 and min(off) >= -5100 and 0.09 < len(late) / count < 0.11
    assert len(set(off)) > 1000
    assert all(row.mail[:4] == "{x}-" and row.mail.endswith(f"@{i}") for i, row in enumerate(rows))
    assert {row.mail[4:7] for row in rows} == {f"00{k}" for k in range(1, 8)}
    nulls = sum(row.maybe is None for row in rows)
    assert 0.24 < nulls / count < 0.26 and {row.maybe for row in rows} == {None, 1, 2, 3}


def test_more_fields_do_not_depend_on_batches_parallelism_and_restores() -> None:
    source = DataGeneratorSource.of_fields(MORE, count=500, seed=3)
    rows = sorted(map(repr, SourceRig(source).run(64).values))
    assert sorted(map(repr, SourceRig(source, 3).run(17).values)) == rows
    assert sorted(map(repr, run_with_rescaling(source, 33))) == rows
    # a changed function would continue old snapshots with other records
    digest = hashlib.sha256("".join(rows).encode()).hexdigest()
    assert digest.startswith("4063b8206d540d93")


def test_choices_have_the_type_of_their_values() -> None:
    for values, type_info in (([1, 2], Types.LONG()), ([1, 2.5], Types.DOUBLE()), ([True], Types.BOOLEAN())):
        generator = random_choice(values)
        assert generator.type_info == type_info
        assert set(generator.column(np.arange(100), 0).to_pylist()) == set(values)
    assert nullable(random_int(), 1.0).column(np.arange(3), 0).to_pylist() == [None] * 3
    assert nullable(sequence(), 0.0).column(np.arange(3), 0).to_pylist() == [0, 1, 2]
    assert template("{a}", a=nullable(sequence(1, 9), 1.0)).column(np.arange(1), 0).to_pylist() == [None]
    assert template("{a}", a=sequence(1, 9)).max_count == nullable(sequence(1, 9), 0.5).max_count == 9
    moment = times(datetime.datetime(2024, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))))
    assert moment.column(np.arange(2), 0).to_pylist() == [START, START + datetime.timedelta(seconds=1)]


def test_random_bits_are_pinned() -> None:
    assert random_bits(np.arange(2), 0).tolist() == random_bits(np.arange(5), 0)[:2].tolist()
    assert len(set(random_bits(np.arange(1000), 1).tolist()) | set(random_bits(np.arange(1000), 2).tolist())) == 2000


def test_a_bounded_sequence_ends_the_source() -> None:
    source = DataGeneratorSource.of_fields({"id": sequence(1, 3), "x": random_int()}, count=10)
    assert source.boundedness is Boundedness.BOUNDED
    assert [row.id for row in SourceRig(source).run().values] == [1, 2, 3]


def test_an_unbounded_generator_can_be_rescaled() -> None:
    source = DataGeneratorSource(str, rows_per_second=100)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    rig = SourceRig(source, 2)
    for _ in range(8):
        rig.clock.advance(300)
        rig.step(50)
    snapshots = rig.snapshot()
    rig.close()
    restored = SourceRig(source, 1, snapshots=snapshots)
    for _ in range(40):
        restored.clock.advance(1000)
        restored.step(1000)
    restored.close()
    values = sorted(map(int, rig.values + restored.values))
    assert len(values) > 500
    assert values == list(range(len(values)))


def test_numbers_are_dealt_out_evenly() -> None:
    assert [(s.start, s.stop) for s in splits_of(NumberSequenceSource(1, 10), 3)] == [(0, 4), (4, 8), (8, 10)]
    assert SourceRig(NumberSequenceSource(3, 3)).run().values == [3]


def test_generated_and_collected_values_get_their_type() -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    source = DataGeneratorSource(pair, count=2, type_info=row_type)
    assert SourceRig(source).run().values == [Row(a=0, b="0"), Row(a=1, b="1")]
    assert SourceRig(CollectionSource([(1, "x")], row_type)).run().values == [Row(a=1, b="x")]
    with pytest.raises(TypeError, match="element 1 of the collection"):
        CollectionSource([1, "x"], Types.LONG())
    with pytest.raises(SourceError, match="failed at index 0"):
        SourceRig(DataGeneratorSource(pair, count=2, type_info=Types.LONG())).run()


def pair(index: int) -> tuple[int, str]:
    return index, str(index)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataGeneratorSource(str, count=-1),
        lambda: DataGeneratorSource(str, rows_per_second=0),
        lambda: DataGeneratorSource.of_fields({}),
        lambda: NumberSequenceSource(2, 1),
        lambda: sequence(2, 1),
        lambda: random_int(2, 1),
        lambda: random_int(-(2**63), 2**63 - 1),
        lambda: random_float(2, 1),
        lambda: random_string(0),
        lambda: random_choice([]),
        lambda: random_choice([1], [1, 2]),
        lambda: random_choice([1, 2], [1, -1]),
        lambda: random_choice([1, 2], [0, 0]),
        lambda: random_choice([1], [math.nan]),
        lambda: random_choice([1], [math.inf]),
        lambda: random_choice(["a", 1]),
        lambda: random_choice([None]),
        lambda: random_choice([2**70]),
        lambda: random_bool(1.1),
        lambda: random_zipf(0),
        lambda: random_zipf(10**9),
        lambda: random_zipf(5, -1),
        lambda: times(step_ms=-1),
        lambda: times(jitter_ms=math.nan),
        lambda: times(late_share=2),
        lambda: template("{other}", a=sequence()),
        lambda: template("no fields", a=sequence()),
        lambda: template("{a.__class__}", a=sequence()),
        lambda: template("{a!r}", a=sequence()),
        lambda: template("{a:{a}}", a=sequence()),
        lambda: template("{a:%}s}", a=random_string(3)),
        lambda: template("{"),
        lambda: template("{}"),
        lambda: template("{index}", index=sequence()),
        lambda: nullable(sequence(), -0.1),
    ],
)
def test_numbers_out_of_range_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make()  # type: ignore[operator]


@given(
    rate=st.floats(0.5, 1e6),
    parallelism=st.integers(1, 8),
    steps=st.lists(st.tuples(st.floats(0, 900), st.integers(1, 5000)), max_size=30),
)
def test_the_limiter_never_lets_more_through_than_the_rate(
    rate: float, parallelism: int, steps: list[tuple[float, int]]
) -> None:
    clock = ManualClock()
    limiter = RateLimiter(rate, parallelism, clock)
    taken = 0
    for wait, rows in steps:
        clock.advance(wait)
        now_taken = limiter.take(rows)
        assert 0 <= now_taken <= rows
        taken += now_taken
        assert taken <= rate / parallelism * clock.monotonic_ms() / 1000 + 1e-6 * (taken + 1)


def test_the_limiter_says_when_to_come_again() -> None:
    clock = ManualClock(1000)
    limiter = RateLimiter(2, 1, clock)
    assert limiter.take(10) == 0
    assert limiter.next_ms() == 1500
    clock.advance(500)
    assert limiter.take(10) == 1
    assert RateLimiter(None, 1, clock).take(10**6) == 10**6
