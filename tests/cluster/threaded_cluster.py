"""A cluster within the test's process: a real leader, a real TaskManager, and real slots, each in a thread.

Real are the database in a file, Redis, the storage, the control streams and the logs; missing are processes, Spark and
Celery's worker: its commands are left in their queues, and delivered by hand. Time runs by itself, and whole days pass
when a test says so: for rows and the leader by their clock, for the keys of Redis by what is left of their lives.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker

from backend.cluster import bus, commands, database_clock
from backend.cluster.jobmanager import JobManager
from backend.cluster.leader_bus import RedisLeaderBus
from backend.cluster.leadership import Leadership, read_lease, take_over
from backend.cluster.lease import HeldLease
from backend.cluster.models import Job
from backend.cluster.taskmanager import TaskManager, TaskManagerIdentity
from backend.config.celery import app
from runtime.core.clock import SYSTEM_CLOCK, SystemClock
from runtime.core.ids import SlotId
from runtime.execution.spark_slot import SlotSpec
from runtime.execution.spark_stages import SparkStages
from runtime.network.flight import FlightNetworkEnvironment
from runtime.task.control_client import FlightControlLink, connect_control
from runtime.task.control_link import ControlLostError
from runtime.task.control_session import ControlSession, SessionTerms
from runtime.task.slot import Slot
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
SLOTS = 4
_TURN_S = 0.02
_END_S = 60.0


class AdvancedClock(SystemClock):
    """The machine's clock, ahead by what the test has let pass at once."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self._ahead_ms

    def advance(self, ms: int) -> None:
        """Let time pass at once."""
        self._ahead_ms += ms


@contextmanager
def database_in_a_file(directory: Path, blocker: DjangoDbBlocker) -> Iterator[None]:
    """A new database, that of PostgreSQL's tests or one that all threads can open, while the block lasts."""
    with blocker.unblock():
        if connections["default"].vendor != "sqlite":
            yield
            return
        kept, named = connections["default"], connections.settings["default"]["NAME"]
        del connections["default"]
        connections.settings["default"]["NAME"] = str(directory / "db.sqlite3")
        try:
            call_command("migrate", verbosity=0)
            yield
        finally:
            connections["default"].close()
            connections.settings["default"]["NAME"] = named
            connections["default"] = kept


class ThreadStages:
    """Implements what TaskManager needs of SparkStages: each slot is a thread."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, group: str, spec: SlotSpec, on_end: Callable[[str | None], None]) -> None:
        """Start the slots of a region; `on_end` is called when all have ended."""
        slots = [threading.Thread(target=_run_slot, args=(spec, slot), name=f"{group}-{slot}") for slot in spec.slots]
        for thread in slots:
            thread.start()

        def watch() -> None:
            for thread in slots:
                thread.join()
            on_end(None)

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=watch, name=f"{group} ends"))
        self._threads[-1].start()

    def cancel(self, group: str) -> None:
        """Do nothing: slots end when their JobMaster does."""

    def end(self, groups: Sequence[str]) -> None:
        """Do nothing: slots end when they are released."""

    def join(self) -> None:
        """Wait for all slots to end."""
        for thread in self._threads:
            thread.join(_END_S)


def _run_slot(spec: SlotSpec, slot_id: SlotId) -> None:
    """Run a slot as `run_slot` does, without taking the process's output."""

    def connect(address: str) -> FlightControlLink:
        return connect_control(address, slot_id, spec.attempt, spec.token, SYSTEM_CLOCK, spec.lease_ms)

    terms = SessionTerms(slot_id, spec.attempt, spec.epoch, spec.token, 0.0)
    network = FlightNetworkEnvironment(
        slot=slot_id,
        attempt=spec.attempt,
        token=spec.token,
        host=HOST,
        clock=SYSTEM_CLOCK,
        window_bytes=spec.window_bytes,
        floating_bytes=spec.floating_bytes,
    )
    control = None
    try:
        control = ControlSession(connect(spec.control_address), connect, terms, SYSTEM_CLOCK)
        Slot(slot_id, spec.attempt, "host", network, control, SYSTEM_CLOCK).run()
    except (ControlLostError, OSError):
        # the stream of a process would end with it
        if control is not None:
            control.close()
    finally:
        network.close()


class ThreadedCluster:
    """One leader and one TaskManager; the test's thread is the leader's loop.

    Args:
        settle_s: for how long at most a condition is waited for.
    """

    def __init__(self, clock: AdvancedClock, settle_s: float = 60.0) -> None:
        self.clock = clock
        self._settle_s = settle_s
        lease = take_over(read_lease(), "leader", "", clock)
        assert lease is not None
        leadership = Leadership(lease.epoch, HeldLease(float("inf")), clock)
        self.stopped = threading.Event()
        self.stages = ThreadStages()
        self.taskmanager = self._new_taskmanager()
        self.manager = JobManager(leadership, RedisLeaderBus(lease.epoch), HOST, self.stopped, clock, self._send)

    def _new_taskmanager(self) -> TaskManager:
        identity = TaskManagerIdentity.create(SLOTS, "local", self.clock.now_ms())
        stages = cast(SparkStages, self.stages)
        return TaskManager(identity, stages, lambda: None, self.clock, pytest.fail, self._send)

    def _send(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        """Send a command, and deliver it, as Celery would."""
        commands.send(worker_name, task, expires_s, **arguments)
        taskmanager = self.taskmanager
        if worker_name != taskmanager.identity.worker_name:
            return
        match task:
            case commands.DEPLOY_TASK:
                epoch, name = arguments.pop("epoch"), f"{arguments['job_id']}-{arguments['attempt']}"
                taskmanager.deploy(f"{name}-{arguments['stage']}", epoch, arguments)
            case commands.END_TASK:
                taskmanager.end(**arguments)
            case commands.LEAD_TASK:
                taskmanager.lead(arguments["epoch"])
            case commands.KILL_TASK:
                # of a slot that was silent too long: a thread cannot be killed, and ends with its control stream
                pass
            case _:
                raise NotImplementedError(task)

    def turn(self) -> None:
        """Report what the TaskManager has, and run one turn of the leader in which everything is due."""
        self.taskmanager.report()
        self.manager.hasten()
        self.manager.step(_TURN_S)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Turn until a condition holds."""

        def turned() -> bool:
            self.turn()
            return condition()

        wait_until(turned, self._settle_s, what)

    def until_ended(self, jobs: Sequence[str]) -> None:
        """Turn until jobs have ended, and their slots are free."""
        self.until(
            lambda: (
                not (
                    Job.objects.filter(id__in=jobs, ended_at=None).exists()
                    or set(jobs) & set(self.manager.jobs.runners)
                )
            ),
            "the end of jobs",
        )

    def replace_taskmanager(self) -> None:
        """End the TaskManager, and start another."""
        self.taskmanager.stop()
        self.taskmanager = self._new_taskmanager()
        self.turn()

    def pass_time(self, ms: int) -> None:
        """Let time pass, in steps between which the leader looks."""
        self.clock.advance(ms)
        age_keys(ms)
        for _ in range(3):
            self.turn()

    def close(self) -> None:
        """End all."""
        self.stopped.set()
        self.manager.close()
        self.stages.join()


def age_keys(ms: int) -> None:
    """Have what Redis keeps for a time become so much older."""
    store = bus.client()
    for key in list(store.scan_iter(count=1000)):
        left_ms = store.pttl(key)
        if 0 <= left_ms <= ms:
            store.delete(key)
        elif left_ms > 0:
            store.pexpire(key, left_ms - ms)


@contextmanager
def threaded_cluster(
    home: Path, blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ThreadedCluster]:
    """A cluster whose settings name a home and an empty Redis."""
    monkeypatch.setattr(app.conf, "broker_write_url", settings.REDIS_URL)
    clock = AdvancedClock()
    monkeypatch.setattr(database_clock.CLOCK, "_own", clock)
    database = home.with_name(f"{home.name}-database")
    database.mkdir()
    with database_in_a_file(database, blocker):
        cluster = ThreadedCluster(clock)
        try:
            yield cluster
        finally:
            cluster.close()
    shutil.rmtree(database, ignore_errors=True)
