"""Anything may happen to a job at any moment: crashes, rescalings, stops, other backends; what it delivers is the same.

Each case is replayed by its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from runtime.core.checkpoint_options import SnapshotKind
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from tests.checkpoint.edges_program import Edges
from tests.checkpoint.rescale_program import Conduct, behave, difference
from tests.checkpoint.running_jobs import JobClock, RunningJob, checkpoints_in, options_of

EVENTS = 40


@pytest.fixture(autouse=True)
def good_conduct() -> Iterator[None]:
    yield
    behave()


def random_options(random: Random, directory: Path) -> dict[str, str]:
    options = options_of(directory, random.choice(["hashmap", "hashmap", "rocksdb"]))
    options["execution.checkpointing.unaligned.enabled"] = random.choice(["true", "true", "false"])
    options["execution.checkpointing.aligned-checkpoint-timeout"] = random.choice(["0 ms", "0 ms", "40 ms"])
    options["execution.checkpointing.incremental"] = random.choice(["true", "false"])
    options["execution.checkpointing.interval"] = random.choice(["1 h", "200 ms"])
    options["execution.checkpointing.num-retained"] = random.choice(["1", "3"])
    options["taskmanager.network.memory.channel-window"] = random.choice(["64 b", "300 b", "1 mb"])
    options["jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"] = "0 ms"
    options["pipeline.object-reuse"] = random.choice(["true", "false"])
    return options


def act(job: RunningJob, random: Random, directory: Path) -> str | None:
    """Let something happen; where the job that follows goes on from, if this one has ended."""
    match random.choice(["wait", "crash", "rescale", "checkpoint", "savepoint", "suspend", "cancel", "cancel behind"]):
        case "crash":
            Conduct.crashes = True
        case "rescale":
            parallelism = random.randint(1, 4)
            answer = job.driver.rescale({v.vertex_id: parallelism for v in job.graph.vertices})
            try:
                job.result(answer)
            except JobRequestError as error:
                assert is_of_a_crash(error), error
        case "checkpoint":
            answer_or_crash(job, AfterSavepoint.GO_ON, None)
        case "savepoint":
            answer_or_crash(job, AfterSavepoint.GO_ON, SnapshotKind.CANONICAL)
        case "suspend":
            return answer_or_crash(job, AfterSavepoint.SUSPEND, random.choice([*SnapshotKind][:2]))
        case "cancel behind":
            return answer_or_crash(job, AfterSavepoint.CANCEL, SnapshotKind.CANONICAL)
        case "cancel":
            if answer_or_crash(job, AfterSavepoint.GO_ON, None) is not None:
                job.cancel()
                # perhaps a newer one than that
                return checkpoints_in(directory / job.graph.job_id)[-1].as_uri()
    return None


def answer_or_crash(job: RunningJob, after: AfterSavepoint, kind: SnapshotKind | None) -> str | None:
    """A snapshot's place; None: the job has crashed before it was complete. `kind` None = a checkpoint."""
    try:
        if kind is None:
            return job.answer(job.driver.trigger_checkpoint())
        location = job.answer(job.driver.trigger_savepoint(after=after, kind=kind))
    except JobRequestError as error:
        assert is_of_a_crash(error), error
        return None
    if after is AfterSavepoint.CANCEL:
        job.run(JobState.CANCELED)
    return location if after is not AfterSavepoint.GO_ON else None


def is_of_a_crash(error: JobRequestError) -> bool:
    """Return whether a request failed because the job has crashed or is restarting."""
    return any(why in str(error) for why in ("power cut", "only a running one", "not all tasks of the job are running"))


@pytest.mark.parametrize("seed", [0, 1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 25)]])
def test_whatever_happens_the_output_is_the_same(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    program, clock = Edges(tmp_path, EVENTS), JobClock()
    location: str | None = None
    limit = 0
    for _ in range(3):
        options = random_options(random, tmp_path)
        with RunningJob(program.build, clock, random.randint(1, 4), options, location).start() as job:
            Conduct.clock = clock
            ended: str | None = None
            for _ in range(5):
                Conduct.record_ms = random.choice([0.0, 5.0, 25.0])
                limit = min(EVENTS, limit + random.randint(0, 5))
                program.let_through(limit)
                job.step(random.randint(0, 15))
                ended = act(job, random, tmp_path / "checkpoints")
                if ended is not None:
                    break
            behave()
            if ended is None:
                job.start()
                ended = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
            location = ended
    with RunningJob(program.build, clock, 2, random_options(random, tmp_path), location) as job:
        program.end()
        job.run()
    wrong = difference(program.delivered(), program.expected())
    assert not wrong, wrong
