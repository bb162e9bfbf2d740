"""The size of slices follows what records cost, from the first one on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from random import Random

import pytest

from runtime.common import Configuration
from runtime.task.slicing import MAX_SLICE_ROWS, SLICE_MS, SliceSize


def slices_of(size: SliceSize, cost_ms: Callable[[int], float], count: int) -> list[int]:
    """The sizes of `count` slices, each of which is full; `cost_ms` is of one record by its index."""
    sizes: list[int] = []
    for _ in range(count):
        begin = sum(sizes)
        sizes.append(size.rows)
        size.adapt(size.rows, sum(map(cost_ms, range(begin, begin + size.rows))))
    return sizes


@pytest.mark.parametrize("record_ms", [0.01, 0.3, 3.0, 10.0, 21.0, 1000.0])
@pytest.mark.parametrize("tries_longer", [False, True])
def test_no_slice_takes_longer_than_20_ms_or_one_record(record_ms: float, tries_longer: bool) -> None:
    sizes = slices_of(SliceSize(tries_longer=tries_longer), lambda _: record_ms, 1_000)
    assert sizes[0] == 1
    too_long = [size for size in sizes if size * record_ms > max(SLICE_MS, record_ms)]
    # to see whether it is the records that cost so much
    assert too_long == [2] * len(too_long) and len(too_long) <= (6 if tries_longer else 0)
    assert sizes[-1] >= min(SLICE_MS / record_ms * 0.9, MAX_SLICE_ROWS) or record_ms > SLICE_MS


@pytest.mark.parametrize("fixed_ms", [5.0, 25.0, 40.0, 500.0])
@pytest.mark.parametrize("record_ms", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_what_a_slice_costs_whatever_its_size_makes_it_no_shorter(
    fixed_ms: float, record_ms: float, noise: float
) -> None:
    size, random, sizes = SliceSize(), Random(7), []
    for _ in range(400):
        sizes.append(size.rows)
        size.adapt(size.rows, (fixed_ms + record_ms * size.rows) * (1 + random.uniform(-noise, noise)))
    limit_ms = max(SLICE_MS, fixed_ms)
    fitting = min(limit_ms / record_ms if record_ms else MAX_SLICE_ROWS, MAX_SLICE_ROWS)
    assert statistics.median(sizes[200:]) > fitting / (16 if noise else 2)
    assert noise or max(sizes) <= 2.5 * fitting


def test_a_task_recovers_from_fixed_costs_that_it_had_for_a_while() -> None:
    size = SliceSize()
    for cost_ms in [60.0] * 3 + [1.0] * 30:
        size.adapt(size.rows, cost_ms + 0.01 * size.rows)
    assert size.rows > 1_000
    for _ in range(30):
        size.adapt(size.rows, 200.0 + 0.01 * size.rows)
    assert size.rows > 1_000


def test_what_cannot_be_timed_is_doubled_up_to_the_most() -> None:
    assert slices_of(SliceSize(), lambda _: 0.0, 20)[-4:] == [1 << 16] * 4
    assert slices_of(SliceSize(max_rows=5), lambda _: 0.0, 5) == [1, 2, 4, 5, 5]


def test_short_input_does_not_make_slices_longer_than_any_that_was_tried() -> None:
    size = SliceSize()
    for _ in range(100):
        size.adapt(1, 0.4)
    assert size.rows == 2


def test_slices_shrink_when_records_become_slow() -> None:
    sizes = slices_of(SliceSize(), lambda index: 0.01 if index < 5_000 else 10.0, 30)
    assert max(sizes) > 1_000
    assert sizes[-5:] == [2] * 5


def test_the_bounds_are_those_of_bundles() -> None:
    def size(**keys: str) -> SliceSize:
        prefix = "python.fn-execution.bundle."
        return SliceSize.of(Configuration.from_dict({prefix + key: value for key, value in keys.items()}))

    assert slices_of(size(size="10"), lambda _: 0.1, 8)[-1] == 10
    assert slices_of(size(time="5"), lambda _: 0.1, 8)[-1] == pytest.approx(50, abs=1)
    assert slices_of(size(size="0", time="-1"), lambda _: 0.1, 12)[-1] == pytest.approx(200, abs=1)


def test_slices_grow_behind_a_reader_that_gives_a_little_less_than_it_is_asked_for() -> None:
    size = SliceSize()
    for _ in range(20):
        size.adapt(math.ceil(size.rows * 0.9), 0.01)
    assert size.rows > 10_000
