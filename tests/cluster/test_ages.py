"""Ages: how long this leader has known of something; begins anew once it has been forgotten."""

from __future__ import annotations

from backend.cluster.ages import Ages
from runtime.testing.clock import ManualClock


def test_an_age_is_counted_from_the_first_question_and_not_by_the_wall_clock() -> None:
    clock = ManualClock(0)
    ages = Ages[str](clock)
    assert ages.of("a") == 0
    clock.advance(2_000)
    assert (ages.of("a"), ages.of("b")) == (2_000, 0)


def test_what_is_kept_ages_on_and_the_rest_begins_anew() -> None:
    clock = ManualClock(0)
    ages = Ages[str](clock)
    assert (ages.of("a"), ages.of("b")) == (0, 0)
    clock.advance(500)
    ages.keep({"a", "c"})
    assert (ages.of("a"), ages.of("b")) == (500, 0)
