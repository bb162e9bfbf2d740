"""The vertex that holds a job up is found by who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.client.bottleneck import bottleneck_text, find_bottleneck


def vertex(name: str, busy: int, back_pressured: int = 0, inputs: str = "", state: str = "RUNNING") -> dict[str, Any]:
    metrics = {"busy": busy, "back_pressured": back_pressured, "idle": 1000 - busy - back_pressured}
    sources = [{"id": source, "ship_strategy": "HASH"} for source in inputs.split()]
    return {"id": name, "name": name, "state": state, "inputs": sources, "metrics": metrics}


@pytest.mark.parametrize(
    ("vertices", "limit", "waiting"),
    [
        # the sink holds up all that is above it
        ([vertex("a", 20, 980), vertex("b", 100, 900, "a"), vertex("c", 990, 0, "b")], "c", ["a", "b"]),
        # what is slow further up keeps those below it idle, however busy they are in between
        ([vertex("a", 50, 950), vertex("b", 850, 0, "a"), vertex("c", 900, 0, "b")], "b", ["a"]),
        # a stream that parts waits for one of the two
        ([vertex("a", 10, 900), vertex("b", 300, 0, "a"), vertex("c", 980, 0, "a")], "c", ["a"]),
        # two sources into one; only one of them is too fast
        ([vertex("a", 10, 900), vertex("b", 100), vertex("c", 700, 0, "a b")], "c", ["a"]),
        # a slow branch beside a fast one that is busier
        ([vertex("a", 10, 700), vertex("b", 600, 0, "a"), vertex("x", 30), vertex("y", 990, 0, "x")], "b", ["a"]),
        # a little waiting is none
        ([vertex("a", 700, 100), vertex("b", 400, 0, "a")], "a", []),
        # the last one waits for the outside
        ([vertex("a", 10, 900), vertex("b", 30, 900, "a")], "b", ["a"]),
        # what has ended limits nothing
        ([vertex("a", 0, 0, "", "FINISHED"), vertex("b", 300, 0, "a")], "b", []),
    ],
)
def test_the_limit_is_what_back_pressured_vertices_wait_for(
    vertices: list[dict[str, Any]], limit: str, waiting: list[str]
) -> None:
    found = find_bottleneck(vertices)
    assert found is not None
    assert (found.vertex_id, found.name, list(found.waiting)) == (limit, limit, waiting)


def test_a_job_that_does_nothing_has_no_limit() -> None:
    assert find_bottleneck([]) is None
    assert find_bottleneck([vertex("a", 0), vertex("b", 0, 0, "a")]) is None
    assert find_bottleneck([vertex("a", 900, 0, "", "CANCELED")]) is None


@pytest.mark.parametrize(
    ("vertices", "text"),
    [
        (
            [vertex("a", 20, 980), vertex("b", 100, 900, "a"), vertex("Sink: slow", 990, 0, "b")],
            "Busiest: Sink: slow (busy 99 %); 2 vertices upstream of it are back-pressured",
        ),
        (
            [vertex("a", 20, 980), vertex("c", 990, 0, "a")],
            "Busiest: c (busy 99 %); a, upstream of it, is back-pressured",
        ),
        ([vertex("a", 500)], "Busiest: a (busy 50 %); nothing is back-pressured"),
        (
            [vertex("a", 30, 900)],
            "Busiest: a (busy 3 %, waits for something outside the job 90 %); nothing upstream of it waits",
        ),
    ],
)
def test_the_limit_is_told_in_one_line(vertices: list[dict[str, Any]], text: str) -> None:
    found = find_bottleneck(vertices)
    assert found is not None
    assert bottleneck_text(found) == text
