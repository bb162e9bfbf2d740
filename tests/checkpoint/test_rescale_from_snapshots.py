"""Rescaling 1 → 2 → 4 → 3 → 1 from snapshots of every kind: state as in the model each time, output exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.core.checkpoint_options import SnapshotKind
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from tests.checkpoint.rescale_program import (
    EVENT_TIMER_MS,
    PROCESSING_TIMER_AT_MS,
    RULE_VALUES,
    Conduct,
    Everything,
    behave,
    run_to_the_end,
)
from tests.checkpoint.running_jobs import JobClock, RunningJob, options_of

PARALLELISMS = (1, 2, 4, 3, 1)


@pytest.fixture(autouse=True)
def good_conduct() -> Iterator[None]:
    yield
    behave()


def rows_of(reader: SavepointReader, operator: str, state: str) -> dict[Any, Any]:
    """A keyed state, by key."""
    frame = reader.keyed_state(operator, state)
    found = dict(zip(frame["key"].to_list(), frame["value"].to_list(), strict=True))
    assert len(found) == len(frame)
    return found


def check_state(program: Everything, location: str, limit: int, parallelism: int) -> None:
    """Check that a snapshot holds the model's state after the first `limit` events of each split."""
    reader = SavepointReader.read(location)
    model = program.by_key(limit)
    assert {o.uid: o.parallelism for o in reader.operators()}["states"] == parallelism
    assert rows_of(reader, "states", "count") == {key: len(numbers) for key, numbers in model.items()}
    assert rows_of(reader, "ruled", "count") == {key: len(numbers) for key, numbers in model.items()}
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
    rules = reader.operator_state("ruled", "rules")
    assert set(rules["subtask"].to_list()) == set(range(parallelism))
    assert sorted(rules.select("key", "value").rows()) == sorted(RULE_VALUES * parallelism)
    items = reader.operator_state("buffer", "items")["value"].to_list()
    assert sorted(tuple(item.values()) for item in items) == sorted(program.events.emitted(limit))
    counts = reader.operator_state("buffer", "counts")
    assert counts["subtask"].to_list() == list(range(parallelism))
    assert counts["value"].sum() == len(program.events.emitted(limit))


def as_dict(value: Any) -> dict[Any, Any]:
    return dict(value) if isinstance(value, dict) else {pair["key"]: pair["value"] for pair in value}


def check_running_state(program: Everything, job: RunningJob, limit: int, parallelism: int) -> None:
    """Check as `check_state` does, for a job that continues."""
    check_state(program, job.answer(job.driver.trigger_savepoint()), limit, parallelism)


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


FORMS = ("savepoint", "native savepoint", "checkpoint", "incremental checkpoint")


@pytest.mark.parametrize(
    ("kind", "backend", "parallelisms"),
    [
        ("savepoint", "hashmap", PARALLELISMS),
        ("checkpoint", "rocksdb", (1, 3, 2)),
        *[
            pytest.param(kind, backend, PARALLELISMS, marks=pytest.mark.slow)
            for kind in FORMS
            for backend in ("hashmap", "rocksdb")
            if (kind, backend) != ("savepoint", "hashmap")
        ],
    ],
    ids=str,
)
def test_state_is_the_same_at_every_parallelism(
    kind: str, backend: str, parallelisms: tuple[int, ...], tmp_path: Path
) -> None:
    program, clock = Everything(tmp_path), JobClock()
    options = options_of(tmp_path, backend)
    if kind == "incremental checkpoint":
        options["execution.checkpointing.incremental"] = "true"
    location: str | None = None
    for phase, parallelism in enumerate(parallelisms):
        with RunningJob(program.build, clock, parallelism, options, location).start() as job:
            program.rules.let_through(len(RULE_VALUES))
            job.settle()
            if phase == len(parallelisms) - 1:
                run_to_the_end(job, program)
                return
            Conduct.holds_answers = phase % 2 == 1
            limit = 11 * (phase + 1)
            program.events.let_through(limit)
            job.settle()
            location = leave(job, kind)
        check_state(program, location, limit, parallelism)


UNALIGNED = {
    "execution.checkpointing.unaligned.enabled": "true",
    # so narrow that nearly all that is let through waits in channels and before them
    "taskmanager.network.memory.channel-window": "64 b",
}


@pytest.mark.parametrize(
    ("backend", "more"),
    [
        pytest.param("hashmap", {}, id="hashmap"),
        pytest.param("rocksdb", {}, id="rocksdb", marks=pytest.mark.slow),
        pytest.param(
            "hashmap",
            {"execution.checkpointing.aligned-checkpoint-timeout": "30 ms"},
            id="aligned with a timeout",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "rocksdb", {"execution.checkpointing.incremental": "true"}, id="incremental", marks=pytest.mark.slow
        ),
    ],
)
def test_records_in_flight_go_to_whoever_has_their_key_now(backend: str, more: dict[str, str], tmp_path: Path) -> None:
    program, clock = Everything(tmp_path, batch_rows=4), JobClock()
    options = {**options_of(tmp_path, backend), **UNALIGNED, **more}
    location: str | None = None
    limit = in_flight = 0
    for phase, parallelism in enumerate(PARALLELISMS):
        with RunningJob(program.build, clock, parallelism, options, location).start() as job:
            if phase == 0:
                program.rules.let_through(len(RULE_VALUES))
            # what was in flight arrives, at this parallelism, and nothing else
            job.settle()
            if phase:
                check_running_state(program, job, limit, parallelism)
            if phase == len(PARALLELISMS) - 1:
                run_to_the_end(job, program)
                assert in_flight >= 3
                return
            Conduct.record_ms, Conduct.clock = 25.0, clock
            Conduct.holds_answers = phase % 2 == 1
            limit = 12 * (phase + 1)
            program.events.let_through(limit)
            job.step(12)
            location = leave(job, "checkpoint")
            behave()
        in_flight += bool(SavepointReader.read(location).metadata.channels)
