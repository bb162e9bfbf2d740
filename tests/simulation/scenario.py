"""Scenario: all that a simulated run depends on, made from its seed. Frozen, printable; the same for the same seed."""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.simulation.faults import PASS_POINTS, Action, Fault, Point

HOUR_MS = 3_600_000


class Barriers(enum.Enum):
    """Treatment of in-flight records by checkpoints."""

    ALIGNED = "aligned"
    UNALIGNED = "unaligned"
    TIMEOUT = "aligned, then unaligned"
    AT_LEAST_ONCE = "at least once"


class Passes(enum.Enum):
    """Places where a job's tasks run in passes."""

    HERE = "in the process that hosts them"
    ELSEWHERE = "in workers of Spark"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Parameters of a run."""

    seed: int
    barriers: Barriers = Barriers.ALIGNED
    backend: str = "hashmap"
    is_incremental: bool = False
    parallelism: int = 2
    is_spread: bool = False
    """Whether one of the sources has slots of its own."""
    writes_files: bool = False
    """Whether the sink is the file sink; else it is a transactional one."""
    rolls_on_checkpoint: bool = False
    """Whether the file sink begins new files at checkpoints only; else by size, age and inactivity."""
    next_parallelism: Sequence[int] = ()
    """Of the job under later JobMasters, in turn."""
    next_backend: str = ""
    """Of a job that is resumed from a savepoint; empty: the same."""
    claims: bool = False
    """Whether a job that is resumed owns the savepoint."""
    faults: Sequence[Fault] = ()
    window_bytes: int = 4096
    """Credit of a channel."""
    checkpoint_interval_ms: int = 60
    upload_ms: float = 10.0
    """How long a write of the storage takes at most."""
    buffer_timeout_ms: int = 5
    storage_is_local: bool = False
    """Whether checkpoints, and the JobMaster, are on the slots' machine; else in an object store."""
    num_retained: int = 1
    tolerable_failures: int = 3
    max_concurrent: int = 1
    heartbeat_timeout_ms: int = 2_000
    record_ms: float = 0.3
    """How long functions work on a record."""
    per_slice: int = 0
    """How many records, or timers, a task works off before others have their turn; 0 = as many as there is time for."""
    pace_ms: int = 12
    """How long sources wait between two batches, on average."""
    orphan_timeout_ms: int = 0
    """How long slots go on without a JobMaster, for another one to adopt them; 0: they end with it."""
    only_leaders_fail: bool = False
    """Whether nothing goes wrong but that JobMasters end or stand still."""
    passes: Passes | None = None
    """Where tasks run in passes, if the job is one in micro-batches; None: it is a continuous one."""
    changes_mode: bool = False
    """Whether a job that is resumed from a savepoint is executed the other way."""
    max_rows: int = 1_000
    """How many records each subtask of a source reads in a micro-batch."""
    max_turns: int = 25_000

    @property
    def is_exactly_once(self) -> bool:
        """Return whether every record counts once, and none may be seen twice."""
        return self.barriers is not Barriers.AT_LEAST_ONCE

    def parallelism_of(self, epoch: int) -> int | None:
        """Return the initial parallelism of an epoch's JobMaster; None = that of the job."""
        if epoch == 1 or not self.next_parallelism:
            return None
        return self.next_parallelism[(epoch - 2) % len(self.next_parallelism)]

    def options(self, directory: str) -> Mapping[str, str]:
        """The job's configuration."""
        checkpointing = {
            "interval": f"{self.checkpoint_interval_ms} ms",
            "mode": "at_least_once" if self.barriers is Barriers.AT_LEAST_ONCE else "exactly_once",
            "unaligned.enabled": str(self.barriers in (Barriers.UNALIGNED, Barriers.TIMEOUT)).lower(),
            "aligned-checkpoint-timeout": "15 ms" if self.barriers is Barriers.TIMEOUT else "0 ms",
            "timeout": "5 s",
            "incremental": str(self.is_incremental).lower(),
            "num-retained": str(self.num_retained),
            "tolerable-failed-checkpoints": str(self.tolerable_failures),
            "max-concurrent-checkpoints": str(self.max_concurrent),
        }
        return {
            **{f"execution.checkpointing.{key}": value for key, value in checkpointing.items()},
            "state.backend.type": self.backend,
            "execution.target": "mini-cluster" if self.passes is Passes.HERE else "spark",
            "execution.mode": "micro-batch" if self.passes is not None else "continuous",
            "execution.micro-batch.max-rows": str(self.max_rows),
            "python.fn-execution.bundle.size": str(self.per_slice),
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "50 ms",
            "restart-strategy.exponential-delay.max-backoff": "500 ms",
            "restart-strategy.exponential-delay.jitter-factor": "0.0",
            "heartbeat.interval": f"{self.heartbeat_timeout_ms // 4} ms",
            "heartbeat.timeout": f"{self.heartbeat_timeout_ms} ms",
            "task.cancellation.timeout": "1 s",
            "slot.request.timeout": "5 s",
            "pipeline.auto-watermark-interval": "0 ms",
            "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
            "taskmanager.network.memory.channel-window": f"{self.window_bytes} b",
            "io.tmp.dirs": directory,
            # threads of its own would pass points in any order
            "state.backend.rocksdb.checkpoint.transfer.thread.num": "1",
        }

    def __str__(self) -> str:
        fields = [f"  {field.name} = {getattr(self, field.name)}" for field in dataclasses.fields(self)]
        lines = [line for line in fields if not line.startswith("  faults")]
        return "\n".join([f"seed {self.seed}:", *lines, "  faults:", *(f"    {fault}" for fault in self.faults)])


#: how often each point is passed in a run of some hundred records without faults, roughly
_PASSAGES = {
    Point.STEP: 600,
    Point.PROCESS: 400,
    Point.SNAPSHOT: 30,
    Point.OPEN: 8,
    Point.CLOSE: 6,
    Point.UPLOAD: 40,
    Point.UPLOADED: 40,
    Point.RESTORE: 4,
    Point.READ: 16,
    Point.SYNC: 40,
    Point.METADATA: 8,
    Point.METADATA_WRITTEN: 8,
    Point.RECORD: 8,
    Point.RECORDED: 8,
    Point.WRITE: 60,
    Point.PRE_COMMIT: 16,
    Point.PREPARED: 16,
    Point.COMMIT: 16,
    Point.COMMITTED: 16,
    Point.SOURCES: 8,
    Point.TRIGGER: 16,
    Point.ACKNOWLEDGE: 80,
    Point.NOTIFY: 16,
    Point.END: 2,
}
#: what can go wrong at each kind of point, beside what can anywhere
_FUNCTIONS = {Point.PROCESS, Point.SNAPSHOT, Point.OPEN, Point.CLOSE}
_SINK = {Point.WRITE, Point.PRE_COMMIT, Point.PREPARED, Point.COMMIT, Point.COMMITTED}
_WRITES = {Point.UPLOAD, Point.METADATA, Point.RECORD}
_READS = {Point.RESTORE}
#: where the storage can fail alone; reads of the JobMaster are as many as its writes
_STORAGE = (
    *(Point.UPLOAD, Point.UPLOADED, Point.METADATA, Point.METADATA_WRITTEN, Point.RECORD, Point.RECORDED),
    *(Point.RESTORE, Point.READ, Point.READ, Point.READ),
)
#: points that are passed where nothing of a process is on the stack, or its transport
_DELIVERIES = {Point.ACKNOWLEDGE}


def scenario_of(seed: int, backend: str = "hashmap") -> Scenario:
    """The scenario of a seed.

    Args:
        seed: any number.
        backend: hashmap or rocksdb.
    """
    draw = random.Random(f"scenario {seed}")
    barriers = draw.choice([*Barriers, Barriers.UNALIGNED, Barriers.ALIGNED])
    is_unaligned = barriers in (Barriers.UNALIGNED, Barriers.TIMEOUT)
    parallelism = draw.choice([1, 2, 2, 2, 3])
    faults = _faults(draw)
    is_damaged = draw.random() < 0.15
    if is_damaged:
        # files that several checkpoints share would damage all of them
        faults += (Fault(Point.NOTIFY, draw.randrange(4, 16), Action.DAMAGE),)
    scenario = Scenario(
        seed=seed,
        barriers=barriers,
        backend=backend,
        is_incremental=draw.random() < 0.5 and not is_damaged,
        parallelism=parallelism,
        is_spread=draw.random() < 0.3,
        next_parallelism=tuple(draw.choice([1, 2, 3]) for _ in range(draw.randrange(3))),
        faults=faults,
        window_bytes=draw.choice([256, 512, 1024, 1 << 16]),
        checkpoint_interval_ms=draw.choice([15, 30, 60, 120]),
        upload_ms=draw.choice([1.0, 5.0, 5.0, 40.0]),
        buffer_timeout_ms=draw.choice([0, 5, 50, -1]),
        num_retained=3 if is_damaged else draw.choice([1, 1, 2, 3]),
        tolerable_failures=draw.choice([0, 1, 5]),
        max_concurrent=1 if is_unaligned else draw.choice([1, 1, 2, 3]),
        record_ms=draw.choice([0.2, 1.0, 3.0, 6.0]),
        pace_ms=draw.choice([0, 10, 30]),
        writes_files=draw.random() < 0.5,
        rolls_on_checkpoint=draw.random() < 0.3,
        next_backend=draw.choice(["", "", "hashmap", "rocksdb"]),
        claims=draw.random() < 0.3,
        storage_is_local=draw.random() < 0.4,
        # with slices of a few timers, barriers come between them
        per_slice=1 + seed // 5 % 3 if seed % 5 == 3 else 0,
    )
    return dataclasses.replace(scenario, faults=faults + _storage_faults(draw)) if draw.random() < 0.25 else scenario


def _faults(draw: random.Random) -> tuple[Fault, ...]:
    faults: dict[tuple[Point, int], Fault] = {}
    for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 3, 4, 6])):
        fault = _fault(draw)
        faults[fault.point, fault.nth] = fault
    return tuple(faults.values())


def _fault(draw: random.Random) -> Fault:
    # what befalls the JobMaster where it reads is among the faults of the storage
    point = draw.choice([point for point in Point if point is not Point.READ and point not in PASS_POINTS])
    # early passages matter more: later ones may never come
    nth = 1 + int(_PASSAGES[point] * draw.random() ** 1.5)
    actions = [
        *(Action.DISCONNECT, Action.KILL_JOBMASTER, Action.FREEZE_JOBMASTER, Action.FREEZE_JOBMASTER),
        *(Action.RESCALE, Action.RESCALE, Action.SAVEPOINT, Action.POWER_LOSS, Action.POWER_LOSS),
        *(Action.STOP, Action.STOP, Action.STOP, Action.CLOCK_JUMP),
    ]
    if point not in _DELIVERIES:
        actions += [Action.KILL] * 6 + [Action.FREEZE] * 2 + [Action.ISOLATE] * 2
    if point in _FUNCTIONS or point in _SINK:
        actions += [Action.RAISE] * 3
    if point in _READS or point in _WRITES:
        actions += [Action.RAISE]
    if point in _WRITES:
        actions += [Action.LAND_LATE] * 3
    action = draw.choice(actions)
    ms = 0
    if action is Action.RESCALE:
        ms = draw.choice([1, 2, 3])
    elif action in (Action.FREEZE, Action.FREEZE_JOBMASTER):
        ms = draw.choice([30, 200, 600, 1_500, 3_000, 8_000])
    elif action is Action.STOP:
        ms = draw.choice([0, 0, 1])
    elif action is Action.CLOCK_JUMP:
        ms = draw.choice([HOUR_MS, -HOUR_MS])
    elif action is Action.LAND_LATE:
        ms = draw.choice([1, 30, 500, 3_000])
    return Fault(point, nth, action, ms)


def _storage_faults(draw: random.Random) -> tuple[Fault, ...]:
    """The storage fails once, or is away while something else breaks that makes somebody need it."""
    if draw.random() < 0.4:
        point = draw.choice(_STORAGE)
        nth = 1 + int(_PASSAGES[point] * draw.random() ** 1.5)
        return (Fault(point, nth, draw.choice([Action.RAISE, Action.RAISE, Action.KILL])),)
    # in the middle of a run: most jobs have a checkpoint to go on from by then, and have not ended
    nth = draw.randrange(200, 500)
    away = Fault(Point.STEP, nth, draw.choice([Action.OUTAGE, Action.UNMOUNT]), draw.choice([300, 1_000, 3_000]))
    others = [*[Action.KILL] * 3, *[Action.KILL_JOBMASTER] * 3, Action.STOP, Action.SAVEPOINT]
    return away, Fault(Point.STEP, nth + 1, draw.choice(others))
