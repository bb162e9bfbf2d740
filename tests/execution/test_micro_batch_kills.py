"""Micro-batches whose process ends at any moment: the next goes on from the newest checkpoint, and output is exact."""

from __future__ import annotations

import gc
import tempfile
import warnings
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.execution.attempt_passes import LocalPasses
from runtime.execution.hosted_slots import HostedSlots
from runtime.execution.slot_host import MakePasses
from tests.checkpoint.running_jobs import KEEP_CHECKPOINTS, JobClock, RunningJob, checkpoints_in
from tests.execution.test_micro_batch import MICRO, counting, lines
from tests.support.shuffled_passes import ShuffledPasses

VALUES = ["abc"[(i * i) % 3] for i in range(40)]
EXPECTED = sorted(f"{value}:{n}" for value in "abc" for n in range(1, VALUES.count(value) + 1))


def killed_and_run(directory: Path, lives: list[int], parallelisms: list[int], backend: str) -> None:
    """Run a job that is left where it is after so many turns of its cluster, and begun anew; then to its end."""
    out, clock = directory / "out", JobClock()
    options = {
        **MICRO,
        **KEEP_CHECKPOINTS,
        "execution.micro-batch.max-rows": "6",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "state.backend.type": backend,
    }

    def begun(number: int) -> RunningJob:
        found = checkpoints_in(directory / "checkpoints")
        parallelism = parallelisms[number % len(parallelisms)]
        restore = found[-1].as_uri() if found else None
        return RunningJob(counting(VALUES, out), clock, parallelism, options, restore)

    for number, turns in enumerate(lives):
        job = begun(number)
        for _ in range(turns):
            if job.state.is_terminal:
                break
            job.cluster.step()
        if job.state.is_terminal:
            # it has deleted its checkpoints, or is about to: there is nothing to go on from, and no reason to
            job.run()
            break
        with warnings.catch_warnings():
            # a process that is killed closes no files
            warnings.simplefilter("ignore", ResourceWarning)
            del job
            gc.collect()
    else:
        begun(len(lives)).run()
    assert lines(out) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("make_passes", [LocalPasses, ShuffledPasses], ids=["in one process", "level by level"])
def test_a_job_that_is_killed_at_any_moment_goes_on(make_passes: MakePasses, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = partial(HostedSlots, make_passes=make_passes)
    monkeypatch.setattr("runtime.execution.mini_cluster.HostedSlots", slots)

    @settings(max_examples=25, deadline=None)
    @given(
        lives=st.lists(st.integers(1, 60), min_size=1, max_size=5),
        parallelisms=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        backend=st.sampled_from(["hashmap", "rocksdb"]),
    )
    def check(lives: list[int], parallelisms: list[int], backend: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            killed_and_run(Path(directory), lives, parallelisms, backend)

    check()
