"""Count windows and global windows, against a plain model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.operators.functions import WindowFunction
from runtime.operators.windowing.assigners import GlobalWindows, WindowAssigner
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.triggers import CountTrigger, PurgingTrigger
from runtime.operators.windowing.windows import CountWindow, Window
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling
from tests.operators.windowing.runs import key_of


class Telling(WindowFunction[Any, Any, Any, Window]):
    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> list[Any]:
        return [(repr(key), window.id if isinstance(window, CountWindow) else None, [number for _, number in inputs])]


def counted(assigner: WindowAssigner[Any, Any], **kwargs: Any) -> WindowOperatorFactory:
    return WindowOperatorFactory(assigner, key_of, ListContents(), Telling(), **kwargs)


def model(keys: list[Any], size: int, slide: int) -> list[Any]:
    """The windows that get full, as they do."""
    numbers: dict[str, list[int]] = {}
    fired = []
    for number, key in enumerate(keys):
        held = numbers.setdefault(repr(key), [])
        held.append(number)
        begin = len(held) - size
        if begin >= 0 and begin % slide == 0:
            fired.append((repr(key), begin // slide, held[begin:]))
    return fired


def check(keys: list[Any], size: int, slide: int, cuts: list[int]) -> None:
    assigner: WindowAssigner[Any, Any] = CountSlidingWindowAssigner.of(size, slide)
    if size == slide:
        assigner = CountTumblingWindowAssigner.of(size)
    values = [(key, number) for number, key in enumerate(keys)]
    with OneInputHarness(counted(assigner)) as harness:
        start = 0
        for cut in [*sorted(cuts), len(values)]:
            harness.process(values[start:cut])
            start = max(start, cut)
        harness.end_input()
    assert harness.values == model(keys, size, slide)


KEYS = st.lists(st.sampled_from(["a", 1, 1.0]), max_size=30)


@settings(max_examples=60)
@given(KEYS, st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(0, 30), max_size=2))
def test_count_windows_equal_the_model(keys: list[Any], size: int, slide: int, cuts: list[int]) -> None:
    check(keys, size, slide, cuts)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(KEYS, st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(0, 30), max_size=2))
def test_count_windows_equal_the_model_at_length(keys: list[Any], size: int, slide: int, cuts: list[int]) -> None:
    check(keys, size, slide, cuts)


def test_a_window_that_has_fired_is_forgotten() -> None:
    with OneInputHarness(counted(CountTumblingWindowAssigner.of(2))) as harness:
        harness.process([("a", number) for number in range(4)])
        snapshot = harness.snapshot()
    assert snapshot.keyed is not None
    # what stays is the key's count of elements
    assert [len(group.states) for group in snapshot.keyed.groups.values() if group.states] == [1]


def test_another_trigger_keeps_the_elements_of_its_windows() -> None:
    with OneInputHarness(counted(CountTumblingWindowAssigner.of(4), trigger=CountTrigger.of(2))) as harness:
        harness.process([("a", number) for number in range(6)])
    assert harness.values == [("'a'", 0, [0, 1]), ("'a'", 0, [0, 1, 2, 3]), ("'a'", 1, [4, 5])]


def test_global_windows_fire_at_the_end_of_the_stream_if_asked_to() -> None:
    with OneInputHarness(counted(GlobalWindows.create_with_end_of_stream_trigger())) as harness:
        harness.process([("a", 0), ("b", 1), ("a", 2)])
        harness.process_watermark(2**62)
        assert not harness.values
        harness.end_input()
    assert harness.values == [("'a'", None, [0, 2]), ("'b'", None, [1])]
    with OneInputHarness(counted(GlobalWindows.create())) as harness:
        harness.process([("a", 0)])
        harness.end_input()
    assert not harness.values


def test_senseless_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CountTumblingWindowAssigner.of(0)
    with pytest.raises(ValueError, match="at least 1"):
        CountSlidingWindowAssigner.of(2, 0)


STAGES = [Stage([(f"k{i % 5}", i) for i in range(n, n + 17)], None, n) for n in (0, 17, 34, 51)]


@pytest.mark.parametrize(
    "factory",
    [
        counted(CountTumblingWindowAssigner.of(3)),
        counted(CountSlidingWindowAssigner.of(5, 2)),
        counted(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(4))),
        counted(GlobalWindows.create_with_end_of_stream_trigger()),
    ],
    ids=["tumbling", "sliding", "global", "end of stream"],
)
def test_survives_rescaling(factory: WindowOperatorFactory) -> None:
    assert_survives_rescaling(factory, STAGES, key_of)
