"""Jobs whose tasks run in a random order, with checkpoints of all kinds, crashes and rescaling in between: every record
is counted exactly once. A seed that fails is run again by its number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.handles import CheckpointMetadata
from runtime.core.checkpoint_options import Alignment, SnapshotKind
from tests.task import test_task_checkpoints as jobs
from tests.task import test_task_checkpoints_edges as edges
from tests.task.checkpoint_rig import CheckpointRig

PROGRAMS = (edges.union, edges.two_inputs, edges.broadcast, edges.pointwise, edges.fan_out)
CRASHES = 3


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    jobs.OUT.clear()
    yield
    jobs.OUT.clear()


def way_of(choose: random.Random) -> dict[str, Any]:
    kind = choose.choice(list(SnapshotKind))
    if choose.random() < 0.2:
        return {"is_savepoint": True, "kind": SnapshotKind.CANONICAL}
    if choose.random() < 0.5:
        return {"alignment": Alignment.UNALIGNED, "kind": kind}
    return {"aligned_timeout_ms": choose.choice([None, 0, 5, 100]), "kind": kind}


def run(rig: CheckpointRig, choose: random.Random, first: int, until_finished: bool) -> list[int]:
    """Run for a while, or to the end; gives the checkpoints that were completed."""
    triggered: list[Any] = []
    completed: list[Any] = []
    tasks = [task for slot in rig.slots.values() for task in slot._tasks.all]
    turns = 0 if until_finished else choose.randint(20, 120)
    number = first
    for _ in range(turns):
        slot = choose.choice(list(rig.slots.values()))
        if choose.random() < 0.5:
            slot.step()
        else:
            # one task of it runs ahead of the others
            task = choose.choice(tasks)
            if task.state.name == "RUNNING":
                task.step()
        rig.route()
        rig.clock.advance(choose.choice([0, 0, 1, 20]))
        if choose.random() < 0.1 and len(triggered) - len(completed) < 2:
            rig.trigger(number, **way_of(choose))
            triggered.append(number)
            number += 1
        for pending in [n for n in triggered if n not in completed]:
            if rig.declined(pending):
                rig.abort(pending)
                triggered.remove(pending)
            elif rig.is_acknowledged(pending):
                rig.complete(pending)
                completed.append(pending)
            elif choose.random() < 0.02:
                rig.abort(pending)
                triggered.remove(pending)
    if until_finished:
        rig.step_until(rig.all_finished, 50_000)
    rig.check()
    return completed


def check_seed(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    build = choose.choice(PROGRAMS)
    metadata: CheckpointMetadata | None = None
    highest: dict[Any, int] = {}
    first = 1
    for attempt in range(CRASHES + 1):
        jobs.OUT.clear()
        program = edges.program(build, choose.randint(1, 3))
        window = choose.choice([500, 3_000, 20_000])
        rig = CheckpointRig(program, tmp_path / str(attempt), metadata, window_bytes=window).start()
        completed = run(rig, choose, first, attempt == CRASHES)
        if completed:
            metadata = rig.metadata(max(completed))
        first += 20
        rig.release()
        # the last word about a key is the last attempt's
        highest |= edges.totals()
    assert sum(highest.values()) == 2 * edges.COUNT, f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_counted_once(seed: int, tmp_path: Path) -> None:
    check_seed(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("decade", range(10))
def test_every_record_is_counted_once_with_many_seeds(decade: int, tmp_path: Path) -> None:
    for seed in range(100 + 10 * decade, 110 + 10 * decade):
        check_seed(seed, tmp_path / str(seed))
        jobs.OUT.clear()
