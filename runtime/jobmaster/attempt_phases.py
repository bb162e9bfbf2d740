"""AttemptPhases: the phases of a job's attempt, up and down, and how long each may take. Pure.

Up: request slots → deploy, once all have registered → start, once all tasks are made. Down: cancel tasks, or commit →
release slots → nobody is left. `advance` takes the steps that slots and tasks allow. That an attempt begins, is
deployed, commits or goes down, and what follows from a phase that lasts too long, is decided by JobMasterMachine.
Regions that restart alone while the attempt is STARTED have phases of their own, see RegionRestarts.
"""

from __future__ import annotations

from runtime.core.ids import Attempt
from runtime.jobmaster.adoption import ADOPTION_TIMEOUT_MS
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import DEPLOYED, Phase
from runtime.task.messages import CommitFinished, TaskState


class AttemptPhases:
    """The phases of one job, attempt after attempt; AttemptRun has the current one.

    Args:
        run: the first attempt; `watch` is called with each later one.
        options: timeouts.
        journal: of the machine.
    """

    def __init__(self, run: AttemptRun, options: JobMasterOptions, journal: Journal) -> None:
        self._options = options
        self._journal = journal
        self.watch(run)

    def watch(self, run: AttemptRun) -> None:
        """Go on with a new attempt, which is IDLE."""
        self._run = run

    @property
    def is_due(self) -> bool:
        """Return whether the phase has lasted too long, or the wait for a restart is over."""
        return self._run.deadline_ms is not None and self._journal.now_ms >= self._run.deadline_ms

    def check_invariants(self) -> None:
        """Raise AssertionError if something contradicts itself."""
        run = self._run
        if run.is_torn_down or run.phase is Phase.RECONCILING:
            assert run.deadline_ms is not None, f"{run.phase} without a deadline"
        if run.phase is Phase.COMMITTING:
            assert run.execution.all_in((TaskState.FINISHED,)), "commit before the end"
            assert len(run.committed) < len(run.slots), "all have committed"
        if run.phase is Phase.LEAVING:
            assert run.slots.live(), "nobody is left to leave"
        if run.phase is Phase.IDLE:
            assert not run.slots.live(), "live slots without an attempt"

    # --- up -----------------------------------------------------------------------------------------------------------

    def request(self, attempt: Attempt) -> None:
        """Ask for all slots."""
        self._enter(Phase.REQUESTING, self._options.slot_request_timeout_ms)
        self._run.request(attempt, self._run.regions)

    def reconcile(self) -> None:
        """Wait for the slots of an earlier JobMaster."""
        self._enter(Phase.RECONCILING, ADOPTION_TIMEOUT_MS)

    def deploying(self) -> None:
        """Wait for the tasks to be made: all slots were told to."""
        # meanwhile they import user code and cannot answer: this deadline stands for heartbeats
        self._enter(Phase.DEPLOYING, self._options.slot_request_timeout_ms)

    def adopted(self) -> None:
        """Go on with tasks that run already."""
        self._enter(Phase.STARTED, None)

    def commit(self) -> None:
        """Have all slots commit: every task has finished."""
        self._enter(Phase.COMMITTING, None)
        self._run.send(self._run.slots.live(), CommitFinished())

    # --- down ---------------------------------------------------------------------------------------------------------

    def cancel(self, timeout_ms: float) -> None:
        """Have all tasks stop, within that time; `advance` is to be called next."""
        self._enter(Phase.CANCELLING_TASKS, timeout_ms)
        self._run.cancel(self._run.execution.slots)

    def withdraw(self) -> None:
        """Give up the request for slots, none of which has come."""
        self._run.end()
        self._enter(Phase.IDLE, None)

    def break_off(self) -> None:
        """Forget whatever is there, at once."""
        for slot in self._run.execution.slots:
            self._run.give_up(slot, TaskState.CANCELED)
        self._run.phase, self._run.deadline_ms = Phase.IDLE, None

    # --- as time goes by ----------------------------------------------------------------------------------------------

    def wait_until(self, at_ms: float | None) -> None:
        """Let the phase, or the wait for a restart, be over then; None: never."""
        self._run.deadline_ms = at_ms

    def wait_longer(self, timeout_ms: float) -> None:
        """Let the phase be over in so much time."""
        self._run.deadline_ms = self._journal.now_ms + timeout_ms

    def advance(self) -> bool:
        """Take every step that slots and tasks allow; returns whether the attempt has ended with it."""
        run, slots = self._run, self._run.execution.slots
        if run.phase is Phase.DEPLOYING and run.execution.all_in(DEPLOYED):
            self._enter(Phase.STARTED, None)
            run.start(slots)
        if run.phase is Phase.CANCELLING_TASKS and run.have_stopped(slots):
            self._release()
        elif run.phase is Phase.COMMITTING and len(run.committed) == len(run.slots):
            self._release(is_over=True)
        if run.phase is not Phase.LEAVING or run.slots.live():
            return False
        run.end()
        self._enter(Phase.IDLE, None)
        return True

    def describe_late(self) -> str:
        """Describe why an attempt that is to come up is late."""
        slots = self._run.execution.slots
        if self._run.phase is Phase.DEPLOYING:
            return self._run.describe_late(slots)
        if self._run.slots.all_live():
            return "the storage did not say whether the newest checkpoint is complete"
        return self._run.describe_missing(slots, self._options.slot_request_timeout_ms)

    def give_up_late(self) -> None:
        """Expect nothing more from slots that hold up the end; `advance` is to be called next."""
        if self._run.phase is Phase.CANCELLING_TASKS:
            self._run.give_up_hanging(self._run.execution.slots)
        else:
            for slot in self._run.slots.live():
                self._run.give_up(slot, TaskState.CANCELED)

    def _release(self, is_over: bool = False) -> None:
        self._enter(Phase.LEAVING, self._options.teardown_timeout_ms)
        self._run.release(self._run.execution.slots, is_over)

    def _enter(self, phase: Phase, timeout_ms: float | None) -> None:
        self._journal.tell(f"attempt {self._run.oldest}: {self._run.phase.name} → {phase.name}")
        self._run.phase = phase
        self._run.deadline_ms = None if timeout_ms is None else self._journal.now_ms + timeout_ms
