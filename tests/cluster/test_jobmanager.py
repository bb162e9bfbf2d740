"""The jobmanager's loop over a real Redis and database; TaskManagers are played by what they would send."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import DataError, IntegrityError
from kombu.exceptions import OperationalError
from pytest_django import Settings

from backend.cluster import bus, resource_manager, services
from backend.cluster.commands import DEPLOY_TASK, END_TASK, LEAD_TASK
from backend.cluster.job_autoscaling import JobAutoscaling
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.lease import HeldLease
from backend.cluster.live_document import LiveDocument
from backend.cluster.models import Checkpoint, CheckpointStatistics, Job, Operation, Placement, TaskManager
from backend.cluster.placements import ClusterPlacement, write_placements
from backend.cluster.publisher import Publisher
from backend.cluster.slot_pool import Stage, StageKey
from backend.cluster.task_metrics import ACCUMULATORS, JOB_METRICS
from backend.dispatcher.shapes.taskmanagers import taskmanager_overview
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.jobmaster.actions import JobStateChanged, ReleaseAttempt, RequestAnswered, RequestSlots
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.graphs import RESTARTING, graph_json
from tests.cluster.leading import new_leader, take_leadership
from tests.cluster.log_reading import read_log
from tests.cluster.test_events import random_events
from tests.support.bus_contents import sealed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent() -> list[tuple[str, str, dict[str, Any]]]:
    """Commands that jobmanagers sent: (worker, task, arguments)."""
    return []


@pytest.fixture
def lead(home: Path, live_redis: str, sent: list[tuple[str, str, dict[str, Any]]]) -> Iterator[Any]:
    """Makes jobmanagers, which end with the test."""
    made: list[JobManager] = []

    def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        sent.append((worker_name, task, arguments))

    def start() -> JobManager:
        made.append(new_leader(home, send))
        return made[-1]

    yield start
    for manager in made:
        for known, _ in manager.resources.taskmanagers():
            manager.resources.remove(known.id, "the test is over")
        manager.close()


def submit(parallelism: int = 2, **options: str) -> Job:
    return services.submit_job(graph_json(parallelism, **options), None, ["--x"], {}, None)


def turn(manager: JobManager, job: Job) -> Job:
    """Run one turn of the loop in which everything is due; returns the job's row."""
    manager.hasten()
    manager.step(0.01)
    return Job.objects.get(id=job.id)


def heartbeat(
    slots: int, name: str = "host:1-abc", stages: tuple[tuple[str, int, int], ...] = (), **more: object
) -> None:
    report = {
        "id": name,
        "worker_name": f"w@{name}",
        "host": "host",
        "pid": 1,
        "slots": slots,
        "spark_master": "local[4,1]",
        "registered_at": 5,
        "hardware": {"cpu_cores": 2},
        **more,
    }
    bus.post_event({"type": "heartbeat", "taskmanager": report, "stages": list(stages)})


def test_a_job_is_taken_and_says_why_it_waits(lead: Any) -> None:
    job = submit(2)
    assert job.document is not None
    assert job.document["vertices"][0]["state"] == "CREATED"
    assert services.job_document(job.id)["waiting_for"] == "no JobManager has taken the job yet"
    row = turn(lead(), job)
    assert (row.state, row.waiting_for) == ("CREATED", "needs 2 slots, no TaskManager is registered")
    assert services.job_document(job.id)["waiting_for"] == row.waiting_for
    [entry] = services.cluster_document()["jobs"]
    assert (entry["state"], entry["tasks_total"]) == ("CREATED", 5)


def test_the_reason_follows_what_the_cluster_has(lead: Any) -> None:
    manager, job = lead(), submit(4)
    heartbeat(2)
    turn(manager, job)
    assert turn(manager, job).waiting_for == "needs 4 slots, 2 are free (the cluster has 2 in all)"
    cluster = services.cluster_document()
    assert (cluster["slots_total"], cluster["slots_available"]) == (2, 2)
    assert TaskManager.objects.get().slots == 2


def test_a_waiting_job_with_room_says_what_it_needs_and_what_it_wants(lead: Any) -> None:
    manager, job = lead(), submit(4, **{"jobmanager.scheduler": "adaptive"})
    assert turn(manager, job).waiting_for == "needs 1 slot and wants 4, no TaskManager is registered"


def test_a_waiting_job_is_deployed_when_slots_come(lead: Any, sent: list[Any]) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    heartbeat(3)
    row = turn(manager, job)
    assert (row.state, row.waiting_for) == ("CREATED", "2 of 2 slots to start")
    assert services.job_document(job.id)["waiting_for"] == row.waiting_for
    assert services.cluster_document()["slots_available"] == 1
    [(worker, task, arguments)] = [command for command in sent if command[1] != LEAD_TASK]
    assert (worker, task) == ("w@host:1-abc", DEPLOY_TASK)
    assert (arguments["epoch"], arguments["job_id"], arguments["attempt"]) == (1, job.id, 0)
    assert arguments["slots"] == [0, 1]


def test_a_waiting_job_can_be_cancelled(lead: Any) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    operation = services.request_cancel(job, None)
    assert services.request_cancel(job, None) == operation
    for _ in range(100):
        if turn(manager, job).is_terminal:
            break
    assert Job.objects.get(id=job.id).state == "CANCELED"
    operation.refresh_from_db()
    assert (operation.state, operation.result) == (Operation.State.COMPLETED, {"state": "CANCELED"})
    with pytest.raises(services.JobEndedError):
        services.request_cancel(job, None)
    assert services.job_document(job.id)["end_time"] > 0


@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_end_of_a_job_is_told_when_redis_is_back(
    is_replaced: bool, lead: Any, settings: Settings, live_redis: str
) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    assert bus.read_document(bus.JOB_KEY.format(job.id)).document is not None
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    services.request_cancel(job, None)
    wait_until(lambda: turn(manager, job).is_terminal, 10, "the job's end")
    settings.REDIS_URL = live_redis
    bus.disconnect()
    assert services.job_document(job.id)["state"] == "CREATED", "that is what Redis knows"
    if is_replaced:
        manager = lead()
    turn(manager, job)
    turn(manager, job)
    assert services.job_document(job.id)["state"] == "CANCELED"
    assert 0 < bus.client().ttl(bus.JOB_KEY.format(job.id)) <= bus.EXPIRY_S


def test_metrics_lie_beside_the_document_and_expire(lead: Any) -> None:
    manager, job = lead(), submit(2)
    key = bus.METRICS_KEY.format(job.id)
    turn(manager, job)
    # it waits for slots: there is no subtask yet
    assert set(bus.client().hkeys(key)) == {JOB_METRICS, ACCUMULATORS}
    assert 0 < bus.client().ttl(key) <= bus.METRICS_EXPIRY_S
    # of a job that has ended they stay as long as its document
    services.request_cancel(job, None)
    wait_until(lambda: turn(manager, job).is_terminal, 10, "the job's end")
    assert bus.METRICS_EXPIRY_S < bus.client().ttl(key) <= bus.EXPIRY_S
    assert (Job.objects.get(id=job.id).document or {})[ACCUMULATORS] == {}
    assert ACCUMULATORS not in services.job_document(job.id)


def test_the_history_of_a_job_goes_on_under_the_next_leader(lead: Any) -> None:
    job = submit(2)
    vertex = (job.document or {})["vertices"][0]["id"]

    def history() -> list[float | None]:
        found = services.metric_history(job.id, [f"v.{vertex}.idle"], 0, 2**50, 1)
        assert found is not None
        return found.series[0]

    turn(lead(), job)
    wait_until(lambda: history() == [1000.0], 10, "a sample")
    turn(lead(), job)
    wait_until(lambda: history() == [1000.0] * 2, 10, "another leader's sample")


def test_a_peek_is_begun_with_the_leader_and_goes_on_with_the_next_one(lead: Any) -> None:
    manager, job = lead(), submit(1)
    turn(manager, job)
    wanted = {"job": job.id, "edge": 0, "subtasks": [], "rows": 20}
    services.begin_peek("p", wanted, "olga")
    turn(manager, job)
    seen = services.seen_by_peek("p")
    assert seen is not None and seen["problem"] == "none of the subtasks runs"
    bus.client().delete(bus.PEEK_KEY.format("p"))
    new = lead()
    turn(new, job)
    services.renew_peek("p", wanted)
    turn(new, job)
    assert services.seen_by_peek("p") == seen
    assert len(new.jobs.runners[job.id].peeks()) == 1
    services.end_peek(job.id, "p")
    turn(new, job)
    assert new.jobs.runners[job.id].peeks() == []


def test_what_cannot_be_sampled_runs_on(lead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    manager, job = lead(), submit(2)

    def fail(runner: JobRunner) -> None:
        raise KeyError("vertices")

    monkeypatch.setattr(JobRunner, "metric_row", fail)
    turn(manager, job)
    assert turn(manager, job).state == "CREATED"


def test_a_taskmanager_that_ends_takes_the_attempt_with_it(lead: Any, home: Path) -> None:
    manager, job = lead(), submit(2)
    heartbeat(2)
    turn(manager, job)
    bus.post_event({"type": "gone", "taskmanager": "host:1-abc", "cause": "the JVM ended with -9"})
    for _ in range(100):
        if turn(manager, job).is_terminal:
            break
    row = Job.objects.get(id=job.id)
    assert row.state == "FAILED"
    assert row.failure is not None
    assert "the JVM ended with -9" in row.failure["message"]
    assert TaskManager.objects.get().state == TaskManager.State.GONE
    assert row.exceptions.get().attempt == 0
    log = home / "logs" / "jobs" / job.id / "attempt-0" / "slot-0.log"
    wait_until(lambda: "the JVM ended with -9" in read_log(log), 5, "the cause in the job's log")


@pytest.mark.django_db(transaction=True)
def test_rows_of_taskmanagers_become_true_when_the_database_is_back(lead: Any) -> None:
    manager = lead()
    manager.step(0.01)
    states = TaskManager.objects.values_list("id", "state").order_by("id")

    def without_database(*events: Any) -> None:
        """The leader hears events, and can write nothing."""
        for event in events:
            event()
        database = FailingDatabase(1, Loss.REQUEST, is_away=True)
        with database.in_use():
            manager.hasten()
            manager.step(0.01)
        assert database.failed

    without_database(lambda: heartbeat(1, "a"), lambda: heartbeat(2, "b"))
    assert list(states.all()) == []
    manager.step(0.01)
    assert list(states.all()) == [], "a poll is due in a second"
    manager.hasten()
    manager.step(0.01)
    assert list(states.all()) == [("a", "REGISTERED"), ("b", "REGISTERED")]
    without_database(lambda: bus.post_event({"type": "gone", "taskmanager": "a"}))
    manager.hasten()
    manager.step(0.01)
    assert list(states.all()) == [("a", "GONE"), ("b", "REGISTERED")]
    bus.client().flushall()
    lead().step(0.01)
    assert list(states.all()) == [("a", "GONE"), ("b", "LOST")], "a new leader has not heard of it yet"


@pytest.mark.django_db(transaction=True)
def test_a_job_that_restarts_keeps_its_slots_before_one_that_was_submitted_later(lead: Any, sent: list[Any]) -> None:
    manager, first = lead(), submit(2, **RESTARTING)
    heartbeat(2)
    turn(manager, first)
    later = submit(2)
    turn(manager, later)
    bus.post_event({"type": "stage_ended", "job": first.id, "attempt": 0, "stage": 0, "error": "a worker died"})
    wait_until(lambda: turn(manager, first).restarts == 1 and len(deployed(sent)) == 2, 10, "the next attempt")
    assert deployed(sent) == [(first.id, 0), (first.id, 1)]
    document = services.job_document(first.id)
    assert (document["state"], document["restarts"], document["failures"]) == ("RESTARTING", 1, 1)
    assert "a worker died" in document["failure"]["message"]
    # until the slots are taken again they are kept, which is told differently
    wait_until(
        lambda: turn(manager, later).waiting_for == "needs 2 slots, 0 are free", 10, "what the later job waits for"
    )
    assert deployed(sent) == [(first.id, 0), (first.id, 1)]


def deployed(sent: list[Any]) -> list[tuple[str, int]]:
    """Job and attempt of each deployment."""
    return [(arguments["job_id"], arguments["attempt"]) for _, task, arguments in sent if task == DEPLOY_TASK]


def test_a_new_leader_fails_a_job_without_restart_strategy(lead: Any) -> None:
    first, job = lead(), submit(2)
    turn(first, job)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5})
    row = turn(lead(), job)
    assert row.state == "FAILED"
    assert row.failure is not None
    assert "restart-strategy.type is 'none'" in row.failure["message"]
    assert row.document is not None
    assert row.document["state"] == "FAILED"
    assert row.exceptions.get().name == "JobManagerLost"


def test_a_new_leader_restarts_a_job_as_a_later_attempt(lead: Any) -> None:
    first, job = lead(), submit(2, **RESTARTING)
    turn(first, job)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5}, attempt=3, restarts=3)
    row = turn(lead(), job)
    assert (row.state, row.attempt, row.restarts) == ("RESTARTING", 4, 4)
    assert row.waiting_for.startswith("needs 2 slots")
    document = services.job_document(job.id)
    assert document["exceptions"][0]["name"] == "JobManagerLost"
    assert (document["state"], document["failure"]["name"], document["failures"]) == ("RESTARTING", "JobManagerLost", 1)


def test_the_planned_end_of_a_leader_is_no_failure_of_its_jobs_and_no_restart(lead: Any, home: Path) -> None:
    first, job, waits = lead(), submit(2, **RESTARTING), submit(2)
    turn(first, job)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5}, attempt=3, restarts=3)
    stopped = threading.Event()
    second = new_leader(home, lambda *_, **__: None, stopped)
    assert turn(second, job).restarts == 4
    stopped.set()
    second.run()
    rows = Job.objects.in_bulk()
    assert (rows[job.id].state, rows[waits.id].state) == ("SUSPENDED", "CREATED")
    row = turn(lead(), job)
    assert (row.state, row.attempt, row.restarts, row.exceptions.count()) == ("RESTARTING", 5, 4, 1)
    assert services.job_document(job.id)["failures"] == 1


def test_a_new_leader_lets_a_job_that_never_ran_wait_on(lead: Any) -> None:
    first, job = lead(), submit(2)
    turn(first, job)
    row = turn(lead(), job)
    # its number may be that of slots which were granted and not told of: it is not used again
    assert (row.state, row.attempt, row.restarts, row.exceptions.count()) == ("CREATED", 1, 0, 0)


def test_a_new_leader_carries_out_a_cancellation_that_an_older_one_began(lead: Any) -> None:
    first, job = lead(), submit(2, **RESTARTING)
    turn(first, job)
    operation = services.request_cancel(job, None)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5})
    assert turn(lead(), job).state == "CANCELED"
    operation.refresh_from_db()
    assert operation.state == Operation.State.COMPLETED


def test_a_replaced_jobmanager_finds_out_and_ends(lead: Any) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    take_leadership("another")
    submit(1)
    with pytest.raises(LeadershipLostError):
        turn(manager, job)


def test_a_leader_whose_lease_has_lapsed_does_nothing_until_it_is_valid_again(
    lead: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    published = services.job_document(job.id)["version"]
    beat = bus.client().pttl(bus.BEAT_KEY)
    monkeypatch.setattr(manager.leadership, "_lease", HeldLease(-math.inf))
    heartbeat(2)
    services.request_cancel(submit(1), None)
    turn(manager, job)
    assert not sent and not manager.resources.taskmanagers()
    assert bus.client().pttl(bus.BEAT_KEY) <= beat
    assert services.job_document(job.id)["version"] == published
    with pytest.raises(OperationalError, match="lease"):
        manager.resources._send("w", DEPLOY_TASK, 1.0)
    monkeypatch.setattr(manager.leadership, "_lease", HeldLease(math.inf))
    turn(manager, job)
    assert deployed(sent) == [(job.id, 0)]


def test_an_old_leader_that_thaws_takes_no_heartbeat_from_the_new_one(lead: Any) -> None:
    old, job = lead(), submit(4)
    turn(old, job)
    new = lead()
    heartbeat(2)
    old._take_events(0.01)
    turn(new, job)
    assert [known.id for known, _ in new.resources.taskmanagers()] == ["host:1-abc"]
    version = services.job_document(job.id)["version"]
    old.publisher.bus_is_back()
    old.jobs.publish()
    assert services.job_document(job.id)["version"] == version


def test_a_job_with_an_option_that_cannot_be_read_fails_and_says_which(lead: Any) -> None:
    job = submit(1, **{"heartbeat.timeout": "soon"})
    row = turn(lead(), job)
    assert row.state == "FAILED"
    assert row.failure is not None
    assert "heartbeat.timeout" in row.failure["message"]


def listening_ports() -> set[int]:
    return {of.laddr.port for of in psutil.Process().net_connections("tcp") if of.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize("breaks_late", [False, True], ids=["malformed option", "error nobody has foreseen"])
def test_a_job_that_cannot_be_run_leaves_no_server_behind(
    breaks_late: bool, lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, manager, before = submit(1), lead(), listening_ports()
    if breaks_late:
        # behind everything else that a runner is made of
        monkeypatch.setattr(JobAutoscaling, "target", property(lambda autoscaling: 1 / 0))
    else:
        # from before submissions were asked for it
        configuration = job.graph["configuration"] | {options.RESOURCE_STABILIZATION_TIMEOUT.key: "soon"}
        Job.objects.filter(id=job.id).update(graph=job.graph | {"configuration": configuration})
    row = turn(manager, job)
    assert row.state == "FAILED" and not manager.jobs.runners
    assert ("ZeroDivisionError" if breaks_late else "stabilization") in (row.failure or {})["message"]
    assert listening_ports() == before


def test_a_job_whose_patience_is_malformed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="stabilization"):
        submit(1, **{options.RESOURCE_STABILIZATION_TIMEOUT.key: "soon"})


def test_slots_of_a_placed_job_that_cannot_be_run_are_ended(lead: Any, sent: list[Any]) -> None:
    job, other = submit(2), submit(2)
    region = PlacedRegion(
        0, Attempt(0), [PlacedSlot(SlotId(n), 1, "host", "grpc+tcp://127.0.0.1:1") for n in range(2)], {}, 1, 1
    )
    stage = Stage(StageKey(job.id, Attempt(0), 0), 0, "host:1-abc", [SlotId(0), SlotId(1)])
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5})
    write_placements(job.id, [ClusterPlacement(region, [stage])])
    CheckpointStatistics.objects.create(job_id=job.id, ended=1, record={"nonsense": 1})
    manager = lead()
    assert turn(manager, job).state == "FAILED"
    heartbeat(2, stages=((job.id, 0, 0),))
    turn(manager, other)
    ended = [arguments for _, task, arguments in sent if task == END_TASK]
    assert [(told["job_id"], told["stages"]) for told in ended] == [(job.id, [0])]


def test_stages_that_nobody_leads_are_told_to_end(lead: Any, sent: list[Any]) -> None:
    manager, job = lead(), submit(1)
    heartbeat(1, stages=(("f" * 32, 0, 0),))
    turn(manager, job)
    assert [(task, arguments["job_id"]) for _, task, arguments in sent if task == END_TASK] == [(END_TASK, "f" * 32)]


@pytest.mark.django_db(transaction=True)
def test_random_events_do_not_end_a_leader(lead: Any) -> None:
    manager, job = lead(), submit(2)
    pipeline = bus.client().pipeline(transaction=False)
    for text in random_events(23, 10_000):
        pipeline.xadd(bus.EVENTS_KEY, sealed(text))
    pipeline.execute()
    while not TaskManager.objects.filter(id="the last one").exists():
        # as a TaskManager does, whose older ones are too old by the time that they are read
        heartbeat(2, "the last one")
        turn(manager, job)
    later = submit(1)
    turn(manager, later)
    assert later.id in manager.jobs.runners


def test_a_redis_that_answers_and_takes_no_writes_costs_no_taskmanager_and_no_job(
    lead: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a replica does, or one with a full disk: what TaskManagers report does not arrive."""
    manager, job = lead(), submit(2)
    heartbeat(2)
    turn(manager, job)
    waiting = submit(1)
    server = bus.client()
    server.config_set("min-replicas-to-write", 1)
    try:
        wait_until(lambda: bool(turn(manager, job)) and manager.publisher.is_away, 5, "the refusal is noticed")
        # less than what follows takes
        monkeypatch.setattr(resource_manager, "TASKMANAGER_TIMEOUT_MS", 300)
        for _ in range(10):
            turn(manager, job)
            time.sleep(0.1)
        assert manager.publisher.is_away
        assert len(manager.resources.taskmanagers()) == 1
        heard_ms = manager._read_until_ms
        turn(manager, job)
        assert manager._read_until_ms == heard_ms, "nobody can have reported"
        assert not turn(manager, job).is_terminal
    finally:
        server.config_set("min-replicas-to-write", 0)
    assert not Job.objects.get(id=job.id).is_terminal
    heartbeat(1, "host:2-def")
    turn(manager, job)
    assert not manager.publisher.is_away
    assert turn(manager, waiting).waiting_for == "1 of 1 slot to start"
    assert bus.read_document(bus.JOB_KEY.format(job.id)).document is not None


def test_no_slots_are_granted_while_nothing_can_be_deployed(
    lead: Any, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    manager.publisher.is_away = True
    with monkeypatch.context() as patched:
        patched.setattr(manager.publisher, "takes_writes", lambda: False)
        heartbeat(2)
        turn(manager, job)
        assert [task for _, task, _ in sent if task == DEPLOY_TASK] == []
        assert "needs 2 slots" in turn(manager, job).waiting_for
    heartbeat(2)
    turn(manager, job)
    assert [task for _, task, _ in sent if task == DEPLOY_TASK] == [DEPLOY_TASK]


def test_the_loop_is_seen_to_step_between_jobs(lead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A take-over of many jobs on a slow database is no standstill, for which the lease would lapse."""
    manager = lead()
    jobs = [submit(1) for _ in range(3)]
    steps: list[int] = []
    monkeypatch.setattr(manager.jobs, "_stepped", lambda: steps.append(len(manager.jobs.runners)))
    turn(manager, jobs[0])
    assert steps[:3] == [0, 1, 2]
    assert len(steps) == 6


def test_a_job_and_a_taskmanager_are_known_again_after_redis_was_flushed(lead: Any) -> None:
    manager, job = lead(), submit(4)
    heartbeat(2)
    turn(manager, job)
    before = services.cluster_document()
    bus.client().flushall()
    heartbeat(2)
    # the first turn notices, the second publishes
    for _ in range(2):
        turn(manager, job)
    assert services.read_job(job.id)[1].source == "live"
    after = services.cluster_document()
    assert (after["slots_total"], after["jobs"][0]["id"]) == (before["slots_total"], job.id) == (2, job.id)


def test_the_clusters_document_is_not_written_again_when_only_time_has_passed(lead: Any) -> None:
    manager, job = lead(), submit(4)
    heartbeat(2)
    for _ in range(2):
        turn(manager, job)
    written, version = bus.client().get(bus.CLUSTER_KEY), services.cluster_document()["version"]
    for _ in range(3):
        heartbeat(2)
        turn(manager, job)
    assert bus.client().get(bus.CLUSTER_KEY) == written
    assert services.read_cluster()[1].age_ms is not None, "it is vouched for all the same"
    heartbeat(2, "host:2-def")
    turn(manager, job)
    assert services.cluster_document()["version"] > version


def test_everything_in_redis_expires_whoever_ends_a_job(lead: Any) -> None:
    first, job = lead(), submit(2)
    turn(first, job)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5})
    assert turn(lead(), job).state == "FAILED"
    keys = [key for key in bus.client().scan_iter("tidemark:*") if bus.client().ttl(key) == -1]
    # one stream of a bounded length
    assert set(keys) <= {bus.EVENTS_KEY}


class BrokenError(Exception):
    """Nobody has foreseen it."""


@pytest.mark.parametrize("breaking", [RequestSlots, JobStateChanged, ReleaseAttempt])
def test_a_jobmaster_that_breaks_fails_its_job_and_answers_what_was_and_will_be_asked(
    breaking: type, lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = JobMasterDriver._perform
    is_recorded = threading.Event()

    def break_at(driver: JobMasterDriver, action: Any) -> None:
        if isinstance(action, breaking):
            if breaking is JobStateChanged:
                # the job has failed by then, and its row may say so before its JobMaster breaks: here it does
                assert is_recorded.wait(20)
            raise BrokenError("no slots")
        perform(driver, action)

    monkeypatch.setattr(JobMasterDriver, "_perform", break_at)
    manager, job = lead(), submit(2)
    turn(manager, job)
    operation = services.request_operation(job, Operation.Kind.SAVEPOINT, {}, None)
    if breaking is ReleaseAttempt:
        # an attempt is released when the job ends
        services.request_cancel(job, None)
    heartbeat(2)
    wait_until(lambda: turn(manager, job).is_terminal, 20, "the job's end")
    is_recorded.set()
    row = Job.objects.get(id=job.id)
    if breaking is ReleaseAttempt:
        assert row.state == "CANCELED"
    else:
        assert row.state == "FAILED"
        cause = "heartbeat of Task" if breaking is JobStateChanged else "the JobMaster failed: BrokenError('no slots')"
        assert cause in (row.failure or {})["message"]

    def is_answered() -> bool:
        turn(manager, job)
        operation.refresh_from_db()
        return operation.state == Operation.State.COMPLETED

    wait_until(is_answered, 20, "the answer")
    assert "error" in (operation.result or {})
    wait_until(lambda: turn(manager, job) is not None and not manager.jobs.runners, 20, "the end of its runner")
    for kind in (Operation.Kind.SAVEPOINT, Operation.Kind.RESCALE):
        with pytest.raises(services.JobEndedError):
            services.request_operation(row, kind, {}, None)


@pytest.mark.parametrize("refusal", [DataError, IntegrityError])
def test_an_operation_that_the_database_refuses_is_answered(
    refusal: type[Exception], lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)

    def refuse(store: JobStore, row: Operation) -> None:
        raise refusal("no such text")

    monkeypatch.setattr(JobStore, "begin", refuse)
    operation = services.request_cancel(job, None)

    def is_answered() -> bool:
        turn(manager, job)
        operation.refresh_from_db()
        return operation.state == Operation.State.COMPLETED

    wait_until(is_answered, 10, "the operation's answer")
    assert "no such text" in (operation.result or {})["error"]


def test_what_the_leader_cannot_tell_of_a_job_is_that_jobs_failure_only(
    lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, job, other = lead(), submit(2), submit(2)
    turn(manager, job)
    build = LiveDocument.build

    def break_at(document: LiveDocument, *arguments: Any) -> Any:
        if document._job.id == job.id:
            raise BrokenError("cannot be told")
        return build(document, *arguments)

    monkeypatch.setattr(LiveDocument, "build", break_at)
    wait_until(lambda: turn(manager, job).is_terminal, 10, "the job's end")
    assert "cannot be told" in (Job.objects.get(id=job.id).failure or {})["message"]
    assert turn(manager, other).state == "CREATED"

    def is_dropped() -> bool:
        turn(manager, other)
        return set(manager.jobs.runners) == {other.id}

    wait_until(is_dropped, 20, "its runner's end")


def test_the_answer_of_an_operation_is_recorded_after_its_effect_on_the_job(
    lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, job = lead(), submit(2)
    turn(manager, job)
    operation = services.request_operation(job, Operation.Kind.SAVEPOINT, {}, None)
    runner = manager.jobs.runners[job.id]
    answer: Future[RequestAnswered] = Future()
    monkeypatch.setattr(runner._driver, "trigger_savepoint", lambda *_, **__: answer)
    runner.carry_out(operation)
    observe = JobRunner.observe

    def answered_after(of: JobRunner) -> bool:
        is_news = observe(of)
        # the JobMaster answers when its state has just been read
        if not answer.done():
            answer.set_result(RequestAnswered("r", "file:///sp", CheckpointId(1)))
        return is_news

    monkeypatch.setattr(JobRunner, "observe", answered_after)
    manager.step(0.01)
    operation.refresh_from_db()
    assert answer.done() and operation.result is None
    manager.step(0.01)
    operation.refresh_from_db()
    assert operation.result == {"location": "file:///sp", "checkpoint_id": 1}


def test_a_malformed_row_of_one_job_does_not_keep_a_leader_from_taking_over(lead: Any) -> None:
    ended, placed, job = submit(), submit(), submit()
    Job.objects.filter(id=ended.id).update(state="CANCELED", document={"id": ended.id}, graph={})
    Checkpoint.objects.create(
        job_id=ended.id,
        checkpoint_id=1,
        location="file:///c/chk-1",
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        triggered_at=1,
        completed_at=2,
        size=3,
    )
    Job.objects.filter(id=placed.id).update(state="RUNNING", state_times={"RUNNING": 5})
    Placement.objects.create(
        job_id=placed.id, region=0, attempt=0, leader_epoch=1, protocol=1, parallelism={}, slots=["?"], stages=["?"]
    )
    manager = lead()
    assert turn(manager, job).state == "CREATED"
    row = Job.objects.get(id=placed.id)
    assert row.state == "FAILED" and "it cannot be run" in (row.failure or {})["message"]
    # its retention cannot be read, so what it has left is kept
    assert Checkpoint.objects.filter(job_id=ended.id).exists()


def test_a_job_with_a_malformed_document_ends_as_its_user_wants(lead: Any) -> None:
    job = submit()
    operation = services.request_cancel(job, None)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5}, document={"id": job.id})
    row = turn(lead(), job)
    assert (row.state, row.failure) == ("CANCELED", None)
    assert services.job_document(job.id)["state"] == "CANCELED"
    operation.refresh_from_db()
    assert operation.result == {"state": "CANCELED"}


@pytest.mark.django_db(transaction=True)
def test_a_take_over_that_has_failed_half_way_keeps_slots_once_when_it_is_repeated(
    lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = submit(2), submit(2)
    region = PlacedRegion(
        0, Attempt(0), [PlacedSlot(SlotId(n), 1, "host", "grpc+tcp://127.0.0.1:1") for n in range(2)], {}, 1, 1
    )
    stage = Stage(StageKey(job.id, Attempt(0), 0), 0, "host:1-abc", [SlotId(0), SlotId(1)])
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5})
    write_placements(job.id, [ClusterPlacement(region, [stage])])
    recover = Publisher.recover
    failures = [BrokenError("half-way")]

    def fail_once(publisher: Publisher, jobs: Any) -> None:
        if failures:
            raise failures.pop()
        recover(publisher, jobs)

    monkeypatch.setattr(Publisher, "recover", fail_once)
    manager = lead()
    turn(manager, job)
    assert not manager.jobs.runners
    turn(manager, job)
    heartbeat(4, stages=((job.id, 0, 0),))
    turn(manager, job)
    assert manager.resources.shortage(other.id) == ""


def test_a_taskmanager_that_drains_is_shown_and_its_slots_are_nobodys(lead: Any) -> None:
    manager, job = lead(), submit(2)
    heartbeat(4, "old")
    turn(manager, job)
    heartbeat(4, "old", evicts_in_ms=20_000)
    heartbeat(1, "new")
    manager.hasten()
    manager.step(0.01)
    manager.hasten()
    manager.step(0.01)
    cluster = services.cluster_document()
    assert sorted((t["id"], t["state"], t["free_slots"]) for t in cluster["taskmanagers"]) == [
        ("new", "REGISTERED", 1),
        ("old", "DRAINING", 0),
    ]
    assert (cluster["slots_total"], cluster["slots_available"]) == (1, 1)
    answered = {row["id"]: row.get("blocked") for row in map(taskmanager_overview, cluster["taskmanagers"], (0, 0))}
    assert answered == {"new": None, "old": True}


def test_rows_of_ended_jobs_that_are_not_kept_go_with_their_operations(lead: Any, settings: Settings) -> None:
    settings.TIDEMARK_KEPT_JOBS = 2
    manager = lead()
    jobs = [submit(1) for _ in range(5)]
    for job in jobs:
        services.request_cancel(job, None)

    def left() -> set[str]:
        manager._rows._look_due_ms = 0.0
        manager.hasten()
        manager.step(0.01)
        return set(Job.objects.values_list("id", flat=True))

    def have_ended() -> bool:
        assert len(left()) == 5, "none goes within the hour"
        return Job.objects.filter(state="CANCELED").count() == 5 and not manager.jobs.runners

    wait_until(have_ended, 120, "they have ended")
    for number, job in enumerate(jobs):
        Job.objects.filter(id=job.id).update(ended_at=number)
    wait_until(lambda: left() == {job.id for job in jobs[-2:]}, 120, "the oldest are deleted")
    assert Operation.objects.count() == 2
    with pytest.raises(services.JobUnknownError):
        services.get_job(jobs[0].id)
