"""Regular joins by column against loops over all pairs of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings

from runtime.common import Configuration, Row, RowKind, options
from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import MAX_WATERMARK, Watermark
from runtime.core.keys import encode_key
from runtime.datastream import StreamExecutionEnvironment
from runtime.operators.columnar import key_joins
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.regular_join import RegularJoinOperatorFactory
from runtime.state.key_groups import key_group_of, operator_index_for_key_group
from runtime.state.redistribution import redistribute
from runtime.testing.two_input_harness import TwoInputHarness
from tests.operators.columnar.runs import batch_of, normalized
from tests.operators.columnar.test_column_joins import SIDES, Step, batch_for, joined, lifted, right_row, steps

FACTORY = RegularJoinOperatorFactory(SIDES)
SELLERS = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
SOLD = Types.ROW_NAMED(["id", "seller"], [Types.LONG(), Types.LONG()])


def pairs_of(found: list[Step]) -> Iterator[Row]:
    """Every pair of rows with equal keys, of which null equals null."""
    rows: tuple[list[Row], list[Row]] = ([], [])
    for side, (values, _, _) in found:
        rows[side].extend(values)
    for left in rows[0]:
        for right in map(right_row, rows[1]):
            if encode_key(left["key"]) == encode_key(right["key"]):
                yield joined(left, right)


def shown(rows: Any) -> Counter[str]:
    return Counter(repr(normalized(row)) for row in rows)


def emitted(harness: TwoInputHarness) -> Counter[str]:
    return shown(value for value, _ in harness.records)


@settings(max_examples=40, deadline=None)
@given(found=steps(8, 10))
def test_every_pair_of_equal_keys_is_emitted_once(found: list[Step]) -> None:
    with TwoInputHarness(FACTORY) as harness:
        for side, run in lifted(found):
            harness.operator.inputs[side].process_batch(batch_for(side, run))
        assert emitted(harness) == shown(pairs_of(found))
        assert {timestamp for _, timestamp in harness.records} <= {None}


@settings(max_examples=25, deadline=None)
@given(before=steps(5, 8), after=steps(5, 8))
def test_rows_survive_a_savepoint_at_any_parallelism(before: list[Step], after: list[Step]) -> None:
    found = before + after
    with TwoInputHarness(FACTORY) as harness:
        for side, run in before:
            harness.operator.inputs[side].process_batch(batch_for(side, run))
        total = emitted(harness)
        saved = harness.snapshot()
    for subtask, part in enumerate(redistribute([saved], 3, 128)):
        with TwoInputHarness(FACTORY, (None, None), 3, subtask, snapshot=part) as harness:
            for side, (rows, times, _) in after:
                groups = [key_group_of(encode_key(row["key"]), 128) for row in rows]
                own = [n for n, group in enumerate(groups) if operator_index_for_key_group(128, 3, group) == subtask]
                run = ([rows[n] for n in own], [times[n] for n in own], [])
                harness.operator.inputs[side].process_batch(batch_for(side, run))
            total += emitted(harness)
    assert total == shown(pairs_of(found))


def test_a_key_with_many_partners_is_joined_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_joins, "MAX_PAIRS", 7)
    left = [Row(id=number, seller=1) for number in range(5)]
    right = [Row(id=1, name=str(number)) for number in range(4)]
    factory = RegularJoinOperatorFactory(JoinSides((SOLD, SELLERS), (("seller",), ("id",))))
    with TwoInputHarness(factory) as harness:
        harness.operator.inputs[1].process_batch(RecordBatch.of_values(right, None, (), SELLERS))
        harness.operator.inputs[0].process_batch(RecordBatch.of_values(left, None, (), SOLD))
        sizes = [batch.num_rows for batch, _ in harness.batches]
        names = [value["name"] for value, _ in harness.records]
    assert sum(sizes) == 20
    assert max(sizes) <= 8
    assert names == ["0", "1", "2", "3"] * 5


def test_watermarks_pass_behind_the_rows_before_them() -> None:
    rows = [Row(id=1, seller=1)]
    factory = RegularJoinOperatorFactory(JoinSides((SOLD, SOLD), (("seller",), ("seller",))))
    with TwoInputHarness(factory) as harness:
        harness.operator.inputs[0].process_batch(RecordBatch.of_values(rows, [5], [Mark(0, 3), Mark(1, 7)], SOLD))
        harness.operator.inputs[1].process_batch(RecordBatch.of_values(rows, [1], [Mark(1, 4)], SOLD))
        assert [type(element).__name__ for element in harness.output] == ["OutputRecord", "Watermark"]
        assert harness.output[-1] == Watermark(4)
        harness.process_both_watermarks(MAX_WATERMARK)
        assert harness.output[-1] == Watermark(MAX_WATERMARK)


def test_updates_are_refused() -> None:
    row = Row(number=1, text="a", amount=1.0, key="k")
    row.set_row_kind(RowKind.DELETE)
    with TwoInputHarness(FACTORY) as harness, pytest.raises(ChangelogInputError, match="inserts only"):
        harness.operator.inputs[0].process_batch(batch_of([row], [0], (), as_columns=False))


def test_its_state_is_not_taken_for_that_of_an_interval_join() -> None:
    other = ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(SIDES, -5, 5))
    assert other.state_content != FACTORY.state_content


def test_streams_are_joined_by_columns() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({options.EXECUTION_TARGET.key: "mini-cluster"})
    )
    sold = env.from_collection([Row(id=n, seller=n % 3) for n in range(6)], SOLD)
    sellers = env.from_collection([Row(id=1, name="ann"), Row(id=2, name="bob")], SELLERS)
    made = sold.key_by_columns("seller").regular_join(sellers.key_by_columns("id"), suffix="_of_seller")
    assert cast("RowTypeInfo", made.get_type()).field_names == ("id", "seller", "id_of_seller", "name")
    with made.select("id", "name").execute_and_collect() as results:
        assert sorted((row["id"], row["name"]) for row in results) == [(1, "ann"), (2, "bob"), (4, "ann"), (5, "bob")]


def test_a_column_name_that_is_taken_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    left = env.from_collection([], Types.ROW_NAMED(["id", "id_right"], [Types.LONG(), Types.LONG()]))
    right = env.from_collection([], SELLERS)
    with pytest.raises(ColumnExpressionError, match="choose another suffix"):
        left.key_by_columns("id").regular_join(right.key_by_columns("id"))
    with pytest.raises(TypeError, match="regular_join"):
        left.key_by_columns("id").regular_join(right)  # type: ignore[arg-type]
