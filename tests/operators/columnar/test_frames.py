"""Frames as Arrow columns."""

from __future__ import annotations

import polars as pl

from runtime.operators.columnar.frames import arrow_of


def test_lists_of_texts_that_are_all_empty_become_columns() -> None:
    frame = pl.DataFrame({"texts": [["a"], []], "n": [1, 2]})
    for _ in range(2):
        frame = pl.concat([frame[:1], frame[-1:]])
    empty = arrow_of(frame[[1]])
    assert empty.to_pylist() == [{"texts": [], "n": 2}]
    assert empty.schema == arrow_of(frame[[0]]).schema
