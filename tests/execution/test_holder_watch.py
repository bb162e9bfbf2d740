"""When a process that runs an application counts as dead, by what another one sees."""

from __future__ import annotations

from runtime.execution.holder_watch import LOOK_MS, SLOW_MS, START_MS, TAKE_OVER_MS, HolderWatch, Verdict


def looks(watch: HolderWatch, beat: str, from_ms: float, to_ms: float) -> list[Verdict]:
    times = [from_ms + n * LOOK_MS for n in range(int((to_ms - from_ms) / LOOK_MS) + 1)]
    return [watch.looked("holder", beat, False, now_ms, now_ms) for now_ms in times]


def test_an_application_whose_process_has_ended_is_taken_at_once() -> None:
    assert HolderWatch().looked("holder", "beat-1-1", True, 0, 0) is Verdict.TAKE


def test_a_holder_without_a_sign_of_life_is_replaced_after_the_time_for_it() -> None:
    verdicts = looks(HolderWatch(), "beat-1-7", 1_000, 1_000 + TAKE_OVER_MS)
    assert set(verdicts[:-1]) == {Verdict.WAIT}
    assert verdicts[-1] is Verdict.TAKE


def test_a_sign_of_life_refuses_whoever_wants_to_take_over() -> None:
    watch = HolderWatch()
    assert set(looks(watch, "beat-1-7", 0, TAKE_OVER_MS - LOOK_MS)) == {Verdict.WAIT}
    assert watch.looked("holder", "beat-1-8", False, TAKE_OVER_MS, TAKE_OVER_MS) is Verdict.REFUSE


def test_another_holder_is_given_time_of_its_own() -> None:
    watch = HolderWatch()
    looks(watch, "beat-1-7", 0, TAKE_OVER_MS - LOOK_MS)
    assert watch.looked("another", "beat-1-7", False, TAKE_OVER_MS, TAKE_OVER_MS) is Verdict.WAIT


def test_slow_and_late_looks_prove_nothing() -> None:
    watch = HolderWatch()
    looks(watch, "beat-1-7", 0, 10_000)
    assert watch.looked("holder", "beat-1-7", False, 10_500, 10_500 + TAKE_OVER_MS) is Verdict.WAIT
    late_ms = 10_500 + 2 * TAKE_OVER_MS + SLOW_MS
    assert watch.looked("holder", "beat-1-7", False, late_ms, late_ms) is Verdict.WAIT
    assert looks(watch, "beat-1-7", late_ms + LOOK_MS, late_ms + TAKE_OVER_MS)[-1] is Verdict.TAKE


def test_a_holder_that_has_only_begun_has_time_to_start() -> None:
    watch = HolderWatch()
    times = [LOOK_MS * n for n in range(int(START_MS / LOOK_MS) + 1)]
    verdicts = [watch.looked("holder", "beat-1-7", False, now_ms, now_ms, has_beaten=False) for now_ms in times]
    assert set(verdicts[:-1]) == {Verdict.WAIT}
    assert verdicts[-1] is Verdict.TAKE
