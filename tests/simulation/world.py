"""A whole cluster in one loop: a scheduler that picks from a seed what happens next, and the processes that it steps.

Real are JobMaster, slots, tasks, operators, backends, sinks and the code of the storage. Simulated are time, the
network, the file system, the database behind the sink and who runs when. A process that freezes in the middle of a step
does so by running the rest of the world inside of that step.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import secrets
import shutil
import tempfile
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.messages import NotStored
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.actions import SlotProcess as SlotProcessId
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import AfterSavepoint, JobMasterEvent, SlotMessageReceived, StorageAnswered
from runtime.jobmaster.execution_graph import ExecutionGraph, Region
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.placement import PlacedRegion
from runtime.jobmaster.rescaling import rescaled
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.task.control_link import ControlLostError
from runtime.task.control_session import AdoptionOffer, AdoptionRefusedError, ControlSession, SessionTerms
from runtime.task.messages import (
    DeclineCheckpoint,
    Deploy,
    FailureInfo,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ResyncSources,
    SlotReport,
    SnapshotCoordinators,
    TriggerCheckpoint,
)
from runtime.task.slot import Slot
from runtime.testing.clock import ManualClock
from runtime.testing.jobs import START_MS
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.simulation import active, disk, workers
from tests.simulation.control import SimulatedLink
from tests.simulation.damage import Output, output_since
from tests.simulation.database import Database
from tests.simulation.disk import Disk
from tests.simulation.faults import PASS_ACTIONS, Action, Fault, InjectedError, Point, ProcessEndedError
from tests.simulation.files import REFUSAL, SimulatedFiles
from tests.simulation.hosts import HostProcess
from tests.simulation.network import SimulatedEnvironment, Wire
from tests.simulation.process import Process
from tests.simulation.progress import NOT_ENDED, Progress
from tests.simulation.reader import READ_MS, Reader
from tests.simulation.scenario import Scenario
from tests.simulation.workload import resumed

TOKEN = "token"
#: address of somebody who offers to adopt slots and does not know their token
STRANGER = "stranger"
DAMAGED_AGAIN = "a damaged checkpoint is restored again and again"
#: each attempt before may have failed for another reason, before the damage was read
_MAX_DAMAGED_ATTEMPTS = 8
NO_PAUSES = Retries((0.0, 0.0), pause=lambda _: None)
_MAX_DEPTH = 3
_MAX_DELAY_MS = 4.0
_TAKEOVER_MS = 400.0
_STORY = 400
_PATIENCE_MS = 10.0
_FAILURES = {
    *(Action.KILL, Action.RAISE, Action.KILL_JOBMASTER, Action.POWER_LOSS, Action.LAND_LATE, Action.DISCONNECT),
    *PASS_ACTIONS,
}
_PID = f" (pid {os.getpid()} on localhost)"
#: what runs on after the job's end has so long to notice
_AFTERLIFE_MS = 30_000.0
#: where RocksDB works, if there is such a place: half the time of a run is the disk's otherwise
_IN_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class SlotProcess(Process):
    """A slot, its network and its upload threads."""

    def __init__(self, world: World, slot: SlotId, attempt: Attempt, master: JobMasterProcess) -> None:
        super().__init__(world, f"slot {slot} of attempt {attempt} under {master.name}")
        self.slot_id = slot
        self.attempt = attempt
        #: to the JobMaster that it belongs to, or is about to go over to
        self.link = SimulatedLink(world, slot, attempt, self, master)
        #: whether the JobMaster that it belongs to has adopted it
        self.has_resynced = False
        #: of the JobMaster that it belongs to, or is about to go over to
        self._epoch = master.epoch
        self._is_coming_over = False
        #: checkpoints of which it does not know how they ended, as it has reported
        self._undecided: set[CheckpointId] = set()
        #: the latest checkpoint that it was asked for
        self._last_asked = CheckpointId(0)
        #: why it ends by itself
        self.lost: str | None = None
        #: how it was told that checkpoints have ended
        self._ends: dict[CheckpointId, type] = {}
        terms = SessionTerms(slot, attempt, master.epoch, TOKEN, world.scenario.orphan_timeout_ms)
        self.session = ControlSession(self.link, self._connect, terms, world.clock)
        self.environment = SimulatedEnvironment(self, slot, attempt, world.wire, world.scenario.window_bytes)
        self._uploads: deque[Callable[[], None]] = deque()
        self._has_closed_uploads = False
        self.slot = Slot(
            slot, attempt, "localhost", self.environment, self.session, world.clock, self, world.files, NO_PAUSES
        )
        self.slot.on_wake(self.wake)

    @property
    def is_orphaned(self) -> bool:
        """Return whether its JobMaster is gone, and it goes on."""
        return self.link.master.is_dead and self.world.scenario.orphan_timeout_ms > 0

    def obeys(self, epoch: int) -> bool:
        """Return whether the TaskManager ends it for a leader: of one that it knows to be replaced it takes no
        command.
        """
        return self.session.epoch <= epoch

    def offer(self, offer: bytes) -> None:
        """A JobMaster asks it to come over."""
        try:
            self.session.offer(offer)
        except AdoptionRefusedError:
            self.world.num_offers_refused += 1
        self.wake()

    def _connect(self, address: str) -> SimulatedLink:
        if address == STRANGER:
            self.world.violate(f"{self.name} goes over to somebody who does not know its token")
            raise ControlLostError("nobody is there")
        master = self.world.masters[int(address)]
        if master.epoch <= self._epoch:
            self.world.violate(f"{self.name} goes back to {master.name} from epoch {self._epoch}")
        if master.is_dead:
            raise ControlLostError("the JobMaster is gone")
        self.link = SimulatedLink(self.world, self.slot_id, self.attempt, self, master)
        self._epoch, self._is_coming_over, self.has_resynced = master.epoch, True, False
        return self.link

    def reports(self, report: SlotReport) -> None:
        """Note what it says to the JobMaster that it goes over to."""
        self._undecided = set(report.pending)

    @property
    def epoch(self) -> int:
        """Of the newest leader that it has come over to, or is about to."""
        return self._epoch

    def heard(self, message: JobMasterMessage) -> None:
        """Note that it is about to act on a message."""
        if self._is_coming_over and isinstance(message, SnapshotCoordinators | TriggerCheckpoint):
            self.world.violate(f"{self.name} is asked for a checkpoint before it knows how the earlier ones ended")
        match message:
            case NotifyCheckpointComplete(checkpoint_id) | NotifyCheckpointAborted(checkpoint_id):
                if self._ends.setdefault(checkpoint_id, type(message)) is not type(message):
                    self.world.violate(f"{self.name} is told that checkpoint {checkpoint_id} is complete and given up")
                is_complete = isinstance(message, NotifyCheckpointComplete)
                self._undecided -= {
                    n for n in self._undecided if n == checkpoint_id or (is_complete and n < checkpoint_id)
                }
            case TriggerCheckpoint(checkpoint_id):
                if checkpoint_id <= self._last_asked:
                    self.world.violate(f"{self.name} is asked for checkpoint {checkpoint_id} after {self._last_asked}")
                self._last_asked = max(self._last_asked, checkpoint_id)
            case ResyncSources():
                self.world.num_adopted += 1
                self.has_resynced, self._is_coming_over = True, False
                self._check_decided()

    def _check_decided(self) -> None:
        """Of checkpoints that are older than the newest complete one it need not hear."""
        if not self._undecided:
            return
        retained = self.world.files.log().retained()
        newest = retained[-1].checkpoint_id if retained else 0
        left = sorted(n for n in self._undecided if n > newest)
        if left:
            self.world.violate(f"{self.name} was adopted and not told how checkpoints {left} ended")

    # Uploads: a thread that gets its turn at some time

    def submit(self, action: Callable[[], None]) -> None:
        if self._has_closed_uploads:
            return

        def run() -> None:
            if not self._has_closed_uploads:
                action()

        self.world.later(self, run, self.world.scenario.upload_ms)

    def abandon(self, action: Callable[[], None]) -> None:
        """It ends by itself."""

    def close(self) -> None:
        self._has_closed_uploads = True

    def step(self) -> None:
        world = self.world
        world.reach(Point.STEP, self.name)
        if self.lost is not None or (self.link.lost is not None and not world.scenario.orphan_timeout_ms):
            with contextlib.suppress(ControlLostError):
                self.slot.run()
            self._leave()
            return
        try:
            self.slot.step()
        except ControlLostError as error:
            self.lost = str(error)
            self.wake()
            return
        if self.slot.is_released:
            world.tell(f"{self.name} is released")
            self._leave()
            return
        self.due_ms = world.clock.monotonic_ms() + self.slot.idle_ms()

    def _leave(self) -> None:
        self.environment.close()
        self.world.wire.pump()
        lost = self.lost or self.link.lost
        if lost is not None:
            self.world.tell(f"{self.name} ends by itself: {lost}")
            self.link.break_off("the slot has ended")
        self.is_dead = True
        self.world.database.forget_open(self.transactions)
        self.world.disk.ended(self)

    def ended(self) -> None:
        self.world.wire.break_all_of(self)
        self.link.break_off("its process is gone")


class JobMasterProcess(Process):
    """A JobMaster: its driver, and the slots that it has requested. Implements SlotProvider."""

    is_jobmaster = True

    def __init__(
        self,
        world: World,
        epoch: int,
        graph: JobGraph,
        first_attempt: Attempt,
        placement: Sequence[PlacedRegion] = (),
    ) -> None:
        super().__init__(world, f"JobMaster {epoch}")
        self.epoch = epoch
        #: of the slots that are or were its own
        self.links: dict[tuple[SlotId, Attempt], SimulatedLink] = {}
        self._asked_for: dict[Attempt, list[SlotId]] = {}
        self._released: set[tuple[SlotId, Attempt]] = set()
        self._told: JobState | None = None
        self._known_failures: set[tuple[Attempt, float]] = set()
        placed = {(slot.slot, of.attempt) for of in placement for slot in of.slots}
        self._slots: dict[tuple[SlotId, Attempt], SlotProcess | HostProcess] = {
            (p.slot_id, p.attempt): p for p in world.slots() if (p.slot_id, p.attempt) in placed
        }
        kind = ExecutionKind.of(Configuration.from_dict(dict(graph.configuration)))
        self._is_in_passes = kind is ExecutionKind.MICRO_BATCH
        files = SnapshotFiles(world.files, retries=NO_PAUSES)

        self._is_replaced = False

        def open_store() -> FileCompletedStore:
            return FileCompletedStore.open(
                world.files.root, graph.job_id, epoch, world.files, owner=f"JobMaster {epoch}", retries=NO_PAUSES
            )

        def new_name() -> str:
            return f"{world.random.getrandbits(48):012x}"

        def give_up_stop() -> None:
            # as in SQL, a JobMaster that was replaced changes nothing
            if not world.leads(self):
                self._is_replaced = True
                raise OSError("another JobMaster has taken over")
            world.begun_stop = None

        home = CheckpointHome(
            world.files.root,
            files,
            open_store,
            epoch,
            new_name=new_name,
            left_stop=world.begun_stop,
            give_up_stop=give_up_stop,
        )
        self.driver = JobMasterDriver(
            graph,
            lambda post: self,
            ClientOutputs(),
            world.clock,
            first_attempt,
            home,
            is_inline=True,
            placement=placement,
        )
        self.driver.on_post = self.wake
        self.driver._storage._post = self.post
        self._storage = ScheduledStorage(self.driver._storage, world)
        self.driver._storage = self._storage  # type: ignore[assignment]

    @property
    def has_begun(self) -> bool:
        """Return whether it has requested slots; before that it reports the job's state of its predecessor."""
        return bool(self._asked_for)

    @property
    def is_taking_over(self) -> bool:
        return self.epoch > 1 and not self.has_begun

    @property
    def state(self) -> JobState:
        return self.driver._machine.state

    def post(self, event: JobMasterEvent) -> None:
        match event:
            case SlotMessageReceived(DeclineCheckpoint(checkpoint_id=failed, cause=FailureInfo(message=why))):
                self._note_failed(failed, why)
            case StorageAnswered(NotStored(failed, why)):
                self._note_failed(failed, why)
        self.driver.post(event)

    def _note_failed(self, checkpoint_id: CheckpointId, cause: str) -> None:
        if REFUSAL in cause:
            self.world.failed_checkpoints.add((self.epoch, checkpoint_id))

    def step(self) -> None:
        world = self.world
        was_running = self.state is JobState.RUNNING
        self.driver.step()
        if self.driver.broken is not None:
            raise self.driver.broken
        self.driver._machine.check_invariants()
        self._tell_failures()
        if self.state is JobState.RUNNING and not was_running:
            world.tell(f"{self.name}: attempt {self.driver._machine.attempt} is RUNNING")
            world.runs(self.driver._machine.attempt)
        if self.driver.ended.is_set() or self._is_replaced:
            # a JobManager that SQL refuses so ends, and all its JobMasters with it
            world.tell(f"{self.name}: the job is {self.state.name}")
            self.is_dead = True
            for link in self.links.values():
                link.break_off("the JobMaster has ended", is_final=True)
            return
        if not self.driver._events.empty():
            # what the storage has answered just now
            self.wake()
            return
        deadline = self.driver.next_deadline_ms()
        self.due_ms = world.clock.monotonic_ms() + 1_000.0 if deadline is None else deadline

    def _tell_failures(self) -> None:
        exceptions = self.driver.status().exceptions if self.driver._machine.state is not self._told else ()
        self._told = self.driver._machine.state
        for entry in exceptions:
            if (entry.attempt, entry.timestamp_ms) not in self._known_failures:
                self._known_failures.add((entry.attempt, entry.timestamp_ms))
                self.world.tell(f"{self.name}: {entry.cause.message}")

    def ended(self) -> None:
        for link in self.links.values():
            link.break_off("the JobMaster is gone")

    # SlotProvider

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        world = self.world
        if not world.leads(self):
            # an attempt begins when the job's row says so, and that is written under the leader's epoch
            world.tell(f"{self.name} may not begin attempt {attempt} any more")
            world.later(self, lambda: world.kill(self), 1_000.0)
            return
        world.last_attempt = Attempt(max(world.last_attempt, attempt))
        num_regions = len(ExecutionGraph(self.driver._machine.graph, attempt).regions)
        part = f" with {len(regions)} of {num_regions} regions" if len(regions) < num_regions else ""
        world.tell(f"{self.name}: attempt {attempt} begins{part}")
        for region in regions:
            world.placement.pop(region.index, None)
            self._asked_for.setdefault(attempt, []).extend(region.slots)
            if self._is_in_passes:
                world.later(None, self._host_starter(region.slots, attempt), 50.0)
                continue
            for slot in region.slots:
                world.later(None, self._starter(slot, attempt), 50.0)

    def _starter(self, slot: SlotId, attempt: Attempt) -> Callable[[], None]:
        def start() -> None:
            if self.is_dead or (slot, attempt) in self._released:
                return
            process = SlotProcess(self.world, slot, attempt, self)
            self._slots[slot, attempt] = process
            self.world.add(process)

        return start

    def _host_starter(self, slots: Sequence[SlotId], attempt: Attempt) -> Callable[[], None]:
        def start() -> None:
            if self.is_dead or any((slot, attempt) in self._released for slot in slots):
                return
            process = HostProcess(self.world, slots, attempt, self)
            self._slots |= {(slot, attempt): process for slot in slots}
            self.world.add(process)

        return start

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        if self.world.leads(self):
            self.world.placement |= {of.region: replace(of, epoch=self.epoch) for of in regions}

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        for placed in regions:
            for of in placed.slots:
                self._asked_for.setdefault(placed.attempt, []).append(of.slot)
                process = self._slots.get((of.slot, placed.attempt))
                assert not isinstance(process, HostProcess), "a host of passes ends with its JobMaster"
                if process is not None and process.is_isolated:
                    self.world.num_isolated_from_next += 1
                if process is not None and not process.is_isolated:
                    offer = AdoptionOffer(of.slot, placed.attempt, self.epoch, str(self.epoch)).sealed(TOKEN)
                    self.world.later(process, partial(process.offer, offer), 20.0)
                    self._send_stray_offers(process, offer)

    def _send_stray_offers(self, process: SlotProcess, offer: bytes) -> None:
        """An offer may come twice, the second time late; and somebody may send one who must not."""
        draw, now_ms = self.world.strays, self.world.clock.monotonic_ms()
        if draw.random() < 0.3:
            self.world.deliver(process, now_ms + draw.random() * 2_000.0, partial(process.offer, offer))
        if draw.random() < 0.1:
            forged = AdoptionOffer(process.slot_id, process.attempt, self.epoch + 1, STRANGER).sealed(f"no {TOKEN}")
            self.world.deliver(process, now_ms + draw.random() * 100.0, partial(process.offer, forged))

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        link = self.links.get((slot, attempt))
        if link is not None:
            link.tell(message)

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        link = self.links.get((slot, attempt))
        if link is not None:
            link.break_off(cause, is_final=True)

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcessId]) -> None:
        for process in processes:
            self._kill(self._slots.get((process.slot, attempt)))

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        asked_for = self._asked_for.get(attempt, ())
        slots = asked_for if regions is None else [slot for region in regions for slot in region.slots]
        for slot in slots:
            self._released.add((slot, attempt))
            self._kill(self._slots.get((slot, attempt)))

    def _kill(self, process: SlotProcess | HostProcess | None) -> None:
        if process is not None and not process.is_isolated and process.obeys(self.epoch):
            self.world.kill(process)

    def close(self) -> None:
        """Do nothing: remaining slots end with their streams."""


class ScheduledStorage:
    """The storage worker of a JobMaster, whose work is done when the scheduler says so: as if by a thread."""

    def __init__(self, worker: StorageWorker, world: World) -> None:
        self._worker = worker
        self._world = world
        self._due_ms: float | None = None
        self.recover, self.freeze, self.close = worker.recover, worker.freeze, worker.close

    @property
    def is_idle(self) -> bool:
        return self._worker.is_idle

    @property
    def trouble(self) -> str:
        return self._worker.trouble

    def put(self, action: object) -> None:
        self._worker.put(action)  # type: ignore[arg-type]

    def next_ms(self) -> float | None:
        retry_ms = self._worker.next_ms()
        if retry_ms is None:
            return None
        if self._due_ms is None:
            self._due_ms = self._world.clock.monotonic_ms() + self._world.delay_ms(self._world.scenario.upload_ms)
        return max(retry_ms, self._due_ms)

    def step(self) -> bool:
        due_ms = self.next_ms()
        if due_ms is None or due_ms > self._world.clock.monotonic_ms():
            return False
        self._due_ms = None
        self._worker._perform_first()
        return True


class World:
    """State of one run.

    Args:
        scenario: what runs, how, and what goes wrong.
        trace: takes each line of the story as it happens.
    """

    #: the job; set before `run`
    graph: JobGraph

    def __init__(self, scenario: Scenario, trace: Callable[[str], None] | None = None) -> None:
        self.scenario = scenario
        self.random = random.Random(scenario.seed)
        #: of offers that come late, or from strangers
        self.strays = random.Random(f"strays {scenario.seed}")
        self.clock = ManualClock(START_MS)
        self.files = SimulatedFiles(self, scenario.storage_is_local)
        self.disk = Disk(self)
        self.database = Database()
        self.reader = Reader(self)
        self.progress = Progress(self)
        self.wire = Wire(self)
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-simulation-", dir=_IN_MEMORY))
        self.lease_ms = float(scenario.heartbeat_timeout_ms)
        self.violations: list[str] = []
        self.last_attempt = Attempt(-1)
        #: by epoch
        self.masters: dict[int, JobMasterProcess] = {}
        #: where regions run, as it is recorded
        self.placement: dict[int, PlacedRegion] = {}
        #: how often a slot has gone over to another JobMaster
        self.num_adopted = 0
        #: how often one has refused to
        self.num_offers_refused = 0
        #: how often a JobMaster was lost that had taken over and not adopted all slots yet, a slot ended that had no
        #: JobMaster, and a slot was cut off from the JobMaster that wanted to adopt it
        self.num_lost_adopting = self.num_ended_orphaned = self.num_isolated_from_next = 0
        #: looks on before each turn, and may bring something about
        self.watch: Callable[[World], None] = lambda world: None
        #: the attempt that ran when its JobMaster was lost and nothing else: the next one has to go on with it
        self._owed: Attempt | None = None
        self.outcome: JobState | None = None
        self.num_turns = 0
        #: how often each point was passed
        self.passed: Counter[Point] = Counter()
        #: faults that have happened
        self.happened: list[Fault] = []
        #: those of them that ended an attempt which was recovering from another
        self.num_second_failures = 0
        #: tasks' parts of checkpoints that were taken while some of their timers were due and had not fired
        self.num_between_timers = 0
        #: what each damaged checkpoint makes visible that the one before it does not
        self.damaged: list[Output] = []
        #: where they are
        self._damaged_at: set[str] = set()
        #: (epoch, where a damaged one is) → attempts that were to restore it
        self._restored_damaged: dict[tuple[int, str], set[Attempt]] = {}
        #: checkpoints that failed because of the storage: epoch, number
        self.failed_checkpoints: set[tuple[int, int]] = set()
        #: savepoints that the job is to stop with: who was asked, the answer, whether the job is drained
        self._stops: list[tuple[JobMasterProcess, Future[RequestAnswered], bool]] = []
        #: where the savepoint of the last of them goes, as a leader would have recorded
        self.begun_stop: str | None = None
        #: passes whose outcome somebody still waited for, or nobody any more, by what became of them
        self.num_passes: Counter[str] = Counter()
        #: how often it was resumed from one, by whether it was drained
        self.resumed: Counter[bool] = Counter()
        #: whether the savepoint of a drained job has been recorded
        self.drain_is_recorded = False
        self.story: deque[str] = deque(maxlen=_STORY)
        self._trace = trace
        self._faults = {(fault.point, fault.nth): fault for fault in scenario.faults}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._num_events = 0
        self._processes: list[Process] = []
        self._depth = 0
        self._nobody = Process(self, "nobody")
        self.current: Process = self._nobody
        self._epoch = 0
        self.leader: JobMasterProcess | None = None

    # --- what happens -------------------------------------------------------------------------------------------------

    @property
    def has_drained(self) -> bool:
        """Return whether event time has ended before all records had arrived."""
        return self.drain_is_recorded or self.resumed[True] > 0

    def run(self) -> None:
        """Run the job to its end and everything that is left of it to theirs."""
        with active.running(self), _seeded(self.scenario.seed), disk.installed(), workers.installed():
            try:
                self._take_over()
                self._read()
                self._run_until(lambda: self.outcome is not None)
                self.reader.look_for_the_last_time()
                if self.outcome is JobState.FAILING:
                    # it was given up: of a job that goes on and on all processes are left behind
                    return
                end_ms = self.clock.monotonic_ms() + _AFTERLIFE_MS
                self._run_until(lambda: not self._processes or self.clock.monotonic_ms() > end_ms)
                self.violations += [f"{p.name} is left behind" for p in self._processes]
            finally:
                self._processes.clear()
                self._events.clear()
                shutil.rmtree(self.directory, ignore_errors=True)

    def _read(self) -> None:
        self.reader.look()
        self.progress.look()
        if self.outcome is None:
            self.at(self.clock.monotonic_ms() + READ_MS, self._read)

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self.num_turns >= self.scenario.max_turns:
                if self.outcome is None:
                    self.violations.append(f"{NOT_ENDED} within {self.num_turns} turns")
                    self.outcome = JobState.FAILING
                return
            self.num_turns += 1
            self.watch(self)
            if not self._turn():
                self.violations.append("nothing will ever happen again")
                self.outcome = self.outcome or JobState.FAILING
                return

    def _turn(self) -> bool:
        now = self.clock.monotonic_ms()
        ready = [p for p in self._processes if p.due_ms <= now and not p.is_frozen]
        if self._events and self._events[0][0] <= now:
            # what arrives goes before who waits for it about as often as after; the network does not wait for long
            choice = self.random.randrange(len(ready) + 1)
            if choice == len(ready) or self._events[0][0] < now - _PATIENCE_MS:
                self._run_event()
            else:
                self._step(ready[choice])
            return True
        if ready:
            longest = min(ready, key=lambda process: process.due_ms)
            is_late = longest.due_ms < now - _PATIENCE_MS
            self._step(longest if is_late or len(ready) == 1 else self.random.choice(ready))
            return True
        next_ms = [p.due_ms for p in self._processes if not p.is_frozen]
        if self._events:
            next_ms.append(self._events[0][0])
        if not next_ms:
            return False
        self.clock.advance(max(0.01, min(next_ms) - now))
        return True

    def _run_event(self) -> None:
        _, _, action = heapq.heappop(self._events)
        with contextlib.suppress(ProcessEndedError):
            action()
        self.wire.pump()

    def _step(self, process: Process) -> None:
        self._run_as(process, process.step)
        self.clock.advance(0.1)
        self.wire.pump()
        if process.is_dead and process in self._processes:
            self._processes.remove(process)
        if process is self.leader and isinstance(process, JobMasterProcess) and process.is_dead:
            self._leader_has_gone()

    def _run_as(self, process: Process, action: Callable[[], None]) -> None:
        before, self.current = self.current, process
        try:
            action()
        except ProcessEndedError:
            if not process.is_dead:
                raise
        except Exception as error:
            # no function of the job: the engine itself is broken
            where = "".join(traceback.format_exception(error))
            self.violations.append(f"{process.name} broke: {type(error).__name__}: {error}\n{where}")
            self.kill(process)
        finally:
            self.current = before

    # --- time ---------------------------------------------------------------------------------------------------------

    def delay_ms(self, most_ms: float = _MAX_DELAY_MS) -> float:
        """Return a random duration, ms."""
        return self.random.random() * most_ms

    def at(self, time_ms: float, action: Callable[[], None]) -> None:
        """Have something happen at a time."""
        self._num_events += 1
        heapq.heappush(self._events, (time_ms, self._num_events, action))

    def later(self, process: Process | None, action: Callable[[], None], most_ms: float = _MAX_DELAY_MS) -> None:
        """Have something happen in a process, if it still is there."""
        self.deliver(process, self.clock.monotonic_ms() + self.delay_ms(most_ms), action)

    def tell_thread(self, process: Process, action: Callable[[], None]) -> None:
        """Have a thread of a process do something soon, also while its loop waits for that."""

        def arrive() -> None:
            if process.is_frozen and not process.is_waiting:
                process.held.append(arrive)
            elif not process.is_dead:
                self._run_as(process, action)

        self.at(self.clock.monotonic_ms() + self.delay_ms(), arrive)

    def deliver(self, process: Process | None, time_ms: float, action: Callable[[], None]) -> None:
        """Have something happen in a process at a time; while it is frozen it waits."""

        def arrive() -> None:
            if process is None:
                action()
            elif process.is_frozen:
                process.held.append(action)
            elif not process.is_dead:
                self._run_as(process, action)

        self.at(time_ms, arrive)

    # --- processes ----------------------------------------------------------------------------------------------------

    def add(self, process: Process) -> None:
        """A process has started."""
        self._processes.append(process)

    def environment_at(self, address: str) -> SimulatedEnvironment | None:
        """The network of the slot at an address."""
        for process in self._processes:
            if isinstance(process, SlotProcess) and process.environment.address == address:
                return process.environment
        return None

    def on_machine(self) -> list[Process]:
        """Processes of the slots' machine that live."""
        return [process for process in self._processes if not process.is_jobmaster]

    def slots(self) -> list[SlotProcess]:
        """Slots that live."""
        return [p for p in self._processes if isinstance(p, SlotProcess)]

    def hosts(self) -> list[HostProcess]:
        """Hosts of passes that live."""
        return [p for p in self._processes if isinstance(p, HostProcess)]

    def kill(self, process: Process) -> None:
        """End a process at once. If it is the one that runs, who calls raises ProcessEndedError."""
        if process.is_dead:
            return
        self.tell(f"{process.name} is killed")
        self.num_ended_orphaned += isinstance(process, SlotProcess) and process.is_orphaned
        process.is_dead = True
        process.is_frozen = False
        if process in self._processes:
            self._processes.remove(process)
        self.database.forget_open(process.transactions)
        self.disk.ended(process)
        process.ended()
        if process is self.leader:
            self._leader_has_gone()

    def check_alive(self) -> None:
        """End what a dead process still tries to do.

        Raises:
            ProcessEndedError: the process that runs has been killed.
        """
        if self.current.is_dead:
            raise ProcessEndedError

    def _take_over(self) -> None:
        """A JobMaster begins, the first one or the next."""
        self._epoch += 1
        graph = self.graph
        parallelism = self.scenario.parallelism_of(self._epoch)
        placement = tuple(self.placement.values()) if self.scenario.orphan_timeout_ms else ()
        if placement:
            graph = rescaled(graph, placement[0].parallelism)
        elif parallelism is not None:
            graph = self.at_parallelism(graph, parallelism)
        self.tell(f"JobMaster {self._epoch} takes over")
        next_attempt = Attempt(self.last_attempt + 1)
        self.leader = self.masters[self._epoch] = JobMasterProcess(self, self._epoch, graph, next_attempt, placement)
        self.add(self.leader)

    def runs(self, attempt: Attempt) -> None:
        """All tasks of the leader's job run."""
        owed, self._owed = self._owed, None
        if self.scenario.only_leaders_fail and owed is not None and attempt != owed:
            self.violate(f"attempt {owed} was not adopted: attempt {attempt} took its place")

    def _note_owed(self, leader: JobMasterProcess) -> None:
        machine = leader.driver._machine
        is_adopting = machine.phase is Phase.RECONCILING or (machine.phase is Phase.IDLE and leader.epoch > 1)
        self.num_lost_adopting += is_adopting and not machine.state.is_terminal
        if machine.phase is Phase.STARTED and machine.state is JobState.RUNNING:
            self._owed = machine.attempt
        elif not (machine.phase in (Phase.RECONCILING, Phase.IDLE) and not machine.state.is_terminal):
            # its slots were leaving, or had not begun
            self._owed = None

    def deployed(self, master: JobMasterProcess, attempt: Attempt, message: Deploy) -> None:
        """A slot is told what to run. A run ends whose JobMaster takes no notice of what it restores being damaged."""
        restored = {task.restore.location for task in message.tasks if task.restore}
        for location in self._damaged_at & restored:
            attempts = self._restored_damaged.setdefault((master.epoch, location), set())
            attempts.add(attempt)
            if len(attempts) > _MAX_DAMAGED_ATTEMPTS and self.outcome is None:
                self.violate(f"{DAMAGED_AGAIN}: attempts {sorted(attempts)} of {master.name} restore {location}")
                self.outcome = JobState.FAILING

    def leads(self, master: JobMasterProcess) -> bool:
        """Return whether no other JobMaster has taken over from this one."""
        return master.epoch == self._epoch

    def _leader_has_gone(self) -> None:
        leader, self.leader = self.leader, None
        assert leader is not None
        self._note_owed(leader)
        if leader.state is JobState.FINISHED and (stop := self._successful_stop(leader)) is not None:
            location, drains = stop
            self.resumed[drains] += 1
            self._stops.clear()
            self.begun_stop = None
            self.placement.clear()
            self.tell(f"the job is resumed from {location}")
            self.graph = resumed(self.graph, self.resumed.total(), location, self.scenario)
            self.at(self.clock.monotonic_ms() + self.delay_ms(_TAKEOVER_MS), self._take_over)
        elif leader.state.is_terminal:
            # the job's row says so
            self.outcome = leader.state
            if leader.state is not JobState.FINISHED:
                failures = [entry.cause for entry in leader.driver.status().exceptions]
                self.violations.append(f"the job is {leader.state.name}: {failures[-1] if failures else 'no cause'}")
        else:
            self.at(self.clock.monotonic_ms() + self.delay_ms(_TAKEOVER_MS), self._take_over)

    def _successful_stop(self, leader: JobMasterProcess) -> tuple[str, bool] | None:
        # one that was replaced meanwhile may say so too, for all that it knows
        ended_by = leader.name if leader.has_begun else self.files.log().last_entry().owner
        for master, future, drains in self._stops:
            if master.name == ended_by and future.done() and future.exception() is None:
                location = future.result().location
                assert location is not None
                return location, drains
        return self._stop_of_earlier_leader(leader)

    def _stop_of_earlier_leader(self, leader: JobMasterProcess) -> tuple[str, bool] | None:
        """A savepoint to stop with that an earlier JobMaster completed, and this one has ended the job by.

        Who asked for it finds the savepoint: in a cluster the job's leader answers for the one before it.
        """
        recorded = any(f"/{self.graph.job_id}/completed/" in name for name in self.files.at_last_record)
        if not recorded or all(master.epoch == leader.epoch for master, _, _ in self._stops):
            return None
        storage = MemoryFileSystem()
        storage.files = self.files.at_last_record
        retained = FileCompletedStore(self.files.root, self.graph.job_id, 0, storage, "").retained()
        options = SnapshotFiles(storage).load(retained[-1].location).options if retained else None
        if options is None or options.after is AfterSnapshot.GO_ON:
            return None
        return options.directory, options.after is AfterSnapshot.DRAIN

    def at_parallelism(self, graph: JobGraph, parallelism: int) -> JobGraph:
        """The graph, each vertex that is not meant to be alone with another parallelism."""
        return rescaled(
            graph, {v.vertex_id: parallelism for v in graph.vertices if v.parallelism > 1 or parallelism == 1}
        )

    # --- faults -------------------------------------------------------------------------------------------------------

    def reach(self, point: Point, detail: str = "", refuses: Exception | None = None) -> Fault | None:
        """The process that runs passes a point.

        Args:
            point: the point.
            detail: for the story.
            refuses: how an operation fails here; None = as a function of the job does.

        Returns:
            A fault that the caller has to bring about.

        Raises:
            ProcessEndedError: the process has ended here.
            Exception: what it does fails.
        """
        self.check_alive()
        self.passed[point] += 1
        fault = self._faults.pop((point, self.passed[point]), None)
        if fault is None:
            return None
        self.tell(f"FAULT {fault} in {self.current.name} {detail}")
        self.happened.append(fault)
        self.progress.disturbed_by(fault)
        process = self.current
        if self._is_recovering and fault.action in _FAILURES:
            self.num_second_failures += 1
        match fault.action:
            case Action.KILL:
                self.kill(process)
                raise ProcessEndedError
            case Action.RAISE:
                raise refuses if refuses is not None else InjectedError(str(fault))
            case Action.FREEZE:
                self._freeze(process, fault.ms)
            case Action.ISOLATE:
                process.is_isolated = not process.is_jobmaster
            case Action.KILL_JOBMASTER if self.leader is not None:
                self.kill(self.leader)
                self.check_alive()
            case Action.KILL_DRIVER:
                for driver in (*([] if self.leader is None else [self.leader]), *self.hosts()):
                    self.kill(driver)
                self.check_alive()
            case Action.FREEZE_JOBMASTER if self.leader is not None:
                self.replace_leader(self.leader, fault.ms)
            case Action.DISCONNECT if self.wire.pairs:
                self.random.choice(self.wire.pairs).break_off("the connection was lost")
            case Action.RESCALE if self.leader is not None:
                self._rescale(self.leader, fault.ms)
            case Action.SAVEPOINT if self.leader is not None:
                self.leader.driver.trigger_savepoint(self.files.savepoints)
            case Action.STOP if self.leader is not None:
                after = AfterSavepoint.DRAIN if fault.ms else AfterSavepoint.SUSPEND
                self.begun_stop = directory = self.leader.driver.new_savepoint_directory(self.files.savepoints)
                stop = self.leader.driver.trigger_savepoint(self.files.savepoints, after=after, directory=directory)
                self._stops.append((self.leader, stop, bool(fault.ms)))
            case Action.POWER_LOSS:
                for on_machine in self.on_machine():
                    self.kill(on_machine)
                if self.scenario.storage_is_local and self.leader is not None:
                    self.kill(self.leader)
                self.disk.lose_power()
                self.check_alive()
            case Action.OUTAGE | Action.UNMOUNT:
                self.files.be_away(fault.ms, is_unmounted=fault.action is Action.UNMOUNT)
            case Action.CLOCK_JUMP:
                self.clock.jump(fault.ms)
            case Action.DAMAGE if (damaged := self._damage(bool(fault.ms))) is not None:
                if damaged.endswith("/_metadata") and self.leader is not None:
                    # only a new one reads them
                    self.kill(self.leader)
                self.kill(process)
                raise ProcessEndedError
            case Action.LAND_LATE:
                return fault
        return None

    @property
    def _is_recovering(self) -> bool:
        leader = self.leader
        return leader is not None and self.last_attempt > 0 and leader.state is not JobState.RUNNING

    def work(self, point: Point) -> None:
        """A function works on a record: that takes time."""
        if self.scenario.record_ms:
            self.clock.advance(self.scenario.record_ms)
        self.reach(point)

    def _freeze(self, process: Process, ms: float) -> None:
        """Let the world go on without the process, in the middle of what it does."""
        if self._depth >= _MAX_DEPTH:
            return
        end_ms = self.clock.monotonic_ms() + ms
        process.is_frozen = True
        self._depth += 1
        before = self.current
        self.current = self._nobody
        self.at(end_ms, lambda: None)
        self._run_until(lambda: process.is_dead or self.clock.monotonic_ms() >= end_ms)
        self.current = before
        self._depth -= 1
        self._thaw(process)
        self.check_alive()

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Let the world go on while the process that runs waits for something.

        Raises:
            ProcessEndedError: it has ended meanwhile.
        """
        process = self.current
        process.is_frozen = process.is_waiting = True
        self.current = self._nobody
        self._run_until(lambda: process.is_dead or is_over())
        self.current = process
        if not process.is_dead and not is_over():
            # the run is over
            self.kill(process)
        process.is_frozen = process.is_waiting = False
        self.check_alive()
        held, process.held = process.held, []
        for action in held:
            self.deliver(process, self.clock.monotonic_ms(), action)

    def _thaw(self, process: Process) -> None:
        process.is_frozen = False
        process.wake()
        self.tell(f"{process.name} goes on")
        held, process.held = process.held, []
        for action in held:
            self.deliver(process, self.clock.monotonic_ms(), action)

    def replace_leader(self, leader: JobMasterProcess, ms: float) -> None:
        """The leader stands still long enough for another one to begin, and comes back as if nothing had been."""
        self.leader = None
        self._note_owed(leader)
        self.at(self.clock.monotonic_ms() + self.delay_ms(min(_TAKEOVER_MS, ms)), self._take_over)
        if leader is self.current:
            self._freeze(leader, ms)
            return
        leader.is_frozen = True
        self.at(self.clock.monotonic_ms() + ms, lambda: self._thaw(leader))

    def _rescale(self, leader: JobMasterProcess, parallelism: int) -> None:
        graph = leader.driver._machine.graph
        wanted = self.at_parallelism(graph, parallelism)
        leader.driver.rescale({v.vertex_id: v.parallelism for v in wanted.vertices})

    def _damage(self, goes_back: bool) -> str | None:
        """Damage a file of the newest checkpoint, if there is an older one to fall back to; which file it is.

        Args:
            goes_back: whether its largest file is to be as an older one has it.
        """
        storage = MemoryFileSystem()
        storage.files = self.files.content()
        retained = self.files.log().retained()
        if len(retained) < 2:
            return None
        directory = retained[-1].location
        names = sorted(name for name in storage.files if name.startswith(directory + "/"))
        uri = f"{directory}/_metadata" if self.random.random() < 0.4 else self.random.choice(names)
        older_names = [name for name in sorted(storage.files) if name not in names]
        if goes_back:
            found = (name for name in names if any(_is_alike(other, name) for other in older_names))
            uri = max(found, key=lambda name: len(storage.files[name]))
        others = [name for name in older_names if _is_alike(name, uri)]
        if others and (self.random.random() < 0.5 or goes_back):
            content = bytearray(storage.files[others[-1]])
        else:
            content = bytearray(storage.files[uri])
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        older, newest = (SnapshotFiles(storage).load(pointer.location) for pointer in retained[-2:])
        self.damaged.append(output_since(newest, older))
        self._damaged_at.add(directory)
        self.files.replace(uri, bytes(content))
        self.tell(f"{uri} is damaged")
        return uri

    # --- the story ----------------------------------------------------------------------------------------------------

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        # all slots are in one process, whose number is not the same each time
        line = f"{self.clock.monotonic_ms():9.1f} {what}".replace(_PID, "")
        self.story.append(line)
        if self._trace is not None:
            self._trace(line)

    def violate(self, what: str) -> None:
        """Something happened that must never happen."""
        self.tell(f"VIOLATION {what}")
        self.violations.append(what)


def _is_alike(name: str, other: str) -> bool:
    """Return whether two files hold the same state of the same task, each for its checkpoint."""
    parts = [uri.rpartition("/")[2].split("-", 2) for uri in (name, other)]
    return all(len(of) == 3 for of in parts) and len({of[2].rpartition("-")[0] for of in parts}) == 1


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Names that are made at random, and everything else that is, are the same each time."""
    source = random.Random(seed)
    original, token_hex, state = uuid.uuid4, secrets.token_hex, random.getstate()
    random.seed(seed)
    uuid.uuid4 = lambda: uuid.UUID(int=source.getrandbits(128), version=4)
    secrets.token_hex = lambda nbytes=None: source.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        uuid.uuid4, secrets.token_hex = original, token_hex
        random.setstate(state)
