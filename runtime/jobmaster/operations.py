"""JobOperations: what a job was asked to do while it runs, and what it does once its tasks have finished. Pure.

An operation is a savepoint, a checkpoint, a stop or a cancellation with a savepoint, a rescaling, or the checkpoint at
the end of the job, which nobody asks for. Each needs one snapshot. This module holds what is pending, and answers every
request exactly once, however the attempt or the job ends meanwhile. JobCheckpoints takes the snapshots; what becomes of
the job is left to its machine as decisions.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.locations import parent_of
from runtime.checkpoint.messages import RequestDone, TriggerRequested
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered, StopWanted
from runtime.jobmaster.decisions import CancelJob, CommitJob, Decision, FailAttempt, RedeployJob
from runtime.jobmaster.events import (
    AfterSavepoint,
    CheckpointRequested,
    RescaleRequested,
    SavepointLeft,
    SavepointRequested,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.rescaling import RescaleError, rescaled
from runtime.task.messages import FailureInfo

FINAL_RETRY_MS = 1_000
"""Wait before a final checkpoint that failed is tried again. It holds up the end of the job; much shorter, and a
storage that is away for a moment uses up the failures that are tolerated."""

RESCALE_COSTS = 3
"""Rescalings whose cost is remembered: the largest is what the next one may cost."""

#: request ids of what nobody outside has requested: the checkpoint at the end of the job, and that of a batch
_FINAL, _BATCH = "final", "batch"


BATCH_REFUSAL = (
    "the job is executed as a batch, of which no snapshot is taken: let it end, or cancel it; jobs with "
    "execution.runtime-mode STREAMING have savepoints and can be rescaled"
)
"""Answer to whoever asks for a snapshot of a batch."""


class _Purpose(enum.Enum):
    """Why a snapshot is taken."""

    SNAPSHOT = "savepoint or checkpoint"
    BATCH = "checkpoint of a batch"
    CANCEL = "cancel with a savepoint"
    STOP = "stop with a savepoint"
    FINAL = "checkpoint at the end of the job"
    RESCALE = "checkpoint to rescale from"


@dataclass(slots=True)
class _Rescale:
    request_id: str
    graph: JobGraph
    previous: JobGraph
    not_before_ms: float
    is_triggered: bool = False
    triggered_ms: float = 0.0

    @property
    def what(self) -> str:
        """Say what happens to the job."""
        return "moved to other slots" if self.graph == self.previous else "rescaled"


class Snapshots(Protocol):
    """Interface of JobCheckpoints to the operations."""

    @property
    def settings(self) -> CheckpointSettings: ...

    @property
    def can_restore(self) -> bool:
        """Return whether there is a checkpoint to go on from."""
        ...

    @property
    def stopped_by(self) -> CompletedCheckpoint | None:
        """Return the recorded savepoint that the job stops with; None: there is none."""
        ...

    @property
    def is_damage_recorded(self) -> bool:
        """Return whether no damaged savepoint can be found by another JobMaster; `restore_point_known` follows."""
        ...

    def trigger(self, request: TriggerRequested) -> None:
        """Take a snapshot; JobOperations.done follows, perhaps at once."""
        ...


class JobOperations:
    """The operations of one job.

    Args:
        snapshots: takes the snapshots that operations need.
        max_slots: how many slots there can be at most, where that is known.
        decide: leaves a decision to the machine.
        journal: of the machine.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        max_slots: int | None,
        decide: Callable[[Decision], None],
        journal: Journal,
    ) -> None:
        self._snapshots = snapshots
        self._settings = snapshots.settings
        self._max_slots = max_slots
        self._decide = decide
        self._journal = journal
        #: snapshots that were requested and are not done, by request id
        self._purposes: dict[str, _Purpose] = {}
        #: the request whose savepoint `stopped_by` is; None: it was another JobMaster's, or there is none
        self._stop_request: str | None = None
        #: why the savepoint of that request counts no more, until that is recorded
        self._stop_is_lost: str | None = None
        self._end: JobState | None = None
        self._rescale: _Rescale | None = None
        self._last_rescale_ms = float("-inf")
        #: of the last ones, oldest first
        self._rescale_costs_ms: deque[float] = deque(maxlen=RESCALE_COSTS)
        #: why the attempt is over; None while all its tasks run or have finished
        self._over: str | None = "the job did not run"
        self._all_finished = False
        self._final_is_complete = False
        self._retry_final_at_ms: float | None = None

    def next_deadline_ms(self) -> float | None:
        """Return when `tick` has something to do."""
        deadlines = [self._retry_final_at_ms]
        if self._rescale is not None and not self._rescale.is_triggered:
            deadlines.append(self._rescale.not_before_ms)
        return min((d for d in deadlines if d is not None), default=None)

    @property
    def last_rescale_ms(self) -> float | None:
        """When the last rescaling, or move to other slots, was complete; None: there was none."""
        return self._last_rescale_ms if self._rescale_costs_ms else None

    @property
    def rescale_costs_ms(self) -> Sequence[float]:
        """Times of the last rescalings, oldest first, from the trigger of the checkpoint until all tasks ran."""
        return tuple(self._rescale_costs_ms)

    def tick(self) -> None:
        """Act on the time that has passed."""
        if self._retry_final_at_ms is not None and self._journal.now_ms >= self._retry_final_at_ms:
            self._retry_final_at_ms = None
            self._take_final()
        self._begin_rescale()

    def check_invariants(self) -> None:
        """Raise AssertionError if something contradicts itself."""
        assert self._stop_request not in self._purposes, "a savepoint is complete and pending"
        has_savepoint = self._snapshots.stopped_by is not None or self._stop_is_lost is not None
        assert self._stop_request is None or has_savepoint, "a stop without a savepoint"
        rescales = [r for r, purpose in self._purposes.items() if purpose is _Purpose.RESCALE]
        triggered = self._rescale.request_id if self._rescale is not None and self._rescale.is_triggered else None
        assert rescales in ([], [triggered]), "a snapshot is taken for no rescaling"

    # --- requests -----------------------------------------------------------------------------------------------------

    def request_savepoint(self, request: SavepointRequested) -> None:
        """Begin a savepoint; answered by RequestAnswered."""
        if self._settings.is_batch:
            self._answer(request.request_id, BATCH_REFUSAL)
            return
        purpose, after = _Purpose.STOP, AfterSnapshot.GO_ON
        match request.after:
            case AfterSavepoint.GO_ON:
                purpose = _Purpose.SNAPSHOT
            case AfterSavepoint.CANCEL:
                purpose = _Purpose.CANCEL
            case AfterSavepoint.SUSPEND:
                after = AfterSnapshot.SUSPEND
            case AfterSavepoint.DRAIN:
                after = AfterSnapshot.DRAIN
        if purpose is _Purpose.STOP and self._adopt_stop(request, after):
            return
        if purpose is not _Purpose.SNAPSHOT and self._all_finished:
            self._answer(request.request_id, "all tasks of the job have finished")
            return
        trigger = TriggerRequested(
            request.request_id,
            request.kind,
            is_savepoint=True,
            target_directory=request.target_directory,
            directory=request.directory,
            after=after,
            is_last=purpose is not _Purpose.SNAPSHOT,
        )
        self._take(trigger, purpose)

    def take_over(self, left: SavepointLeft) -> None:
        """Cancel the job after a savepoint that an earlier JobMaster has taken; no other one is taken."""
        if self._over is not None:
            self._answer(left.request_id, _in_vain(left.location, "was not cancelled", self._over), is_premature=True)
        elif self._all_finished:
            why = "all its tasks have finished"
            self._answer(left.request_id, _in_vain(left.location, "was not cancelled", why))
        else:
            self._journal.act(RequestAnswered(left.request_id, left.location, left.checkpoint_id))
            self._decide(CancelJob())

    def request_checkpoint(self, request: CheckpointRequested) -> None:
        """Begin a checkpoint; answered by RequestAnswered."""
        if self._settings.is_batch:
            self._answer(request.request_id, BATCH_REFUSAL)
            return
        self._take(TriggerRequested(request.request_id, request.kind), _Purpose.SNAPSHOT)

    def batch_due(self) -> None:
        """Take the checkpoint that a batch waits for, unless one is requested already."""
        if _BATCH not in self._purposes:
            self._take(TriggerRequested(_BATCH), _Purpose.BATCH)

    def stop_due(self) -> None:
        """Have the job stop with a savepoint behind its last batch, unless it is being stopped."""
        if not self._is_stopping and not self._all_finished:
            self._journal.act(StopWanted())

    def request_rescale(self, request: RescaleRequested, graph: JobGraph, state: JobState) -> None:
        """Take a checkpoint, at once or when the last rescaling is long enough ago, then RedeployJob; answered when it
        runs.

        Args:
            request: says which parallelisms are wanted.
            graph: of the job, with its parallelisms.
            state: of the job.
        """
        if self._over is not None:
            why = f"the job is {state.value}; only a running one can be rescaled"
            self._answer(request.request_id, why, is_premature=True)
            return
        try:
            wanted = rescaled(graph, request.parallelism, self._max_slots)
            if wanted == graph and not request.is_move:
                self._answer(request.request_id)
                return
            if self._settings.is_batch:
                raise RescaleError(BATCH_REFUSAL)
            if self._rescale is not None:
                raise RescaleError("the job is being rescaled already")
            if self._all_finished:
                raise RescaleError("all tasks of the job have finished")
        except RescaleError as refusal:
            self._answer(request.request_id, str(refusal))
            return
        now_ms, cooldown_ms = self._journal.now_ms, self._settings.rescale_cooldown_ms
        is_urgent = request.at_once or request.is_move
        not_before_ms = now_ms if is_urgent else max(now_ms, self._last_rescale_ms + cooldown_ms)
        self._rescale = _Rescale(request.request_id, wanted, graph, not_before_ms)
        self._begin_rescale()

    def give_up_rescale(self, cause: str) -> JobGraph | None:
        """Return the graph to go back to if the attempt with the new parallelism did not come up, else None."""
        rescale = self._rescale
        if rescale is None or not rescale.is_triggered:
            return None
        self._fail_rescale(f"the job could not be started with the new parallelism and keeps the old one: {cause}")
        return rescale.previous

    @property
    def awaits_other_parallelism(self) -> bool:
        """Return whether the attempt that is under way is to have another parallelism than the one before."""
        rescale = self._rescale
        return rescale is not None and rescale.is_triggered and rescale.graph != rescale.previous

    # --- the attempt --------------------------------------------------------------------------------------------------

    def commit_adopted(self) -> None:
        """Note that an earlier JobMaster had begun to commit, with the checkpoint at the end if the job takes one."""
        self._final_is_complete = self._takes_final

    def attempt_running(self) -> None:
        """Note that all tasks run, or have finished: a rescaling is complete."""
        self._over = None
        if self._rescale is not None and self._rescale.is_triggered:
            self._last_rescale_ms = self._journal.now_ms
            self._rescale_costs_ms.append(self._journal.now_ms - self._rescale.triggered_ms)
            self._answer(self._rescale.request_id)
            self._rescale = None

    def all_finished(self) -> bool:
        """Note that every task has finished. Return whether the job can commit at once; else CommitJob follows."""
        self._all_finished = True
        if _Purpose.STOP in self._purposes.values():
            return False
        if self._snapshots.stopped_by is not None or not self._takes_final or self._final_is_complete:
            return True
        self._take_final()
        return False

    @property
    def may_commit_again(self) -> bool:
        """Return whether an attempt that fails while it commits can be repeated: what it commits is in a checkpoint."""
        return self._final_is_complete or self._snapshots.stopped_by is not None

    @property
    def may_be_interrupted(self) -> bool:
        """Return whether the job is not about to stop, end or change its parallelism, which need the whole job."""
        is_rescaling = self._rescale is not None and self._rescale.is_triggered
        is_ending = self._all_finished or self._snapshots.stopped_by is not None
        plain = all(purpose in (_Purpose.SNAPSHOT, _Purpose.BATCH) for purpose in self._purposes.values())
        return plain and not is_rescaling and not is_ending

    def interrupted(self, cause: str) -> None:
        """Note that some regions are being restarted while the others continue; `attempt_running` follows."""
        self._over = cause
        if self._rescale is not None:
            self._fail_rescale(cause)

    def attempt_ended(self, cause: str) -> None:
        """Note that the attempt is being torn down, after the snapshots that can still be given up have been."""
        self._over = cause
        self._all_finished = self._final_is_complete = False
        self._retry_final_at_ms = None
        if self._stop_request is not None and self._snapshots.stopped_by is None:
            self._stop_is_lost = self._stop_is_lost or cause
            self.restore_point_known()
        if self._rescale is not None and not self._rescale.is_triggered:
            self._fail_rescale(cause, is_premature=True)

    def restore_point_known(self) -> None:
        """Tell that the savepoint to stop with is damaged, once no other JobMaster will stop the job with it."""
        if self._stop_is_lost is not None and self._snapshots.is_damage_recorded:
            self._answer_stop(f"the savepoint to stop with is damaged, and the job did not stop: {self._stop_is_lost}")

    def job_ended(self, state: JobState) -> None:
        """Note that nothing of the job runs any more, after the snapshots that can still be given up have been."""
        self._end = state
        cause = f"the job is {state.value}"
        stopped_by = self._snapshots.stopped_by
        if self._stop_request is not None and stopped_by is not None:
            is_stopped = state is JobState.FINISHED
            self._answer_stop(None if is_stopped else _in_vain(stopped_by.location, "did not stop", cause))
        if self._stop_request is not None:
            why = f"which was not recorded before the job ended here: {self._stop_is_lost or cause}"
            self._answer_stop(f"the savepoint to stop with is damaged, {why}; {cause}")
        self.attempt_ended(cause)
        if self._rescale is not None:
            self._fail_rescale(cause)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def done(self, done: RequestDone) -> None:
        """Go on after a snapshot that was requested."""
        purpose = self._purposes.pop(done.request_id, None)
        match purpose:
            case None | _Purpose.BATCH:
                pass  # it was answered when the job gave up waiting for it; or what waits for it is told by its slot
            case _Purpose.FINAL:
                self._on_final_done(done)
            case _Purpose.RESCALE:
                self._on_rescale_done(done)
            case _Purpose.CANCEL if done.location is not None and self._over is not None:
                # another attempt may have gone on from it, or past it
                self._answer(done.request_id, _in_vain(done.location, "was not cancelled", self._over))
            case _Purpose.STOP if done.location is not None and self._end is not None:
                cause = f"the job is {self._end.value}"
                self._answer(done.request_id, _in_vain(done.location, "did not stop", cause))
            case _Purpose.STOP if done.location is not None:
                # if the attempt is over the next one ends with it
                self._stop_request = done.request_id
                if self._all_finished:
                    self._decide(CommitJob())
            case _:
                answer = RequestAnswered(done.request_id, done.location, done.checkpoint_id, done.error)
                self._journal.act(replace(answer, is_premature=done.is_premature))
                if purpose is _Purpose.CANCEL and done.error is None:
                    self._decide(CancelJob())
                elif purpose is _Purpose.STOP:
                    self._on_stop_failed(done)

    def _on_final_done(self, done: RequestDone) -> None:
        if done.error is None and self._over is None:
            self._final_is_complete = True
            self._decide(CommitJob())
        elif self._all_finished:
            self._retry_final_at_ms = self._journal.now_ms + FINAL_RETRY_MS

    def _on_rescale_done(self, done: RequestDone) -> None:
        assert self._rescale is not None
        is_ending = self._all_finished or self._is_stopping
        if done.error is None and self._over is not None:
            self._fail_rescale(f"the job ended its attempt before it could be {self._rescale.what}: {self._over}")
        elif done.error is None:
            self._decide(RedeployJob(self._rescale.graph, f"the job is {self._rescale.what}"))
        elif is_ending:
            how = "is being stopped" if self._is_stopping else "has read all its input"
            self._fail_rescale(f"the job {how} and is not {self._rescale.what}")
        else:
            self._fail_rescale(f"no checkpoint could be taken to rescale from: {done.error}")

    def _on_stop_failed(self, done: RequestDone) -> None:
        if done.has_drained:
            # sources have ended their input, and only another attempt brings them back
            cause = f"the savepoint to stop with failed: {done.error}"
            self._decide(RedeployJob(None, cause) if self._snapshots.can_restore else FailAttempt(FailureInfo(cause)))
        elif self._all_finished and self._takes_final:
            self._retry_final_at_ms = self._journal.now_ms
        elif self._all_finished:
            self._decide(CommitJob())

    def _adopt_stop(self, request: SavepointRequested, after: AfterSnapshot) -> bool:
        """Answer a request with the stop that an earlier JobMaster was asked for, if there is one.

        The job ends with that savepoint: one that was to be another is refused.
        """
        stopped_by = self._snapshots.stopped_by
        if stopped_by is None or self._stop_request is not None or self._end is not None:
            return False
        options = stopped_by.metadata.options
        is_elsewhere = request.target_directory not in (None, parent_of(stopped_by.location))
        if is_elsewhere or options.after is not after or options.kind is not request.kind:
            how = f"{'with' if options.after is AfterSnapshot.DRAIN else 'without'} --drain, {options.kind.value}"
            why = f"the job is stopping already, with the savepoint {stopped_by.location} ({how})"
            self._answer(request.request_id, why)
        else:
            self._stop_request = request.request_id
        return True

    def _answer_stop(self, error: str | None) -> None:
        request_id, self._stop_request, self._stop_is_lost = self._stop_request, None, None
        stopped_by = self._snapshots.stopped_by
        assert request_id is not None
        if error is None and stopped_by is not None:
            self._journal.act(RequestAnswered(request_id, stopped_by.location, stopped_by.checkpoint_id))
        else:
            self._answer(request_id, error)

    def _begin_rescale(self) -> None:
        rescale = self._rescale
        if rescale is not None and not rescale.is_triggered and self._journal.now_ms >= rescale.not_before_ms:
            rescale.is_triggered, rescale.triggered_ms = True, self._journal.now_ms
            self._take(TriggerRequested(rescale.request_id, is_last=True), _Purpose.RESCALE)

    def _fail_rescale(self, error: str, is_premature: bool = False) -> None:
        rescale, self._rescale = self._rescale, None
        assert rescale is not None
        self._purposes.pop(rescale.request_id, None)
        self._answer(rescale.request_id, error, is_premature)

    @property
    def _is_stopping(self) -> bool:
        """Return whether the job stops with a savepoint that is being taken, or is recorded."""
        return _Purpose.STOP in self._purposes.values() or self._snapshots.stopped_by is not None

    @property
    def _takes_final(self) -> bool:
        return self._settings.is_enabled and self._settings.after_tasks_finish

    def _take_final(self) -> None:
        self._take(TriggerRequested(_FINAL, is_last=True, counts_as_failure=True), _Purpose.FINAL)

    def _take(self, trigger: TriggerRequested, purpose: _Purpose) -> None:
        self._purposes[trigger.request_id] = purpose
        self._snapshots.trigger(trigger)

    def _answer(self, request_id: str, error: str | None = None, is_premature: bool = False) -> None:
        self._journal.act(RequestAnswered(request_id, error=error, is_premature=is_premature))


def _in_vain(location: str, what: str, cause: str) -> str:
    return f"the savepoint {location} is complete, but the job {what} after it: {cause}"
