"""Rescaling 1 → 2 → 4 → 3 → 1 from snapshots of every kind: state as in the model each time, output exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.core.checkpointing import SnapshotKind
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from tests.checkpoint.rescale_program import (
    EVENT_TIMER_MS,
    PROCESSING_TIMER_AT_MS,
    RULE_VALUES,
    AsyncGate,
    Everything,
    Slowness,
    difference,
)
from tests.checkpoint.running_jobs import KEEP_CHECKPOINTS, JobClock, RunningJob

PARALLELISMS = (1, 2, 4, 3, 1)
BACKENDS = ("hashmap", "rocksdb")


@pytest.fixture(autouse=True)
def fast_and_open() -> Iterator[None]:
    yield
    Slowness.record_ms, Slowness.clock, AsyncGate.is_shut = 0.0, None, False


def options_of(directory: Path, backend: str, **more: str) -> dict[str, str]:
    return {
        "state.backend.type": backend,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (directory / "savepoints").as_uri(),
        "taskmanager.network.memory.channel-window": "1 mb",
        **KEEP_CHECKPOINTS,
        **more,
    }


def rows_of(reader: SavepointReader, operator: str, state: str) -> dict[Any, Any]:
    """A keyed state, by key."""
    frame = reader.keyed_state(operator, state)
    found = dict(zip(frame["key"].to_list(), frame["value"].to_list(), strict=True))
    assert len(found) == len(frame)
    return found


def check_state(program: Everything, location: str, limit: int, parallelism: int) -> None:
    """What a snapshot holds is what the model keeps of the first `limit` events of each split."""
    reader = SavepointReader.read(location)
    model = program.by_key(limit)
    assert {o.uid: o.parallelism for o in reader.operators()}["states"] == parallelism
    assert rows_of(reader, "states", "count") == {key: len(numbers) for key, numbers in model.items()}
    assert rows_of(reader, "states", "numbers") == model
    assert rows_of(reader, "states", "sum") == {key: sum(numbers) for key, numbers in model.items()}
    assert rows_of(reader, "states", "largest") == {key: max(numbers) for key, numbers in model.items()}
    by_rule = {key: {n % 3: n for n in numbers} for key, numbers in model.items()}
    assert {key: as_dict(value) for key, value in rows_of(reader, "states", "by_rule").items()} == by_rule
    timers = reader.timers("states")
    # each split has told its last event as its watermark, and the least of them counts
    watermark = min(split[limit - 1][1] for split in program.events.splits)
    pending = [
        (key, at + EVENT_TIMER_MS)
        for split in program.events.splits
        for (key, _), at in split[:limit]
        if at + EVENT_TIMER_MS > watermark
    ]
    found = timers.filter("is_event_time").select("key", "timestamp").rows()
    assert sorted(found) == sorted(pending)
    due = [(key, PROCESSING_TIMER_AT_MS + 3_600_000 * n + key) for key, numbers in model.items() for n in numbers]
    assert sorted(timers.filter(~timers["is_event_time"]).select("key", "timestamp").rows()) == sorted(due)
    rules = reader.operator_state("states", "rules")
    assert set(rules["subtask"].to_list()) == set(range(parallelism))
    assert sorted(rules.select("key", "value").rows()) == sorted(RULE_VALUES * parallelism)
    items = reader.operator_state("buffer", "items")["value"].to_list()
    assert sorted(tuple(item.values()) for item in items) == sorted(program.events.emitted(limit))
    counts = reader.operator_state("buffer", "counts")
    assert counts["subtask"].to_list() == list(range(parallelism))
    assert counts["value"].sum() == len(program.events.emitted(limit))


def as_dict(value: Any) -> dict[Any, Any]:
    return dict(value) if isinstance(value, dict) else {pair["key"]: pair["value"] for pair in value}


def leave(job: RunningJob, kind: str) -> str:
    """End a job behind a snapshot; where that is."""
    match kind:
        case "savepoint" | "native savepoint":
            form = SnapshotKind.CANONICAL if kind == "savepoint" else SnapshotKind.FULL
            location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND, kind=form))
            job.run(JobState.FINISHED)
        case _:
            location = job.answer(job.driver.trigger_checkpoint())
            job.cancel()
    return location


def run_to_the_end(job: RunningJob, program: Everything) -> None:
    """All that is left: the last events, the timers of processing time, the end of the input."""
    AsyncGate.is_shut, Slowness.record_ms = False, 0.0
    program.events.let_through(10**6)
    job.settle()
    job.clock.advance(PROCESSING_TIMER_AT_MS + 10**9 - job.clock.now_ms())
    job.settle()
    program.events.end()
    program.rules.end()
    job.run()
    assert difference(program.delivered(), program.expected()) == ""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind",
    [
        "savepoint",
        "checkpoint",
        pytest.param("native savepoint", marks=pytest.mark.slow),
        pytest.param("incremental checkpoint", marks=pytest.mark.slow),
    ],
)
def test_state_is_the_same_at_every_parallelism(kind: str, backend: str, tmp_path: Path) -> None:
    program, clock = Everything(tmp_path), JobClock()
    options = options_of(tmp_path, backend)
    if kind == "incremental checkpoint":
        options["execution.checkpointing.incremental"] = "true"
    location: str | None = None
    for phase, parallelism in enumerate(PARALLELISMS):
        with RunningJob(program.build, clock, parallelism, options, location).start() as job:
            program.rules.let_through(len(RULE_VALUES))
            job.settle()
            if phase == len(PARALLELISMS) - 1:
                run_to_the_end(job, program)
                return
            AsyncGate.is_shut = phase % 2 == 1
            limit = 11 * (phase + 1)
            program.events.let_through(limit)
            job.settle()
            location = leave(job, kind)
        check_state(program, location, limit, parallelism)
