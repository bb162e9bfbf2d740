"""Runs of keyed elements with watermarks between them, for window operators and their models.

A run is fed with marks inside one batch or cut at each watermark; the operator must do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from runtime.core.batch import Mark
from runtime.operators.operator import OperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.testing.harness import OneInputHarness

LATE = OutputTag("late")
END = 1_000
"""A watermark behind everything."""
Element = tuple[Any, int, int]
"""(key, number, gap)"""
Run = tuple[list[Element], list[int], list[Mark]]


def key_of(value: Any) -> Any:
    return value[0]


@st.composite
def runs(draw: st.DrawFn, keys: tuple[Any, ...] = ("a", "b", 1, 1.0)) -> Run:
    """Elements, their event times, and marks that rise; elements may be late."""
    drawn = draw(
        st.lists(st.tuples(st.sampled_from(keys), st.integers(-5, 40), st.sampled_from([1, 4, 9])), max_size=14)
    )
    offsets = sorted(draw(st.sets(st.integers(0, len(drawn)))))
    steps = draw(st.lists(st.integers(1, 15), min_size=len(offsets), max_size=len(offsets)))
    watermark, marks = -10, []
    for offset, step in zip(offsets, steps, strict=True):
        watermark += step
        marks.append(Mark(offset, watermark))
    elements = [(key, number, gap) for number, (key, _, gap) in enumerate(drawn)]
    return elements, [timestamp for _, timestamp, _ in drawn], marks


def events(run: Run) -> Iterator[int | tuple[Element, int]]:
    """Watermarks, and elements with their event times, in order."""
    elements, timestamps, marks = run
    for offset, (element, timestamp) in enumerate(zip(elements, timestamps, strict=True)):
        yield from (mark.watermark for mark in marks if mark.offset == offset)
        yield element, timestamp
    yield from (mark.watermark for mark in marks if mark.offset == len(elements))
    yield END


def check(factory: OperatorFactory, run: Run, cut: bool, model: Callable[[Run], tuple[list[str], list[str]]]) -> None:
    """Run an operator and compare all that it gives, and its late side output, with what a model says; unordered.

    Raises:
        AssertionError: they differ, or the operator keeps something of windows that are over.
    """
    elements, timestamps, marks = run
    with OneInputHarness(factory) as harness:
        if cut:
            start = 0
            for offset, watermark in [*marks, Mark(len(elements), END)]:
                harness.process(elements[start:offset], timestamps[start:offset])
                harness.process_watermark(watermark)
                start = offset
        else:
            harness.process(elements, timestamps, marks)
            harness.process_watermark(END)
        # keys are told by their repr: a comparison would take 1 and 1.0 for the same
        got = sorted(map(repr, harness.values)), sorted(repr(tuple(record)) for record in harness.side_output(LATE))
        snapshot = harness.snapshot()
    fired, late = model(run)
    assert got == (sorted(fired), sorted(late))
    assert snapshot.keyed is not None
    assert not any(group.states or group.event_timers for group in snapshot.keyed.groups.values())
