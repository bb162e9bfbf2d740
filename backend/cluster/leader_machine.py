"""LeaderMachine: decides what the leading jobmanager does. Observations in, actions out.

Pure: no SQL, Redis, Celery, thread or clock. Decisions depend only on the rows and on what runs here at present, never
on what was decided before. An action that fails, or is done but not recorded, is therefore decided again at the next
poll; every action may be carried out twice. `jobmanager` observes and acts.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.cluster.models import TERMINAL_STATES, Operation
from runtime.common import options

Document = dict[str, Any]

#: maximum wait of an operation for its job to run: after a change of leader, slots and state come first
OPERATION_PATIENCE_MS = 120_000
SLOT_PATIENCE_MS = 30_000
"""Maximum wait of an operation for a job that lacks slots: nobody knows when there will be some. Shorter than it takes
TaskManagers to come back after a restart, and they would fail for nothing."""
SUSPENDED = "SUSPENDED"
"""State of a job that waits for the next leader, because the former one has ended as planned."""
SLOTS_LOST = "the JobManager that ran the job ended, and its slots with it"

# --- observations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that has not ended and has no runner here, as SQL records it."""

    job_id: str
    state: str
    leader_epoch: int
    """Of the leader that wrote last."""
    attempt: int
    has_run: bool = False
    """Whether it was ever RUNNING."""
    has_failed: bool = False
    """Whether one of its attempts has failed."""
    attempt_has_failed: bool = False
    """Whether the attempt in the row has."""
    is_cancelled: bool = False
    """Whether a cancellation is requested and not answered."""
    is_held_up: bool = False
    """Whether this leader could not run it yet, because a storage does not answer."""
    is_placed: bool = False
    """Whether it is recorded where its attempt runs: its slots may be adopted."""
    restarts: bool = True
    """Whether it goes on after its slots are lost: it has checkpoints, or a restart strategy."""
    stored_attempt: int = -1
    """The newest attempt that the storage knows of; -1: none. If the row has an older one, it is from a backup."""


@dataclass(frozen=True, slots=True)
class RunnerSeen:
    """A job that this leader runs."""

    job_id: str
    state: str
    waiting_for: str = ""
    requests: Collection[str] = ()
    """Trigger ids of the operations that its JobMaster is carrying out, or has answered."""
    answers: Mapping[str, Document] = field(default_factory=dict)
    """Results that may be recorded before the job ends, by trigger id."""
    premature: Mapping[str, str] = field(default_factory=dict)
    """Trigger id → reason of the operations that its JobMaster did not begin, because the job did not run just then."""
    is_saved: bool = True
    """Whether its row records its state."""
    is_over: bool = False
    """Whether nothing of it is left here."""
    waits_for_slots: bool = False
    """Whether it has requested slots and does not have them."""
    stops_with: str | None = None
    """URI of the savepoint that it stops with; None: it does not stop, as far as is known."""


@dataclass(frozen=True, slots=True)
class JobOnDraining:
    """A job with slots on TaskManagers that are draining."""

    job_id: str
    slots: int
    """Number of its slots there."""
    free: int
    """Number of slots elsewhere that it could have."""
    is_evicted: bool
    """Whether it must leave even if there are too few."""


@dataclass(frozen=True, slots=True)
class SnapshotSeen:
    """A snapshot that a user wants to be deleted."""

    directory: str | None = None
    """Its URI; None: there is no such snapshot, or it is not allowed."""
    error: str = ""
    """Why there is no directory."""
    needed_by: str = ""
    """Who may have to restore from it, in words; empty: nobody."""
    silent: str = ""
    """Which storage has not answered yet, so that nothing else is known; empty: all have."""


@dataclass(frozen=True, slots=True)
class TargetSeen:
    """A directory that a user names for a savepoint."""

    directory: str | None = None
    """Its URI; None: it is not allowed, or nobody knows yet."""
    error: str = ""
    """Why it is not allowed."""
    silent: str = ""
    """Which storage has not answered yet."""


class Remains(enum.Enum):
    """Remains of a savepoint that an earlier leader began."""

    UNKNOWN = "the storage has not answered yet"
    NOTHING = "its directory does not exist"
    PARTIAL = "its directory has no metadata: it was never complete"
    COMPLETE = "it is complete"


@dataclass(frozen=True, slots=True)
class LeftSavepoint:
    """A savepoint that was begun for an operation, of which no JobMaster here knows."""

    directory: str
    """URI."""
    remains: Remains
    checkpoint_id: int = 0
    """If it is complete."""
    why: str = ""
    """Why it is unknown."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation whose result SQL does not record yet."""

    trigger_id: str
    kind: str
    job_id: str | None
    age_ms: int
    """For how long this leader has known of it, by its own clock."""
    is_begun: bool = False
    """Whether a leader has begun it, this one or an earlier one."""
    job_state: str = ""
    """State of its job according to SQL; empty without a job."""
    held_up: str = ""
    """Why this leader could not run its job yet; empty: it could, or has not tried."""
    target: TargetSeen | None = None
    """For savepoints and stops that are to begin in a directory that their user names."""
    snapshot: SnapshotSeen | None = None
    """For DISPOSE, unless the disposal is in progress."""
    left: LeftSavepoint | None = None
    """For savepoints and stops that were begun, unless their job's runner carries them out."""
    ends_job: bool = False
    """Whether the job ends after the savepoint."""
    is_given_up: bool = False
    """Whether the job has gone on without the savepoint, complete or not."""
    follows: str | None = None
    """Trigger id of the same operation, which was asked for before."""
    followed_result: Document | None = None
    """Its recorded result."""


@dataclass(frozen=True, slots=True)
class TaskManagerRows:
    """TaskManagers, according to SQL and according to the bus."""

    registered: Collection[str]
    """Ids that SQL records as registered."""
    known: Collection[str]
    """Ids of those that send heartbeats."""
    gone: Collection[str] = ()
    """Ids of those that have signed off."""


# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run the attempt in the job's row, which this leader has recorded: it has not begun, or goes on where it runs."""

    job_id: str


@dataclass(frozen=True, slots=True)
class TakeJob:
    """Record that this leader begins an attempt of the job, in one write; then run it."""

    job_id: str
    state: str
    attempt: int
    lost: str = ""
    """Why its former attempt has failed; empty: it has lost nothing."""


@dataclass(frozen=True, slots=True)
class AdoptJob:
    """Record that this leader goes on with the job's attempt, where that runs; then have its JobMaster adopt the slots,
    and restart what it cannot adopt."""

    job_id: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """Record the end of a job that does not run."""

    job_id: str
    state: str
    cause: str = ""
    """Why it has failed; empty: it has not."""


JobAction = RunJob | TakeJob | AdoptJob | EndJob


@dataclass(frozen=True, slots=True)
class Answer:
    """Record the result of an operation."""

    trigger_id: str
    result: Document


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Mark the operation as begun unless it is, and cancel the job; a job that is cancelled already is left alone."""

    trigger_id: str
    job_id: str
    is_begun: bool


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Mark the operation as begun unless it is, and hand it to the job's JobMaster."""

    trigger_id: str
    job_id: str
    is_begun: bool
    target: str | None = None
    """URI of the directory that the user names; None: none is named."""


@dataclass(frozen=True, slots=True)
class Conclude:
    """Hand a savepoint that an earlier leader has taken to the job's JobMaster, which then cancels the job."""

    trigger_id: str
    job_id: str
    directory: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete what is left of a savepoint that was never complete; the next one has another directory."""

    trigger_id: str
    directory: str


@dataclass(frozen=True, slots=True)
class Dispose:
    """Mark the operation as begun unless it is, and delete the snapshot in a directory."""

    trigger_id: str
    directory: str
    is_begun: bool


OperationAction = Answer | CancelJob | CarryOut | Conclude | Discard | Dispose


@dataclass(frozen=True, slots=True)
class SaveJob:
    """Record the state of a running job."""

    job_id: str


@dataclass(frozen=True, slots=True)
class DropJob:
    """Forget a job that has ended and whose end is recorded."""

    job_id: str


RunnerAction = SaveJob | DropJob | Answer


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    """Record a TaskManager that sends heartbeats."""

    name: str


@dataclass(frozen=True, slots=True)
class UnregisterTaskManager:
    """Record that a TaskManager is not there any more."""

    name: str
    has_signed_off: bool


TaskManagerAction = RegisterTaskManager | UnregisterTaskManager


@dataclass(frozen=True, slots=True)
class MoveJob:
    """Have a job go on from a checkpoint on other slots; without any it waits for them."""

    job_id: str


class LeaderMachine:
    """Decides for the leader of one epoch.

    Args:
        epoch: its epoch.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def job(self, row: JobRow) -> JobAction:
        """Return how a job that has not ended gets a runner, or ends without one."""
        if row.leader_epoch == self.epoch:
            # recorded, and then something failed
            is_given_up = row.is_held_up and row.is_cancelled
            return EndJob(row.job_id, "CANCELED") if is_given_up else RunJob(row.job_id)
        if row.state == "INITIALIZING":
            return TakeJob(row.job_id, "CREATED", max(row.attempt, row.stored_attempt + 1))
        if row.is_cancelled or row.state == "CANCELLING":
            return EndJob(row.job_id, "CANCELED")
        if row.is_placed and row.attempt >= row.stored_attempt:
            return AdoptJob(row.job_id)
        # slots may have been granted to the attempt in the row without a word to SQL: its number is not used again
        attempt = max(row.attempt, row.stored_attempt) + 1
        if not (row.has_run or row.has_failed):
            return TakeJob(row.job_id, "CREATED", attempt)
        state = "RESTARTING" if row.has_run else "CREATED"
        if row.state == "RESTARTING" and not (row.is_placed or row.attempt_has_failed):
            # it has asked for slots and waits for them: it has none to lose
            return TakeJob(row.job_id, state, attempt)
        if row.state == SUSPENDED and row.restarts:
            # its leader has ended as planned: no failure of the job, and no restart
            return TakeJob(row.job_id, state, attempt)
        if not row.restarts:
            why = f"{options.RESTART_STRATEGY.key} is 'none' and the job takes no checkpoints"
            return EndJob(row.job_id, "FAILED", f"{SLOTS_LOST}; {why}, so the job is not restarted")
        return TakeJob(row.job_id, state, attempt, SLOTS_LOST)

    def suspended(self, seen: RunnerSeen) -> bool:
        """Return whether a job that runs here is suspended when this leader ends as planned; the others are left as
        they are: they have not begun, are being cancelled, or have ended.
        """
        return seen.state in ("RUNNING", "RESTARTING", "FAILING")

    def runner(self, seen: RunnerSeen) -> list[RunnerAction]:
        """Return what is to be recorded of a job that runs here; answers that end with the job are saved with it."""
        save: list[RunnerAction] = [] if seen.is_saved else [SaveJob(seen.job_id)]
        if seen.state not in TERMINAL_STATES:
            return [*save, *(Answer(trigger_id, result) for trigger_id, result in seen.answers.items())]
        return save or ([DropJob(seen.job_id)] if seen.is_over else [])

    # --- operations ---------------------------------------------------------------------------------------------------

    def operations(
        self,
        rows: Iterable[OperationRow],
        runners: Mapping[str, RunnerSeen],
        disposals: Mapping[str, Document | None],
    ) -> list[OperationAction]:
        """Return what begins, or is answered, of the operations without a recorded result.

        Args:
            rows: the operations, oldest first.
            runners: the jobs that run here, by id.
            disposals: trigger id → result of the disposals begun here; None while in progress.
        """
        decided = (self._operation(row, runners.get(row.job_id or ""), disposals) for row in rows)
        return [action for action in decided if action is not None]

    def _operation(
        self, row: OperationRow, runner: RunnerSeen | None, disposals: Mapping[str, Document | None]
    ) -> OperationAction | None:
        if row.kind == Operation.Kind.DISPOSE:
            return self._disposal(row, disposals)
        if row.follows is not None:
            return None if row.followed_result is None else Answer(row.trigger_id, row.followed_result)
        patience_ms = SLOT_PATIENCE_MS if runner is not None and runner.waits_for_slots else OPERATION_PATIENCE_MS
        is_patient = row.age_ms <= patience_ms
        if row.job_state in TERMINAL_STATES:
            return self._after_end(row, is_patient)
        if row.left is not None and _is_answer(row.left, row):
            return Answer(row.trigger_id, _location(row.left))
        if runner is None and row.held_up and row.kind != Operation.Kind.CANCEL and not is_patient:
            return Answer(row.trigger_id, {"error": f"the job does not run, it is {row.job_state}: {row.held_up}"})
        if runner is None or runner.state in TERMINAL_STATES:
            # the job is not taken yet, or its end, which answers all its operations, is not saved yet
            return None
        if row.kind == Operation.Kind.CANCEL:
            return CancelJob(row.trigger_id, runner.job_id, row.is_begun)
        is_premature = row.trigger_id in runner.premature
        if row.trigger_id in runner.requests and not is_premature:
            return None
        if row.left is not None and row.left.directory == runner.stops_with:
            # the end of the job is the answer, whatever the storage says of its savepoint just now
            return None
        # what a job that waits is asked for may be what it needs in order to run
        is_ready = runner.state == "RUNNING" or (row.kind == Operation.Kind.RESCALE and runner.waits_for_slots)
        if is_ready and (is_patient or not is_premature):
            if row.left is not None and row.left.remains is not Remains.NOTHING:
                return self._go_on(row, row.left, runner, is_patient)
            return self._carry_out(row, runner, is_patient)
        if row.left is not None and row.left.remains is Remains.COMPLETE and row.is_given_up:
            return Answer(row.trigger_id, {"error": _too_late(row.left)})
        # the recorded end of a job that stops with its savepoint is the answer
        waits = row.left is not None and row.left.remains is Remains.COMPLETE and row.kind == Operation.Kind.STOP
        return None if is_patient or waits else Answer(row.trigger_id, {"error": _not_running(row, runner)})

    def _carry_out(self, row: OperationRow, runner: RunnerSeen, is_patient: bool) -> OperationAction | None:
        """Return how an operation begins that nobody has begun, or whose beginning has left nothing."""
        target = row.target
        if target is not None and target.directory is None:
            if target.silent and is_patient:
                return None
            return Answer(row.trigger_id, {"error": target.error or target.silent})
        directory = None if target is None else target.directory
        return CarryOut(row.trigger_id, runner.job_id, row.is_begun, directory)

    def _go_on(
        self, row: OperationRow, left: LeftSavepoint, runner: RunnerSeen, is_patient: bool
    ) -> OperationAction | None:
        """Return how an operation goes on whose savepoint an earlier leader has begun."""
        match left.remains:
            case Remains.COMPLETE if row.kind == Operation.Kind.STOP:
                cause = "the JobManager that ran the job ended first"
                why = f"the savepoint {left.directory} is complete, but the job did not stop after it: {cause}"
                return Answer(row.trigger_id, {"error": _too_late(left) if row.is_given_up else why})
            case Remains.COMPLETE:
                return Conclude(row.trigger_id, runner.job_id, left.directory, left.checkpoint_id)
            case _ if not is_patient:
                return Answer(row.trigger_id, {"error": _left_behind(left)})
            case Remains.PARTIAL:
                return Discard(row.trigger_id, left.directory)
        return None

    def _after_end(self, row: OperationRow, is_patient: bool) -> OperationAction | None:
        """Return what follows for an operation whose job has ended, and which was not answered with that."""
        left = row.left
        if left is None or left.remains is Remains.NOTHING:
            return Answer(row.trigger_id, _result_after_end(row))
        if left.remains is Remains.COMPLETE:
            if not row.ends_job:
                return Answer(row.trigger_id, _location(left))
            # a stop that succeeded was answered together with the end of the job
            why = f"the savepoint {left.directory} is complete, but the job did not end with it: it is {row.job_state}"
            return Answer(row.trigger_id, {"error": _too_late(left) if row.is_given_up else why})
        if not is_patient:
            return Answer(row.trigger_id, {"error": f"the job is {row.job_state}; {_left_behind(left)}"})
        return Discard(row.trigger_id, left.directory) if left.remains is Remains.PARTIAL else None

    def _disposal(self, row: OperationRow, disposals: Mapping[str, Document | None]) -> OperationAction | None:
        if row.trigger_id in disposals:
            result = disposals[row.trigger_id]
            if result is None and row.age_ms > OPERATION_PATIENCE_MS:
                result = {"error": "the storage of the snapshot does not answer; what was begun goes on"}
            return None if result is None else Answer(row.trigger_id, result)
        assert row.snapshot is not None
        if row.snapshot.silent:
            is_patient = row.age_ms <= OPERATION_PATIENCE_MS
            return None if is_patient else Answer(row.trigger_id, {"error": row.snapshot.silent})
        if row.snapshot.directory is None:
            return Answer(row.trigger_id, {"error": row.snapshot.error})
        if row.snapshot.needed_by:
            return Answer(row.trigger_id, disposal_refused(row.snapshot.needed_by))
        return Dispose(row.trigger_id, row.snapshot.directory, row.is_begun)

    # --- TaskManagers -------------------------------------------------------------------------------------------------

    def moves(self, jobs: Iterable[JobOnDraining], running: Collection[str], moving: Collection[str]) -> list[MoveJob]:
        """Return the jobs that leave the TaskManagers that are draining: there are slots for them elsewhere, or there
        is no more time to wait for some.

        Args:
            jobs: with slots on such TaskManagers.
            running: jobs in state RUNNING; the others get slots elsewhere when they restart.
            moving: jobs that are on their way already, or are being rescaled.
        """
        decided: list[MoveJob] = []
        promised = 0
        for job in sorted(jobs, key=lambda job: (job.job_id not in moving, job.job_id)):
            if job.job_id in moving:
                promised += job.slots
            elif job.job_id in running and (job.slots <= job.free - promised or job.is_evicted):
                promised += job.slots
                decided.append(MoveJob(job.job_id))
        return decided

    def taskmanagers(self, seen: TaskManagerRows) -> Sequence[TaskManagerAction]:
        """Return what makes the rows of the TaskManagers true."""
        left = sorted(set(seen.registered) - set(seen.known))
        new = sorted(set(seen.known) - set(seen.registered))
        return [
            *(UnregisterTaskManager(name, name in seen.gone) for name in left),
            *(RegisterTaskManager(name) for name in new),
        ]


def disposal_refused(needed_by: str) -> Document:
    """Return the result of a disposal of what somebody needs."""
    return {"error": f"{needed_by} may have to restore from it"}


def stop_in_vain(job_state: str) -> Document:
    """Return the result of a stop whose job has ended otherwise."""
    return {"error": f"the job has ended by itself, as {job_state}, before a savepoint to stop with was complete"}


def _not_running(row: OperationRow, runner: RunnerSeen) -> str:
    if runner.state == "RUNNING":
        return runner.premature[row.trigger_id]
    why = f": {runner.waiting_for}" if runner.waiting_for else ""
    return f"the job does not run, it is {runner.state}{why}"


def _is_answer(left: LeftSavepoint, row: OperationRow) -> bool:
    """Return whether nothing is left to be done after a savepoint."""
    return left.remains is Remains.COMPLETE and not row.ends_job


def _location(left: LeftSavepoint) -> Document:
    return {"location": left.directory, "checkpoint_id": left.checkpoint_id}


def _too_late(left: LeftSavepoint) -> str:
    return (
        f"the savepoint {left.directory} was completed after the job had gone on without it; do not restore it: the "
        "job aborts what sinks had prepared in it"
    )


def _left_behind(left: LeftSavepoint) -> str:
    why = left.why or "it could not be deleted"
    return f"an earlier JobManager began the savepoint {left.directory}, which is not known to be complete: {why}"


def _result_after_end(row: OperationRow) -> Document:
    if row.kind == Operation.Kind.CANCEL:
        # a cancellation that came too late gets a result, too
        return {"state": row.job_state}
    if row.kind == Operation.Kind.STOP and row.job_state == "FINISHED":
        return stop_in_vain(row.job_state)
    return {"error": f"the job is {row.job_state}"}
