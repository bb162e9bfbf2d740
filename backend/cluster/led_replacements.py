"""LedReplacements: moves replacements of jobs on. Part of the leading jobmanager's poll.

It observes SQL only, and each step is one transaction that holds the leader's epoch: what is done and the state that
says so are there together, or neither. A submission waits until the storage says that its directories are allowed, and
the replacement's message names that storage; a new job gives way to the old one if that takes too long. The requests
that outlive a transaction (a stop, a cancellation) have ids that were chosen before, so that asking again is asking for
the same. What is replaced, and by what, says the app whose rows they are.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from backend.cluster import services
from backend.cluster.ages import Ages
from backend.cluster.checkpoint_home import check_location
from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import Checkpoint, CheckpointStatistics, Job, Operation, Replacement
from backend.cluster.planned_jobs import PlannedJob, as_it_ran
from backend.cluster.replacement_machine import (
    START_PATIENCE_MS,
    Action,
    BeginRollback,
    CancelNew,
    Check,
    Fail,
    FinishRollback,
    JobSeen,
    ReplacementSeen,
    Settle,
    Stop,
    Submit,
    next_action,
    refused_at_submission,
)
from backend.cluster.withheld import UnsealedError
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import runs_in_passes
from runtime.core.clock import Clock
from runtime.graph.codec import GraphFormatError
from runtime.jobmaster.rescaling import RescaleError

logger = logging.getLogger(__name__)

#: begins the line of a message that names the storage that the replacement waits for
_WAITS = "it waits: "
_REFUSALS = (ConfigurationError, GraphFormatError, RescaleError, UnsealedError, services.ClusterError)
Row = TypeVar("Row", bound=Replacement)


class LedReplacements(ABC, Generic[Row]):
    """The open replacements of one app and one leader. Implements `FurtherWork`.

    Attributes:
        what: a replacement is, in words for logs.

    Args:
        leadership: fences all writes.
        clock: for the times in rows, and the ages of what they describe.
        containment: contains failures.
        check: checks the directories that a job names.
    """

    what: ClassVar[str]

    def __init__(
        self,
        leadership: Leadership,
        clock: Clock,
        containment: Containment,
        check: CheckLocation = check_location,
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._containment = containment
        self._check = check
        #: of the present states of replacements and jobs; of a job that runs again it begins anew
        self._ages: Ages[tuple[str, str, int]] = Ages(clock)
        #: states that this poll has seen
        self._seen: set[tuple[str, str, int]] = set()

    # --- what the app says --------------------------------------------------------------------------------------------

    @abstractmethod
    def needed_jobs(self) -> Collection[str]:
        """Return the jobs of replacements that are under way: their rows must stay."""

    @abstractmethod
    def open_rows(self) -> Sequence[Row]:
        """Return the replacements that are under way, oldest first, without what is large."""

    @abstractmethod
    def replaced_job(self, row: Row) -> str | None:
        """Return the id of the job that is replaced; None: it is no longer known."""

    @abstractmethod
    def savepoint_of(self, row: Row) -> str:
        """Return where the savepoint of the old job is, as it was recorded; empty: it has not been yet."""

    @abstractmethod
    def with_savepoint(self, row: Row, location: str) -> Mapping[str, Any]:
        """Return the columns that record where the savepoint of the old job is."""

    @abstractmethod
    def new_job(self, row: Row, savepoint: str) -> PlannedJob:
        """Return the job that is to run instead of the old one, which has left a savepoint.

        Raises:
            ConfigurationError, GraphFormatError, RescaleError, UnsealedError, services.ClusterError: there is none.
        """

    def comes_back(self, row: Row) -> None:
        """Record that the old job runs again, as `rollback_job_id`; called in the transaction that submits it."""

    # --- steps --------------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Move every open replacement on by one step, if one is due."""
        rows = self.open_rows()
        unobserved = {row.id: row for row in rows}
        self._seen.clear()
        for row in rows:
            with self._containment.of(f"{self.what} {row.id}"):
                action = next_action(self._observe(row))
                del unobserved[row.id]
                if action is not None:
                    self._act(row, action)
        # what could not be looked at goes on ageing
        names = {name for row in unobserved.values() for name in (row.id, row.job_id, self.replaced_job(row))}
        self._ages.keep(self._seen | {key for key in self._ages.known() if key[0] in names})

    def _observe(self, row: Row) -> ReplacementSeen:
        stop = Operation.objects.filter(trigger_id=row.stop_id, state=Operation.State.COMPLETED).first()
        replaced = self.replaced_job(row)
        return ReplacementSeen(
            row.state,
            self._age_ms(row.id, row.state, row.state_times.get(row.state, 0)),
            None if replaced is None else self._job(replaced),
            None if stop is None else stop.result or {},
            self.savepoint_of(row),
            self._job(row.job_id),
        )

    def _job(self, job_id: str) -> JobSeen | None:
        job = services.list_jobs().filter(id=job_id).defer("graph", "document", "plan").first()
        if job is None:
            return None
        own = Checkpoint.objects.filter(job_id=job_id, is_savepoint=False).exists()
        counted = CheckpointStatistics.objects.filter(job_id=job_id).first()
        running_ms = self._age_ms(job.id, job.state, job.state_times["RUNNING"]) if job.state == "RUNNING" else None
        return JobSeen(
            job.state,
            job.restarts,
            _last_failure(job),
            running_ms,
            own or (counted is not None and counted.record.get("completed", 0) > 0),
            job.waiting_for,
            runs_in_passes(Configuration.from_dict(job.configuration), blocks_by_default=False),
        )

    def _age_ms(self, name: str, state: str, entered: int) -> int:
        """Return how long this leader has seen a replacement or job in its state; `entered` only identifies it."""
        key = (name, state, entered)
        self._seen.add(key)
        return self._ages.of(key)

    def _act(self, row: Row, action: Action) -> None:
        match action:
            case Check():
                self._enter(row, "CHECKED")
            case Stop():
                self._stop(row)
            case Submit(location):
                self._submit(row, location)
            case Settle():
                self._enter(row, "RUNNING")
            case BeginRollback(why):
                self._enter(row, "ROLLING_BACK", why)
            case CancelNew():
                self._cancel_new(row)
            case FinishRollback(location):
                self._finish_rollback(row, location)
            case Fail(why):
                self._enter(row, "FAILED", _both(_reasons(row), why))

    def _enter(self, row: Row, state: str, message: str | None = None, **values: Any) -> None:
        with self._leadership.fenced():
            self._record(row, state, message, **values)

    def _record(self, row: Row, state: str, message: str | None = None, **values: Any) -> None:
        """Write a state, in a transaction that holds the leader's epoch."""
        times = row.state_times | {state: self._clock.now_ms()}
        values |= {"state": state, "state_times": times}
        if message is not None:
            values["message"] = message
        if self._update(row, **values):
            logger.info("%s %s: %s %s", self.what, row.id, state, message or "")

    def _update(self, row: Row, **values: Any) -> bool:
        """Write columns, unless its state has changed; return whether they were written."""
        return type(row)._default_manager.filter(id=row.id, state=row.state).update(**values) == 1

    def _stop(self, row: Row) -> None:
        replaced = self.replaced_job(row)
        assert replaced is not None
        job = services.get_job(replaced)
        parameters = {"target_directory": None, "drain": False, "format": "CANONICAL"}
        with self._leadership.fenced():
            try:
                services.request_operation(job, Operation.Kind.STOP, parameters, row.created_by, trigger_id=row.stop_id)
            except (services.JobEndedError, services.OperationOpenError) as error:
                self._record(row, "FAILED", str(error))
                return
            self._record(row, "STOPPING")

    def _submit(self, row: Row, location: str) -> None:
        savepoint = self.with_savepoint(row, location)
        try:
            job = self.new_job(row, location)
            locations = job.check_locations(self._check)
            with self._leadership.fenced():
                job.submit(row.job_id, locations, is_limited=False)
                self._record(row, "SUBMITTED", _reasons(row), **savepoint)
        except _REFUSALS as error:
            self._refuse(row, str(error), savepoint)
        except StorageSilentError as silent:
            # of when it was waited for first; another leader begins anew
            if self._age_ms(row.id, "waits for a storage", 0) > START_PATIENCE_MS:
                self._refuse(row, str(silent), savepoint)
            else:
                self._tell_wait(row, silent)

    def _refuse(self, row: Row, why: str, savepoint: Mapping[str, Any]) -> None:
        self._enter(row, "ROLLING_BACK", refused_at_submission(why).why, **savepoint)

    def _tell_wait(self, row: Row, silent: StorageSilentError) -> None:
        """Have a replacement say which storage it waits for."""
        message = _both(_reasons(row), f"{_WAITS}{silent}")
        if message == row.message:
            return
        logger.warning("%s %s waits: %s", self.what, row.id, silent)
        with self._leadership.fenced():
            self._update(row, message=message)

    def _cancel_new(self, row: Row) -> None:
        job = services.get_job(row.job_id)
        with self._leadership.fenced():
            try:
                services.request_operation(job, Operation.Kind.CANCEL, {}, row.created_by, trigger_id=row.cancel_id)
            except services.JobEndedError:
                # seen at the next poll
                return

    def _finish_rollback(self, row: Row, location: str) -> None:
        old = Job.objects.filter(id=self.replaced_job(row)).first()
        if old is None:
            self._enter(row, "FAILED", _both(_reasons(row), "the old job is no longer known"))
            return
        try:
            job = as_it_ran(old).starting_from(location)
            locations = job.check_locations(self._check)
            with self._leadership.fenced():
                job.submit(row.rollback_job_id, locations, is_limited=False)
                self.comes_back(row)
                self._record(row, "ROLLED_BACK", _reasons(row))
        except _REFUSALS as error:
            why = f"the old graph was refused, too: {error}; its savepoint is {location}"
            self._enter(row, "FAILED", _both(_reasons(row), why))
        except StorageSilentError as silent:
            # for as long as it takes: there is nothing else that could run
            self._tell_wait(row, silent)


def _last_failure(job: Job) -> str:
    if job.failure:
        return str(job.failure.get("message", ""))
    newest = services.list_exceptions(job).first()
    return "" if newest is None else newest.message


def _both(before: str, why: str) -> str:
    return f"{before}\n{why}" if before else why


def _reasons(row: Replacement) -> str:
    """Return the message of a replacement without what it waits for."""
    return "\n".join(line for line in row.message.splitlines() if not line.startswith(_WAITS))
