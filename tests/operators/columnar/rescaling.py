"""Runs of rows through an operator that is stopped and restored at another parallelism, dealt out by key."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.batch import Mark
from runtime.core.keys import encode_key
from runtime.operators.operator import OperatorFactory
from runtime.state.key_groups import key_group_of, operator_index_for_key_group
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness, assert_same_when_rescaled, run_rescaling
from tests.operators.columnar.runs import ROWS, Run, feed


def lifted(parts: Sequence[Run], step: int = 20) -> list[Run]:
    """Runs of which each goes on in event time where the one before stopped."""
    stages: list[Run] = []
    for number, (rows, times, marks) in enumerate(parts):
        ahead = number * step
        stages.append((rows, [t + ahead for t in times], [Mark(o, w + ahead) for o, w in marks]))
    return stages


def part_of(run: Run, index: int, parallelism: int) -> Run:
    """Return a subtask's part of a run: the rows of its keys, and all marks at their places between them."""
    rows, times, marks = run
    mine = [
        place
        for place, row in enumerate(rows)
        if operator_index_for_key_group(128, parallelism, key_group_of(encode_key(row["key"]), 128)) == index
    ]
    own_marks = [Mark(sum(place < offset for place in mine), watermark) for offset, watermark in marks]
    return [rows[i] for i in mine], [times[i] for i in mine], own_marks


def assert_columns_survive_rescaling(factory: OperatorFactory, parts: Sequence[Run]) -> None:
    """Check that an operator on ROWS, keyed by `key`, gives the same at 1 -> 2 -> 1; at least 3 parts."""

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        return OneInputHarness(factory, None, parallelism, subtask, clock=clock, snapshot=snapshot, input_type=ROWS)

    def feed_all(harnesses: Sequence[OneInputHarness], stage: Run) -> None:
        for index, harness in enumerate(harnesses):
            feed(harness, part_of(stage, index, len(harnesses)), cut=False)

    stages = lifted(parts)
    assert_same_when_rescaled(
        len(stages), lambda parallelisms: run_rescaling(stages, parallelisms, 128, create, feed_all)
    )
