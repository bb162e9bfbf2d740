"""Data skew of vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from runtime.core.ids import VertexId
from runtime.jobmaster.skew import MAX_VERTICES, SkewWatch, VertexSkew, find_skews, spread_of
from runtime.jobmaster.task_figures import JobFigures, SubtaskFigures, VertexFigures


def vertex(name: str, received: Sequence[int], rates: Sequence[float] = ()) -> VertexFigures:
    subtasks = [SubtaskFigures(index, records_in=rate) for index, rate in enumerate(rates)]
    return VertexFigures(VertexId(name), name, [VertexId("source")], subtasks, dict(enumerate(received)))


def job(*vertices: VertexFigures, at_ms: float = 0.0, generation: int = 0, is_running: bool = True) -> JobFigures:
    return JobFigures(at_ms, vertices, generation, is_running)


def test_figures_of_a_spread_are_those_of_statistics() -> None:
    spread = spread_of({0: 100, 1: 100, 2: 400}, least=100)
    assert spread is not None
    # the deviations are -100, -100, 200 of a mean of 200
    assert spread.cv == pytest.approx((60_000 / 3) ** 0.5 / 200)
    assert (spread.max_to_average, spread.subtask) == (2.0, 2)


def test_equal_subtasks_have_no_skew_and_one_alone_has_none_to_measure() -> None:
    spread = spread_of({0: 500, 1: 500}, least=100)
    assert spread is not None and (spread.cv, spread.max_to_average, spread.subtask) == (0.0, 1.0, 0)
    assert spread_of({0: 500}, least=100) is None
    assert spread_of({}, least=0) is None


def test_the_spread_of_a_few_records_is_chance() -> None:
    assert spread_of({0: 0, 1: 199}, least=100) is None
    assert spread_of({0: 0, 1: 200}, least=100) is not None
    assert find_skews(job(vertex("a", [0, 10], [0.0, 3.0]))) == []


def test_the_worst_vertex_comes_first_whether_its_skew_is_old_or_new() -> None:
    even = vertex("even", [1_000, 1_000], [100.0, 100.0])
    was = vertex("was", [4_000, 0], [100.0, 100.0])
    now = vertex("now", [1_000, 1_000], [20.0, 180.0])
    found = find_skews(job(even, now, was))
    assert [skew.vertex_id for skew in found] == ["was", "now", "even"]
    assert found[1].live is not None and found[1].live.subtask == 1


def test_a_vertex_that_no_longer_gets_records_keeps_its_skew_since_the_start() -> None:
    (found,) = find_skews(job(vertex("a", [4_000, 0], [0.0, 0.0])))
    assert found.live is None and found.total is not None and found.total.max_to_average == 2.0


def test_rates_of_a_vertex_whose_inputs_wait_for_a_barrier_are_no_skew() -> None:
    uneven = vertex("a", [1_000, 1_000], [20.0, 180.0])
    watch = SkewWatch()
    (aligning,) = watch.observe(replace(job(uneven), checkpoint=(7, 2_000.0), unacknowledged={VertexId("a")}))
    assert aligning.live is None and aligning.total is not None
    # rates still span the time of the alignment
    (after,) = watch.observe(job(uneven, at_ms=2_000.0, generation=1))
    assert after.live is None
    (measured,) = watch.observe(job(uneven, at_ms=7_000.0, generation=1))
    assert measured.live is not None and measured.live.subtask == 1


def test_a_document_has_the_worst_vertices_only() -> None:
    many = [vertex(f"v{n}", [1_000, 1_000 + n]) for n in range(MAX_VERTICES + 5)]
    found = find_skews(job(*many))
    assert len(found) == MAX_VERTICES and found[0].vertex_id == f"v{MAX_VERTICES + 4}"


def test_a_watch_looks_every_five_seconds_and_at_once_after_a_restart() -> None:
    watch = SkewWatch()

    def ratios(*received: int, at_ms: float, generation: int = 0, is_running: bool = True) -> list[float]:
        figures = job(vertex("a", received), at_ms=at_ms, generation=generation, is_running=is_running)
        return [_ratio(skew) for skew in watch.observe(figures)]

    assert ratios(1_000, 1_000, at_ms=0) == [1.0]
    assert ratios(3_000, 1_000, at_ms=1_000) == [1.0]
    assert ratios(3_000, 1_000, at_ms=5_000) == [1.5]
    assert ratios(1_000, 1_000, at_ms=6_000, generation=1) == [1.0]
    assert ratios(1_000, 1_000, at_ms=7_000, is_running=False) == []
    assert ratios(3_000, 1_000, at_ms=8_000, generation=1) == [1.5]


def _ratio(skew: VertexSkew) -> float:
    return skew.total.max_to_average if skew.total is not None else 0.0
