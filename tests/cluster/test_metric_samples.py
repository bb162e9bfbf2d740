"""Samples of metrics: what is packed is read again, what is damaged is refused, and curves keep sums and times."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.metric_samples import (
    EDGE_METRICS,
    LARGEST,
    VERTEX_METRICS,
    Layout,
    MalformedSampleError,
    Mean,
    Row,
    curves,
    known_series,
    sample_row,
)
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.core.elements import MAX_WATERMARK
from runtime.core.ids import VertexId
from tests.cluster.snapshots import statistics
from tests.live.live_jobs import NOW, RunningJob

NAMES = st.from_regex(r"[ve]\.[a-z0-9]{1,4}\.(watermark|busy|idle)", fullmatch=True)
NUMBERS = st.none() | st.floats(-LARGEST, LARGEST)
ROWS = st.dictionaries(NAMES, NUMBERS, max_size=30)


def records(layout: Layout, names: Sequence[str], samples: Mapping[int, bytes]) -> bytes:
    """Return what Redis cuts out of samples, given by their times."""
    ranges = layout.cut(names).ranges
    return b"".join(
        struct.pack("<dd", at, at - 1) + b"".join(packed[begin:end] for begin, end in ranges)
        for at, packed in samples.items()
    )


def unpacked(layout: Layout, packed: bytes, names: Sequence[str]) -> Row:
    _, _, [numbers] = layout.cut(names).rows(records(layout, names, {7: packed}))
    return {name: None if math.isnan(n) else n for name, n in zip(names, numbers.tolist(), strict=True)}


@given(ROWS, st.data())
def test_a_sample_is_read_as_it_was_packed(row: Row, data: st.DataObject) -> None:
    layout = Layout.from_text(Layout.of(row).text)
    names = data.draw(st.lists(st.sampled_from([*row, "v.another.busy"]), max_size=10))
    packed = layout.pack(layout.numbers(row))
    assert len(packed) == layout.size
    for name, value in unpacked(layout, packed, names).items():
        if row.get(name) is None or name.endswith(".watermark"):
            assert value == row.get(name)
        else:
            assert value == pytest.approx(row[name], rel=1e-7, abs=1e-44)


@given(ROWS, st.lists(st.integers(0, 2**50), max_size=5, unique=True))
def test_times_are_kept_and_no_byte_is_cut_out_twice(row: Row, times: list[int]) -> None:
    layout = Layout.of(row)
    packed = layout.pack(layout.numbers(row))
    cut = layout.cut(list(row))
    assert cut.ranges == ([(0, layout.size)] if row else [])
    at, middles, rows = cut.rows(records(layout, list(row), dict.fromkeys(times, packed)))
    assert (at.tolist(), rows.shape) == (times, (len(times), len(row)))
    assert middles.tolist() == [time - 1 for time in times]


@given(ROWS, ROWS)
def test_layouts_are_known_by_their_columns(one: Row, other: Row) -> None:
    is_same = Layout.of(one).columns == Layout.of(other).columns
    assert (Layout.of(one).id == Layout.of(other).id) == is_same


@given(st.binary(min_size=24, max_size=24))
def test_any_bits_give_a_number_that_json_has_or_none(data: bytes) -> None:
    layout = Layout(("v.a.watermark",), ("v.a.busy", "v.a.idle", "v.b.busy", "v.b.idle"))
    _, _, rows = layout.cut(list(layout.columns)).rows(struct.pack("<dd", 7, 7) + data)
    mean = Mean(layout)
    mean.add(rows[0])
    mean.add(rows[0])
    for value in [*rows[0].tolist(), *mean.numbers().tolist()]:
        assert math.isnan(value) or abs(value) <= LARGEST


@pytest.mark.parametrize("size", [1, 11, 13, 23])
def test_bytes_that_are_no_records_are_refused(size: int) -> None:
    with pytest.raises(MalformedSampleError):
        Layout((), ("v.a.busy", "v.b.busy")).cut(["v.b.busy"]).rows(bytes(size))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"wide": []}',
        '{"wide": 1, "narrow": []}',
        '{"wide": [1], "narrow": []}',
        "[" * 99_999,
    ],
)
def test_texts_that_are_no_layout_are_refused(text: str) -> None:
    with pytest.raises(MalformedSampleError):
        Layout.from_text(text)


def test_a_row_has_all_series_of_a_job_whatever_is_known() -> None:
    job = RunningJob(3, 2)
    nothing = CheckpointsSnapshot(CheckpointSettings())
    document = json.loads(json.dumps(job.document(NOW, job.status)))
    assert sample_row(document, None, nothing).keys() == known_series(document)
    assert len(known_series(document)) == 3 * len(VERTEX_METRICS) + 2 * len(EDGE_METRICS)
    running = job.running(10_000, Random(1))
    live = {running["vertices"][1]["id"]: True}
    running["event_time"] = running["event_time"] | {"newest": NOW + 10_000, "is_live": True, "live": live}
    row = sample_row(running, job._live.figures, nothing)
    assert row.keys() == known_series(document)
    vertex = running["vertices"][1]
    assert row[f"v.{vertex['id']}.busy"] == vertex["metrics"]["busy"] > 0
    assert row[f"v.{vertex['id']}.watermark"] == vertex["metrics"]["watermark"]
    assert row[f"v.{vertex['id']}.watermark_lag"] == running["now"] - vertex["metrics"]["watermark"]
    # of data that another source replays there is none
    assert row[f"v.{running['vertices'][0]['id']}.watermark_lag"] is None
    behind = NOW + 10_000 - vertex["metrics"]["watermark"]
    assert row[f"v.{vertex['id']}.behind"] == behind
    assert (row[f"v.{vertex['id']}.pending_records"], row[f"v.{vertex['id']}.state_size"]) == (None, None)


def test_old_data_has_no_lag_and_is_compared_with_the_newest_that_it_meets() -> None:
    job = RunningJob(3, 2)
    document = job.running(10_000, Random(1))
    first, second, third = document["vertices"]
    for vertex, watermark in ((first, 900), (second, 200), (third, 300)):
        vertex["metrics"] |= {"watermark": watermark, "watermark_lag": document["now"] - watermark}
    time = {"is_live": False, "held_by": {}, "newest": 800, "newest_of": {third["id"]: 450}}
    row = sample_row(document | {"event_time": time}, None, CheckpointsSnapshot(CheckpointSettings()))
    assert [row[f"v.{vertex['id']}.watermark_lag"] for vertex in document["vertices"]] == [None] * 3
    assert [row[f"v.{vertex['id']}.behind"] for vertex in document["vertices"]] == [0, 600, 150]


def test_a_row_sums_up_what_only_the_tasks_report() -> None:
    job = RunningJob(2, 2)
    source, head = job.vertices[0], job.graph.vertices[0].operators[0].operator_id
    tasks = [
        replace(task, metrics={**task.metrics, f"{head}.pendingRecords": 5, f"{head}.currentEmitEventTimeLag": lag})
        if task.task.vertex_id == source
        else replace(task, metrics={**task.metrics, "currentInputWatermark": MAX_WATERMARK})
        for lag, task in enumerate(job.tasks(10_000, Random(1)))
    ]
    document = job.document(NOW + 10_000, replace(job.status, tasks=tasks))
    checkpoints = statistics()
    completed = checkpoints.latest_completed
    assert completed is not None
    [stored, *_] = completed.vertices.values()
    known = replace(checkpoints, latest_completed=replace(completed, vertices={VertexId(source): stored}))
    row = sample_row(document, job._live.figures, known)
    assert (row[f"v.{source}.pending_records"], row[f"v.{source}.event_time_lag"]) == (10, 1)
    assert row[f"v.{source}.state_size"] == stored.total("state_bytes")
    # an input that has ended has no watermark to draw
    assert (row[f"v.{job.vertices[1]}.watermark"], row[f"v.{job.vertices[1]}.behind"]) == (None, None)


TIMES = st.lists(st.integers(0, 10**13), min_size=1, max_size=50).map(sorted)


@given(TIMES, st.integers(1, 10**6), st.data())
def test_curves_keep_the_order_of_times_and_the_range(times: list[int], step: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(NUMBERS, min_size=len(times), max_size=len(times)))
    rows = np.array([[math.nan if value is None else value] for value in values])
    drawn = curves(np.array(times), rows, np.full(len(times), 5_000), step)
    [series] = drawn.series
    assert len(drawn.times) == len(series)
    assert drawn.times == sorted(drawn.times)
    assert times[0] <= drawn.times[0] <= drawn.times[-1] <= times[-1]
    known = [value for value in values if value is not None]
    present = [value for value in series if value is not None]
    assert bool(known) == bool(present)
    for value in present:
        assert min(known) - max(1e-3, 1e-9 * LARGEST) <= value <= max(known) + max(1e-3, 1e-9 * LARGEST)


def test_samples_are_averaged_over_steps_that_begin_at_multiples_of_it() -> None:
    rows = np.array([[1.0], [3.0], [math.nan], [7.0]])
    drawn = curves(np.array([9_000, 10_000, 14_000, 19_000]), rows, np.full(4, 5_000), 10_000)
    assert (drawn.times, drawn.series) == ([9_000, 14_333], [[1.0, 5.0]])


def test_the_average_of_a_minute_counts_as_its_samples_do() -> None:
    rows = np.array([[1.0, math.nan], [14.0, 3.0]])
    drawn = curves(np.array([30_000, 95_000]), rows, np.array([60_000, 5_000]), 120_000)
    assert (drawn.times, drawn.series) == ([35_000], [[2.0], [3.0]])


def test_a_curve_is_broken_where_samples_are_missing_and_not_where_one_is_late() -> None:
    times = np.array([0, 5_250, 10_000, 40_000, 100_000])
    drawn = curves(times, np.ones((5, 1)), np.array([5_000, 5_000, 5_000, 60_000, 60_000]), 5_000)
    assert drawn.times == [0, 5_250, 10_000, 15_000, 40_000, 100_000]
    assert drawn.series == [[1.0, 1.0, 1.0, None, 1.0, 1.0]]


def test_no_samples_are_empty_curves() -> None:
    drawn = curves(np.empty(0, np.int64), np.empty((0, 2)), np.empty(0, np.int64), 1_000)
    assert (drawn.times, drawn.series) == ([], [[], []])
