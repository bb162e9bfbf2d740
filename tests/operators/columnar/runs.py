"""Typed rows with event times and marks, fed to a columnar operator and to the one that calls Python for each record.

Both must give the same rows between the same watermarks, the same late rows and the same count of dropped ones.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from runtime.common import Row
from runtime.common.typeinfo import Types
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.functions import ProcessWindowFunction
from runtime.operators.operator import OperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.testing.harness import OneInputHarness, OutputRecord
from runtime.testing.two_input_harness import TwoInputHarness

ROWS = Types.ROW_NAMED(
    ["key", "number", "text", "amount"], [Types.STRING(), Types.LONG(), Types.STRING(), Types.BIG_DEC()]
)
LATE = OutputTag("late", ROWS)
END = 10_000
"""A watermark behind everything."""
Run = tuple[list[Row], list[int], list[Mark]]

AGGREGATES = (
    "count(*) AS rows",
    "count(number) AS numbers",
    "sum(number) AS total",
    "min(text) AS least",
    "max(number) AS greatest",
    "avg(number) AS mean",
    "count(DISTINCT number) AS different",
    "sum(amount) AS amounts",
    "max(number) - min(number) AS spread",
    "count(*) FILTER (WHERE number > 1) AS above_one",
    "window_start AS since",
    "window_end AS until",
)
BY_ORDER = ("first(text) AS first", "last(number) AS last", "collect(number) AS numbers_list")


@st.composite
def runs(draw: st.DrawFn, max_size: int = 16) -> Run:
    """Rows, some of them late, their event times, and marks that rise; may be empty."""
    row = st.builds(
        lambda key, number, text, amount: Row(key=key, number=number, text=text, amount=amount),
        st.sampled_from(["a", "ü", "", None]),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from([None, "x", "Ωmega", "y"]),
        st.one_of(st.none(), st.integers(-50, 50).map(lambda cents: decimal.Decimal(cents).scaleb(-1))),
    )
    rows = draw(st.lists(row, max_size=max_size))
    times = draw(st.lists(st.integers(-5, 45), min_size=len(rows), max_size=len(rows)))
    offsets = sorted(draw(st.sets(st.integers(0, len(rows)))))
    steps = draw(st.lists(st.integers(1, 15), min_size=len(offsets), max_size=len(offsets)))
    watermark, marks = -10, []
    for offset, step in zip(offsets, steps, strict=True):
        watermark += step
        marks.append(Mark(offset, watermark))
    return rows, times, marks


class AggregateInPython(ProcessWindowFunction):
    """AGGREGATES and BY_ORDER in plain Python."""

    def __init__(self, in_order: bool) -> None:
        self._in_order = in_order

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        rows = list(elements)
        numbers = [row["number"] for row in rows if row["number"] is not None]
        texts = [row["text"] for row in rows if row["text"] is not None]
        amounts = [row["amount"] for row in rows if row["amount"] is not None]
        fields: dict[str, Any] = {
            "key": key,
            "rows": len(rows),
            "numbers": len(numbers),
            "total": sum(numbers) if numbers else None,
            "least": min(texts, default=None),
            "greatest": max(numbers, default=None),
            "mean": sum(numbers) / len(numbers) if numbers else None,
            "different": len(set(numbers)),
            "amounts": sum(amounts, decimal.Decimal(0)) if amounts else None,
            "spread": max(numbers) - min(numbers) if numbers else None,
            "above_one": sum(number > 1 for number in numbers),
            "since": context.window().start,
            "until": context.window().end,
        }
        if self._in_order:
            fields |= {
                "first": texts[0] if texts else None,
                "last": numbers[-1] if numbers else None,
                "numbers_list": [row["number"] for row in rows],
            }
        yield Row(**fields)


def key_of(row: Row) -> Any:
    return row["key"]


Timeline = list[tuple[list[str], int | None]]


def played(factory: OperatorFactory, run: Run, cut: bool, as_columns: bool = True) -> tuple[Timeline, list[str], int]:
    """Feed a run, with its marks inside one batch or cut at each of them.

    Returns:
        The rows between watermarks (in no order) with the watermark that follows, the late rows, and how many were
        dropped.
    """
    with OneInputHarness(factory, input_type=ROWS) as harness:
        feed(harness, run, cut, as_columns)
        harness.process_watermark(END)
        late = [repr((normalized(value), timestamp)) for value, timestamp in harness.side_output(LATE)]
        return timeline(harness), late, harness.counter("numLateRecordsDropped")


def feed(harness: OneInputHarness, run: Run, cut: bool, as_columns: bool = True) -> None:
    """Feed a run's batches; columns are what comes out of an exchange, values what a Python function made."""
    rows, times, marks = run
    if not cut:
        harness.process_batch(batch_of(rows, times, marks, as_columns))
        return
    start = 0
    for offset, watermark in marks:
        harness.process_batch(batch_of(rows[start:offset], times[start:offset], (), as_columns))
        harness.process_watermark(watermark)
        start = offset
    harness.process_batch(batch_of(rows[start:], times[start:], (), as_columns))


def batch_of(rows: list[Row], times: list[int], marks: Sequence[Mark], as_columns: bool) -> RecordBatch:
    batch = RecordBatch.of_values(list(rows), list(times), marks, ROWS)
    if as_columns:
        return RecordBatch.of_arrow(to_arrow(rows, ROWS), ROWS, batch.timestamps_array(), marks)
    return batch


def timeline(harness: OneInputHarness | TwoInputHarness) -> Timeline:
    """Rows that come between the same watermarks, sorted; a watermark that follows no row says nothing new."""
    groups: Timeline = []
    records: list[str] = []
    for element in harness.output:
        if isinstance(element, OutputRecord):
            records.append(repr((normalized(element.value), element.timestamp)))
        elif isinstance(element, Watermark):
            if records:
                groups.append((sorted(records), element.timestamp))
            elif groups:
                groups[-1] = (groups[-1][0], element.timestamp)
            records = []
    return [*groups, (sorted(records), None)]


def normalized(value: Any) -> Any:
    """Decimals without trailing zeros: columns have 18 of them."""
    if isinstance(value, Row):
        return [(name, normalized(value[name])) for name in value._fields or ()]
    return value.normalize() if isinstance(value, decimal.Decimal) else value
