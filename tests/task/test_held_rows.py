"""HeldRows: what an input holds until it has ended comes back complete and in order, also from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.keys import encode_key
from runtime.task.held_rows import HeldRows, batches_of, merged

PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
Pair = tuple[str, int]


def first_fields(batch: RecordBatch) -> list[Any]:
    return [value[0] for value in batch.values()]


def batch(rows: list[tuple[str, int, int]]) -> RecordBatch:
    """Return a batch of (key, number) with event times."""
    values = [(key, number) for key, _, number in rows]
    return RecordBatch.of_values(values, [time for _, time, _ in rows], (), PAIRS)


def by_key(held: HeldRows) -> list[tuple[str, int, int]]:
    return [(row.value[0], row.order[1], row.value[1]) for row in held.by_key()]


#: key and event time of each row; its number says when it arrived
keyed_times = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=60)


@pytest.mark.parametrize("record_type", [None, PAIRS], ids=["objects", "typed"])
@settings(max_examples=30, deadline=None)
@given(rows=keyed_times, batch_rows=st.integers(1, 9), max_bytes=st.sampled_from([1, 100, 1 << 20]))
def test_rows_come_key_by_key_by_time_and_by_arrival(
    tmp_path_factory: pytest.TempPathFactory,
    record_type: TypeInformation | None,
    rows: list[tuple[str, int]],
    batch_rows: int,
    max_bytes: int,
) -> None:
    directory = tmp_path_factory.mktemp("held")
    numbered = [(key, time, number) for number, (key, time) in enumerate(rows)]
    held = HeldRows(record_type, first_fields, lambda: directory, max_bytes)
    for start in range(0, len(numbered), batch_rows):
        held.add(batch(numbered[start : start + batch_rows]))
    assert held.num_files == len(list(directory.iterdir()))
    assert bool(held.num_files) is (max_bytes == 1 and bool(rows)) or max_bytes == 100
    assert by_key(held) == sorted(numbered, key=lambda row: (encode_key(row[0]), row[1], row[2]))
    assert not list(directory.iterdir())


@settings(max_examples=30, deadline=None)
@given(rows=keyed_times, max_bytes=st.sampled_from([1, 1 << 20]))
def test_without_keys_rows_come_as_they_came(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], max_bytes: int
) -> None:
    directory = tmp_path_factory.mktemp("held")
    numbered = [(key, time, number) for number, (key, time) in enumerate(rows)]
    held = HeldRows(PAIRS, None, lambda: directory, max_bytes)
    for row in numbered:
        held.add(batch([row]))
    found = [value for part in held.in_order() for value in part.values()]
    assert found == [(key, number) for key, _, number in numbered]
    assert not list(directory.iterdir())


def test_marks_are_left_out_and_keys_are_given(tmp_path: Path) -> None:
    held = HeldRows(PAIRS, first_fields, lambda: tmp_path, 1 << 20)
    held.add(batch([("b", 1, 0), ("a", 2, 1)]).with_marks([Mark(2, 5)]))
    [part] = batches_of(held.by_key(), PAIRS)
    assert (part.values(), part.keys, part.timestamps(), list(part.marks)) == (
        [("a", 1), ("b", 0)],
        ["a", "b"],
        [2, 1],
        [],
    )


@settings(max_examples=30, deadline=None)
@given(left=keyed_times, right=keyed_times)
def test_inputs_that_are_keyed_alike_are_merged(
    tmp_path_factory: pytest.TempPathFactory, left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("held")
    expected: list[tuple[bytes, int, int, int]] = []
    inputs = []
    for index, rows in enumerate((left, right)):
        held = HeldRows(PAIRS, first_fields, lambda: directory, 200)
        for number, (key, time) in enumerate(rows):
            held.add(batch([(key, time, number)]))
            expected.append((encode_key(key), time, index, number))
        inputs.append((index, held, PAIRS))
    found = [
        (encode_key(value[0]), time, given.input_index, value[1])
        for given in merged(inputs)
        for value, time in zip(given.batch.values(), given.batch.timestamps() or (), strict=True)
    ]
    assert found == sorted(expected)
