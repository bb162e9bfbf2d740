"""The order of results: against a plain model, for any order of completion."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.elements import Watermark
from runtime.operators.async_queue import Boundary, Call, OrderedQueue, ResultQueue, UnorderedQueue

ELEMENTS = st.lists(st.booleans(), max_size=12)


def name_of(element: Call | Boundary) -> Any:
    return element.value if isinstance(element, Call) else element


def run(queue: ResultQueue, elements: list[bool], order: list[int], together: set[int]) -> list[Any]:
    """Put everything in, complete the calls in that order, take after each but those in `together`."""
    calls = []
    for number, is_call in enumerate(elements):
        if is_call:
            calls.append(Call(number, number))
            queue.put(calls[-1])
        else:
            queue.put_boundary(Watermark(number))
    assert len(queue) == len(calls) == len(queue.calls())
    taken = list(queue.take())
    for step, index in enumerate(order):
        queue.complete(calls[index])
        if step not in together:
            taken.extend(queue.take())
    taken.extend(queue.take())
    assert len(queue) == 0
    assert queue.calls() == []
    return [name_of(element) for element in taken]


CASES = ELEMENTS.flatmap(
    lambda elements: st.tuples(
        st.just(elements), st.permutations(range(sum(elements))), st.sets(st.integers(0, max(len(elements), 1)))
    )
)


@settings(deadline=None)  # a loaded machine is no failure
@given(CASES)
def test_ordered_results_come_in_the_order_of_the_records(case: tuple[list[bool], list[int], set[int]]) -> None:
    elements, order, together = case
    expected = [number if is_call else Watermark(number) for number, is_call in enumerate(elements)]
    assert run(OrderedQueue(), elements, order, together) == expected


@settings(deadline=None)  # a loaded machine is no failure
@given(CASES)
def test_unordered_results_come_as_they_are_ready_between_boundaries(
    case: tuple[list[bool], list[int], set[int]],
) -> None:
    elements, order, together = case
    numbers = [number for number, is_call in enumerate(elements) if is_call]
    completed = [numbers[index] for index in order]
    expected: list[Any] = []
    segment: set[int] = set()
    for number, is_call in enumerate([*elements, False]):
        if is_call:
            segment.add(number)
        else:
            expected.extend(call for call in completed if call in segment)
            segment = set()
            if number < len(elements):
                expected.append(Watermark(number))
    assert run(UnorderedQueue(), elements, order, together) == expected


def test_an_ordered_queue_holds_back_what_is_ready_too_early() -> None:
    queue, first, second = OrderedQueue(), Call("a", 0), Call("b", 0)
    queue.put(first)
    queue.put(second)
    queue.complete(second)
    assert list(queue.take()) == []
    assert queue.calls() == [first, second]
