"""Runs of rows through an operator that is stopped and restored at another parallelism, dealt out by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from runtime.core.batch import Mark
from runtime.core.keys import encode_key
from runtime.operators.operator import OperatorFactory
from runtime.state.key_groups import key_group_of, operator_index_for_key_group
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness, assert_same_when_rescaled, run_rescaling
from tests.operators.columnar.runs import ROWS, Run, feed

_LagStage = tuple[Run, bool]
"""Rows, and whether the second subtask does not get to know the watermark."""


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


def assert_columns_survive_lagging_watermarks(factory: OperatorFactory, parts: Sequence[Run]) -> None:
    """Check that an operator on ROWS gives the same in all if subtasks have come differently far in event time.

    As if an unaligned barrier overtook a watermark on its way to one subtask: the restored subtasks all begin at the
    least one, and are saved once more before they have caught up. No row is late, so that nothing depends on that.
    """
    whole: list[_LagStage] = []
    lagging: list[_LagStage] = []
    for number, (rows, times, _) in enumerate(parts):
        watermark = 20 * number
        on_time = [max(time + watermark, watermark + 1) for time in times]
        stage: Run = rows, on_time, [Mark(len(rows), watermark + 20)]
        whole.append((stage, False))
        lagging += [(stage, True), (([], [], []), False)]

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        return OneInputHarness(factory, None, parallelism, subtask, clock=clock, snapshot=snapshot, input_type=ROWS)

    def feed_all(harnesses: Sequence[OneInputHarness], stage: _LagStage) -> None:
        run, is_behind = stage
        for index, harness in enumerate(harnesses):
            rows, times, marks = part_of(run, index, len(harnesses))
            feed(harness, (rows, times, [] if is_behind and index == 1 else marks), cut=False)

    def all_of(stages: Sequence[_LagStage], parallelisms: Sequence[int]) -> Counter[str]:
        outputs = run_rescaling(stages, parallelisms, 128, create, feed_all)
        return sum((main for main, _ in outputs), Counter())

    expected = all_of(whole, [1, *[0] * (len(whole) - 1)])
    found = all_of(lagging, [2, 1] * len(parts))
    assert found == expected, f"lagging: missing {expected - found}, too many {found - expected}"
