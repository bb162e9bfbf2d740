"""A job's autoscaler in the leader: what is recorded, acted on, and known to the next leader."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from backend.cluster import services
from backend.cluster.containment import Containment
from backend.cluster.job_autoscaling import JobAutoscaling, sample_of
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.led_autoscaling import LedAutoscaling
from backend.cluster.models import Job, Scaling
from backend.cluster.scaling_history import KEPT, ScalingHistory
from runtime.core.ids import Attempt, SlotId, TaskId, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.requirements import Bounds, Parallelism, Requirements
from runtime.jobmaster.rescaling import rescaled
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot
from runtime.task.messages import TaskState
from runtime.testing.clock import ManualClock
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.leading import take_leadership
from tests.dispatcher import rows

SOURCE, SINK = rows.SOURCE, rows.SINK
ON = {"job.autoscaler.enabled": "true"}
#: the sink has too much to do, at any parallelism
BUSY, LAZY = 0.99, 0.05


def graph_of(**options: str) -> JobGraph:
    graph = rows.job_graph()
    return replace(
        graph, configuration={**graph.configuration, **{k.replace("__", "."): v for k, v in options.items()}}
    )


@dataclass
class Scaled:
    """The part of `JobScaling` that autoscalers see."""

    graph: JobGraph
    why: str = ""
    room: Requirements | None = None
    target: Parallelism | None = None

    @property
    def requirements(self) -> Requirements:
        return self.room or {v.vertex_id: Bounds(v.parallelism, v.parallelism) for v in self.graph.vertices}


@dataclass
class Runner:
    """A job that runs: its tasks report what `busy` says, as time goes by."""

    job: Job
    graph: JobGraph
    clock: ManualClock
    busy: float = BUSY
    attempt: int = 0
    began_ms: float = 0.0
    state: JobState = JobState.RUNNING
    last_rescale_ms: float | None = None
    costs_ms: list[float] = field(default_factory=list)
    live_vertices: Collection[VertexId] = ()

    def __post_init__(self) -> None:
        self.scaling = Scaled(self.graph)
        self.autoscaling = JobAutoscaling(self.graph, self.clock, self.job.autoscaler_enabled)

    def rescale(self, cost_ms: float = 2_000.0) -> None:
        """Go on as the autoscaler wants."""
        self.scaling.graph = rescaled(self.scaling.graph, self.scaling.target or {})
        self.clock.advance(cost_ms)
        self.attempt, self.began_ms = self.attempt + 1, self.clock.monotonic_ms()
        self.last_rescale_ms = self.began_ms
        self.costs_ms.append(cost_ms)

    def status(self) -> JobStatusSnapshot:
        seconds = (self.clock.monotonic_ms() - self.began_ms) / 1_000
        tasks = []
        for vertex in self.scaling.graph.vertices:
            busy = self.busy if vertex.vertex_id == SINK else LAZY
            for index in range(vertex.parallelism):
                metrics = {
                    "numRecordsIn": int(1_000 * seconds),
                    "numRecordsOut": int(1_000 * seconds),
                    "accumulateBusyTimeMs": 1_000 * busy * seconds,
                    "accumulateIdleTimeMs": 1_000 * (1 - busy) * seconds,
                    "accumulateBackPressuredTimeMs": 0.0,
                    "currentInputWatermark": self.clock.now_ms() - 42_000,
                }
                task = TaskId(vertex.vertex_id, index)
                tasks.append(TaskSnapshot(task, "", SlotId(0), TaskState.RUNNING, metrics, Attempt(self.attempt)))
        return JobStatusSnapshot(
            job_id=self.graph.job_id,
            name="job",
            state=self.state,
            attempt=Attempt(self.attempt),
            restarts=0,
            tasks=tasks,
            slots=(),
            exceptions=(),
            state_since_ms={},
            refused_messages=0,
            parallelism={v.vertex_id: v.parallelism for v in self.scaling.graph.vertices},
            last_rescale_ms=self.last_rescale_ms,
            rescale_costs_ms=tuple(self.costs_ms),
        )


@dataclass
class Leader:
    """A leader with this one job; users' switches are read at every poll."""

    runner: Runner
    containment: Containment = field(default_factory=Containment)

    def __post_init__(self) -> None:
        jobs: Any = SimpleNamespace(runners={self.runner.job.id: self.runner})
        self.history = ScalingHistory(take_leadership("leader"))
        self.autoscaling = LedAutoscaling(jobs, self.history, self.runner.clock, self.containment)

    def run(self, seconds: int) -> None:
        """Poll every second."""
        for _ in range(seconds):
            self.runner.clock.advance(1_000)
            self.autoscaling.look()
            with self.containment.of("autoscalers"):
                self.autoscaling.poll()

    @property
    def reason(self) -> str:
        return self.runner.autoscaling.decision.reason


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


@pytest.fixture
def runner(job: Job) -> Runner:
    return Runner(job, graph_of(**ON), ManualClock(1_700_000_000_000))


def told(leader: Leader) -> Any:
    return leader.runner.autoscaling.document()


# --- deciding ---------------------------------------------------------------------------------------------------------


def test_it_is_off_unless_the_configuration_or_a_user_says_otherwise(job: Job) -> None:
    leader = Leader(Runner(job, graph_of(), ManualClock()))
    leader.run(100)
    assert told(leader) == {"enabled": False}
    assert (leader.runner.scaling.target, leader.runner.scaling.room) == (None, None)
    services.switch_autoscaler(job, True)
    leader.run(1)
    assert told(leader)["reason"] == "stabilising: 0 s of 30 s since the tasks run"
    assert leader.runner.scaling.target == {SOURCE: 2, SINK: 2}
    leader.run(95)
    assert Scaling.objects.count() == 1
    services.switch_autoscaler(job, False)
    leader.run(1)
    assert told(leader) == {"enabled": False}
    assert leader.runner.scaling.target is None
    services.switch_autoscaler(job, None)
    leader.run(1)
    assert told(leader) == {"enabled": False}


def test_a_switch_is_noticed_though_the_notice_was_lost(job: Job) -> None:
    leader = Leader(Runner(job, graph_of(), ManualClock()))
    leader.run(1)
    services.switch_autoscaler(job, True)
    for _ in range(9):
        leader.runner.clock.advance(1_000)
        leader.autoscaling.poll()
    assert told(leader) == {"enabled": False}
    leader.runner.clock.advance(1_000)
    leader.autoscaling.poll()
    assert told(leader)["enabled"] is True


def test_a_decision_is_recorded_and_becomes_the_target(runner: Runner) -> None:
    leader = Leader(runner)
    leader.run(95)
    scaling = Scaling.objects.get()
    [(vertex, change)] = scaling.changes.items()
    assert (vertex, change["before"], change["after"]) == (SINK, 2, 3)
    assert "needs 3 subtasks at 70%" in change["reason"]
    assert scaling.reason == "rescaling window: count -> sink from 2 to 3"
    assert runner.scaling.target == {SOURCE: 2, SINK: 3}
    assert told(leader)["last_decision"] == scaling.id
    assert told(leader)["vertices"][SINK]["wanted"] == 3
    # the scheduler takes its time
    runner.scaling.why = "2 of 3 wanted slots; waits for slots"
    leader.run(100)
    assert leader.reason == "asked for, 2 of 3 wanted slots; waits for slots"
    assert Scaling.objects.count() == 1
    runner.scaling.why = ""
    runner.rescale(cost_ms=3_500)
    leader.run(1)
    scaling.refresh_from_db()
    assert scaling.cost_ms == 3_500


def test_what_somebody_else_has_rescaled_is_the_target_from_then_on(runner: Runner) -> None:
    leader = Leader(runner)
    runner.busy = 0.6
    leader.run(95)
    assert leader.reason == "every vertex has the parallelism that it needs"
    # a user, once it runs
    runner.scaling.target = {SOURCE: 2, SINK: 4}
    runner.rescale()
    leader.run(1)
    assert runner.scaling.target == {SOURCE: 2, SINK: 4}


def test_a_target_that_could_not_be_had_is_dropped_when_the_load_has_gone(runner: Runner) -> None:
    leader = Leader(runner)
    leader.run(95)
    runner.scaling.why = "2 of 3 wanted slots; waits for slots"
    runner.busy = 0.6
    runner.attempt, runner.began_ms = 1, runner.clock.monotonic_ms()
    leader.run(120)
    assert runner.scaling.target == {SOURCE: 2, SINK: 2}


def test_jobs_have_room_between_the_options_while_it_is_on(job: Job) -> None:
    options = {**ON, "job.autoscaler.vertex.min-parallelism": "2", "job.autoscaler.vertex.max-parallelism": "9"}
    assert JobAutoscaling(graph_of(**options), ManualClock()).room == {SOURCE: Bounds(2, 9), SINK: Bounds(2, 9)}
    assert JobAutoscaling(graph_of(), ManualClock()).room is None


def test_a_malformed_option_is_told_and_stops_nothing(job: Job) -> None:
    options = {**ON, "job.autoscaler.target.utilization": "lots"}
    leader = Leader(Runner(job, graph_of(**options), ManualClock()))
    services.switch_autoscaler(job, True)
    leader.run(100)
    assert "job.autoscaler.target.utilization: 'lots' cannot be used" in told(leader)["reason"]
    assert leader.runner.scaling.target is None


def test_a_failing_autoscaler_costs_the_job_nothing(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(runner)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(runner.autoscaling, "decide", fail)
    leader.run(2)
    assert not runner.job.is_terminal


@pytest.mark.parametrize("state", [JobState.RESTARTING, JobState.CREATED, JobState.FAILING, JobState.RECONCILING])
def test_nothing_is_decided_while_the_job_does_not_run(runner: Runner, state: JobState) -> None:
    leader = Leader(runner)
    leader.run(80)
    runner.state = state
    leader.run(100)
    assert leader.reason == f"the job is {state.value}"
    assert not Scaling.objects.exists()


def with_state(snapshot: JobStatusSnapshot, vertex: VertexId, state: TaskState, count: int) -> JobStatusSnapshot:
    tasks = [
        replace(t, state=state) if t.task.vertex_id == vertex and t.task.subtask_index < count else t
        for t in snapshot.tasks
    ]
    return replace(snapshot, tasks=tasks)


def test_all_tasks_run_or_have_finished(runner: Runner) -> None:
    snapshot = runner.status()

    def sampled(seen: JobStatusSnapshot) -> Any:
        return sample_of(seen, 0.0, 0, (), runner.graph)

    part = sampled(with_state(snapshot, SOURCE, TaskState.FINISHED, 1))
    assert (part.not_running, len(part.vertices[SOURCE]), part.finished_subtasks[SOURCE]) == ("", 1, 1)
    assert "1 INITIALIZING" in sampled(with_state(snapshot, SINK, TaskState.INITIALIZING, 1)).not_running
    whole = sampled(with_state(snapshot, SOURCE, TaskState.FINISHED, 2))
    assert (whole.not_running, set(whole.finished), list(whole.vertices)) == ("", {SOURCE}, [SINK])
    silent = replace(snapshot, tasks=[replace(task, metrics={}) for task in snapshot.tasks])
    assert sampled(silent).not_running == "its tasks have not reported yet"


def test_what_sources_have_pending_and_watermarks_are_read_from_metrics(runner: Runner) -> None:
    snapshot = runner.status()
    more = {"Source: flights.pendingRecords": 5, "currentInputWatermark": 900, "currentOutputWatermark": 800}
    seen = replace(snapshot, tasks=[replace(task, metrics={**task.metrics, **more}) for task in snapshot.tasks])
    sample = sample_of(seen, 0.0, 1_000, (SOURCE, SINK), runner.graph)
    assert [subtask.pending for subtask in sample.vertices[SOURCE]] == [5, 5]
    assert sample.watermark_lag_ms == {SOURCE: 200, SINK: 100}
    # of old data it would be the age
    assert sample_of(seen, 0.0, 1_000, (SINK,), runner.graph).watermark_lag_ms == {SINK: 100}


@pytest.mark.parametrize("is_live", [True, False])
def test_a_lag_is_told_only_of_live_sources(runner: Runner, is_live: bool) -> None:
    runner.live_vertices = (SOURCE, SINK) if is_live else ()
    Leader(runner).run(120)
    reason = runner.autoscaling.decision.vertices[SINK].reason
    assert "records/s" in reason
    assert ("the watermark is 42 s behind" in reason) is is_live


# --- leaders ----------------------------------------------------------------------------------------------------------


def test_the_next_leader_keeps_the_cooldown_whatever_its_clock_says(runner: Runner) -> None:
    first = Leader(runner)
    first.run(95)
    runner.rescale()
    first.run(1)
    # by the database's clock, it is 20 s ago
    Scaling.objects.update(stamp=F("stamp") - timedelta(seconds=20))
    other = Runner(runner.job, runner.scaling.graph, ManualClock(5), attempt=1)
    second = Leader(other)
    [past] = second.history.past(other.job.id)
    assert 20_000 <= past.age_ms < 29_000
    second.autoscaling.poll()
    options = {"job.autoscaler.metrics.window": "2 s", "job.autoscaler.stabilization.interval": "0 s"}
    quick = Runner(runner.job, rescaled(graph_of(**ON, **options), {SINK: 3}), ManualClock(5), attempt=1)
    third = Leader(quick)
    third.run(5)
    assert third.reason.startswith("cooldown: ")
    assert Scaling.objects.count() == 1
    third.run(30)
    assert Scaling.objects.count() == 2


def test_the_next_leader_acts_on_a_decision_that_was_only_recorded(runner: Runner) -> None:
    first = Leader(runner)
    first.run(95)
    other = Runner(runner.job, runner.graph, ManualClock(5))
    second = Leader(other)
    second.run(1)
    assert other.scaling.target == {SOURCE: 2, SINK: 3}
    Scaling.objects.update(stamp=F("stamp") - timedelta(seconds=40))
    late = Runner(runner.job, runner.graph, ManualClock(5))
    Leader(late).run(1)
    assert late.scaling.target == {SOURCE: 2, SINK: 2}


def test_a_leader_that_was_replaced_records_nothing(runner: Runner) -> None:
    leader = Leader(runner)
    leader.run(80)
    take_leadership("another")
    with pytest.raises(LeadershipLostError):
        leader.run(30)
    assert not Scaling.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("nth", range(1, 11))
def test_a_call_that_is_lost_records_no_decision_twice(runner: Runner, nth: int, loss: Loss) -> None:
    leader = Leader(runner)
    leader.run(90)
    assert leader.reason == "measuring: 59 s of 60 s of samples"
    database = FailingDatabase(nth, loss)
    with database.in_use():
        leader.run(1)
    assert database.failed or database.calls < nth
    leader.run(20)
    assert Scaling.objects.count() == 1
    assert runner.scaling.target == {SOURCE: 2, SINK: 3}


def test_the_newest_decisions_are_kept(job: Job) -> None:
    history = ScalingHistory(take_leadership("leader"))
    ids = [history.record(job.id, f"number {n}", {}, n) for n in range(KEPT + 5)]
    other = rows.running_job()
    kept = history.record(other.id, "another job's", {}, 1)
    assert [scaling.scaling_id for scaling in history.past(job.id)] == ids[:4:-1]
    assert [scaling.scaling_id for scaling in history.past(other.id)] == [kept]
    history.came_about(kept, 5.0)
    history.came_about(kept, 7.0)
    assert Scaling.objects.get(id=kept).cost_ms == 5.0
    assert Scaling.objects.filter(stamp__gt=Now()).count() == 0
