"""Adoption: slots that an earlier JobMaster has deployed come over to this one, and go on. Pure.

Every placed slot is offered to come over, and reports. A region is adopted if each of its slots has reported and each
of its tasks runs or has finished; any other region restarts. Slots that have not come over in time count as lost: they
may be frozen, and are killed with what is left of their region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import CheckpointId, SlotId
from runtime.jobmaster.actions import AdoptSlots
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.phases import RUNNING
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import PROTOCOL_VERSION, FailureInfo, SlotReport, TaskState

ADOPTION_TIMEOUT_MS = 3_000.0
"""For slots to come over. They answer in a few milliseconds unless they are frozen or cut off; longer holds up the
checkpoints of the regions that can be adopted, shorter restarts a job whose machine is busy."""
LEADER_LOST = "the JobManager that ran the job is gone, and this part of the job could not be adopted"


class Adoption:
    """The adoption of one job: `begin` is called first, or `abandon`.

    Args:
        placement: where the job's regions run under an earlier JobMaster; empty: nowhere.
        journal: of the machine.
    """

    def __init__(self, placement: Sequence[PlacedRegion], journal: Journal) -> None:
        self._placement = placement
        self._journal = journal
        self._reports: dict[SlotId, SlotReport] = {}
        #: by region; the first one
        self._failures: dict[int, FailureInfo] = {}

    @property
    def is_possible(self) -> bool:
        """Return whether something of the job runs that has not been abandoned."""
        return bool(self._placement)

    def abandon(self, run: AttemptRun) -> None:
        """End what runs, as `run`, which is used for nothing else: nothing can go on from where it is."""
        for placed in self._placement:
            run.place(placed)
        if self._placement:
            run.end()
        self._placement = ()

    def begin(self, run: AttemptRun) -> None:
        """Offer the slots to come over; `run` expects them."""
        self._run = run
        by_region = {placed.region: placed for placed in self._placement if _fits(placed, run)}
        for region in run.regions:
            placed = by_region.get(region.index)
            if placed is None:
                self._failures[region.index] = FailureInfo(f"{LEADER_LOST}: nothing of it was deployed")
                for slot in region.slots:
                    run.give_up(slot, TaskState.FAILED)
            else:
                run.place(placed)
        self._journal.act(AdoptSlots(tuple(by_region.values())))

    def report(self, report: SlotReport) -> None:
        """Take the report of a slot that has come over."""
        slot = report.slot
        self._reports[slot] = report
        for task in report.tasks:
            self._run.adopt_task(task)
        known, hosted = {task.task for task in report.tasks}, self._run.execution.tasks_in(slot)
        for failure in report.failures:
            self.failed(slot, failure)
        for task in report.tasks:
            if task.failure is not None:
                self.failed(slot, task.failure)
            elif task.state not in RUNNING:
                self.failed(slot, FailureInfo(f"{LEADER_LOST}: {task.task} was {task.state.value}", slot=slot))
        if known != {task.task for task in hosted}:
            self.failed(slot, FailureInfo(f"{LEADER_LOST}: slot {slot} was not deployed", slot=slot))

    def failed(self, slot: SlotId, failure: FailureInfo) -> None:
        """Note that the region of a slot cannot be adopted."""
        region = self._run.execution.region_of(slot).index
        self._journal.tell(f"region {region} is not adopted: {failure.message}")
        self._failures.setdefault(region, failure)

    @property
    def is_over(self) -> bool:
        """Return whether every slot has reported, or never will."""
        return not self._run.slots.missing()

    def conclude(
        self, newest: CompletedCheckpoint | None, stopped_by: CompletedCheckpoint | None
    ) -> Mapping[int, FailureInfo]:
        """Give up the slots that have not reported. Return the regions that are not adopted, and why.

        Args:
            newest: the newest completed checkpoint, if there is one.
            stopped_by: the same, if it is the savepoint that the job stops with.
        """
        for slot in self._run.slots.missing():
            self.failed(slot, FailureInfo(f"{LEADER_LOST}: slot {slot} did not report in time", slot=slot))
            self._run.give_up(slot, TaskState.FAILED)
        for checkpoint_id, options in self.pending.items():
            if options.after is AfterSnapshot.DRAIN and (newest is None or checkpoint_id != newest.checkpoint_id):
                # sources have ended their input for it, and only another attempt brings them back
                self._fail_all("the savepoint to stop with was given up after the job was drained")
        if stopped_by is not None:
            number = stopped_by.checkpoint_id
            if not all(r.stopped_by == number or number in r.pending for r in self._reports.values()):
                self._fail_all("the job stops with a savepoint that was given up")
            if self._failures:
                # the parts of a job that stops end together
                self._fail_all("the job stops with a savepoint, and another part of it is gone")
        return dict(sorted(self._failures.items()))

    @property
    def is_committing(self) -> bool:
        """Return whether the earlier JobMaster had begun to end the job: nothing was left to be taken."""
        return any(report.has_committed for report in self._reports.values())

    def _fail_all(self, why: str) -> None:
        for region in self._run.regions:
            self._failures.setdefault(region.index, FailureInfo(f"{LEADER_LOST}: {why}"))

    @property
    def pending(self) -> Mapping[CheckpointId, CheckpointOptions]:
        """Return the checkpoints of which at least one slot does not know how they ended."""
        return {n: options for report in self._reports.values() for n, options in report.pending.items()}

    @property
    def last_seen(self) -> CheckpointId:
        """Return the highest checkpoint id that any slot has heard of; 0: none."""
        return max((report.last_seen for report in self._reports.values()), default=CheckpointId(0))


def _fits(placed: PlacedRegion, run: AttemptRun) -> bool:
    """Return whether the placement is of the job as it is, and its slots understand this JobMaster."""
    regions = run.regions
    is_known = 0 <= placed.region < len(regions) and placed.protocol == PROTOCOL_VERSION
    return is_known and {p.slot for p in placed.slots} == set(regions[placed.region].slots)
