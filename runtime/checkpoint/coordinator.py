"""CheckpointCoordinator: decides when checkpoints begin, complete, and are dropped. Events in, actions out.

A checkpoint goes SOURCES (source coordinators take their snapshots) → TASKS (every task acknowledges once) → STORING
(the metadata is written and the pointer moved) → complete. Until STORING it can be aborted at any time; from then on
only the storage decides how it ends. Those in progress are `PendingCheckpoint`s; the completed ones and their files are
kept by `RetainedCheckpoints`. Times are ms: monotonic for deadlines, wall-clock for display. No thread, clock or file.
Source: Flink, CheckpointCoordinator, CheckpointRequestDecider, CheckpointFailureManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.layout import checkpoint_directory, savepoint_directory, shared_directory
from runtime.checkpoint.messages import (
    Acknowledged,
    AttemptEnded,
    AttemptInterrupted,
    AttemptRunning,
    CoordinatorAction,
    CoordinatorEvent,
    CoordinatorsAnswered,
    DamageFound,
    Declined,
    FailJob,
    Forgotten,
    JobEnded,
    NotifyAborted,
    NotifyComplete,
    NotStored,
    RecordEnd,
    ReleaseSources,
    RequestDone,
    SavepointsFailed,
    SlotsAdopted,
    SnapshotSources,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
    TaskFinished,
    TimePassed,
    TriggerRequested,
    TriggerTasks,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage
from runtime.checkpoint.retained_checkpoints import RetainedCheckpoints
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot, CheckpointStatistics, StatisticsRecord
from runtime.core.checkpoint_options import Alignment, CheckpointOptions, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, JobId, TaskId

REMEMBERED_ABORTS = 1_000
"""Number of aborted checkpoints whose late acknowledgements are still recognised; the files of others are left to the
cleanup of orphans.
"""


class CheckpointCoordinator:
    """The checkpoints of one job, in one JobMaster.

    Args:
        settings: from the job's options.
        job_id: names directories.
        root: URI of the directory of all jobs' checkpoints; None: only savepoints can be taken.
        leader_epoch: of this JobMaster; part of the names of directories, with the attempt's number.
        new_name: returns 12 hex digits that no other savepoint of the job has.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        job_id: JobId,
        root: str | None,
        leader_epoch: int = 0,
        new_name: Callable[[], str] = lambda: "0" * 12,
    ) -> None:
        self.settings = settings
        self._job_id = job_id
        self._root = root
        self._leader_epoch = leader_epoch
        self._new_name = new_name
        self._statistics = CheckpointStatistics(settings)
        self._retained = RetainedCheckpoints(settings.num_retained, self._statistics, self._act)
        self._next_id = CheckpointId(1)
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._requests: deque[TriggerRequested] = deque()
        self._aborted: dict[CheckpointId, None] = {}
        #: by attempts that are over
        self._failed_savepoints: deque[tuple[Attempt, CheckpointId]] = deque(maxlen=REMEMBERED_ABORTS)
        #: None: no attempt is running
        self._running: AttemptRunning | None = None
        #: the attempt whose slots still exist and are notified how its checkpoints ended
        self._listening: Attempt | None = None
        self._finished: set[TaskId] = set()
        self._is_sealed = False
        self._outcome: JobOutcome | None = None
        #: whether tasks run that an earlier JobMaster has deployed
        self._has_adopted = False
        self._failures_in_a_row = 0
        self._due_ms = 0.0
        self._last_end_ms = float("-inf")
        self._now_ms = 0.0
        self._wall_ms = 0
        self._actions: list[CoordinatorAction] = []

    # --- what the owner calls -----------------------------------------------------------------------------------------

    def handle(self, event: CoordinatorEvent, now_ms: float, wall_ms: int) -> list[CoordinatorAction]:
        """Handle an event; returns the actions to perform, in order.

        Args:
            event: any event, in any order.
            now_ms: monotonic.
            wall_ms: since the epoch.
        """
        self._now_ms, self._wall_ms = max(self._now_ms, now_ms), wall_ms
        self._actions = []
        match event:
            case Acknowledged():
                self._on_acknowledged(event)
            case TimePassed():
                self._expire()
            case CoordinatorsAnswered():
                self._on_coordinators(event)
            case Declined():
                self._on_declined(event)
            case Stored():
                self._on_stored(event)
            case NotStored():
                self._on_not_stored(event)
            case Forgotten(is_fenced=True):
                # it stays undecided: the other one may restore it
                self._fence("another JobMaster has taken over")
            case Forgotten(checkpoint_id):
                self._retained.forgotten(checkpoint_id)
            case TriggerRequested():
                self._on_requested(event)
            case AttemptRunning():
                self._on_running(event)
            case SlotsAdopted():
                self._on_adopted(event)
            case TaskFinished(task):
                self._finished.add(task)
            case AttemptEnded(cause):
                self._listening = None
                self._on_attempt_over(cause)
            case AttemptInterrupted(cause):
                self._on_attempt_over(cause)
            case DamageFound(checkpoint_id):
                self._retained.drop_damaged(checkpoint_id)
            case JobEnded(outcome):
                self._outcome = outcome
                if not self._retained.is_fenced:
                    self._actions.append(RecordEnd(outcome))
                    self._retained.forget_damaged()
        if self._outcome is None:
            self._begin_what_is_due()
        elif not self._pending and not self._keeps_own():
            self._retained.drop_own()
        return self._actions

    def next_deadline_ms(self) -> float | None:
        """Return when the next TimePassed is due; None = not before another event."""
        deadlines = [p.deadline_ms for p in self._pending.values() if p.stage is not Stage.STORING]
        if self._may_begin_periodic():
            deadlines.append(self._periodic_at_ms())
        return min(deadlines, default=None)

    def recover(self, retained: Sequence[CompletedCheckpoint], initial: CompletedCheckpoint | None = None) -> None:
        """Take over existing checkpoints before the job begins; once.

        Args:
            retained: completed checkpoints of the same job, of an earlier JobMaster; oldest first.
            initial: the snapshot that the job was started from; with `retained` only if it was claimed and still
            exists.
        """
        self._retained.recover(retained, initial)
        newest = self._retained.newest
        if newest is not None:
            self._next_id = CheckpointId(newest.checkpoint_id + 1)

    def restore_point(self) -> CompletedCheckpoint | None:
        """Return the newest completed checkpoint."""
        return self._retained.newest

    @property
    def stopped_by(self) -> CompletedCheckpoint | None:
        """Return the recorded savepoint that the job stops with; None: there is none. No checkpoint follows it."""
        return self._retained.stopped_by

    def note_restored(self, wall_ms: int) -> None:
        """Note that an attempt was restored from the restore point."""
        checkpoint = self._retained.newest
        assert checkpoint is not None
        self._statistics.restored(
            checkpoint.checkpoint_id, wall_ms, checkpoint.metadata.options.is_savepoint, checkpoint.location
        )

    @property
    def is_undecided(self) -> bool:
        """Return whether the storage has not said yet which checkpoint a JobMaster that takes over would restore."""
        is_storing = any(p.stage is Stage.STORING and p.is_recorded for p in self._pending.values())
        return is_storing or self._retained.is_forgetting

    @property
    def is_forgetting(self) -> bool:
        """Return whether the storage has not said yet that a damaged checkpoint is forgotten."""
        return self._retained.is_forgetting

    @property
    def is_damage_recorded(self) -> bool:
        """Return whether no damaged checkpoint can be found by a JobMaster that takes over."""
        return self._retained.is_damage_recorded

    @property
    def is_fenced(self) -> bool:
        """Return whether another JobMaster has taken over."""
        return self._retained.is_fenced

    def pending(self) -> Mapping[CheckpointId, Stage]:
        """Return the checkpoints in progress."""
        return {p.checkpoint_id: p.stage for p in self._pending.values()}

    def batch_completed(self, checkpoint_id: CheckpointId, batch: BatchTrace) -> None:
        """Note what the batch that ends with a checkpoint has done."""
        self._statistics.batch_completed(checkpoint_id, batch)

    def statistics(self) -> CheckpointsSnapshot:
        """Return the public statistics."""
        return self._statistics.snapshot()

    def statistics_record(self) -> StatisticsRecord:
        """Return what a later JobMaster needs to go on with them."""
        return self._statistics.record()

    def restore_statistics(self, record: StatisticsRecord) -> None:
        """Go on with the statistics of an earlier JobMaster; once, before anything else."""
        self._statistics.restore(record)

    def check_invariants(self) -> None:
        """Raise AssertionError if the coordinator contradicts itself."""
        in_sources = [p for p in self._pending.values() if p.stage is Stage.SOURCES]
        assert len(in_sources) <= 1, "two checkpoints hold back the source coordinators' events"
        for p in self._pending.values():
            assert p.stage is not Stage.SOURCES or p.waiting_slots, "nobody is waited for"
            assert p.stage is not Stage.TASKS or p.waiting_tasks, "nobody is waited for"
            current = self._running is not None and self._running.attempt == p.attempt
            assert current or p.stage is Stage.STORING, "an attempt that is over has a checkpoint under way"
            assert p.checkpoint_id < self._next_id, "an id of the future"
        assert not self._requests or self._running is not None, "a request waits for nothing"
        self._retained.check_invariants(is_bounded=self._outcome is None)

    # --- begin --------------------------------------------------------------------------------------------------------

    def _on_running(self, event: AttemptRunning) -> None:
        self._running = event
        self._listening = event.attempt
        self._finished.clear()
        self._is_sealed = self.stopped_by is not None
        self._failures_in_a_row = 0
        self._due_ms = self._now_ms + (self.settings.interval_ms or 0)
        if self._failed_savepoints:
            self._actions.append(SavepointsFailed(tuple(self._failed_savepoints)))
        if self._retained.is_fenced:
            self._actions.append(FailJob("another JobMaster has taken over", is_fatal=True))
        elif self._root is not None and (self._retained.newest is not None or self._aborted):
            # files written by a region that was not restarted may be in its next checkpoint
            oldest = min(event.attempts, default=event.attempt)
            self._actions.append(SweepOrphans(oldest, self._retained.metadata(), event.oldest_epoch))

    def _on_adopted(self, event: SlotsAdopted) -> None:
        """Tell slots how the checkpoints ended that the earlier JobMaster had under way, before anything new begins.

        The newest that is recorded is complete, whether or not slots have heard of it, and decides all older ones.
        Those above it were not recorded and never will be: another JobMaster leads.
        """
        self._has_adopted = True
        self._next_id = CheckpointId(max(self._next_id, event.last_seen + 1, *(n + 1 for n in event.pending)))
        point = self._retained.newest
        newest = CheckpointId(0) if point is None else point.checkpoint_id
        if newest in event.pending:
            self._actions.append(NotifyComplete(newest))
        for checkpoint_id in sorted(n for n in event.pending if n > newest):
            self._actions.append(NotifyAborted(checkpoint_id))
            self._statistics.given_up(is_savepoint=event.pending[checkpoint_id].is_savepoint)
            # whoever acknowledges it again has written files that nobody needs
            self._aborted[checkpoint_id] = None
            # a savepoint is nowhere recorded here: the earlier JobMaster may have told its user that it is complete
            if not event.pending[checkpoint_id].is_savepoint:
                self._retained.delete([], [event.pending[checkpoint_id].directory])

    def _on_requested(self, request: TriggerRequested) -> None:
        refusal = self._refusal(request)
        if refusal is not None:
            premature = self._running is None
            self._actions.append(RequestDone(request.request_id, None, None, refusal, is_premature=premature))
            return
        self._requests.append(request)

    def _refusal(self, request: TriggerRequested) -> str | None:
        if self._running is None or self._retained.is_fenced or self._outcome is not None:
            return "not all tasks of the job are running"
        if self._is_sealed:
            return "the job is being stopped"
        if request.is_savepoint:
            if not (request.target_directory or self.settings.savepoint_directory):
                return "no directory is given for the savepoint, and execution.checkpointing.savepoint-dir is not set"
        elif self._root is None:
            return "execution.checkpointing.dir is not set"
        elif self._finished and not self.settings.after_tasks_finish:
            return "some tasks have finished, and execution.checkpointing.checkpoints-after-tasks-finish is off"
        return None

    def _begin_what_is_due(self) -> None:
        while (request := self._next_request()) is not None:
            self._begin(request)
        if self._may_begin_periodic() and self._now_ms >= self._periodic_at_ms():
            interval_ms = self.settings.interval_ms or 0
            self._due_ms += interval_ms
            if self._due_ms <= self._now_ms:
                self._due_ms = self._now_ms + interval_ms
            self._begin(None)

    def _next_request(self) -> TriggerRequested | None:
        """Return the first request that can begin now; the others keep their places."""
        if self._running is None or self._is_holding():
            return None
        saving = any(p.options.is_savepoint for p in self._pending.values())
        for request in self._requests:
            if self._is_sealed or (refusal := self._refusal(request)) is not None:
                why = "the job is being stopped" if self._is_sealed else refusal
                self._requests.remove(request)
                self._actions.append(RequestDone(request.request_id, None, None, why))
                return self._next_request()
            if request.is_last or not (saving if request.is_savepoint else self._is_full()):
                self._requests.remove(request)
                return request
        return None

    def _is_holding(self) -> bool:
        """Return whether events of source coordinators are held back for a checkpoint; for one at a time."""
        return any(p.stage is Stage.SOURCES for p in self._pending.values())

    def _is_full(self) -> bool:
        return sum(not p.options.is_savepoint for p in self._pending.values()) >= self.settings.max_concurrent

    def _may_begin_periodic(self) -> bool:
        return (
            self._running is not None
            and self.settings.is_enabled
            and not self.settings.is_micro_batch
            and self._root is not None
            and not (self._is_sealed or self._retained.is_fenced)
            and not (self._requests or self._is_holding() or self._is_full())
            and (self.settings.after_tasks_finish or not self._finished)
        )

    def _periodic_at_ms(self) -> float:
        return max(self._due_ms, self._last_end_ms + self.settings.min_pause_ms)

    def _begin(self, request: TriggerRequested | None) -> None:
        running = self._running
        assert running is not None
        checkpoint_id = self._next_id
        self._next_id = CheckpointId(checkpoint_id + 1)
        vertices = running.graph.vertices
        pending = PendingCheckpoint(
            checkpoint_id=checkpoint_id,
            attempt=running.attempt,
            attempts=running.attempts,
            graph=running.graph,
            options=self._options(checkpoint_id, running.attempt, request),
            timestamp_ms=self._wall_ms,
            deadline_ms=self._now_ms + self.settings.timeout_ms,
            request=request,
            stage=Stage.SOURCES,
            waiting_slots=set(running.coordinator_slots),
            waiting_tasks={TaskId(v.vertex_id, i) for v in vertices for i in range(v.parallelism)},
        )
        self._pending[checkpoint_id] = pending
        self._is_sealed = self._is_sealed or pending.is_last
        parallelism = {v.vertex_id: v.parallelism for v in vertices}
        self._statistics.triggered(checkpoint_id, self._wall_ms, pending.options, parallelism)
        if pending.waiting_slots:
            self._actions.append(SnapshotSources(checkpoint_id, frozenset(pending.waiting_slots)))
        else:
            self._trigger_tasks(pending)

    def _options(
        self, checkpoint_id: CheckpointId, attempt: Attempt, request: TriggerRequested | None
    ) -> CheckpointOptions:
        settings = self.settings
        if request is not None and request.is_savepoint:
            target = request.target_directory or settings.savepoint_directory or ""
            directory = request.directory or savepoint_directory(target, self._job_id, self._new_name())
            return CheckpointOptions(
                directory=directory,
                shared_directory=directory,
                kind=request.kind or SnapshotKind.CANONICAL,
                alignment=Alignment.ALIGNED if settings.is_exactly_once else Alignment.AT_LEAST_ONCE,
                is_savepoint=True,
                after=request.after,
            )
        assert self._root is not None
        kind = settings.kind if request is None or request.kind is None else request.kind
        return CheckpointOptions(
            directory=checkpoint_directory(self._root, self._job_id, checkpoint_id, self._leader_epoch, attempt),
            shared_directory=shared_directory(self._root, self._job_id),
            kind=SnapshotKind.FULL if self._retained.needs_full and kind is SnapshotKind.INCREMENTAL else kind,
            alignment=settings.alignment,
            aligned_timeout_ms=settings.switch_timeout_ms,
        )

    # --- under way ----------------------------------------------------------------------------------------------------

    def _on_coordinators(self, event: CoordinatorsAnswered) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.attempt != event.attempt or event.slot not in pending.waiting_slots:
            self._statistics.refused += 1
            return
        pending.waiting_slots.discard(event.slot)
        pending.coordinators.update(event.states)
        if not pending.waiting_slots:
            self._trigger_tasks(pending)

    def _trigger_tasks(self, pending: PendingCheckpoint) -> None:
        pending.stage = Stage.TASKS
        self._actions.append(TriggerTasks(pending.checkpoint_id, pending.timestamp_ms, pending.options))

    def _on_acknowledged(self, event: Acknowledged) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if (
            pending is None
            or pending.attempt != event.attempt
            or pending.stage is not Stage.TASKS
            or event.task not in pending.waiting_tasks
        ):
            self._statistics.refused += 1
            if event.checkpoint_id in self._aborted:
                self._retained.delete_unneeded(event.state.files(), self._pending.values())
            return
        gone = self._retained.gone_among(event.state.files())
        if gone:
            # its barrier was faster than the notification that another checkpoint is complete
            others = [file for file in event.state.files() if file.uri not in gone]
            self._retained.delete_unneeded(others, self._pending.values())
            cause = f"a task builds on {len(gone)} files of a checkpoint that is no longer retained"
            self._abort(pending, cause, counts=False)
            return
        unknown = self._retained.unknown_among(event.state.files(), self._leader_epoch) if self._has_adopted else []
        if unknown:
            # an adopted task that has not heard of a completion builds on files that may be gone
            cause = f"a task builds on {len(unknown)} files that neither this JobMaster nor a retained checkpoint has"
            self._abort(pending, cause, counts=False)
            return
        pending.waiting_tasks.discard(event.task)
        pending.states[event.task] = event.state
        self._statistics.acknowledged(event.checkpoint_id, event.task, event.metrics, self._wall_ms)
        if not pending.waiting_tasks:
            self._store(pending)

    def _on_declined(self, event: Declined) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.attempt != event.attempt or pending.stage is Stage.STORING:
            self._statistics.refused += 1
            return
        self._abort(pending, event.cause, counts=event.counts_as_failure)

    def _expire(self) -> None:
        for pending in list(self._pending.values()):
            if pending.stage is not Stage.STORING and self._now_ms >= pending.deadline_ms:
                waiting = len(pending.waiting_slots) if pending.stage is Stage.SOURCES else len(pending.waiting_tasks)
                what = "source coordinators' slots" if pending.stage is Stage.SOURCES else "tasks"
                seconds = self.settings.timeout_ms / 1000
                self._abort(pending, f"it expired after {seconds:g} s: {waiting} {what} had not answered", counts=True)

    def _store(self, pending: PendingCheckpoint) -> None:
        newer = [
            p
            for p in self._pending.values()
            if p.checkpoint_id > pending.checkpoint_id and p.stage is Stage.STORING and p.is_recorded
        ]
        if newer and pending.is_recorded:
            self._abort(pending, f"checkpoint {newer[-1].checkpoint_id} was faster", counts=False)
            return
        pending.stage = Stage.STORING
        pending.metadata = pending.metadata_of(self._job_id)
        storing = [p.checkpoint_id for p in self._pending.values() if p.stage is Stage.STORING]
        record = self._statistics.record(storing) if pending.is_recorded else None
        is_owned = not pending.options.is_savepoint
        self._actions.append(StoreCheckpoint(pending.metadata, is_owned, pending.is_recorded, record))

    # --- how it ends --------------------------------------------------------------------------------------------------

    def _on_stored(self, event: Stored) -> None:
        pending = self._pending.pop(event.checkpoint_id, None)
        if pending is None or pending.metadata is None:
            raise AssertionError(f"checkpoint {event.checkpoint_id} was stored, but not asked to be")
        self._statistics.completed(event.checkpoint_id, event.metadata_bytes, self._wall_ms)
        self._last_end_ms = self._now_ms
        if pending.is_recorded:
            self._failures_in_a_row = 0
            self._retained.add(CompletedCheckpoint(pending.metadata, is_owned=not pending.options.is_savepoint))
            if self._outcome is None:
                # else it is dropped at once, or kept beside those of which users may have been told at the job's end
                self._subsume(pending.checkpoint_id)
            if self._listening == pending.attempt:
                self._actions.append(NotifyComplete(pending.checkpoint_id))
        self._answer(pending, None)
        self._retained.release(pending.checkpoint_id, self._pending.values())

    def _subsume(self, checkpoint_id: CheckpointId) -> None:
        """Abort older checkpoints in progress, and drop completed ones beyond the number to retain."""
        for pending in list(self._pending.values()):
            is_older = pending.checkpoint_id < checkpoint_id and not pending.options.is_savepoint
            if is_older and pending.stage is not Stage.STORING:
                self._abort(pending, f"checkpoint {checkpoint_id} was faster", counts=False)
        self._retained.drop_subsumed(self._pending)

    def _on_not_stored(self, event: NotStored) -> None:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None or pending.stage is not Stage.STORING:
            raise AssertionError(f"checkpoint {event.checkpoint_id} was not stored, but not asked to be either")
        if event.is_fenced:
            self._fence(event.cause)
        self._abort(pending, event.cause, counts=not event.is_fenced)

    def _fence(self, cause: str) -> None:
        """Write and delete nothing from now on."""
        self._is_sealed = True
        self._retained.fence()
        self._actions.append(FailJob(cause, is_fatal=True))

    def _abort(self, pending: PendingCheckpoint, cause: str, *, counts: bool) -> None:
        del self._pending[pending.checkpoint_id]
        self._last_end_ms = self._now_ms
        self._aborted[pending.checkpoint_id] = None
        if len(self._aborted) > REMEMBERED_ABORTS:
            del self._aborted[next(iter(self._aborted))]
        if pending.options.is_savepoint:
            # what was prepared for it bears the attempt of the region that did so
            attempts = pending.attempts or {pending.attempt}
            self._failed_savepoints += [(attempt, pending.checkpoint_id) for attempt in sorted(attempts)]
        is_of_older_attempt = self._running is not None and self._running.attempt != pending.attempt
        if pending.is_last and not pending.has_drained and not is_of_older_attempt:
            self._is_sealed = False
        self._statistics.failed(pending.checkpoint_id, cause, self._wall_ms)
        if self._listening == pending.attempt:
            if pending.stage is Stage.SOURCES:
                self._actions.append(ReleaseSources(pending.checkpoint_id))
            elif not self._retained.is_fenced:
                # else it may be recorded for all that is known here: whoever has taken over tells how it ended
                self._actions.append(NotifyAborted(pending.checkpoint_id))
        self._retained.delete_unneeded(pending.files(), self._pending.values(), pending.options.directory)
        self._answer(pending, cause)
        self._retained.release(pending.checkpoint_id, self._pending.values())
        is_counted = pending.request is None or pending.request.counts_as_failure
        if counts and is_counted and self._running is not None:
            self._failures_in_a_row += 1
            if self._failures_in_a_row > self.settings.tolerable_failures:
                self._is_sealed = True
                self._actions.append(FailJob(self._failure(pending, cause)))

    def _failure(self, pending: PendingCheckpoint, cause: str) -> str:
        if self.settings.tolerable_failures == 0:
            return f"checkpoint {pending.checkpoint_id} failed: {cause}"
        return (
            f"{self._failures_in_a_row} checkpoints in a row failed, {self.settings.tolerable_failures} are tolerated; "
            f"the last, {pending.checkpoint_id}: {cause}"
        )

    def _answer(self, pending: PendingCheckpoint, error: str | None) -> None:
        if pending.request is not None:
            location = pending.options.directory if error is None else None
            self._actions.append(
                RequestDone(pending.request.request_id, pending.checkpoint_id, location, error, pending.has_drained)
            )

    # --- the job ------------------------------------------------------------------------------------------------------

    def _on_attempt_over(self, cause: str) -> None:
        self._running = None
        self._finished.clear()
        self._is_sealed = False
        for request in self._requests:
            self._actions.append(RequestDone(request.request_id, None, None, cause, is_premature=True))
        self._requests.clear()
        for pending in list(self._pending.values()):
            if pending.stage is not Stage.STORING:
                self._abort(pending, cause, counts=False)

    def _keeps_own(self) -> bool:
        """Return whether the job's own checkpoints are kept: it has not ended, or its retention keeps them."""
        return self._outcome is None or self.settings.retention.keeps(self._outcome)

    def _act(self, action: CoordinatorAction) -> None:
        self._actions.append(action)
