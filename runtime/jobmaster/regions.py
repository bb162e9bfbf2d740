"""RegionRestarts: regions of a job that are taken down and started again while the others go on. Pure.

A region goes the way of a whole attempt: cancel tasks → release slots → wait for the restart strategy's delay →
request slots → deploy from the newest checkpoint → start. It gets the next attempt number; the others keep theirs.
Nothing flows between regions, so one may be restored from a checkpoint that the others have left behind.
Source: Flink, RestartPipelinedRegionFailoverStrategy, DefaultScheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import DEPLOYED, RUNNING, TEARDOWN, Phase
from runtime.jobmaster.status import Failure
from runtime.task.messages import FailureInfo, TaskState


@dataclass(frozen=True, slots=True)
class RegionOwner:
    """Actions of the machine for a region."""

    begin: Callable[[], Attempt | None]
    """Returns the number of a new attempt; None: the job cannot be restored, and is being torn down."""
    deploy: Callable[[Region], bool]
    """Deploys the newest checkpoint; False: it is not decided yet which one that is, or the job has ended."""
    fail: Callable[[FailureInfo, SlotId], None]
    """Makes the region of a slot fail, or the whole job."""


@dataclass(slots=True)
class _Restart:
    region: Region
    failure: Failure
    """Why it is restarted."""
    restart_at_ms: float
    phase: Phase = Phase.CANCELLING_TASKS
    """IDLE: nothing of it is left, and the delay not over."""
    deadline_ms: float | None = None


class RegionRestarts:
    """Regions of one job that are being restarted, attempt after attempt.

    Args:
        run: the first attempt; `watch` is called with each later one.
        options: timeouts.
        owner: the machine.
        journal: of the machine.
    """

    def __init__(self, run: AttemptRun, options: JobMasterOptions, owner: RegionOwner, journal: Journal) -> None:
        self._options = options
        self._owner = owner
        self._journal = journal
        self._restarts: dict[int, _Restart] = {}
        self.watch(run)

    def watch(self, run: AttemptRun) -> None:
        """Restart regions of a new attempt from here on; none is being restarted."""
        self._run = run
        self._restarts.clear()

    def __len__(self) -> int:
        return len(self._restarts)

    def is_up(self, slot: SlotId) -> bool:
        """Return whether the region of a slot is not being restarted."""
        return self._run.execution.region_of(slot).index not in self._restarts

    def is_going_down(self, slot: SlotId) -> bool:
        """Return whether the slot is expected to leave, or to have left, with the whole job or with its region."""
        if self._run.is_torn_down:
            return True
        restart = self._restarts.get(self._run.execution.region_of(slot).index)
        return restart is not None and restart.phase in (*TEARDOWN, Phase.IDLE)

    def is_restoring(self, slot: SlotId | None) -> bool:
        """Return whether tasks are being made and restored: those of the whole job, or of the slot's region."""
        if self._run.phase is Phase.DEPLOYING or slot is None:
            return self._run.phase is Phase.DEPLOYING
        restart = self._restarts.get(self._run.execution.region_of(slot).index)
        return restart is not None and restart.phase is Phase.DEPLOYING

    def prolong_restore(self, slot: SlotId) -> None:
        """Give the tasks of the whole job, or of a slot's region, their full time again: they get on."""
        deadline_ms = self._journal.now_ms + self._options.slot_request_timeout_ms
        restart = self._restarts.get(self._run.execution.region_of(slot).index)
        if self._run.phase is Phase.DEPLOYING:
            self._run.deadline_ms = deadline_ms
        elif restart is not None and restart.phase is Phase.DEPLOYING:
            restart.deadline_ms = deadline_ms

    def failure(self, slot: SlotId) -> Failure | None:
        """Return why the tasks of a slot's region are being cancelled; None: they are not."""
        restart = self._restarts.get(self._run.execution.region_of(slot).index)
        return restart.failure if restart is not None and restart.phase is Phase.CANCELLING_TASKS else None

    def next_deadline_ms(self) -> float | None:
        """Return when `expire` has something to do."""
        return min((r.deadline_ms for r in self._restarts.values() if r.deadline_ms is not None), default=None)

    def next_attempt_ms(self) -> float | None:
        """Return when the first region that waits for its time is started again; None: none waits."""
        waiting = [r.restart_at_ms for r in self._restarts.values() if r.phase in (*TEARDOWN, Phase.IDLE)]
        return min(waiting, default=None)

    @property
    def is_waiting_for_slots(self) -> bool:
        """Return whether a region has requested its slots, and none of them has come."""
        requesting = [r.region.slots for r in self._restarts.values() if r.phase is Phase.REQUESTING]
        return any(not self._run.slots.live(slots) for slots in requesting)

    def clear(self) -> None:
        """Forget all restarts: the whole job goes down. Slots that were excused have to prove again that they live."""
        for restart in self._restarts.values():
            if restart.phase is Phase.DEPLOYING:
                self._run.slots.renew(restart.region.slots, self._journal.now_ms)
        self._restarts.clear()

    def check_invariants(self) -> None:
        """Raise AssertionError if something contradicts itself."""
        slots = self._run.slots
        for restart in self._restarts.values():
            of_region = restart.region.slots
            assert restart.phase is Phase.STARTED or restart.deadline_ms is not None, "a region waits for ever"
            if restart.phase is Phase.IDLE:
                assert not slots.live(of_region), "live slots in a region that is down"
            if restart.phase is Phase.LEAVING:
                assert slots.live(of_region), "nobody is left to leave"
            if restart.phase in (Phase.DEPLOYING, Phase.STARTED):
                assert slots.all_live(of_region), f"a slot is not live in phase {restart.phase}"

    # --- steps --------------------------------------------------------------------------------------------------------

    def begin(self, region: Region, failure: Failure, restart_at_ms: float) -> None:
        """Take a region down; `advance` is to be called next."""
        restart = self._restarts[region.index] = _Restart(region, failure, restart_at_ms)
        self._enter(restart, Phase.CANCELLING_TASKS, self._options.teardown_timeout_ms)
        self._run.cancel(region.slots)

    def advance(self) -> None:
        """Take every step that tasks and slots allow."""
        for index, restart in list(self._restarts.items()):
            # a step may fail the region again, or the whole job
            while self._restarts.get(index) is restart and self._step(restart):
                pass

    def expire(self) -> None:
        """Deal with deadlines that have come."""
        for index, restart in list(self._restarts.items()):
            is_due = restart.deadline_ms is not None and self._journal.now_ms >= restart.deadline_ms
            if is_due and self._restarts.get(index) is restart:
                self._journal.tell(f"deadline of region {index} in {restart.phase.name}")
                self._on_deadline(restart)
        self.advance()

    def _step(self, restart: _Restart) -> bool:
        run, slots = self._run, restart.region.slots
        match restart.phase:
            case Phase.CANCELLING_TASKS if run.have_stopped(slots):
                self._enter(restart, Phase.LEAVING, self._options.teardown_timeout_ms)
                run.release(slots)
            case Phase.LEAVING if not run.slots.live(slots):
                run.end((restart.region,))
                self._enter(restart, Phase.IDLE, None)
                restart.deadline_ms = restart.restart_at_ms
            case Phase.IDLE if self._journal.now_ms >= restart.restart_at_ms:
                attempt = self._owner.begin()
                if attempt is None:
                    return False
                self._enter(restart, Phase.REQUESTING, self._options.slot_request_timeout_ms)
                run.request(attempt, (restart.region,))
            case Phase.REQUESTING if run.slots.all_live(slots):
                if not self._owner.deploy(restart.region):
                    return False
                # until the tasks are made, slots import user code and cannot answer
                run.slots.excuse(slots)
                self._enter(restart, Phase.DEPLOYING, self._options.slot_request_timeout_ms)
            case Phase.DEPLOYING if run.execution.all_in(DEPLOYED, slots):
                self._enter(restart, Phase.STARTED, None)
                run.start(slots)
            case Phase.STARTED if run.execution.all_in(RUNNING, slots):
                self._journal.tell(f"region {restart.region.index} runs again")
                del self._restarts[restart.region.index]
            case _:
                return False
        return True

    def _on_deadline(self, restart: _Restart) -> None:
        run, slots = self._run, restart.region.slots
        match restart.phase:
            case Phase.REQUESTING if run.slots.all_live(slots):
                self._fail(restart, "the storage did not say whether the newest checkpoint is complete")
            case Phase.REQUESTING:
                self._fail(restart, run.describe_missing(slots, self._options.slot_request_timeout_ms))
            case Phase.DEPLOYING:
                self._fail(restart, run.describe_late(slots))
            case Phase.CANCELLING_TASKS:
                run.give_up_hanging(slots)
            case Phase.LEAVING:
                for slot in run.slots.live(slots):
                    run.give_up(slot, TaskState.CANCELED)

    def _fail(self, restart: _Restart, cause: str) -> None:
        self._owner.fail(FailureInfo(cause), restart.region.slots[0])

    def _enter(self, restart: _Restart, phase: Phase, timeout_ms: float | None) -> None:
        self._journal.tell(f"region {restart.region.index}: {restart.phase.name} → {phase.name}")
        restart.phase = phase
        restart.deadline_ms = None if timeout_ms is None else self._journal.now_ms + timeout_ms
