"""Every operator that drops late records shows them, with the watermark that had passed their time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common import Time, Types
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.datastream import ProcessJoinFunction
from runtime.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from runtime.operators.columnar.late_rows import LateRows
from runtime.operators.late_records import LateRecords
from runtime.testing import harness_of, two_input_harness_of

ROW = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])
WINDOWS = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


class Taking:
    """Takes every record."""

    def __init__(self) -> None:
        self.count = 0
        self.taken: list[tuple[Any, TypeInformation | None, int, int]] = []

    def dropped(self, num_records: int) -> bool:
        self.count += num_records
        return True

    def take(self, value: Any, type_info: TypeInformation | None, timestamp: int, watermark: int) -> None:
        self.taken.append((tuple(value), type_info, timestamp, watermark))


def watched(operator: Any) -> Taking:
    """Have the samples of an operator taken."""
    taking = Taking()
    for late in _late_of(operator):
        late._sampler = taking
    return taking


def _late_of(operator: Any) -> Iterator[LateRecords]:
    late = operator._late
    for each in late if isinstance(late, list) else [late]:
        yield each._late if isinstance(each, LateRows) else each


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left, right


#: by column with lateness: else the harness would have to run a local aggregate, too
ONE_INPUT = {
    "reduce": lambda s: s.key_by(lambda row: row[0]).window(WINDOWS).reduce(lambda a, b: a),
    "session": lambda s: s.key_by(lambda row: row[0]).window(SESSIONS).reduce(lambda a, b: a),
    "columns": lambda s: s.key_by_columns("k").window(WINDOWS).allowed_lateness(5).aggregate_columns("sum(n) AS n"),
    "session columns": lambda s: (
        s.key_by_columns("k").window(SESSIONS).allowed_lateness(5).aggregate_columns("sum(n) AS n")
    ),
}


@pytest.mark.parametrize("name", ONE_INPUT)
def test_windows_show_what_they_drop(name: str) -> None:
    with harness_of(ONE_INPUT[name], input_type=ROW) as harness:
        taking = watched(harness.operator)
        harness.process([Row("a", 1)], timestamps=[5])
        harness.process_watermark(100)
        assert taking.count == 0
        harness.process([Row("b", 2), Row("a", 3)], timestamps=[200, 7])
    [(value, type_info, timestamp, watermark)] = taking.taken
    assert (taking.count, value, timestamp, watermark) == (1, ("a", 3), 7, 100)
    assert isinstance(type_info, RowTypeInfo) and list(type_info.field_names) == ["k", "n"]


TWO_INPUTS = {
    "interval": lambda a, b: a.interval_join(b).between(Time.milliseconds(-5), Time.milliseconds(5)).process(Pairs()),
    "temporal": lambda a, b: a.temporal_join(b).process(Pairs()),
}


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_joins_show_what_they_drop(name: str) -> None:
    def build(left: Any, right: Any) -> Any:
        return TWO_INPUTS[name](left.key_by(lambda row: row[0]), right.key_by(lambda row: row[0]))

    with two_input_harness_of(build, input_types=(ROW, ROW)) as harness:
        taking = watched(harness.operator)
        harness.process_both_watermarks(100)
        harness.process1([("a", 1), ("a", 2)], timestamps=[7, 200])
    [(value, type_info, timestamp, watermark)] = taking.taken
    assert (taking.count, value, timestamp, watermark) == (1, ("a", 1), 7, 100)
    assert isinstance(type_info, RowTypeInfo) and list(type_info.field_names) == ["k", "n"]
