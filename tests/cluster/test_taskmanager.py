"""TaskManager: commands are fenced and idempotent, ends are told in order, and a useless process ends itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from backend.cluster import bus, tasks
from backend.cluster.commands import PING_TASK
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.taskmanager import PING_TIMEOUT_MS, REPORT_FAILURES, TaskManager, TaskManagerIdentity
from runtime.execution.session_health import SessionWatch
from runtime.execution.spark_stages import SparkStages
from runtime.testing.clock import ManualClock
from tests.support.bus_contents import take_events
from tests.support.waiting import wait_until


class FakeJvm:
    """The JVM's process and the session in it."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.stopped = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def poll(self) -> int | None:
        return self.returncode

    def sc(self) -> FakeJvm:
        return self

    def isStopped(self) -> bool:  # noqa: N802
        self.may_answer.wait(60)
        return self.stopped


class FakeContext:
    """Stands for a SparkContext: a stage runs until its group is cancelled, or fails as it is told."""

    def __init__(self) -> None:
        self.jvm = self._jsc = FakeJvm()
        self._gateway = self
        self.proc = self.jvm
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.error: Exception | None = None
        self._over = threading.Event()

    def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802
        self.started.append(group)

    def parallelize(self, data: Any, slices: int) -> FakeContext:
        return self

    def barrier(self) -> FakeContext:
        return self

    def mapPartitions(self, function: Any) -> FakeContext:  # noqa: N802
        return self

    def collect(self) -> list[object]:
        self._over.wait(10)
        if self.error is not None:
            raise self.error
        return []

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)
        self._over.set()


class Rig:
    """A TaskManager on fakes; `deaths` has why it ended itself."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000_000)
        self.context = FakeContext()
        self.deaths: list[str] = []
        identity = TaskManagerIdentity.create(4, "local[4,1]", self.clock.now_ms())
        self.sent: list[str] = []
        context: Any = self.context
        self.manager = TaskManager(
            identity,
            SparkStages(context),
            SessionWatch(context, patience_s=0.01, timeout_s=0.05).defect,
            self.clock,
            self.deaths.append,
            self._send,
        )

    def _send(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        self.sent.append(task)

    def deploy(self, command: str = "c1", epoch: int = 1, stage: int = 0) -> None:
        deployment: dict[str, Any] = {
            "job_id": "job",
            "attempt": 0,
            "stage": stage,
            "slots": [0, 1],
            "control_address": "grpc://127.0.0.1:1",
            "token": "secret",
            "local": True,
            "lease_ms": 5000.0,
            "orphan_timeout_ms": 30_000.0,
            "in_passes": False,
            "window_bytes": 1 << 20,
            "floating_bytes": 4 << 20,
        }
        self.manager.deploy(command, epoch, deployment)

    def events(self) -> list[dict[str, Any]]:
        return take_events()


@pytest.fixture
def rig(live_redis: str) -> Iterator[Rig]:
    made = Rig()
    yield made
    made.context.cancelJobGroup("all")
    stages = [thread for thread in threading.enumerate() if thread.name.startswith("stage-job")]
    for thread in stages:
        thread.join(5)


def test_single_stages_of_an_attempt_can_be_ended(rig: Rig) -> None:
    rig.deploy("left", stage=0)
    rig.deploy("right", stage=1)
    wait_until(lambda: sorted(rig.context.started) == ["job-0-0", "job-0-1"], 5, "the stages' start")
    rig.manager.end(1, "job", 0, [1])
    wait_until(lambda: rig.context.cancelled == ["job-0-1"], 5, "the end of one stage")


def test_a_command_that_comes_twice_is_carried_out_once(rig: Rig) -> None:
    rig.deploy("same")
    rig.deploy("same")
    rig.deploy("another")
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    rig.manager.report()
    [heartbeat] = rig.events()
    assert heartbeat["stages"] == [["job", 0, 0]]
    assert heartbeat["taskmanager"]["slots"] == 4


def test_a_stage_that_cannot_begin_is_told_and_takes_no_slots(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        rig.deploy()
    rig.manager.report()
    ended, heartbeat = rig.events()
    assert (ended["type"], ended["error"]) == ("stage_ended", "it could not begin: can't start new thread")
    assert heartbeat["stages"] == []
    # the same stage may be sent again, and its group can be ended
    rig.deploy("again")
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    rig.manager.end(1, "job", 0)
    wait_until(lambda: rig.context.cancelled == ["job-0-0"], 5, "its end")


def test_a_leader_that_has_only_been_heard_of_fences_earlier_ones(rig: Rig) -> None:
    rig.deploy("first", epoch=1)
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    tasks.serve(rig.manager)
    tasks.lead("command", epoch=2)
    rig.manager.end(1, "job", 0)
    rig.deploy("old", epoch=1, stage=1)
    rig.manager.report()
    [heartbeat] = rig.events()
    assert heartbeat["stages"] == [["job", 0, 0]]
    assert rig.context.cancelled == []


def test_a_command_of_an_older_leader_is_refused(rig: Rig) -> None:
    rig.deploy("new", epoch=2)
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    rig.deploy("old", epoch=1, stage=1)
    rig.manager.end(1, "job", 0)
    assert rig.context.started == ["job-0-0"]
    rig.manager.report()
    assert rig.events()[0]["stages"] == [["job", 0, 0]]


def test_the_end_of_a_stage_is_told_before_a_heartbeat_without_it(rig: Rig) -> None:
    rig.deploy()
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    rig.context.error = RuntimeError("java.lang.Exception: worker died")
    rig.context.cancelJobGroup("job-0-0")
    wait_until(lambda: not rig.manager._running, 5, "the stage's end")
    rig.manager.report()
    ended, heartbeat = rig.events()
    assert (ended["type"], ended["stage"]) == ("stage_ended", 0)
    assert "worker died" in ended["error"]
    assert heartbeat["stages"] == []


def test_a_dead_jvm_ends_the_process_and_the_leader_is_told(rig: Rig) -> None:
    rig.manager.watch()
    assert not rig.deaths
    rig.context.jvm.returncode = -9
    rig.manager.watch()
    assert rig.deaths == ["the JVM ended with -9"]
    assert [event["type"] for event in rig.events() if event["type"] == "gone"] == ["gone"]


def test_a_session_that_spark_stopped_ends_the_process(rig: Rig) -> None:
    rig.context.jvm.stopped = True
    rig.manager.watch()
    assert rig.deaths == ["Spark stopped the session"]


def test_a_jvm_that_hangs_holds_no_heartbeat_up_and_ends_the_process_in_the_end(rig: Rig) -> None:
    rig.context.jvm.may_answer.clear()
    try:
        rig.manager.report()
        rig.manager.watch()
        assert not rig.deaths
        assert [event["type"] for event in rig.events()] == ["heartbeat"]
        for _ in range(5):
            rig.manager.watch()
        assert rig.deaths[0] == "the JVM has not answered for 0.05 s"
    finally:
        rig.context.jvm.may_answer.set()


def test_a_stage_that_fails_with_the_jvm_is_told_as_the_end_of_the_taskmanager(rig: Rig) -> None:
    rig.deploy()
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    rig.context.error, rig.context.jvm.returncode = ConnectionError("refused"), -9
    rig.context.cancelJobGroup("job-0-0")
    wait_until(lambda: bool(rig.deaths), 5, "the end")
    assert [event["type"] for event in rig.events()] == ["gone"]


def test_a_command_queue_that_went_deaf_ends_the_process(rig: Rig) -> None:
    rig.manager.watch()
    assert rig.sent == [PING_TASK]
    rig.clock.advance(PING_TIMEOUT_MS - 1)
    rig.manager.watch()
    assert not rig.deaths
    tasks.serve(rig.manager)
    tasks.ping("id")
    rig.clock.advance(2)
    rig.manager.watch()
    assert not rig.deaths
    rig.clock.advance(PING_TIMEOUT_MS + 10_001)
    rig.manager.watch()
    rig.clock.advance(PING_TIMEOUT_MS + 1)
    rig.manager.watch()
    assert rig.deaths == ["no command has arrived for 45 s"]


def test_what_could_not_be_told_is_told_when_redis_is_back(rig: Rig, settings: Any) -> None:
    url = settings.REDIS_URL
    rig.deploy()
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    bus.disconnect()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    rig.context.cancelJobGroup("job-0-0")
    wait_until(lambda: not rig.manager._running, 5, "the stage's end")
    bus.disconnect()
    settings.REDIS_URL = url
    rig.manager.report()
    assert [event["type"] for event in rig.events()] == ["stage_ended", "heartbeat"]


def test_while_it_drains_its_heartbeats_say_so_and_it_ends_when_nothing_runs(rig: Rig) -> None:
    rig.deploy()
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    bus.show_jobmanager("somebody")
    rig.manager.drain(30_000)
    rig.clock.advance(5_000)
    rig.manager.report()
    [heartbeat] = rig.events()
    assert heartbeat["taskmanager"]["evicts_in_ms"] == 15_000
    assert rig.manager.why_drained() == ""
    rig.manager.end(1, "job", 0)
    wait_until(lambda: rig.manager.why_drained() == "nothing runs on it any more", 5, "the end of the stage")


def test_while_it_drains_it_does_not_wait_for_a_cluster_that_ends(rig: Rig) -> None:
    rig.deploy()
    wait_until(lambda: rig.context.started == ["job-0-0"], 5, "the stage's start")
    bus.hide_jobmanager("somebody")
    rig.manager.drain(30_000)
    assert rig.manager.why_drained() == ""
    rig.clock.advance(5_000)
    assert rig.manager.why_drained() == "there is no JobManager that could move its jobs"


@pytest.mark.parametrize(("failures", "ends"), [(REPORT_FAILURES - 1, False), (REPORT_FAILURES, True)])
def test_a_reporter_that_fails_goes_on_and_ends_the_process_if_it_fails_for_long(
    rig: Rig, failures: int, ends: bool
) -> None:
    left = [RuntimeError("nobody foresaw it")] * failures

    def defect() -> str | None:
        if left:
            raise left.pop()
        return None

    rig.manager._session_defect = defect
    for _ in range(REPORT_FAILURES):
        rig.manager.turn()
    assert [event["type"] for event in rig.events()] == ["heartbeat"] * REPORT_FAILURES
    assert len(rig.deaths) == ends
    assert all("nobody foresaw it" in cause for cause in rig.deaths)
    # it counts failures in a row
    left += [RuntimeError("again")] * (REPORT_FAILURES - 1)
    rig.manager._session_defect = lambda: None
    rig.manager.turn()
    rig.manager._session_defect = defect
    for _ in range(REPORT_FAILURES - 1):
        rig.manager.turn()
    assert len(rig.deaths) == ends


def test_it_says_after_ten_seconds_and_then_each_minute_that_it_was_not_taken(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    leader = RedisLeaderBus(1)
    leader.beat()
    leader.publish("cluster", {"version": 1, "taskmanagers": [{"id": "another"}]})
    caplog.set_level("INFO", "backend.cluster.taskmanager")

    def said_in(seconds: int) -> list[str]:
        caplog.clear()
        for _ in range(seconds):
            rig.clock.advance(1_000)
            leader.beat()
            rig.manager.look_whether_taken()
        return [record.getMessage() for record in caplog.records]

    assert said_in(9) == []
    [reminder] = said_in(60)
    assert rig.manager.identity.id in reminder and "TIDEMARK_CLUSTER_KEY" in reminder
    assert len(said_in(60)) == 1
    leader.publish("cluster", {"version": 2, "taskmanagers": [{"id": rig.manager.identity.id}]})
    assert said_in(60) == [f"the JobManager has taken TaskManager {rig.manager.identity.id}"]
    leader.close()


def test_it_says_that_no_jobmanager_leads(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    bus.client().delete(bus.BEAT_KEY, bus.CLUSTER_KEY)
    rig.clock.advance(10_000)
    rig.manager.look_whether_taken()
    assert caplog.messages == [f"TaskManager {rig.manager.identity.id} waits: no JobManager leads"]
