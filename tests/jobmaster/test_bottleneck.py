"""The culprit is found by who waits for whom, and is told only once it has lasted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from runtime.core.ids import VertexId
from runtime.jobmaster.bottleneck import CONFIRM_MS, LEAVE, WINDOW_MS, BottleneckWatch, find_causes
from runtime.jobmaster.findings import Cause, Finding, Topic, text_of
from runtime.jobmaster.task_figures import JobFigures, StalledTask, SubtaskFigures, VertexFigures


def subtask(index: int, busy: float = 0, held: float = 0, outside: float = 0, **more: Any) -> SubtaskFigures:
    """Figures of a task that runs for all of its busy time and is idle for the rest."""
    return SubtaskFigures(index, busy, busy, 1000 - busy - held - outside, held + outside, outside, **more)


def vertex(name: str, inputs: str, *subtasks: SubtaskFigures) -> VertexFigures:
    return VertexFigures(VertexId(name), name, [VertexId(each) for each in inputs.split()], subtasks)


def simple(name: str, busy: float, held: float = 0, inputs: str = "", **more: Any) -> VertexFigures:
    """A vertex of one subtask."""
    return vertex(name, inputs, subtask(0, busy, held, **more))


def job(*vertices: VertexFigures, **more: Any) -> JobFigures:
    return JobFigures(0.0, vertices, **more)


def limit(*vertices: VertexFigures, **more: Any) -> Finding | None:
    return next((f for f in find_causes(job(*vertices, **more)) if f.topic is Topic.LIMIT), None)


def told(finding: Finding | None) -> tuple[str, str, int | None, str] | None:
    """Cause, vertex, subtask and the vertices that wait."""
    if finding is None:
        return None
    return finding.cause.value, finding.vertex_id, finding.subtask, " ".join(finding.waiting)


HOT = (subtask(0, 980, records_in=900), subtask(1, 60, records_in=60), subtask(2, 50, records_in=40))


@pytest.mark.parametrize(
    ("vertices", "expected"),
    [
        # the sink holds up all that is above it
        ([simple("a", 20, 980), simple("b", 100, 900, "a"), simple("c", 990, 0, "b")], ("busy", "c", None, "a b")),
        # what is slow further up keeps those below it idle, however busy they are in between
        ([simple("a", 50, 950), simple("b", 850, 0, "a"), simple("c", 900, 0, "b")], ("busy", "b", None, "a")),
        # a stream that parts waits for one of the two
        ([simple("a", 10, 900), simple("b", 300, 0, "a"), simple("c", 980, 0, "a")], ("busy", "c", None, "a")),
        # two sources into one; only one of them is too fast
        ([simple("a", 10, 900), simple("b", 100), simple("c", 700, 0, "a b")], ("busy", "c", None, "a")),
        # a slow branch beside a fast one that is busier
        (
            [simple("a", 10, 700), simple("b", 600, 0, "a"), simple("x", 30), simple("y", 990, 0, "x")],
            ("busy", "b", None, "a"),
        ),
        # nobody waits for a source that reads as fast as it can: it is the limit itself
        ([simple("a", 960), simple("b", 300, 0, "a")], ("busy", "a", None, "")),
        # a hot key
        ([simple("a", 10, 900), vertex("b", "a", *HOT)], ("skew", "b", 0, "a")),
        # one subtask is slow although it gets no more than the others: its host, perhaps
        (
            [
                simple("a", 10, 900),
                vertex("b", "a", subtask(0, 100, records_in=90), subtask(1, 980, records_in=90)),
            ],
            ("busy", "b", 1, "a"),
        ),
        # calls in flight are at their capacity
        (
            [simple("a", 10, 900), vertex("b", "a", subtask(0, 30, 0, 940)), simple("c", 5, 0, "b")],
            ("outside", "b", None, "a"),
        ),
        # the same in the chain of the source
        ([vertex("a", "", subtask(0, 30, 0, 940)), simple("b", 5, 0, "a")], ("outside", "a", None, "")),
        # the last one is back-pressured: by nothing in the job
        ([simple("a", 10, 900), simple("b", 30, 900, "a")], ("outside", "b", None, "a")),
        # time goes into writes
        ([simple("a", 10, 900), simple("b", 990, 0, "a", sending=900)], ("slow-sink", "b", None, "a")),
        ([simple("a", 10, 900), simple("b", 990, 0, "a", sending=100)], ("busy", "b", None, "a")),
    ],
)
def test_the_limit_is_what_back_pressured_vertices_wait_for(
    vertices: Sequence[VertexFigures], expected: tuple[str, str, int | None, str]
) -> None:
    assert told(limit(*vertices)) == expected


@pytest.mark.parametrize(
    "vertices",
    [
        [],
        # idle
        [simple("a", 0), simple("b", 0, 0, "a")],
        # at work, with room to spare
        [simple("a", 500), simple("b", 700, 0, "a")],
        # a little waiting is none
        [simple("a", 700, 100), simple("b", 400, 0, "a")],
        # data that is skewed where nothing is short
        [simple("a", 100), vertex("b", "a", subtask(0, 300, records_in=900), subtask(1, 3, records_in=9))],
    ],
)
def test_what_is_no_cause(vertices: Sequence[VertexFigures]) -> None:
    assert find_causes(job(*vertices)) == []


@pytest.mark.parametrize("busy", [20.0, 250.0])
def test_a_source_that_is_held_by_nobody_in_sight_is_told_as_such(busy: float) -> None:
    found = limit(simple("a", 10, 900), simple("b", busy, 0, "a"))
    assert told(found) == ("unknown", "a", None, "")
    assert found is not None
    assert text_of(found, {}) == "is back-pressured 90 % of the time; by what is not known"


def test_a_source_with_one_split_is_not_skewed() -> None:
    one = vertex("a", "", subtask(0, 990, records_in=120_000.0), subtask(1), subtask(2))
    found = limit(one, simple("b", 200, 0, "a"))
    assert told(found) == ("busy", "a", 0, "")
    assert found is not None and "times_the_others" not in found.figures


def test_a_subtask_that_gets_everything_is_told_without_a_multiple() -> None:
    keyed = vertex("b", "a", subtask(0, 990, records_in=500.0), subtask(1, records_in=0.0))
    found = limit(simple("a", 10, 900), keyed)
    assert found is not None and found.cause is Cause.SKEW
    assert text_of(found, {VertexId("a"): "a"}).startswith("(subtask 0) gets nearly all records and is busy 99 %")


def test_of_tasks_that_share_a_loop_the_one_that_runs_is_named() -> None:
    waits = SubtaskFigures(0, busy=990, running=40)
    runs = SubtaskFigures(0, busy=980, running=900)
    found = limit(vertex("a", "", waits), vertex("b", "a", runs), vertex("c", "b", waits))
    assert told(found) == ("busy", "b", None, "")


def test_a_call_that_does_not_return_is_the_limit_whatever_the_figures_say() -> None:
    stalls = [StalledTask(VertexId("b"), 1, -7_000.0)]
    found = limit(simple("a", 990), simple("b", 0, 0, "a"), stalls=stalls)
    assert told(found) == ("stall", "b", 1, "")
    assert found is not None and found.figures == {"stalled_ms": 7_000.0}


def test_inputs_that_a_checkpoint_blocks_are_a_cause_only_while_it_is_in_progress() -> None:
    vertices = simple("a", 10, 900), simple("b", 20, 0, "a")
    waits = {"unacknowledged": [VertexId("b")]}
    assert told(limit(*vertices, checkpoint=(7, 3_000.0), **waits)) == ("alignment", "b", None, "a")
    assert told(limit(*vertices, checkpoint=(7, 300.0), **waits)) == ("unknown", "a", None, "")
    acknowledged = limit(*vertices, checkpoint=(7, 30_000.0), unacknowledged=[VertexId("c")])
    assert told(acknowledged) == ("unknown", "a", None, ""), "the barriers are long through"
    busy = simple("a", 10, 900), simple("b", 980, 0, "a")
    assert told(limit(*busy, checkpoint=(7, 3_000.0))) == ("busy", "b", None, "a")


def test_late_records_count_from_a_share_of_the_input_on() -> None:
    vertices = [simple("a", 10), simple("b", 100, 0, "a", records_in=1_000.0, late=30.0)]
    [found] = find_causes(job(*vertices))
    assert (found.cause, found.vertex_id, found.figures["late"]) == (Cause.LATE_DATA, "b", 30.0)
    few = [simple("a", 10), simple("b", 100, 0, "a", records_in=1_000.0, late=7.0)]
    assert find_causes(job(*few)) == []
    assert find_causes(job(*few), LEAVE), "it is given up later than it is reached"


def test_pending_records_count_while_they_grow_and_nothing_limits_the_job() -> None:
    source, growths = simple("a", 300, records_in=100.0, pending=5_000), {VertexId("a"): 40.0}
    [found] = find_causes(job(source), growths=growths)
    assert (found.cause, found.figures["growth"]) == (Cause.PENDING_RECORDS, 40.0)
    assert find_causes(job(source), growths={VertexId("a"): -40.0}) == []
    limited = job(replace(source, subtasks=[subtask(0, 10, 900, pending=5_000)]), simple("b", 990, 0, "a"))
    assert [f.topic for f in find_causes(limited, growths=growths)] == [Topic.LIMIT]


def test_memory_is_a_cause_when_little_is_left_and_names_the_largest_process() -> None:
    limited = {"available_bytes": 150 << 20, "memory_limit_bytes": 2 << 30}
    small = subtask(0, 10, resident_bytes=100 << 20, **limited)
    large = subtask(1, 10, resident_bytes=900 << 20, **limited)
    [found] = find_causes(job(vertex("a", "", small, large)))
    assert (found.cause, found.subtask) == (Cause.MEMORY, 1)
    assert find_causes(job(vertex("a", "", replace(large, available_bytes=900 << 20)))) == []
    assert find_causes(job(vertex("a", "", replace(large, memory_limit_bytes=None)))) == [], "not known"


def test_slots_that_share_a_limit_are_told_before_the_kernel_kills() -> None:
    # four of 450 MiB each in a container of 2 GiB
    slots = [
        subtask(n, 10, resident_bytes=450 << 20, available_bytes=200 << 20, memory_limit_bytes=2 << 30)
        for n in range(4)
    ]
    assert [f.cause for f in find_causes(job(vertex("a", "", *slots)))] == [Cause.MEMORY]


# --- what lasts -------------------------------------------------------------------------------------------------------

CALM = (simple("a", 300), simple("b", 400, 0, "a"))
SLOW = (simple("a", 20, 980), simple("b", 990, 0, "a"))
OTHER = (simple("a", 20, 980), simple("b", 30, 960, "a"), simple("c", 990, 0, "b"))


class Watched:
    """A watch that gets a sample every second."""

    def __init__(self) -> None:
        self._watch = BottleneckWatch()
        self.at_ms = 0.0

    def second(self, vertices: Sequence[VertexFigures], **more: Any) -> list[str]:
        """Take the next sample; returns the culprits that stand."""
        self.at_ms += 1_000.0
        return [f.vertex_id for f in self._watch.observe(JobFigures(self.at_ms, vertices, **more))]

    def seconds(self, count: int, vertices: Sequence[VertexFigures]) -> list[list[str]]:
        return [self.second(vertices) for _ in range(count)]


def test_a_cause_is_named_within_eight_seconds_of_its_begin_and_leaves_as_fast() -> None:
    watched = Watched()
    assert watched.seconds(10, CALM) == [[]] * 10
    named = watched.seconds(8, SLOW)
    assert named[-1] == ["b"] and named[0] == []
    assert watched.seconds(8, CALM)[-1] == []


def test_a_start_names_nothing_at_once_and_a_lasting_cause_within_ten_seconds() -> None:
    named = Watched().seconds(10, SLOW)
    assert named[:4] == [[]] * 4
    assert named[-1] == ["b"]


def test_one_noisy_sample_neither_names_nor_clears() -> None:
    watched = Watched()
    watched.seconds(6, CALM)
    assert [watched.second(SLOW), *watched.seconds(8, CALM)] == [[]] * 9
    watched.seconds(10, SLOW)
    assert [watched.second(CALM), *watched.seconds(8, SLOW)] == [["b"]] * 9


def test_a_burst_of_two_seconds_is_no_cause() -> None:
    watched = Watched()
    for _ in range(5):
        assert watched.seconds(5, CALM) == [[]] * 5
        assert watched.seconds(2, SLOW) == [[]] * 2


def test_the_name_goes_from_one_culprit_to_the_next_without_a_gap() -> None:
    watched = Watched()
    watched.seconds(10, SLOW)
    named = watched.seconds(9, OTHER)
    assert all(len(each) == 1 for each in named)
    assert (named[0], named[-1]) == (["b"], ["c"])


def test_a_restart_begins_anew() -> None:
    watched = Watched()
    watched.seconds(10, SLOW)
    assert watched.second(SLOW, generation=2) == []
    assert watched.second(SLOW, generation=2, is_running=False) == []


def test_a_stall_is_named_at_once() -> None:
    watched = Watched()
    watched.seconds(6, CALM)
    assert watched.second(CALM, stalls=[StalledTask(VertexId("a"), 0, 0.0)]) == ["a"]


def test_samples_that_come_too_fast_count_once() -> None:
    watch = BottleneckWatch()
    for step in range(int((WINDOW_MS + CONFIRM_MS) / 100) + 20):
        found = watch.observe(JobFigures(step * 100.0, SLOW))
    assert [f.vertex_id for f in found] == ["b"]


# --- what is judged ---------------------------------------------------------------------------------------------------


def test_nothing_is_known_before_it_has_watched_and_after_a_restart() -> None:
    watch = BottleneckWatch()
    judged = []
    for second in range(8):
        watch.observe(JobFigures(second * 1_000.0, SLOW, generation=1))
        judged.append((watch.has_judged, bool(watch.observe(JobFigures(second * 1_000.0, SLOW, generation=1)))))
    # at no time does it look as if nothing were wrong
    assert (True, False) not in judged and judged[-1] == (True, True)
    watch.observe(JobFigures(9_000.0, SLOW, generation=2))
    assert not watch.has_judged
    for second in range(10, 14):
        watch.observe(JobFigures(second * 1_000.0, CALM, generation=2))
    assert watch.has_judged


def test_low_thresholds_are_those_of_the_verdict_that_stands_only() -> None:
    watched = Watched()
    held = (simple("a", 700, 150), simple("b", 400, 0, "a"))
    assert watched.seconds(10, held) == [[]] * 10
    watched.seconds(8, [*held, simple("x", 10, 900), simple("y", 990, 0, "x")])
    assert watched.seconds(9, [*held, simple("x", 300), simple("y", 300, 0, "x")])[-1] == []


@pytest.mark.parametrize(("hot", "parallelism"), [(2, 8), (4, 32)])
def test_of_equally_hot_subtasks_one_is_named_in_time_and_stays(hot: int, parallelism: int) -> None:
    noise = Random(7)
    watch = BottleneckWatch()
    names: list[int | None] = []
    for second in range(120):
        subtasks = [
            subtask(n, min(1000, noise.gauss(960, 15)), records_in=900.0)
            if n < hot
            else subtask(n, 40, records_in=30.0)
            for n in range(parallelism)
        ]
        found = watch.observe(JobFigures(second * 1_000.0, [simple("a", 20, 950), vertex("k", "a", *subtasks)]))
        names += [f.subtask for f in found]
    assert len(names) >= 120 - 8 and len(set(names)) == 1


def test_of_two_equally_slow_sinks_one_is_named_and_stays() -> None:
    noise = Random(7)
    watched = Watched()
    named = [
        watched.second([simple("a", 20, 950), *(simple(n, min(1000, noise.gauss(960, 15)), 0, "a") for n in "bc")])
        for _ in range(60)
    ]
    assert len({tuple(each) for each in named if each}) == 1 and [] not in named[8:]


def pending(*series: Sequence[int | None]) -> list[list[Finding]]:
    """What is found each second of a source whose subtasks have so many pending records."""
    watch = BottleneckWatch()
    return [
        list(
            watch.observe(
                JobFigures(
                    second * 1_000.0,
                    [vertex("a", "", *(subtask(n, 200, records_in=100.0, pending=p) for n, p in enumerate(moment)))],
                )
            )
        )
        for second, moment in enumerate(zip(*series, strict=True))
    ]


def test_a_source_falls_behind_only_if_its_pending_records_grow_steadily() -> None:
    steady = pending([1_000 * n for n in range(12)])
    assert [f.cause for f in steady[-1]] == [Cause.PENDING_RECORDS] and steady[-1][0].figures["growth"] == 1_000.0
    # a chunk of 5,000 every ten seconds, read at 500 a second
    assert not any(pending([5_000 - 500 * (n % 10) for n in range(60)]))
    # a burst that is being drained
    assert not any(pending([max(0, 10_000 - 2_000 * (n % 10)) for n in range(60)]))
    # a subtask that reports later has not grown
    assert not any(pending([5_000] * 14, [None] * 5 + [5_000] * 9))


def test_a_metric_of_a_user_is_no_backlog() -> None:
    watch = BottleneckWatch()
    for n in range(12):
        vertices = simple("a", 100), simple("b", 100, 0, "a", records_in=10.0, pending=1_000 * n)
        assert list(watch.observe(JobFigures(n * 1_000.0, vertices))) == []


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vertices", "text"),
    [
        (SLOW, "is busy 99 % of the time; Source: a, upstream of it, is back-pressured"),
        (OTHER, "is busy 99 % of the time; 2 vertices upstream of it are back-pressured"),
        (
            [simple("a", 10, 900), vertex("b", "a", *HOT)],
            "(subtask 0) gets 18.0 times the records of the other subtasks and is busy 98 %; "
            "Source: a, upstream of it, is back-pressured",
        ),
        (
            [vertex("a", "", SubtaskFigures(0, busy=990, running=300))],
            "is busy 99 % of the time, 69 % of it waiting for its turn in the slot",
        ),
    ],
)
def test_a_limit_is_told_in_words(vertices: Sequence[VertexFigures], text: str) -> None:
    found = limit(*vertices)
    assert found is not None
    assert text_of(found, {VertexId("a"): "Source: a", VertexId("b"): "map", VertexId("c"): "Sink: c"}) == text
