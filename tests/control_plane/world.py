"""A whole cluster in one loop: leaders, TaskManagers and users, over a database and a bus that fail.

Real are the lease, the JobManager with all that it consists of (machine, store, ResourceManager, runners and their
JobMasters), the services that users call, the TaskManager, Django and the files of checkpoints. Simulated are time,
threads, the bus, the commands' broker, the control streams and the slots.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import tempfile
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.flight as flight
from django.conf import settings
from django.db import connection
from kombu.exceptions import OperationalError

from backend.cluster import (
    background,
    bus,
    candidate,
    checkpoint_store,
    commands,
    job_runner,
    jobmanager,
    leadership,
    resource_manager,
    services,
    slot_provider,
    storage_calls,
    taskmanager,
)
from backend.cluster.candidate import Candidate
from backend.cluster.jobmanager import JobManager
from backend.cluster.leadership import LeadershipLostError, LeaseKeeper
from backend.cluster.lease import LEASE_MS, SLOW_MS
from backend.cluster.storage_traces import Traces
from runtime.jobmaster import driver, storage_worker
from runtime.task.control_session import AdoptionOffer
from runtime.testing.clock import ManualClock
from tests.control_plane.bus import Redis, SimulatedLeaderBus
from tests.control_plane.database import Database
from tests.control_plane.fibers import Fiber, Process, ProcessEndedError, Scheduler, installed, new_event
from tests.control_plane.oracle import BROKE, LAPSED, Oracle
from tests.control_plane.scenario import (
    FAULTY_MS,
    QUIET_MS,
    Action,
    CallFault,
    Event,
    Point,
    Scenario,
    TimedFault,
)
from tests.control_plane.taskmanagers import SimulatedControlServer, SlotProcess, TaskManagerProcess
from tests.control_plane.users import Users
from tests.simulation.world import _seeded

START_MS = 1_700_000_000_000
_STORY = 600
_LOOK_MS = 500.0
#: a cluster in which all is well for so long has come to rest
_REST_MS = 3_000
_COMMAND_MS = 30.0
_SUPERVISOR_MS = 800.0
_EXTRA_SLOTS = 2
_DRAIN_MS = 8_000.0
_DRAIN_BEAT_MS = 500.0
#: time that an action of a leader takes at most
_SLACK_MS = 50.0
_THREADED = [
    *(background, checkpoint_store, job_runner, jobmanager, resource_manager, slot_provider),
    *(leadership, taskmanager, driver, storage_worker),
]
_IN_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class LeaderProcess(Process):
    """A jobmanager process."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(f"jobmanager {number}")
        self.world = world
        self.address = f"sim-line://{number}"
        #: 0: it does not lead yet
        self.epoch = 0
        self.manager: JobManager | None = None
        self.servers: list[SimulatedControlServer] = []
        #: monotonic ms at which it began, or thawed last
        self.thawed_ms = world.clock.monotonic_ms()
        #: monotonic ms until which its last late call takes
        self.answered_ms = 0.0
        #: monotonic ms at which it renewed its lease last
        self.renewed_ms = 0.0
        #: whether it has ended its lease itself
        self.has_released = False
        #: monotonic ms since which it has not stood still for longer than a standby's look may take
        self.awake_ms = self.thawed_ms
        #: monotonic ms at which it ended, or came to stand still; None: it goes on
        self.lost_ms: float | None = None

    def main(self) -> None:
        """Do as the command does."""
        world = self.world
        stopped: Any = new_event(world.scheduler)
        try:
            leadership = Candidate(self.name, self.address, world.clock, Traces).wait_to_lead(stopped)
            assert leadership is not None
            self.epoch, self.renewed_ms = leadership.epoch, world.clock.monotonic_ms()
            world.tell(f"{self.name} leads with epoch {self.epoch}")
            world.leads(self)
            LeaseKeeper(leadership, world.clock).start()
            leader_bus = SimulatedLeaderBus(world, self.epoch)
            self.manager = JobManager(leadership, leader_bus, "127.0.0.1", stopped, world.clock, world.send)
            self.manager.run()
        except LeadershipLostError as error:
            world.refused["sql"] += 1
            world.tell(f"{self.name} ends: {error}")
        world.kill(self)

    def act(self) -> None:
        """Do something that others see: without a lease only in the moment after it stood still."""
        now_ms = self.world.clock.monotonic_ms()
        if now_ms - self.renewed_ms > LEASE_MS + _SLACK_MS and now_ms - self.thawed_ms > _SLACK_MS:
            self.world.violate(f"{LAPSED}: {self.name} of epoch {self.epoch}")


class SimulatedProbe:
    """A standby's line to the leader's process: it breaks when that ends."""

    def __init__(self, world: World) -> None:
        self._world = world

    def has_ended(self, address: str) -> bool:
        """Return whether the process at an address is gone."""
        return any(process.address == address and process.is_dead for process in self._world.leaders)

    def close(self) -> None:
        """End the line."""


class NoLogs:
    """Takes what slots print, and writes nothing."""

    def __init__(self, epoch: int) -> None:
        pass

    def put(self, log: Path, payload: bytes, position: int | None, acknowledge: Callable[[], None]) -> None:
        acknowledge()

    def is_written(self, directory: Path) -> bool:
        return True

    def close_directory(self, directory: Path) -> None:
        pass

    def close(self) -> None:
        pass


class NoRetention:
    """Deletes no logs: none are written."""

    def __init__(self, *arguments: Any) -> None:
        pass

    def poll(self, running: Mapping[str, int]) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """World of one run.

    Args:
        scenario: what runs, and what goes wrong.
        trace: takes each line of the story as it happens.
    """

    def __init__(self, scenario: Scenario, trace: Callable[[str], None] | None = None) -> None:
        self.scenario = scenario
        self.random = random.Random(f"world {scenario.seed}")
        self.clock = ManualClock(START_MS)
        self.scheduler = Scheduler(self.clock, self.random, self._on_broken)
        self.home = Path(tempfile.mkdtemp(prefix="tidemark-control-plane-", dir=_IN_MEMORY))
        self.violations: list[str] = []
        self.happened: list[CallFault | TimedFault] = []
        #: how often a leader whose epoch was over was refused, by whom
        self.refused: Counter[str] = Counter()
        self.story: deque[str] = deque(maxlen=_STORY)
        self._trace = trace
        #: those still to come, with the number of calls until then
        self._faults = {fault: fault.nth for fault in scenario.calls}
        self.database = Database(self)
        self.redis = Redis(self)
        self.users = Users(self)
        self.oracle = Oracle(self)
        self.leaders: list[LeaderProcess] = []
        self.taskmanagers: list[TaskManagerProcess] = []
        #: those that have come for elastic jobs, and are not drained
        self.extra: list[TaskManagerProcess] = []
        #: for each leader that is to follow and end: how long after it has taken over, ms
        self._doomed: deque[float] = deque()
        self._servers: dict[str, SimulatedControlServer] = {}
        self._numbers = itertools.count(1)

    def run(self) -> None:
        """Run to the end, and judge."""
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.home, ignore_errors=True)
            stack.enter_context(_seeded(self.scenario.seed))
            stack.enter_context(_patched(self))
            stack.enter_context(installed(self.scheduler, _THREADED))
            stack.enter_context(self.database.in_use())
            stack.callback(self.scheduler.close)
            for slots in self.scenario.taskmanagers:
                self._start_taskmanager(slots)
            for _ in range(self.scenario.jobmanagers):
                self._start_jobmanager()
            self.users.start()
            for fault in self.scenario.events:
                self.scheduler.at(fault.at_ms, self._bringing_about(fault))
            self.scheduler.at(_LOOK_MS, self._look)
            try:
                self.scheduler.run_until(FAULTY_MS)
                self._come_to_rest()
            except Exception:
                self.violate(f"the run ended with an error:\n{traceback.format_exc()}")

    def _come_to_rest(self) -> None:
        """Run until all is well for some time, or for as long as it may take."""
        well_since_ms = end_ms = FAULTY_MS
        complaints: list[str] = []
        while end_ms < FAULTY_MS + QUIET_MS and end_ms - well_since_ms < _REST_MS:
            end_ms += 1_000
            self.scheduler.run_until(end_ms)
            complaints = self.oracle.complaints()
            if complaints:
                well_since_ms = end_ms
        for complaint in complaints:
            self.violate(complaint)
        self.oracle.count_operations()

    # --- what everybody uses ------------------------------------------------------------------------------------------

    def delay_ms(self, most_ms: float) -> float:
        """Return how long something takes."""
        return self.random.random() * most_ms

    def new_pid(self) -> int:
        """Return the number of a new process."""
        return 10_000 + next(self._numbers)

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        line = f"{self.clock.monotonic_ms():9.1f} {what}"
        self.story.append(line)
        if self._trace is not None:
            self._trace(line)

    def violate(self, what: str) -> None:
        """Note that something happened that must never happen."""
        if what not in self.violations:
            self.tell(f"VIOLATION {what}")
            self.violations.append(what)

    def check_alive(self) -> None:
        """End what a process that has been killed still tries to do.

        Raises:
            ProcessEndedError: it has been killed.
        """
        process = self.scheduler.process
        if process is not None and process.is_dead:
            raise ProcessEndedError

    def edge(self) -> None:
        """Let nothing out of a process that is dead, or frozen at present."""
        self.check_alive()
        process = self.scheduler.process
        while process is not None and process.is_frozen and not connection.in_atomic_block:
            self.scheduler.sleep(0.0)

    # --- leaders ------------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> LeaderProcess | None:
        """The process that leads according to SQL, if it lives."""
        leading = [process for process in self.leaders if process.epoch == self.oracle.epoch and not process.is_dead]
        return leading[0] if leading else None

    def leads(self, process: LeaderProcess) -> None:
        """A jobmanager has taken over: it may have to end soon."""

        def end() -> None:
            self.oracle.disturbed(0)
            self.kill(process)

        if self._doomed:
            self.scheduler.later(self._doomed.popleft(), end, process)

    def _start_jobmanager(self) -> None:
        process = LeaderProcess(self, next(self._numbers))
        self.leaders.append(process)
        self.scheduler.spawn(process, "main", process.main)

    def kill(self, process: Process) -> None:
        """End a process."""
        if process.is_dead:
            return
        self.tell(f"{process.name} has ended")
        self.scheduler.kill(process)
        if isinstance(process, LeaderProcess):
            process.lost_ms = process.lost_ms or self.clock.monotonic_ms()
            for server in process.servers:
                server.process_ended()
            self.scheduler.later(_SUPERVISOR_MS, self._start_jobmanager)
        if isinstance(process, TaskManagerProcess):
            process.ended()
            self.scheduler.later(_SUPERVISOR_MS, lambda: self._replace_taskmanager(process))

    def freeze(self, process: Process, ms: float) -> None:
        """Have a process stand still from the next moment on at which it could be seen."""
        if process.is_frozen or process.is_dead:
            return
        self.tell(f"{process.name} stands still for {ms:g} ms")
        process.is_frozen = True
        if isinstance(process, LeaderProcess):
            process.lost_ms = self.clock.monotonic_ms()
        self.scheduler.later(ms, lambda: None if process.is_dead else self._thaw(process, ms))

    def _thaw(self, process: Process, ms: float) -> None:
        self.tell(f"{process.name} goes on")
        if isinstance(process, LeaderProcess):
            process.lost_ms, process.thawed_ms = None, self.clock.monotonic_ms()
            if ms > SLOW_MS:
                process.awake_ms = process.thawed_ms
        self.scheduler.thaw(process)

    def listen(self, server: SimulatedControlServer) -> str:
        """A leader listens to the slots of a job; returns the address."""
        assert isinstance(server.process, LeaderProcess)
        server.process.servers.append(server)
        address = f"sim://{next(self._numbers)}"
        self._servers[address] = server
        return address

    def stop_listening(self, server: SimulatedControlServer) -> None:
        """Nobody is at the address any more."""
        self._servers = {address: of for address, of in self._servers.items() if of is not server}

    def server_at(self, address: str) -> SimulatedControlServer | None:
        """Return who listens at an address."""
        server = self._servers.get(address)
        return None if server is None or server.process.is_dead else server

    # --- TaskManagers -------------------------------------------------------------------------------------------------

    def _start_taskmanager(self, slots: int) -> TaskManagerProcess:
        process = TaskManagerProcess(self, next(self._numbers), slots)
        self.taskmanagers.append(process)
        self.scheduler.spawn(process, "main", process.manager.start)
        return process

    def _drain_taskmanager(self, process: TaskManagerProcess) -> None:
        """Do as the command does when it is told to end."""
        process.is_leaving = True
        process.manager.drain(_DRAIN_MS)
        while not process.manager.why_drained():
            self.scheduler.sleep(_DRAIN_BEAT_MS)
        self._stop_taskmanager(process)

    def _replace_taskmanager(self, dead: TaskManagerProcess) -> None:
        # the next one finds the lock of the dead one free, mostly
        if self.random.random() < 0.7:
            event = {"type": "gone", "taskmanager": dead.manager.identity.id, "cause": "its process has ended"}
            with contextlib.suppress(Exception):
                self.redis.post(event)
        if dead.is_leaving:
            return
        self._start_taskmanager(dead.num_slots)

    def living_taskmanagers(self) -> list[TaskManagerProcess]:
        """Return the TaskManagers that live."""
        return [process for process in self.taskmanagers if not process.is_dead]

    def slots(self) -> list[SlotProcess]:
        """Return all slots that live."""
        return [slot for process in self.living_taskmanagers() for slot in process.slots()]

    def send(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        """Queue a command, as `commands.send` does."""
        self.edge()
        if self.redis.is_away:
            raise OperationalError("the broker is away")
        if isinstance(self.scheduler.process, LeaderProcess):
            self.scheduler.process.act()
        what = f"{task} {arguments.get('attempt', '')}"
        fault = self.passes(Point.COMMAND, what) if task != commands.PING_TASK else None
        delay_ms, times = self.delay_ms(_COMMAND_MS), 1
        if fault is not None:
            match fault.action:
                case Action.FAIL:
                    raise OperationalError(str(fault))
                case Action.LOSE_ANSWER:
                    times = 0
                case Action.LATE:
                    delay_ms += fault.ms
                case Action.TWICE:
                    times = 2
        if delay_ms > expires_s * 1000.0:
            return
        command_id = os.urandom(8).hex()
        for nth in range(times):
            self.scheduler.later(delay_ms * (nth + 1), lambda: self._deliver(worker_name, task, command_id, arguments))
        if fault is not None and fault.action in (Action.KILL, Action.FREEZE):
            self.befall(fault)

    def _deliver(self, worker_name: str, task: str, command_id: str, arguments: dict[str, Any]) -> None:
        for process in self.living_taskmanagers():
            if process.worker_name == worker_name:
                receive = _receiver(process, task, command_id, dict(arguments))
                self.scheduler.spawn(process, task, receive)

    def offer_adoption(self, address: str, offer: AdoptionOffer, token: str, timeout_s: float) -> None:
        """Offer a slot to come over, as `adoption_client` does."""
        self.edge()
        self.scheduler.sleep(self.delay_ms(_COMMAND_MS))
        self.edge()
        slot = next((slot for slot in self.slots() if slot.address == address), None)
        if slot is None:
            raise flight.FlightUnavailableError(f"nobody answers at {address}")
        slot.adopt(offer)

    def seconds(self) -> float:
        """Return monotonic time, as `time.monotonic` does."""
        return self.clock.monotonic_ms() / 1000.0

    def sleep(self, seconds: float) -> None:
        """Wait, as `time.sleep` does."""
        self.scheduler.sleep(seconds * 1000.0)

    def kill_slot(self, host: str, pid: int) -> bool:
        """End a slot's process, as `kill_worker` does."""
        for slot in self.slots():
            if slot.pid == pid:
                slot.end("its process was killed")
                return True
        return False

    # --- faults -------------------------------------------------------------------------------------------------------

    def passes(self, point: Point, what: str) -> CallFault | None:
        """Note that a point is passed; return what goes wrong there."""
        counted = [fault for fault in self._faults if fault.point is point and fault.what in what]
        for fault in counted:
            self._faults[fault] -= 1
        due = next((fault for fault in counted if self._faults[fault] <= 0), None)
        if due is not None:
            del self._faults[due]
            self.tell(f"FAULT {due} in {self.scheduler.process}: {what:.100}")
            self.happened.append(due)
            self.oracle.disturbed(due.ms)
        return due

    def befall(self, fault: CallFault) -> None:
        """Bring about what befalls the caller itself."""
        process = self.scheduler.process
        assert process is not None
        match fault.action:
            case Action.LATE:
                if isinstance(process, LeaderProcess):
                    process.answered_ms = self.clock.monotonic_ms() + fault.ms
                self.scheduler.sleep(fault.ms)
            case Action.KILL:
                self.kill(process)
                raise ProcessEndedError
            case Action.FREEZE:
                self.freeze(process, fault.ms)

    def _bringing_about(self, fault: TimedFault) -> Callable[[], None]:
        def bring_about() -> None:
            self.tell(f"FAULT {fault}")
            self.happened.append(fault)
            self.oracle.disturbed(fault.ms)
            self._bring_about(fault)

        return bring_about

    def _bring_about(self, fault: TimedFault) -> None:
        now_ms, leader = self.clock.monotonic_ms(), self.leader
        taskmanagers, slots = self.living_taskmanagers(), self.slots()
        match fault.event:
            case Event.KILL_LEADER if leader is not None:
                self.kill(leader)
            case Event.FREEZE_LEADER if leader is not None:
                self.freeze(leader, fault.ms)
            case Event.KILL_LEADERS if leader is not None:
                self._doomed.append(fault.ms)
                self.kill(leader)
            case Event.FREEZE_JOBMANAGERS:
                for process in self.leaders:
                    self.freeze(process, fault.ms)
            case Event.KILL_TASKMANAGER if taskmanagers:
                self.kill(self.random.choice(taskmanagers))
            case Event.STOP_TASKMANAGER if taskmanagers:
                stopped = self.random.choice(taskmanagers)
                self.scheduler.spawn(stopped, "stop", lambda: self._stop_taskmanager(stopped))
            case Event.ADD_TASKMANAGER:
                self.extra.append(self._start_taskmanager(_EXTRA_SLOTS))
            case Event.DRAIN_TASKMANAGER:
                living = [process for process in self.extra if not process.is_dead]
                if living:
                    drained = self.extra.pop(self.extra.index(living[0]))
                    self.scheduler.spawn(drained, "drain", lambda: self._drain_taskmanager(drained))
            case Event.KILL_SLOT if slots:
                self.random.choice(slots).end("its process was killed")
            case Event.FAIL_TASK if slots:
                self.random.choice(slots).fail(fault.text)
            case Event.DATABASE_AWAY:
                self.database.away_until_ms = now_ms + fault.ms
            case Event.BUS_AWAY:
                self.redis.away_until_ms = now_ms + fault.ms
            case Event.FLUSH:
                self.redis.flush()
            case Event.MALFORMED:
                for text in ("", "[]", '{"type": "heartbeat"}', '{"type": "stage_ended", "job": 7}', "\ud800"):
                    self.redis.add(text)

    def _stop_taskmanager(self, process: TaskManagerProcess) -> None:
        process.manager.stop()
        self.kill(process)

    # --- small things -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.oracle.look()
        self.scheduler.later(_LOOK_MS, self._look)

    def _on_broken(self, fiber: Fiber, error: Exception) -> None:
        where = "".join(traceback.format_exception(error))
        self.violate(f"{BROKE}: {fiber.process.name}, {fiber.name}: {type(error).__name__}: {error}\n{where}")
        self.kill(fiber.process)


def _receiver(process: TaskManagerProcess, task: str, command_id: str, given: dict[str, Any]) -> Callable[[], None]:
    """Return what the Celery task of a command does."""
    manager = process.manager
    match task:
        case commands.DEPLOY_TASK:
            epoch = given.pop("epoch")
            return lambda: manager.deploy(command_id, epoch, given)
        case commands.END_TASK:
            return lambda: manager.end(**given)
        case commands.KILL_TASK:
            return lambda: manager.kill(given["epoch"], [(host, pid) for host, pid in given["processes"]])
        case commands.LEAD_TASK:
            return lambda: manager.lead(given["epoch"])
        case _:
            return manager.answered


@contextlib.contextmanager
def _patched(world: World) -> Iterator[None]:
    """Have the real code find the simulated world."""

    def control_server(
        host: str, token: str, on_message: Callable[..., None], on_lost: Callable[..., None]
    ) -> SimulatedControlServer:
        return SimulatedControlServer(world, on_message, on_lost)

    replacements: list[tuple[Any, str, Any]] = [
        (bus, "post_event", world.redis.post),
        (bus, "wake_jobmanager", world.redis.wake),
        (bus, "jobmanagers", lambda: [process.name for process in world.leaders if not process.is_dead]),
        (services, "now_ms", world.clock.now_ms),
        (jobmanager, "SlotLogWriter", NoLogs),
        (jobmanager, "LogRetention", NoRetention),
        # its files answer at once
        (storage_calls, "ask", lambda storage, call, **_: call()),
        (candidate, "LeaderProbe", partial(SimulatedProbe, world)),
        (slot_provider, "ControlServer", control_server),
        (slot_provider, "offer_adoption", world.offer_adoption),
        (slot_provider, "time", SimpleNamespace(monotonic=world.seconds, sleep=world.sleep)),
        (taskmanager, "kill_worker", world.kill_slot),
        (taskmanager, "hardware", dict),
        (settings, "TIDEMARK_HOME", world.home),
        (os, "urandom", random.Random(f"names {world.scenario.seed}").randbytes),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for owner, name, replacement in replacements:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
