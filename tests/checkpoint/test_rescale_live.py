"""A running job is given other parallelisms while records flow: nothing is lost, doubled or done again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runtime.common import Types
from runtime.core.ids import VertexId
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.task.messages import TaskState
from tests.checkpoint.counting_program import PAIR, Count, Numbers
from tests.checkpoint.rescale_program import RULE_VALUES, Conduct, Everything, behave, run_to_the_end
from tests.checkpoint.running_jobs import JobClock, RunningJob, options_of

NO_COOLDOWN = {"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms"}
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "1 s",
}


@pytest.fixture(autouse=True)
def good_conduct() -> Iterator[None]:
    yield
    behave()


def everywhere(job: RunningJob, parallelism: int) -> Mapping[VertexId, int]:
    """Return that parallelism for all vertices but the one that is not parallel."""
    return {v.vertex_id: parallelism for v in job.graph.vertices if "rules" not in v.name}


def start(program: Everything, directory: Path, parallelism: int, backend: str = "hashmap", **more: str) -> RunningJob:
    """A slow job with little room, so that there are records everywhere when something happens to it."""
    clock = JobClock()
    Conduct.record_ms, Conduct.clock = 4.0, clock
    options = {**options_of(directory, backend), **NO_COOLDOWN, **RESTARTS, **more}
    options["taskmanager.network.memory.channel-window"] = "200 b"
    job = RunningJob(program.build, clock, parallelism, options).start()
    program.rules.let_through(len(RULE_VALUES))
    job.settle()
    return job


@pytest.mark.parametrize(
    ("backend", "is_unaligned"),
    [
        ("hashmap", "true"),
        pytest.param("hashmap", "false", marks=pytest.mark.slow),
        pytest.param("rocksdb", "true", marks=pytest.mark.slow),
        pytest.param("rocksdb", "false", marks=pytest.mark.slow),
    ],
)
def test_a_job_goes_up_and_down_while_records_flow(backend: str, is_unaligned: str, tmp_path: Path) -> None:
    program = Everything(tmp_path, batch_rows=4)
    unaligned = {"execution.checkpointing.unaligned.enabled": is_unaligned}
    with start(program, tmp_path, 2, backend, **unaligned) as job:
        for phase, parallelism in enumerate((4, 1, 3)):
            program.events.let_through(16 * (phase + 1))
            job.step(6 + 3 * phase)
            job.result(job.driver.rescale(everywhere(job, parallelism)))
            status = job.driver.status()
            assert status.state is JobState.RUNNING
            assert set(status.parallelism.values()) == {parallelism, 1}
        assert (job.driver.status().restarts, job.driver.status().exceptions) == (0, ())
        run_to_the_end(job, program)


def test_a_job_that_fails_after_rescaling_comes_back_with_the_new_parallelism(tmp_path: Path) -> None:
    program = Everything(tmp_path, events_per_split=30)
    with start(program, tmp_path, 1) as job:
        program.events.let_through(8)
        job.step(5)
        job.result(job.driver.rescale(everywhere(job, 3)))
        Conduct.crashes = True
        program.events.let_through(16)
        job.step_until(lambda: job.driver.status().restarts == 1, "restart")
        job.start()
        assert set(job.driver.status().parallelism.values()) == {3, 1}
        run_to_the_end(job, program)


def test_a_job_that_fails_while_it_is_rescaled_goes_on(tmp_path: Path) -> None:
    program = Everything(tmp_path, events_per_split=30)
    with start(program, tmp_path, 1) as job:
        job.answer(job.driver.trigger_checkpoint())
        # the barrier will be behind records, one of which is the last that the attempt sees
        Conduct.record_ms = 25.0
        program.events.let_through(20)
        job.step(4)
        Conduct.crashes = True
        answer = job.driver.rescale(everywhere(job, 2))
        with pytest.raises(JobRequestError, match=r"no checkpoint could be taken to rescale from.*power cut"):
            job.result(answer)
        job.step_until(lambda: job.driver.status().restarts == 1, "restart")
        job.start()
        assert set(job.driver.status().parallelism.values()) == {1}
        job.result(job.driver.rescale(everywhere(job, 2)))
        run_to_the_end(job, program)


def test_a_rescaling_without_a_checkpoint_leaves_the_job_as_it_was(tmp_path: Path) -> None:
    program = Everything(tmp_path, events_per_split=30)
    with start(program, tmp_path, 2) as job:
        program.events.let_through(8)
        # nothing can be written to a directory that is a file
        root = tmp_path / "checkpoints"
        aside = root.rename(tmp_path / "aside")
        root.touch()
        with pytest.raises(JobRequestError, match=r"no checkpoint could be taken to rescale from"):
            job.result(job.driver.rescale(everywhere(job, 4)))
        status = job.driver.status()
        assert (status.state, status.attempt, status.restarts) == (JobState.RUNNING, 0, 0)
        assert set(status.parallelism.values()) == {2, 1}
        root.unlink()
        aside.rename(root)
        run_to_the_end(job, program)


def test_what_cannot_be_is_refused_and_the_job_runs_on(tmp_path: Path) -> None:
    program = Everything(tmp_path, events_per_split=6)
    with start(program, tmp_path, 2) as job:
        states = next(v for v in job.graph.vertices if v.name.startswith("states"))
        for parallelism, why in (
            ({VertexId("nobody"): 2}, "no vertex nobody"),
            ({states.vertex_id: states.max_parallelism + 1}, f"not in 1..{states.max_parallelism}"),
            ({states.vertex_id: 0}, "parallelism 0 is not in"),
            (everywhere(job, 2), None),
        ):
            answer = job.driver.rescale(parallelism)
            if why is None:
                job.result(answer)
            else:
                with pytest.raises(JobRequestError, match=why):
                    job.result(answer)
        assert job.driver.status().attempt == 0
        run_to_the_end(job, program)


def test_a_job_without_checkpoints_whose_subtasks_have_finished_is_rescaled_and_stopped(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    options = {**options_of(tmp_path), **NO_COOLDOWN}
    del options["execution.checkpointing.interval"]

    def build(env: StreamExecutionEnvironment) -> None:
        env.disable_operator_chaining()
        counted = numbers.stream(env).map(lambda pair: pair, output_type=PAIR).uid("same")
        numbers.deliver(counted.key_by(lambda pair: pair[0]).process(Count(Types.LONG())).uid("count"))

    with RunningJob(build, JobClock(), 1, options) as job:
        job.start()
        for parallelism in (3, 2):
            numbers.source.let_through(numbers.half // parallelism)
            job.settle()
            job.result(job.driver.rescale({v.vertex_id: parallelism for v in job.graph.vertices}))
            # one split, so all but one of the source's subtasks have nothing to do
            job.step_until(lambda: finished(job) == parallelism - 1, "subtasks without a split finish")  # noqa: B023
        job.answer(job.driver.trigger_checkpoint())
        job.answer(job.driver.trigger_savepoint())
        job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
        assert (job.state, job.driver.status().exceptions) == (JobState.FINISHED, ())


def finished(job: RunningJob) -> int:
    """Return the number of finished source subtasks."""
    tasks = [t for t in job.driver.status().tasks if "numbers" in t.name]
    return sum(t.state is TaskState.FINISHED for t in tasks)
