"""Consequences of a failure, decided without a machine."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.ids import SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.decisions import Decision
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.failover import Failover, RestartDecision
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT
from runtime.jobmaster.operations import JobOperations
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.regions import RegionOwner, RegionRestarts
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.task.messages import FailureInfo, JobMasterMessage
from tests.jobmaster.simulation import keyed_job, two_pipelines

BROKEN = FailureInfo("ValueError: bad record")


class Job:
    """A job that runs, as far as a decision about its failure asks."""

    def __init__(self, graph: JobGraph, restarts_regions: bool = True, restarts: int = 1) -> None:
        self.journal = Journal()
        self.journal.begin(5_000)
        decisions: list[Decision] = []
        coordinator = CheckpointCoordinator(CheckpointSettings(), graph.job_id, None)
        checkpoints = JobCheckpoints(coordinator, self._send, lambda done: None, decisions.append, self.journal)
        self.operations = JobOperations(checkpoints, None, decisions.append, self.journal)
        strategy = FixedDelay(restarts, 1_000)
        self.failover = Failover(strategy, restarts_regions, checkpoints, self.operations, self.journal)
        self.run = AttemptRun(graph, FIRST_ATTEMPT, self.journal)
        self.run.phase = Phase.STARTED
        owner = RegionOwner(lambda: None, lambda region: False, lambda region, cause: None)
        self.regions = RegionRestarts(self.run, JobMasterOptions(), owner, self.journal)

    def _send(self, slots: Iterable[SlotId] | None, message: JobMasterMessage) -> None:
        raise AssertionError("a decision says nothing to slots")

    def fail(self, cause: FailureInfo = BROKEN, slot: int | None = 0, is_working: bool = True) -> RestartDecision:
        where = None if slot is None else SlotId(slot)
        return self.failover.decide(cause, where, self.run, self.regions, is_working)

    def region_of(self, slot: int) -> Region:
        return self.run.execution.region_of(SlotId(slot))


def test_the_restart_strategy_says_when_until_it_gives_up() -> None:
    job = Job(keyed_job())
    assert job.fail() == RestartDecision(BROKEN, 6_000)
    assert job.fail() == RestartDecision(BROKEN, None)


def test_the_region_of_the_failed_slot_restarts_alone() -> None:
    job = Job(two_pipelines())
    assert job.fail(slot=1) == RestartDecision(BROKEN, 6_000, region=job.region_of(1))


@pytest.mark.parametrize(
    ("job", "failure"),
    [
        (Job(keyed_job()), {}),
        (Job(two_pipelines(), restarts_regions=False), {}),
        (Job(two_pipelines()), {"slot": None}),
        (Job(two_pipelines()), {"is_working": False}),
        (Job(two_pipelines(), restarts=0), {}),
        (Job(two_pipelines()), {"cause": FailureInfo("out of memory", is_fatal=True)}),
    ],
    ids=["one region", "strategy full", "nowhere", "not running yet", "no restart left", "fatal"],
)
def test_else_the_whole_job_goes_down(job: Job, failure: dict[str, object]) -> None:
    assert job.fail(**failure).region is None  # type: ignore[arg-type]


def test_a_job_that_is_about_to_end_goes_down_as_a_whole() -> None:
    job = Job(two_pipelines())
    job.operations.attempt_running()
    job.operations.all_finished()
    assert job.fail().region is None


def test_a_fatal_failure_does_not_use_up_a_restart() -> None:
    job = Job(keyed_job())
    fatal = FailureInfo("out of memory", is_fatal=True)
    assert job.fail(fatal) == RestartDecision(fatal, None)
    assert job.fail().restart_at_ms == 6_000


def test_a_failure_while_output_is_committed_is_the_last() -> None:
    job = Job(keyed_job())
    job.run.phase = Phase.COMMITTING
    decision = job.fail()
    assert decision.restart_at_ms is None
    assert decision.cause.message.endswith("some of which may be visible; the job is not restarted)")


def test_a_slot_that_runs_has_nothing_to_say_about_a_damaged_checkpoint() -> None:
    damaged = FailureInfo("sha256 does not match", is_damaged_snapshot=True)
    decision = Job(keyed_job()).fail(damaged)
    assert (decision.cause.is_damaged_snapshot, decision.restart_at_ms) == (False, 6_000)
