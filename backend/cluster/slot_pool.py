"""SlotPool: the leader's bookkeeping of which job has which TaskManager's slots and which jobs wait for some.

Pure; the caller locks. A slot is taken when a stage is planned on it and free again when that stage ends (or its
TaskManager does). Requests are granted as a whole: the stages of an attempt run together or not at all. A job that has
had slots keeps as many between its attempts, so that no later job takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.ids import Attempt, SlotId


@dataclass(frozen=True, slots=True)
class StageKey:
    """Identifies a barrier stage in the cluster."""

    job_id: str
    attempt: Attempt
    stage: int

    def __str__(self) -> str:
        return f"{self.job_id}-{self.attempt}-{self.stage}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that runs slots of one region on one TaskManager."""

    key: StageKey
    region: int
    taskmanager: str
    slots: Sequence[SlotId]


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A request for the slots of an attempt, or of its restarted regions; granted as a whole."""

    job_id: str
    attempt: Attempt
    since_ms: int
    """Submission time of the job: the oldest is served first."""
    regions: Sequence[Sequence[SlotId]]
    """The slots of each region of the job; empty for a region that is not restarted."""
    has_run: bool = False
    """Whether the job restarts: it is served before jobs that have not run, and slots are kept for it."""
    is_open: bool = False
    """Whether it is not decided yet how many slots the job begins with: another request will take its place."""
    is_undivided: bool = False
    """True: the slots of a region have to be of one TaskManager."""

    @property
    def count(self) -> int:
        return sum(len(slots) for slots in self.regions)


@dataclass(slots=True)
class _TaskManager:
    slots: int
    is_draining: bool = False
    stages: dict[StageKey, Stage] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return 0 if self.is_draining else self.slots - sum(len(stage.slots) for stage in self.stages.values())


class SlotPool:
    """Slots of all registered TaskManagers."""

    def __init__(self) -> None:
        self._taskmanagers: dict[str, _TaskManager] = {}
        self._waiting: dict[tuple[str, Attempt], SlotRequest] = {}
        #: jobs that have had slots → region → number of slots it runs on, whether it has them at present or not
        self._needs: dict[str, dict[int, int]] = {}
        #: jobs whose number of slots others decide → how many are theirs, whether they have them at present or not
        self._claims: Mapping[str, int] = {}

    @property
    def total(self) -> int:
        return sum(t.slots for t in self._taskmanagers.values() if not t.is_draining)

    @property
    def free(self) -> int:
        return sum(t.free for t in self._taskmanagers.values())

    def free_of(self, taskmanager: str) -> int:
        """Return the number of free slots of a TaskManager; 0 if it is unknown."""
        entry = self._taskmanagers.get(taskmanager)
        return 0 if entry is None else entry.free

    def add(self, taskmanager: str, slots: int) -> None:
        """Add a TaskManager with its slots; repeated calls do nothing."""
        self._taskmanagers.setdefault(taskmanager, _TaskManager(slots))

    def drain(self, taskmanager: str) -> None:
        """Give no more slots of a TaskManager, because it is about to end; stages that it has stay."""
        self._taskmanagers[taskmanager].is_draining = True

    def slots_on_draining(self) -> dict[str, int]:
        """Return the jobs with slots on TaskManagers that are draining, and how many."""
        counts: Counter[str] = Counter()
        for entry in self._taskmanagers.values():
            if entry.is_draining:
                for stage in entry.stages.values():
                    counts[stage.key.job_id] += len(stage.slots)
        return dict(counts)

    def free_for(self, job_id: str) -> int:
        """Return the number of free slots that are not kept for other jobs."""
        return max(0, self.free - self._kept_from(job_id))

    def held(self, job_id: str) -> tuple[int, int]:
        """Return the number of a job's slots on TaskManagers that stay, and on those that are draining."""
        staying = draining = 0
        for entry in self._taskmanagers.values():
            count = sum(len(stage.slots) for stage in entry.stages.values() if stage.key.job_id == job_id)
            staying, draining = (staying, draining + count) if entry.is_draining else (staying + count, draining)
        return staying, draining

    def lacking(self) -> dict[str, tuple[int, bool]]:
        """Return the jobs that lack slots, how many, and whether they have had them before."""
        waiting: Counter[str] = Counter()
        for request in self._waiting.values():
            waiting[request.job_id] += request.count
        kept = {job_id: self._missing(job_id) for job_id in self._needs}
        return {job_id: (count, False) for job_id, count in waiting.items()} | {
            job_id: (count, True) for job_id, count in kept.items() if count
        }

    def claim(self, claims: Mapping[str, int]) -> None:
        """Keep that many slots in all for each of these jobs, whatever they had before; no others have claims."""
        self._claims = dict(claims)

    def is_waiting(self, job_id: str, attempt: Attempt | None = None) -> bool:
        """Return whether a request of a job, or of one of its attempts, is not granted yet."""
        return any(of == job_id and attempt in (None, a) for of, a in self._waiting)

    def remove(self, taskmanager: str) -> list[Stage]:
        """Remove a TaskManager; return its stages, which are gone with it."""
        entry = self._taskmanagers.pop(taskmanager, None)
        return [] if entry is None else list(entry.stages.values())

    def request(self, request: SlotRequest) -> None:
        """Add a request; regions that restart separately each wait under their own attempt."""
        self._waiting[request.job_id, request.attempt] = request
        if request.has_run:
            self._note_needs(request)

    def withdraw(self, job_id: str, attempt: Attempt | None = None) -> None:
        """Withdraw the requests of a job, or of one of its attempts; slots that it has stay its own.

        The slots kept for the requests become free: other jobs have waited long enough for this attempt.
        """
        for key in [key for key in self._waiting if key[0] == job_id and attempt in (None, key[1])]:
            needs, request = self._needs.get(job_id, {}), self._waiting.pop(key)
            for region, slots in enumerate(request.regions):
                if slots:
                    needs.pop(region, None)
        if attempt is None:
            self._needs.pop(job_id, None)
            self._claims = {of: slots for of, slots in self._claims.items() if of != job_id}

    def release(self, key: StageKey) -> Stage | None:
        """Release the slots of an ended stage and return it; None if they are released already."""
        for entry in self._taskmanagers.values():
            stage = entry.stages.pop(key, None)
            if stage is not None:
                return stage
        return None

    def stages(self, job_id: str | None = None, taskmanager: str | None = None) -> list[Stage]:
        """Return the stages that hold slots, filtered by job and TaskManager if given."""
        return [
            stage
            for name, entry in self._taskmanagers.items()
            if taskmanager in (None, name)
            for stage in entry.stages.values()
            if job_id in (None, stage.key.job_id)
        ]

    def place(self, stage: Stage) -> None:
        """Take the slots of a stage that an earlier leader has planned, on a TaskManager that is registered."""
        self._taskmanagers[stage.taskmanager].stages[stage.key] = stage
        needs = self._needs.setdefault(stage.key.job_id, {})
        needs[stage.region] = needs.get(stage.region, 0) + len(stage.slots)

    def grant(self) -> list[tuple[SlotRequest, list[Stage]]]:
        """Grant all requests that can be granted: restarting jobs first, then the others, oldest first.

        A younger request that fits goes ahead of an older one that does not: streaming jobs rarely end, and slots that
        stay empty until one does help nobody. No request gets slots that are kept for another job.
        """
        granted = []
        in_order = sorted(self._waiting.values(), key=lambda r: (not r.has_run, r.since_ms, r.job_id, r.attempt))
        for request in in_order:
            has_room = 0 < request.count <= self.free - self._kept_from(request.job_id)
            if not request.is_open and has_room and self._fits(request):
                del self._waiting[request.job_id, request.attempt]
                self._note_needs(request)
                granted.append((request, self._place(request)))
        return granted

    def shortage(self, job_id: str, least: int | None = None) -> str:
        """Return a message on what a waiting job lacks; empty if it does not wait.

        Args:
            job_id: the job.
            least: number of slots in all with which it would run; None: as many as it has requested.
        """
        requests = [request for (of, _), request in self._waiting.items() if of == job_id]
        wanted = sum(request.count for request in requests)
        if not wanted:
            return ""
        count = wanted if least is None else min(wanted, max(1, least - self.held(job_id)[0]))
        needs = f"needs {_slots(count)}" if count == wanted else f"needs {_slots(count)} and wants {wanted}"
        if not self._taskmanagers:
            return f"{needs}, no TaskManager is registered"
        where = "" if count <= self.total else f" (the cluster has {self.total} in all)"
        kept = min(self.free, self._kept_from(job_id))
        for_whom = f", {kept} of them kept for jobs that restart" if kept else ""
        undivided = max((len(slots) for r in requests if r.is_undivided for slots in r.regions), default=0)
        if undivided and wanted <= self.free - kept:
            most = max(entry.free for entry in self._taskmanagers.values())
            return f"{needs}, {undivided} of them on one TaskManager, of which none has more than {most} free"
        return f"{needs}, {self.free} {'is' if self.free == 1 else 'are'} free{for_whom}{where}"

    def _fits(self, request: SlotRequest) -> bool:
        """Return whether each region finds a TaskManager with room for all of it, where that has to be so."""
        if not request.is_undivided:
            return True
        free = sorted(entry.free for entry in self._taskmanagers.values())
        for count in sorted(map(len, request.regions), reverse=True):
            best = next((index for index, room in enumerate(free) if room >= count), None)
            if best is None:
                return False
            free[best] -= count
            free.sort()
        return True

    def _note_needs(self, request: SlotRequest) -> None:
        needs = self._needs.setdefault(request.job_id, {})
        needs |= {region: len(slots) for region, slots in enumerate(request.regions) if slots}

    def _kept_from(self, job_id: str) -> int:
        """Return the number of slots kept for other jobs: those that they need and do not have."""
        claimed = sum(max(0, slots - self.held(of)[0]) for of, slots in self._claims.items() if of != job_id)
        return claimed + sum(self._missing(of) for of in self._needs if of != job_id and of not in self._claims)

    def _missing(self, job_id: str) -> int:
        """Return the number of slots that a job needs and does not have, by what it had last."""
        held: Counter[int] = Counter()
        for stage in self.stages(job_id):
            held[stage.region] += len(stage.slots)
        return sum(max(0, slots - held[region]) for region, slots in self._needs[job_id].items())

    def _place(self, request: SlotRequest) -> list[Stage]:
        """Place regions, large ones first, each on the best-fitting TaskManager; split a region that fits on none."""
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
