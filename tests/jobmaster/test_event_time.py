"""Who holds the watermark back, and since when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import VertexId
from runtime.jobmaster.event_time import MAX_IDLE, STILL_MS, EventTime, EventTimeWatch, Holding, hold_of
from runtime.jobmaster.findings import Cause, text_of
from runtime.jobmaster.task_figures import JobFigures, SplitFigures, SubtaskFigures, VertexFigures

NONE = MIN_WATERMARK


def vertex(name: str, inputs: str, *outputs: int, came_in: int = NONE, **more: Any) -> VertexFigures:
    """A vertex by the watermarks that leave its subtasks."""
    subtasks = [
        SubtaskFigures(index, records_in=10.0, input_watermark=came_in, output_watermark=output, **more)
        for index, output in enumerate(outputs)
    ]
    return VertexFigures(VertexId(name), name, [VertexId(each) for each in inputs.split()], subtasks)


def job(*vertices: VertexFigures, at_ms: float = 0.0, **more: Any) -> JobFigures:
    return JobFigures(at_ms, vertices, **more)


JOIN = vertex("j", "s q", NONE)
"""Where the streams of `s` and `q` meet; its watermark is lower than any."""


def observed(*vertices: VertexFigures) -> Any:
    return EventTimeWatch().observe(job(*vertices))


def test_the_subtask_with_the_lowest_watermark_holds_the_others() -> None:
    time = observed(vertex("s", "", 9_000, 4_000, 7_000), vertex("w", "s", 4_000, came_in=4_000))
    assert (time.newest, time.holder.subtask, time.holder.why) == (9_000, 1, Holding.BEHIND)
    assert (time.holder.watermark, time.holder.behind_ms) == (4_000, 5_000)


def test_equal_watermarks_are_held_by_nobody() -> None:
    assert observed(vertex("s", "", 9_000, 9_000)).holder is None
    assert observed(vertex("s", "", NONE, NONE)).newest is None


def test_what_is_idle_or_has_ended_holds_nobody() -> None:
    idle = vertex("i", "", 1_000, is_watermark_idle=True)
    assert observed(vertex("s", "", 9_000, MAX_WATERMARK), idle).holder is None


def test_a_subtask_without_any_watermark_is_the_last() -> None:
    quiet = vertex("q", "", NONE, source_idle_ms=4_000.0)
    time = observed(vertex("s", "", 9_000), quiet, vertex("w", "s q", NONE))
    assert (time.holder.vertex_id, time.holder.why) == ("q", Holding.NOTHING_TO_READ)
    assert time.holder.watermark is None and time.holder.behind_ms is None


def test_a_source_that_pauses_between_its_records_has_something_to_read() -> None:
    time = observed(vertex("s", "", 9_000), vertex("q", "", 8_000, source_idle_ms=90.0), JOIN)
    assert time.holder.why is Holding.BEHIND


def test_event_time_begins_where_it_is_assigned() -> None:
    time = observed(vertex("s", "", NONE), vertex("t", "s", 5_000, 3_000), vertex("w", "t", 3_000, came_in=3_000))
    assert (time.newest, time.holder.vertex_id, time.holder.subtask) == (5_000, "t", 1)


def test_the_split_that_is_behind_is_named() -> None:
    splits = {"a": SplitFigures(9_000), "b": SplitFigures(2_000, 0.0, True), "c": SplitFigures(100, 1000.0)}
    time = observed(vertex("s", "", 2_000, splits=splits))
    assert (time.newest, time.holder.split, time.holder.watermark) == (9_000, "b", 2_000), "c counts as idle"
    assert time.holder.why is Holding.NOTHING_TO_READ


def test_of_several_inputs_the_one_that_holds_is_named() -> None:
    time = observed(vertex("l", "", 9_000), vertex("r", "", 3_000), vertex("j", "l r", 3_000, came_in=3_000))
    assert time.held_by == {"j": "r"}


@pytest.mark.parametrize(("lags", "is_live"), [((None,), False), ((9e9, 200.0), True), ((9e9,), False)])
def test_only_sources_of_young_records_are_live(lags: tuple[float | None, ...], is_live: bool) -> None:
    sources = [vertex(f"s{n}", "", 1_000, event_time_lag_ms=lag) for n, lag in enumerate(lags)]
    assert observed(*sources).is_live is is_live


def test_each_source_is_live_for_itself_and_a_vertex_if_all_of_its_sources_are() -> None:
    """One live source says nothing about data that another one replays."""
    time = observed(
        vertex("l", "", 1_000, event_time_lag_ms=200.0),
        vertex("r", "", 1_000, event_time_lag_ms=9e9),
        vertex("p", "", NONE, event_time_lag_ms=None),
        vertex("a", "l", 900),
        vertex("b", "r", 900),
        # a source of parameters has no event times
        vertex("c", "l p", 900),
        vertex("d", "a b", 900),
        vertex("e", "p", 900),
    )
    assert (time.is_live, time.live) == (True, {"l", "a", "c"})


def test_idle_splits_and_subtasks_are_listed_where_they_are_idle() -> None:
    splits = {"a": SplitFigures(9_000), "c": SplitFigures(100, 1000.0), "b": SplitFigures(100, 1000.0)}
    idle = vertex("i", "", 1_000, is_watermark_idle=True)
    time = observed(vertex("s", "", 9_000, splits=splits), idle, vertex("w", "s i", NONE))
    assert [(each.vertex_id, each.subtask, each.split) for each in time.idle] == [
        ("s", 0, "b"),
        ("s", 0, "c"),
        ("i", 0, None),
    ]
    assert observed(vertex("s", "", 9_000)).idle == []


def test_what_is_idle_because_its_input_is_is_not_listed() -> None:
    silent = {"is_watermark_idle": True}
    time = observed(vertex("i", "", 1_000, **silent), vertex("w", "i", NONE, **silent))
    assert [each.vertex_id for each in time.idle] == ["i"]
    # one that assigns event times itself, of an input that goes on
    assigner = vertex("x", "s", NONE, **silent)
    assert [each.vertex_id for each in observed(vertex("s", "", NONE), assigner).idle] == ["x"]


def test_of_many_idle_splits_the_first_are_named_and_all_are_counted() -> None:
    splits = {f"p{n:04}": SplitFigures(100, 1000.0) for n in range(1_000)}
    time = observed(vertex("s", "", 9_000, splits=splits))
    assert (len(time.idle), time.num_idle, time.idle[-1].split) == (MAX_IDLE, 1_000, "p0019")


# --- what stands still ------------------------------------------------------------------------------------------------


def test_a_watermark_that_stands_still_while_another_rises_is_told_after_some_seconds() -> None:
    watch = EventTimeWatch()
    held = []
    for second in range(8):
        quiet = vertex("q", "", 1_000, source_idle_ms=second * 1000.0 + 1)
        time = watch.observe(job(vertex("s", "", 9_000 + second), quiet, JOIN, at_ms=second * 1000.0))
        held.append(hold_of(time))
    assert held[:5] == [None] * 5
    found = held[-1]
    assert found is not None and (found.cause, found.vertex_id) == (Cause.IDLE_INPUT, "q")
    assert found.figures == {"still_ms": 7_000.0, "behind_ms": 8_007.0}
    text = text_of(found, {})
    assert text.startswith("(subtask 0) has had nothing to read for 7 s, and event time waits for it")
    risen = watch.observe(job(vertex("s", "", 9_100), vertex("q", "", 1_500), JOIN, at_ms=8_000.0))
    assert hold_of(risen) is None


def test_sources_that_all_pause_hold_nobody_up() -> None:
    watch = EventTimeWatch()
    for second in range(20):
        time = watch.observe(job(vertex("s", "", 9_000), vertex("q", "", 1_000), JOIN, at_ms=second * 1000.0))
    assert hold_of(time) is None


def test_a_source_that_is_back_pressured_does_not_hold_event_time_up_by_itself() -> None:
    watch = EventTimeWatch()
    for second in range(9):
        held = vertex("q", "", 1_000, back_pressured=600.0)
        time = watch.observe(job(vertex("s", "", 9_000 + second), held, JOIN, at_ms=second * 1000.0))
    assert time.holder is not None and time.holder.why is Holding.BACK_PRESSURED
    assert hold_of(time) is None


def test_a_source_that_reads_without_raising_its_watermark_is_told_as_such() -> None:
    watch = EventTimeWatch()
    for second in range(8):
        time = watch.observe(job(vertex("s", "", 9_000 + second), vertex("q", "", NONE), JOIN, at_ms=second * 1000.0))
    found = hold_of(time)
    assert found is not None and found.cause is Cause.STILL_WATERMARK


def test_a_restart_begins_anew() -> None:
    watch = EventTimeWatch()
    figures = vertex("s", "", 9_000), vertex("q", "", 1_000), JOIN
    watch.observe(job(*figures))
    later = watch.observe(job(vertex("s", "", 9_900), *figures[1:], at_ms=2 * STILL_MS, generation=2))
    assert hold_of(later) is None
    assert watch.observe(job(*figures, is_running=False)).newest is None


# --- who holds nobody -------------------------------------------------------------------------------------------------


def after(seconds: int, figures: Callable[[int], Sequence[VertexFigures]]) -> list[EventTime]:
    watch = EventTimeWatch()
    return [watch.observe(job(*figures(n), at_ms=n * 1000.0)) for n in range(seconds)]


def windows(source: str, watermark: int) -> VertexFigures:
    return vertex("w", source, watermark, came_in=watermark)


@pytest.mark.parametrize(
    "figures",
    [
        # a pipeline without event time beside one with it
        lambda n: [vertex("s", "", 9_000 + n), windows("s", 9_000 + n), vertex("q", "", NONE), vertex("x", "q", NONE)],
        # event times are assigned two shuffles behind the source
        lambda n: [
            vertex("s", "", NONE),
            vertex("m", "s", NONE),
            vertex("t", "m", 9_000 + n),
            windows("t", 9_000 + n),
        ],
        # what an assigner reads, an archive reads, too
        lambda n: [
            vertex("s", "", NONE),
            vertex("t", "s", 9_000 + n),
            vertex("x", "s", NONE),
            windows("t", 9_000 + n),
        ],
        # two pipelines, one of which is quiet
        lambda n: [
            vertex("s", "", 9_000 + n),
            windows("s", 9_000 + n),
            vertex("q", "", 1_000, source_idle_ms=n * 1000.0),
            vertex("x", "q", 1_000, came_in=1_000),
        ],
        # both sources pause, one of them a little later
        lambda n: [
            vertex("s", "", 9_000 + min(n, 1), source_idle_ms=n * 1000.0),
            vertex("q", "", 8_999, source_idle_ms=n * 1000.0),
            vertex("j", "s q", 8_999, came_in=8_999),
        ],
        # subtasks that never meet: each goes on by itself
        lambda n: [
            vertex("s", "", 9_000 + n, 1_000, source_idle_ms=n * 1000.0),
            VertexFigures(
                VertexId("x"),
                "x",
                [VertexId("s")],
                [SubtaskFigures(0, input_watermark=9_000 + n), SubtaskFigures(1, input_watermark=1_000)],
            ),
        ],
        # nothing has been read, and nobody says that there is nothing
        lambda n: [
            vertex("s", "", 9_000 + n),
            VertexFigures(VertexId("q"), "q", [], [SubtaskFigures(0, output_watermark=1_000)]),
            vertex("j", "s q", 1_000, came_in=1_000),
        ],
    ],
)
def test_a_healthy_job_is_not_accused_of_holding_event_time(
    figures: Callable[[int], Sequence[VertexFigures]],
) -> None:
    assert [hold_of(time) for time in after(20, figures)] == [None] * 20


def test_one_that_no_longer_goes_on_ends_the_wait_of_the_others() -> None:
    times = after(
        30,
        lambda n: [
            vertex("s", "", 9_000 + min(n, 12)),
            vertex("q", "", 1_000, source_idle_ms=n * 1000.0),
            vertex("j", "s q", 1_000, came_in=1_000),
        ],
    )
    held = [hold_of(time) is not None for time in times]
    assert held[12] and not held[25]


def test_an_assigner_without_records_has_nothing_to_read() -> None:
    def figures(n: int) -> list[VertexFigures]:
        quiet = SubtaskFigures(1, idle=1_000.0, output_watermark=1_000)
        assigner = VertexFigures(
            VertexId("t"), "t", [VertexId("s")], [SubtaskFigures(0, records_in=5.0, output_watermark=9_000 + n), quiet]
        )
        return [vertex("s", "", NONE), assigner, windows("t", 1_000)]

    found = hold_of(after(9, figures)[-1])
    assert found is not None and (found.cause, found.subtask) == (Cause.IDLE_INPUT, 1)


def test_a_part_of_the_job_is_compared_with_its_own_newest() -> None:
    figures = vertex("s", "", 9_000), windows("s", 9_000), vertex("q", "", 1_000), vertex("x", "q", 1_000)
    time = observed(*figures)
    assert (time.newest, time.newest_of, time.holder) == (9_000, {"q": 1_000, "x": 1_000}, None)


def test_a_job_that_was_live_stays_so_however_late_it_gets() -> None:
    lags = [200.0] * 8 + [9e9] * 3
    times = after(len(lags), lambda n: [vertex("s", "", 1_000, event_time_lag_ms=lags[n])])
    assert all(time.is_live for time in times)
    # a single young record among old ones
    stray = after(5, lambda n: [vertex("s", "", 1_000, event_time_lag_ms=200.0 if n == 1 else 9e9)])
    assert [time.is_live for time in stray] == [False, True, False, False, False]


def test_it_says_when_it_has_watched_for_long_enough() -> None:
    judged = [time.is_judged for time in after(7, lambda n: [vertex("s", "", 1_000)])]
    assert judged == [False] * 5 + [True] * 2


# --- how fast it goes -------------------------------------------------------------------------------------------------


def speeds(*newest: int, every_ms: float = 1_000.0, generations: Sequence[int] = ()) -> list[float | None]:
    watch = EventTimeWatch()
    return [
        watch.observe(
            job(vertex("s", "", each), at_ms=n * every_ms, generation=generations[n] if generations else 0)
        ).speed
        for n, each in enumerate(newest)
    ]


def test_the_speed_is_event_time_that_passes_in_real_time() -> None:
    assert speeds(*range(0, 60_000 * 7, 60_000)) == [None] * 5 + [60.0] * 2
    assert speeds(*[7_000] * 6)[-1] == 0.0


def test_the_speed_is_that_of_the_last_seconds() -> None:
    assert speeds(*range(0, 100_000 * 20, 100_000), *[1_900_000] * 11)[-1] == 0.0


def test_a_watermark_that_goes_back_or_a_restart_begins_the_speed_anew() -> None:
    risen = range(0, 60_000, 10_000)
    assert speeds(*risen, 20_000) == [None] * 5 + [10.0, None]
    assert speeds(*risen, 60_000, generations=[0] * 6 + [1]) == [None] * 5 + [10.0, None]
    assert speeds(*risen, NONE)[-1] is None
