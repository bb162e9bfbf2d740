"""JobMasterDriver: feeds a job's machine with events and performs its actions. All decisions are the machine's.

`step` is called by one thread; `post` and requests by any. Runs on a thread of its own (Spark) or in the loop of a
MiniCluster. What the storage of checkpoints has to do is done elsewhere, see storage_worker. An error that nobody has
foreseen ends the job as FAILED, with the error as its cause: see `break_off`.
"""

from __future__ import annotations

import dataclasses
import logging
import queue
import random
import threading
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import savepoint_directory
from runtime.checkpoint.locations import parent_of
from runtime.checkpoint.messages import (
    DeleteFiles,
    ForgetCheckpoints,
    ForgetDamaged,
    RecordEnd,
    StoreCheckpoint,
    SweepOrphans,
)
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.common.configuration import Configuration
from runtime.common.references import FILE
from runtime.common.secrets import SecretMissingError, SecretName, SecretStore
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, CheckpointId, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import (
    AdoptSlots,
    DeliverClientOutput,
    JobMasterAction,
    JobStateChanged,
    KillSlots,
    RecordPlacement,
    RefuseSlot,
    ReleaseAttempt,
    RequestAnswered,
    RequestSlots,
    SendToSlot,
    StopWanted,
)
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.client_outputs import Outputs
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    CheckpointRequested,
    JobMasterEvent,
    ParallelismOffered,
    RescaleRequested,
    SavepointLeft,
    SavepointRequested,
    SlotMessageReceived,
    StageEnded,
    Submitted,
    Tick,
)
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT, JobMasterMachine
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.peeks import JobPeeks, PeekRequest
from runtime.jobmaster.placement import PlacedRegion
from runtime.jobmaster.restart_strategy import create_restart_strategy
from runtime.jobmaster.slot_provider import SlotProvider
from runtime.jobmaster.stack_reports import StackReports
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.task.messages import ClientAck, Deploy, EdgePeeked, FailureInfo, StacksSampled

logger = logging.getLogger(__name__)

#: time that the storage has after the job's end to delete files; what is left then is an orphan
STORAGE_CLOSE_TIMEOUT_MS = 30_000.0


class JobRequestError(Exception):
    """Raised when a requested savepoint, checkpoint or rescaling was not done; the message says why."""


class JobNotRunningError(JobRequestError):
    """Raised when nothing was begun because the job does not run; it may be requested again when it does."""


@dataclasses.dataclass(frozen=True, slots=True)
class _LookedUp:
    """The job's secrets as they were when something was to begin."""

    wanted: Submitted | RequestSlots
    values: Mapping[SecretName, str]
    missing: str | None = None
    """What the job cannot begin without; None: nothing."""

    def __repr__(self) -> str:
        # values are in no traceback and no log
        return f"_LookedUp({self.wanted!r})"


class JobMasterDriver:
    """Runs one job.

    Args:
        graph: the job.
        create_provider: makes the slot provider; it is given the function by which events are posted.
        outputs: takes what slots send for the client.
        clock: for all deadlines.
        first_attempt: number of the first attempt; attempts of an earlier JobMaster of the job had lower ones.
        home: where the job's checkpoints are; None = where its configuration says, for slots that may be anywhere.
        is_inline: whether `step` does the work of the storage, instead of a thread.
        max_slots: how many slots there can be at most, where that is known.
        placement: where the job runs under an earlier JobMaster, whose slots are to be adopted; `graph` has its
            parallelisms, and the attempt before `first_attempt` is its latest.
        was_suspended: whether that JobMaster ended as planned.
        has_run: whether the job ran under an earlier JobMaster: then it waits for its first slots as long as it takes.
        record_attempt: makes an attempt's number durable before any of it runs; raises OSError if it cannot, which
            fails the attempt. None: the slot provider does, or nobody needs it.
        statistics: of checkpoints, as an earlier JobMaster has recorded them; None = they begin here.
        secrets: where the job's secrets have their values; None = in this process.
        stop: requests that a job without more batches stops with a savepoint; None = as `trigger_savepoint`.

    Raises:
        ConfigurationError: an option of the job cannot be read, or it needs a checkpoint directory and names none.
    """

    def __init__(
        self,
        graph: JobGraph,
        create_provider: Callable[[Callable[[JobMasterEvent], None]], SlotProvider],
        outputs: Outputs,
        clock: Clock,
        first_attempt: Attempt = FIRST_ATTEMPT,
        home: CheckpointHome | None = None,
        is_inline: bool = False,
        max_slots: int | None = None,
        placement: Sequence[PlacedRegion] = (),
        was_suspended: bool = False,
        has_run: bool = False,
        record_attempt: Callable[[Attempt], None] | None = None,
        statistics: StatisticsRecord | None = None,
        secrets: SecretStore | None = None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        self._clock = clock
        self._secret_store = SecretStore.of_process() if secrets is None else secrets
        #: of the current attempt; goes nowhere but into Deploy
        self._secrets: Mapping[SecretName, str] = {}
        #: what secrets are being looked up for
        self._awaited: list[Submitted | RequestSlots] = []
        #: attempt and region of what was released meanwhile
        self._released: set[tuple[Attempt, int]] = set()
        self._has_placement = bool(placement)
        self._record_attempt = record_attempt
        self._stop = stop or partial(self.trigger_savepoint, after=AfterSavepoint.SUSPEND)
        self._outputs = outputs
        #: called after each `post`, by its thread: for a loop that waits elsewhere
        self.on_post: Callable[[], None] = lambda: None
        self._events: queue.SimpleQueue[JobMasterEvent | _LookedUp] = queue.SimpleQueue()
        configuration = Configuration.from_dict(dict(graph.configuration))
        settings = CheckpointSettings.from_configuration(configuration)
        if home is None:
            home = CheckpointHome.of(settings, graph.job_id, slots_are_local=False)
        self._home = home
        self._settings = settings
        coordinator = CheckpointCoordinator(settings, graph.job_id, home.root, home.leader_epoch, home.new_name)
        if statistics is not None:
            coordinator.restore_statistics(statistics)
        self._machine = JobMasterMachine(
            graph,
            JobMasterOptions.from_configuration(configuration),
            create_restart_strategy(configuration, random.random),
            first_attempt,
            coordinator,
            max_slots,
            placement,
            was_suspended,
            has_run,
        )
        is_taken_over = first_attempt > FIRST_ATTEMPT
        self._storage = StorageWorker(
            home, settings, graph.job_id, clock, self.post, is_inline, is_taken_over, self.fail
        )
        self._provider = create_provider(self.post)
        self.stacks = StackReports(self._provider.send, clock)
        self.peeks = JobPeeks(graph, self._provider.send, clock)
        self._lock = threading.Lock()
        #: of the machine as it is, with the trouble of the storage then; None: nobody has asked since the last event
        self._status: JobStatusSnapshot | None = None
        self._status_trouble = ""
        self._begun = self._closed = self._is_leaving = False
        #: the latest parallelisms that were offered before the job began
        self._first_offer: ParallelismOffered | None = None
        self._close_at_ms: float | None = None
        self.ended = threading.Event()
        #: the error that broke the JobMaster; None: it is sound
        self.broken: Exception | None = None
        #: error with which another thread ended, for the driver's thread
        self._failure: Exception | None = None
        self._requests_lock = threading.Lock()
        #: by request id, guarded by the lock
        self._requests: dict[str, Future[RequestAnswered]] = {}
        #: why requests are refused, guarded by the lock; None: they are taken
        self._refusal: str | None = None

    # --- any thread ---------------------------------------------------------------------------------------------------

    def post(self, event: JobMasterEvent) -> None:
        """Queue an event."""
        if isinstance(event, SlotMessageReceived) and isinstance(event.message, StacksSampled):
            # only shown: the machine has no part in it
            self.stacks.take(event.message)
            return
        if isinstance(event, SlotMessageReceived) and isinstance(event.message, EdgePeeked):
            self.peeks.take(event.message)
            return
        self._events.put(event)
        self.on_post()

    def cancel(self) -> None:
        """Ask the job to stop; any number of times."""
        self.post(CancelRequested())

    def abandon(self) -> None:
        """Ask the job to stop here because another JobMaster takes over: its checkpoints stay."""
        self._storage.freeze()
        self.cancel()

    def leave(self) -> None:
        """End here, and tell the slots nothing: another JobMaster adopts them. Its checkpoints stay."""
        self._storage.freeze()
        self._is_leaving = True
        self.post(Tick())

    def fail(self, error: Exception) -> None:
        """End the job at the driver's next step, see `break_off`: something that it needs is broken."""
        self._failure = error
        self.post(Tick())

    def trigger_savepoint(
        self,
        target_directory: str | None = None,
        *,
        after: AfterSavepoint = AfterSavepoint.GO_ON,
        kind: SnapshotKind = SnapshotKind.CANONICAL,
        directory: str | None = None,
    ) -> Future[RequestAnswered]:
        """Take a savepoint.

        Args:
            target_directory: the savepoint becomes a directory in it; None = execution.checkpointing.savepoint-dir. It
                is checked, which waits for its storage, unless there is a `directory`, which is in it.
            after: what the job does after it. SUSPEND, DRAIN: the result comes when the job has FINISHED.
            kind: CANONICAL, or FULL for the state backend's own form.
            directory: the savepoint's own, from `new_savepoint_directory`; None = one with a new name.

        Returns:
            Has the savepoint's URI as `location`. Fails with JobRequestError, or with a CheckpointStorageError for a
            directory that is not allowed.
        """
        target = None
        try:
            if target_directory is not None:
                target = self._home.allowed.check(target_directory) if directory is None else parent_of(directory)
        except CheckpointStorageError as error:
            refused: Future[RequestAnswered] = Future()
            refused.set_exception(error)
            return refused
        return self._request(lambda request_id: SavepointRequested(request_id, target, kind, after, directory))

    def new_savepoint_directory(self, target_directory: str | None = None) -> str | None:
        """Return the URI of a directory for a savepoint that nobody has yet; None: it is not known where.

        Args:
            target_directory: URI of a directory that is allowed; None = as for `trigger_savepoint`.
        """
        target = target_directory or self._settings.savepoint_directory
        if not target:
            return None
        return savepoint_directory(target, self._machine.graph.job_id, self._home.new_name())

    def cancel_behind(self, location: str, checkpoint_id: CheckpointId) -> Future[RequestAnswered]:
        """Cancel the job after a savepoint that was complete when the earlier JobMaster ended, see SavepointLeft."""
        return self._request(lambda request_id: SavepointLeft(request_id, location, checkpoint_id))

    def trigger_checkpoint(self, kind: SnapshotKind | None = None) -> Future[RequestAnswered]:
        """Take a checkpoint now; FULL, INCREMENTAL, or as configured. Fails with JobRequestError."""
        return self._request(lambda request_id: CheckpointRequested(request_id, kind))

    def rescale(self, parallelism: Mapping[VertexId, int], *, at_once: bool = False) -> Future[RequestAnswered]:
        """Continue with other parallelisms, from a checkpoint; the result comes when the job runs with them.

        Args:
            parallelism: of the vertices that are to change.
            at_once: whether it does not matter when the job was rescaled last: a person asks for it, or its slots are
                about to go.

        Returns:
            Fails with JobRequestError; the job then runs on as it was.
        """
        return self._request(lambda request_id: RescaleRequested(request_id, parallelism, at_once=at_once))

    def offer(self, parallelism: Mapping[VertexId, int]) -> None:
        """Say which parallelisms the next attempt is to have, since there are slots for them; see
        ParallelismOffered.
        """
        self._first_offer = ParallelismOffered(parallelism)
        self.post(self._first_offer)

    def move(self) -> Future[RequestAnswered]:
        """Continue on other slots, from a checkpoint; the result comes when the job runs there.

        Returns:
            Fails with JobRequestError; the job then runs on where it was.
        """
        return self._request(lambda request_id: RescaleRequested(request_id, {}, is_move=True))

    def _request(self, event: Callable[[str], JobMasterEvent]) -> Future[RequestAnswered]:
        future: Future[RequestAnswered] = Future()
        future.set_running_or_notify_cancel()
        request_id = uuid.uuid4().hex
        with self._requests_lock:
            refusal = self._refusal
            if refusal is None:
                self._requests[request_id] = future
        if refusal is None:
            self.post(event(request_id))
        else:
            future.set_exception(JobRequestError(refusal))
        return future

    def sample_stacks(self, vertex_id: VertexId, duration_ms: int) -> bool:
        """Ask the slots that run a vertex what they do, see `StackReports.request`; `stacks` has the report later."""
        return self.stacks.request(vertex_id, self.status().tasks, duration_ms)

    def peek(self, request: PeekRequest) -> None:
        """Have rows of an edge sampled, see `JobPeeks.renew`; `peeks` has them later."""
        self.peeks.renew(request, self.status().tasks)

    def status(self) -> JobStatusSnapshot:
        """Return the job's current status; any thread. It is made once for each event."""
        trouble = self._storage.trouble
        with self._lock:
            if self._status is None or self._status_trouble != trouble:
                self._status, self._status_trouble = self._machine.status(trouble), trouble
            return self._status

    def statistics_record(self) -> StatisticsRecord:
        """Return the counts of checkpoints with which a later JobMaster of the job goes on; any thread."""
        with self._lock:
            return self._machine.statistics_record()

    # --- the driver's thread ------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Handle what has been posted and what is due; returns whether there was anything."""
        return self._guarded(self._step)

    def run(self) -> None:
        """Step until the job has ended and nothing of it is left."""
        self.step()
        while not self._closed:
            self._guarded(self._wait)
            self.step()

    def break_off(self, error: Exception) -> None:
        """End the job as FAILED because its JobMaster, or whatever steps it, cannot continue.

        Every request is answered with the error. Nothing that the job had is deleted: another JobMaster may go on from
        its checkpoints. Called by the thread that steps, or by another once that has ended; again does nothing.
        """
        if self._closed:
            return
        logger.error("the JobMaster of job %s failed", self._machine.graph.job_id, exc_info=error)
        self.broken = error
        message = f"the JobMaster failed: {error!r}"
        cause = FailureInfo(message, "".join(traceback.format_exception(error)), is_fatal=True)
        with self._lock:
            self._machine.break_off(cause, self._clock.monotonic_ms())
            self._status = None
            status = self._machine.status()
        self._storage.freeze()
        self._refuse_requests(message)
        for attempt in sorted({status.attempt, *(task.attempt for task in status.tasks)}):
            self._quietly(partial(self._provider.release_attempt, attempt))
        self._close()

    @property
    def has_removed_directory(self) -> bool:
        """True if the directory of the job's checkpoints was there when the job had ended, and is removed."""
        return self._storage.has_removed_directory

    def next_deadline_ms(self) -> float | None:
        """Return the monotonic ms at which `step` has something to do even if nothing is posted."""
        if self._closed:
            return None
        deadlines = (self._machine.next_deadline_ms(), self._storage.next_ms(), self._close_at_ms)
        return min((d for d in deadlines if d is not None), default=None)

    def _wait_ms(self) -> float:
        deadline = self.next_deadline_ms()
        if deadline is None:
            return 60_000.0
        return max(0.0, deadline - self._clock.monotonic_ms())

    def _guarded(self, work: Callable[[], bool]) -> bool:
        try:
            return work()
        except Exception as error:
            self.break_off(error)
            return True

    def _wait(self) -> bool:
        """Wait for an event, or until something is due, and handle it."""
        try:
            event: JobMasterEvent | _LookedUp = self._events.get(timeout=self._wait_ms() / 1000.0)
        except queue.Empty:
            event = Tick()
        if not self._is_leaving:
            self._handle(event)
        return True

    def _step(self) -> bool:
        if self._closed:
            return False
        if self._is_leaving:
            self._close(leaves_slots=True)
            return True
        if self._failure is not None:
            raise self._failure
        handled = self._begin()
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                break
            self._handle(event)
            handled = True
        if self._wait_ms() <= 0.0:
            self._handle(Tick())
            handled = True
        handled = self._storage.step() or handled
        if self._machine.state.is_terminal and self._events.empty():
            self._close_when_idle()
        return handled

    def _begin(self) -> bool:
        """Submit the job, with what it restores, before anything else happens to it.

        If that cannot be read it is submitted later, and may be cancelled before.
        """
        if self._begun:
            return False
        self._begun = True
        if self._first_offer is not None:
            # else the first attempt would request the slots that it was to have before
            self._handle(self._first_offer)
        self._handle(self._storage.recover())
        return True

    def _handle(self, event: JobMasterEvent | _LookedUp) -> None:
        if isinstance(event, _LookedUp):
            self._hear_lookup(event)
            return
        if isinstance(event, Submitted):
            self._check(event)
            return
        self._decide(event)

    def _decide(self, event: JobMasterEvent) -> None:
        with self._lock:
            self._status = None
            actions = self._machine.handle(event, self._clock.monotonic_ms(), self._clock.now_ms())
        for action in actions:
            self._perform(action)

    def _check(self, submitted: Submitted) -> None:
        """Submit the job, unless a secret is missing for its start; one that runs already has them, and runs on."""
        if submitted.outcome is None and submitted.refusal is None and not self._has_placement:
            self._look_up(submitted)
        else:
            self._decide(submitted)

    def _look_up(self, wanted: Submitted | RequestSlots) -> None:
        """Have the job's secrets looked up, anew each time, as they may have been changed; `_hear_lookup` goes on.

        A thread does it where files are read: the storage of one may not answer, and this loop serves other jobs, too.
        """
        names = self._machine.graph.secrets
        if not any(kind == FILE for kind, _ in names):
            self._hear_lookup(self._looked_up(wanted))
            return
        self._awaited.append(wanted)

        def look() -> None:
            try:
                found = self._looked_up(wanted)
            except Exception as error:  # nobody has foreseen it, and the job must not wait for ever
                self.fail(error)
                return
            self._events.put(found)
            self.on_post()

        threading.Thread(target=look, name="secrets", daemon=True).start()

    def _looked_up(self, wanted: Submitted | RequestSlots) -> _LookedUp:
        try:
            return _LookedUp(wanted, self._secret_store.resolve(self._machine.graph.secrets))
        except SecretMissingError as error:
            return _LookedUp(wanted, {}, str(error))

    def _hear_lookup(self, found: _LookedUp) -> None:
        """Go on with what the secrets were looked up for, unless it has been released meanwhile."""
        wanted = found.wanted
        self._awaited = [one for one in self._awaited if one is not wanted]
        if isinstance(wanted, Submitted):
            self._decide(wanted if found.missing is None else dataclasses.replace(wanted, refusal=found.missing))
            return
        regions = [region for region in wanted.regions if (wanted.attempt, region.index) not in self._released]
        if not self._awaited:
            self._released.clear()
        if not regions:
            return
        if found.missing is not None:
            self._cannot_begin(wanted.attempt, regions, found.missing)
            return
        self._secrets = found.values
        self._request_slots(wanted.attempt, regions)

    def _perform(self, action: JobMasterAction) -> None:
        match action:
            case SendToSlot(slot, attempt, Deploy() as message):
                self._provider.send(slot, attempt, dataclasses.replace(message, secrets=self._secrets))
            case SendToSlot(slot, attempt, message):
                self._provider.send(slot, attempt, message)
            case DeliverClientOutput(slot, attempt, channel, position, payload):
                taken = ClientAck(channel, position + len(payload))
                self._outputs.deliver(
                    slot, attempt, channel, position, payload, lambda: self._provider.send(slot, attempt, taken)
                )
            case RequestSlots():
                self._look_up(action)
            case RecordPlacement(placed):
                self._provider.record_placement(placed)
            case AdoptSlots(placed):
                self._provider.adopt_slots(placed)
            case KillSlots(attempt, processes):
                self._provider.kill_slots(attempt, processes)
            case RefuseSlot(slot, attempt, cause):
                self._provider.refuse(slot, attempt, cause)
            case ReleaseAttempt(attempt, regions):
                self._note_released(attempt, regions)
                self._provider.release_attempt(attempt, regions)
            case (
                StoreCheckpoint() | RecordEnd() | ForgetCheckpoints() | ForgetDamaged() | DeleteFiles() | SweepOrphans()
            ):
                self._storage.put(action)
            case RequestAnswered():
                self._answer(action)
            case StopWanted():
                self._stop()
            case JobStateChanged():
                pass

    def _request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        try:
            if self._record_attempt is not None:
                self._record_attempt(attempt)
        except OSError as error:
            self._cannot_begin(attempt, regions, f"attempt {attempt} cannot be recorded: {error}")
        else:
            self._provider.request_slots(attempt, regions)

    def _note_released(self, attempt: Attempt, regions: Sequence[Region] | None) -> None:
        """Remember which regions no longer want the slots for which secrets are being looked up."""
        for wanted in self._awaited:
            if isinstance(wanted, RequestSlots) and wanted.attempt == attempt:
                gone = wanted.regions if regions is None else regions
                self._released.update((attempt, region.index) for region in gone)

    def _cannot_begin(self, attempt: Attempt, regions: Sequence[Region], why: str) -> None:
        for region in regions:
            self.post(StageEnded(region.index, attempt, why))

    def _answer(self, answer: RequestAnswered) -> None:
        with self._requests_lock:
            future = self._requests.pop(answer.request_id, None)
        if future is None:
            return
        if answer.error is None:
            future.set_result(answer)
        else:
            error = JobNotRunningError if answer.is_premature else JobRequestError
            future.set_exception(error(answer.error))

    def _close_when_idle(self) -> None:
        """Close once the storage has done its work, or has used up its time."""
        now_ms = self._clock.monotonic_ms()
        if self._close_at_ms is None:
            self._close_at_ms = now_ms + STORAGE_CLOSE_TIMEOUT_MS
        if not self._closed and (self._storage.is_idle or now_ms >= self._close_at_ms):
            self._close()

    def _close(self, leaves_slots: bool = False) -> None:
        """End what belongs to the job; a part that cannot be ended does not hold up the rest."""
        self._closed = True
        if not leaves_slots:
            self._quietly(self._provider.close)
        self._quietly(self._storage.close)
        self._refuse_requests("the job has ended")
        self._quietly(self._outputs.close)
        self.ended.set()

    def _refuse_requests(self, why: str) -> None:
        """Answer the requests that are open, and all that follow, with the error."""
        with self._requests_lock:
            self._refusal = self._refusal or why
            left, self._requests = self._requests, {}
        for future in left.values():
            future.set_exception(JobRequestError(why))

    def _quietly(self, end: Callable[[], None]) -> None:
        try:
            end()
        except Exception:
            logger.exception("job %s was not cleaned up completely", self._machine.graph.job_id)
