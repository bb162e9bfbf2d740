"""SlotPool: which TaskManager's slots belong to which job, and who waits for some. The leader's bookkeeping.

Pure; the caller locks. A slot is taken when a stage is planned on it and free again when that stage is over (or its
TaskManager is). Requests are granted whole: the stages of an attempt run together or not at all. For a job that has had
slots as many are kept between its attempts, so that none that came later runs in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.core.ids import Attempt, SlotId


@dataclass(frozen=True, slots=True)
class StageKey:
    """Names one barrier stage of the cluster."""

    job_id: str
    attempt: Attempt
    stage: int

    def __str__(self) -> str:
        return f"{self.job_id}-{self.attempt}-{self.stage}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that hosts slots of one region on one TaskManager."""

    key: StageKey
    region: int
    taskmanager: str
    slots: Sequence[SlotId]


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """Slots of one attempt, or of those regions that are restarted: all of them or none."""

    job_id: str
    attempt: Attempt
    since_ms: int
    """When the job was submitted: who waits longest is served first."""
    regions: Sequence[Sequence[SlotId]]
    """The slots of each region of the job; none of one that is not restarted."""
    has_run: bool = False
    """Whether the job restarts: it is served before those that have not run, and has its place kept."""

    @property
    def count(self) -> int:
        return sum(len(slots) for slots in self.regions)


@dataclass(slots=True)
class _TaskManager:
    slots: int
    stages: dict[StageKey, Stage] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.slots - sum(len(stage.slots) for stage in self.stages.values())


class SlotPool:
    """Slots of all registered TaskManagers."""

    def __init__(self) -> None:
        self._taskmanagers: dict[str, _TaskManager] = {}
        self._waiting: dict[tuple[str, Attempt], SlotRequest] = {}
        #: jobs that have had slots → region → slots that are kept for it, whether they are there or not
        self._kept: dict[str, dict[int, int]] = {}

    @property
    def total(self) -> int:
        return sum(t.slots for t in self._taskmanagers.values())

    @property
    def free(self) -> int:
        return sum(t.free for t in self._taskmanagers.values())

    def free_of(self, taskmanager: str) -> int:
        """Free slots of one TaskManager; 0 if it is unknown."""
        entry = self._taskmanagers.get(taskmanager)
        return 0 if entry is None else entry.free

    def add(self, taskmanager: str, slots: int) -> None:
        """A TaskManager offers slots; again is the same."""
        self._taskmanagers.setdefault(taskmanager, _TaskManager(slots))

    def remove(self, taskmanager: str) -> list[Stage]:
        """A TaskManager is gone; its stages, which went with it."""
        entry = self._taskmanagers.pop(taskmanager, None)
        stages = [] if entry is None else list(entry.stages.values())
        for stage in stages:
            self._keep(stage)
        return stages

    def request(self, request: SlotRequest) -> None:
        """Wait for slots; regions that are restarted alone wait for each their own attempt."""
        self._waiting[request.job_id, request.attempt] = request
        if request.has_run:
            kept = self._kept.setdefault(request.job_id, {})
            kept |= {region: len(slots) for region, slots in enumerate(request.regions) if slots}

    def withdraw(self, job_id: str, attempt: Attempt | None = None) -> None:
        """The job, or that attempt of it, does not want slots any more; those that it has stay its own.

        What was kept for it is free then: for others that wait, the wait of an attempt has lasted long enough.
        """
        for key in [key for key in self._waiting if key[0] == job_id and attempt in (None, key[1])]:
            self._unkeep(self._waiting.pop(key))
        if attempt is None:
            self._kept.pop(job_id, None)

    def release(self, key: StageKey) -> Stage | None:
        """A stage is over; None if it was known to be."""
        for entry in self._taskmanagers.values():
            stage = entry.stages.pop(key, None)
            if stage is not None:
                self._keep(stage)
                return stage
        return None

    def stages(self, job_id: str | None = None, taskmanager: str | None = None) -> list[Stage]:
        """Stages that hold slots, of one job or TaskManager if one is given."""
        return [
            stage
            for name, entry in self._taskmanagers.items()
            if taskmanager in (None, name)
            for stage in entry.stages.values()
            if job_id in (None, stage.key.job_id)
        ]

    def grant(self) -> list[tuple[SlotRequest, list[Stage]]]:
        """Serve who can be served: jobs that restart, then the others, oldest first.

        A younger request that fits goes ahead of an older one that does not: streaming jobs hardly ever end, and slots
        that stay empty until one does help nobody. It gets none that is kept for another job.
        """
        granted = []
        in_order = sorted(self._waiting.values(), key=lambda r: (not r.has_run, r.since_ms, r.job_id, r.attempt))
        for request in in_order:
            if 0 < request.count <= self.free - self._kept_from(request.job_id):
                del self._waiting[request.job_id, request.attempt]
                self._kept.setdefault(request.job_id, {})
                self._unkeep(request)
                granted.append((request, self._place(request)))
        return granted

    def shortage(self, job_id: str) -> str:
        """What a waiting job lacks, for people; empty if it does not wait."""
        count = sum(request.count for (of, _), request in self._waiting.items() if of == job_id)
        if not count:
            return ""
        if not self._taskmanagers:
            return f"needs {_slots(count)}, no TaskManager is registered"
        where = "" if count <= self.total else f" (the cluster has {self.total} in all)"
        kept = min(self.free, self._kept_from(job_id))
        for_whom = f", {kept} of them kept for jobs that restart" if kept else ""
        return f"needs {_slots(count)}, {self.free} {'is' if self.free == 1 else 'are'} free{for_whom}{where}"

    def _keep(self, stage: Stage) -> None:
        """The slots of a stage that is over are its job's until it asks for them again."""
        kept = self._kept.get(stage.key.job_id)
        if kept is not None:
            kept[stage.region] = kept.get(stage.region, 0) + len(stage.slots)

    def _unkeep(self, request: SlotRequest) -> None:
        kept = self._kept.get(request.job_id, {})
        for region, slots in enumerate(request.regions):
            if slots:
                kept.pop(region, None)

    def _kept_from(self, job_id: str) -> int:
        """How many slots are kept for other jobs."""
        return sum(sum(kept.values()) for of, kept in self._kept.items() if of != job_id)

    def _place(self, request: SlotRequest) -> list[Stage]:
        """Large regions first, each into the TaskManager that it fills best; one that fits nowhere is cut up."""
        stages: list[Stage] = []
        for region in sorted(range(len(request.regions)), key=lambda index: -len(request.regions[index])):
            slots = list(request.regions[region])
            while slots:
                name, entry = self._best(len(slots))
                part, slots = slots[: entry.free], slots[entry.free :]
                stage = Stage(StageKey(request.job_id, request.attempt, len(stages)), region, name, tuple(part))
                entry.stages[stage.key] = stage
                stages.append(stage)
        return stages

    def _best(self, count: int) -> tuple[str, _TaskManager]:
        by_free = sorted(self._taskmanagers.items(), key=lambda item: (item[1].free, item[0]))
        return next((item for item in by_free if item[1].free >= count), by_free[-1])


def _slots(count: int) -> str:
    return f"{count} slot{'' if count == 1 else 's'}"
