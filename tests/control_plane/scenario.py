"""Scenario: all that a run of the control plane depends on, made from its seed. Frozen, printable, reproducible."""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass

from backend.cluster.models import Operation

Kind = Operation.Kind

#: text of the call that records where a region runs
PLACEMENT = 'INSERT INTO "cluster_placement"'
#: faults happen within this time; afterwards everything has to come to rest
FAULTY_MS = 12_000
#: time that the cluster has for that at most: lost deployments and silent TaskManagers take the most of it
QUIET_MS = 60_000


class Action(enum.Enum):
    """Kind of a fault of a call."""

    FAIL = "the call is not carried out"
    LOSE_ANSWER = "the call is carried out, and nobody hears so"
    LATE = "the call takes `ms`"
    KILL = "the caller ends: before the call is carried out, or after it if `ms` is not 0"
    FREEZE = "the caller stands still for `ms`, behind the call"
    TWICE = "it happens twice"


class Point(enum.Enum):
    """Calls that can go wrong."""

    SQL = """the n-th call of leaders to the database: the statement, BEGIN and the thread, or COMMIT and the statements
    that it is of"""
    BUS = "the n-th call of leaders to the bus: take events, beat, publish <topic>, put <key>"
    COMMAND = "the n-th command to a TaskManager: <task> <attempt>"
    EVENT = "the n-th event of a TaskManager: its type"


class Event(enum.Enum):
    """Kind of a fault at a given time."""

    KILL_LEADER = "the leader ends"
    FREEZE_LEADER = "the leader stands still for `ms`"
    KILL_LEADERS = "the leader ends, and whoever follows ends `ms` after it has taken over"
    FREEZE_JOBMANAGERS = "all jobmanagers stand still for `ms`, as on a machine that is suspended"
    KILL_TASKMANAGER = "a TaskManager and its slots end"
    STOP_TASKMANAGER = "a TaskManager is stopped, and signs off"
    ADD_TASKMANAGER = "another TaskManager begins, with two slots"
    DRAIN_TASKMANAGER = "one of those is drained; none takes its place"
    KILL_SLOT = "a slot's process ends"
    FAIL_TASK = "a task fails"
    DATABASE_AWAY = "the database cannot be reached by anybody for `ms`"
    BUS_AWAY = "the bus cannot be reached by anybody for `ms`"
    FLUSH = "the bus loses everything"
    MALFORMED = "somebody posts nonsense on the bus"


@dataclass(frozen=True, slots=True)
class CallFault:
    """Something goes wrong at a call."""

    point: Point
    nth: int
    action: Action
    ms: int = 0
    what: str = ""
    """If given, only calls are counted in whose text it is; see `Point`."""

    def __str__(self) -> str:
        return f"{self.point.name} {self.what}#{self.nth}: {self.action.name} {self.ms or ''}".rstrip()


@dataclass(frozen=True, slots=True)
class TimedFault:
    """Something goes wrong at a time."""

    at_ms: int
    event: Event
    ms: int = 0
    text: str = "ValueError: bad record"
    """Message of a task that fails."""

    def __str__(self) -> str:
        return f"at {self.at_ms}: {self.event.name} {self.ms or ''}".rstrip()


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that a user submits."""

    at_ms: int
    parallelism: int = 1
    takes_checkpoints: bool = True
    is_restarted: bool = True
    keeps_checkpoints: bool = False
    """Whether they stay when it is cancelled."""
    num_retained: int = 1
    times: int = 1
    """How often it is submitted, under one id."""
    is_adopted: bool = False
    """Whether its slots go on without a leader, for the next one to adopt them."""
    is_elastic: bool = False
    """Whether it runs with less than its parallelism while there are too few slots."""
    metrics: tuple[tuple[str, float], ...] = ()
    """What each of its tasks reports."""


@dataclass(frozen=True, slots=True)
class Request:
    """An operation that a user asks for."""

    at_ms: int
    kind: Kind
    job: int
    """Which of the submissions, in their order."""
    argument: int = 0
    """Drain, cancel behind the savepoint (other than 0); the new parallelism, an elastic job's upper bound."""
    times: int = 1
    """How often, under one trigger id."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a run depends on."""

    seed: int
    taskmanagers: Sequence[int] = (4,)
    """Slots of each."""
    submissions: Sequence[Submission] = (Submission(0),)
    requests: Sequence[Request] = ()
    calls: Sequence[CallFault] = ()
    events: Sequence[TimedFault] = ()
    jobmanagers: int = 2
    """One of them leads, the others stand by."""

    @property
    def only_leaders_fail(self) -> bool:
        """Return whether nothing befalls jobs but the loss of leaders, which their slots outlive.

        Leaders have time enough to make up for a placement that they could not record.
        """
        is_spared = all(submission.is_adopted and not submission.is_elastic for submission in self.submissions)
        losses = {fault.event for fault in self.events} <= set(_LOSSES)
        is_recorded = all(PLACEMENT in fault.what for fault in self.calls)
        return is_spared and losses and is_recorded and not self.requests

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.jobmanagers} jobmanagers, TaskManagers with {list(self.taskmanagers)} slots"]
        for name in ("submissions", "requests"):
            lines += [f"  {given}" for given in getattr(self, name)]
        return "\n".join([*lines, *(f"  {fault}" for fault in (*self.calls, *self.events))])


#: how often each point is passed in a run, roughly
_PASSAGES = {Point.SQL: 300, Point.BUS: 160, Point.COMMAND: 8, Point.EVENT: 30}
_TASKMANAGERS = ((3,), (2, 2), (4,), (6,), (3, 3), (2, 2, 2), (5, 4))
_CALL_ACTIONS = {
    Point.SQL: (
        *(Action.FAIL, Action.FAIL, Action.LOSE_ANSWER, Action.LOSE_ANSWER, Action.LATE),
        *(Action.KILL, Action.KILL, Action.FREEZE),
    ),
    Point.BUS: (Action.FAIL, Action.LATE, Action.KILL, Action.FREEZE),
    Point.COMMAND: (Action.FAIL, Action.LOSE_ANSWER, Action.LATE, Action.TWICE),
    Point.EVENT: (Action.FAIL, Action.LATE, Action.TWICE),
}


_LOSSES = (Event.KILL_LEADER, Event.FREEZE_LEADER, Event.KILL_LEADERS, Event.FREEZE_JOBMANAGERS)
#: as often as they are here
_DRAWN_LOSSES: tuple[Event | None, ...] = (
    *(None, None, Event.KILL_LEADER, Event.FREEZE_LEADER, Event.KILL_LEADER, Event.FREEZE_LEADER),
    *(Event.KILL_LEADERS, Event.KILL_LEADERS, Event.KILL_LEADERS, Event.FREEZE_JOBMANAGERS),
)
#: the other events are of TaskManagers for elastic jobs, and losses of leaders that are drawn apart
_FAULTS = tuple(
    event
    for event in Event
    if event not in (Event.ADD_TASKMANAGER, Event.DRAIN_TASKMANAGER, Event.KILL_LEADERS, Event.FREEZE_JOBMANAGERS)
)


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    draw = random.Random(f"control plane {seed}")
    submissions = tuple(_submission(draw) for _ in range(draw.choice([1, 2, 2, 3])))
    requests = tuple(_request(draw, len(submissions)) for _ in range(draw.choice([0, 1, 1, 2, 3, 4])))
    parallelism = [submission.parallelism for submission in submissions]
    for request in requests:
        if request.kind == Kind.RESCALE:
            parallelism[request.job] = max(parallelism[request.job], request.argument)
    enough = [slots for slots in _TASKMANAGERS if sum(slots) >= sum(parallelism)]
    made = Scenario(
        seed,
        taskmanagers=draw.choice(enough),
        submissions=submissions,
        requests=requests,
        calls=tuple(_call(draw) for _ in range(draw.choice([0, 1, 2, 3, 5, 8]))),
        events=tuple(_event(draw) for _ in range(draw.choice([0, 1, 1, 2, 3]))),
        jobmanagers=draw.choice([1, 2, 2, 3]),
    )
    made = with_losses(made)
    return with_elastic_jobs(made) if seed % 4 == 3 else made


def with_losses(scenario: Scenario) -> Scenario:
    """Return the scenario, most often with another loss of the leader, and now and then of the next one, too."""
    draw = random.Random(f"losses {scenario.seed}")
    at_ms = draw.randrange(1_500, FAULTY_MS)
    match draw.choice(_DRAWN_LOSSES):
        case None:
            return scenario
        case Event.KILL_LEADERS:
            loss = TimedFault(at_ms, Event.KILL_LEADERS, draw.choice([1, 10, 30, 100, 300, 1_000]))
        case Event.KILL_LEADER:
            loss = TimedFault(at_ms, Event.KILL_LEADER)
        case event:
            loss = TimedFault(at_ms, event, draw.choice([4_000, 7_000]))
    return dataclasses.replace(scenario, events=(*scenario.events, loss))


def with_elastic_jobs(scenario: Scenario) -> Scenario:
    """Return the scenario with jobs that take what slots there are, and TaskManagers that come and go."""
    draw = random.Random(f"elastic {scenario.seed}")
    submissions = [
        dataclasses.replace(submission, is_elastic=True, parallelism=draw.choice([2, 3, 4, 6]))
        if number == 0 or draw.random() < 0.5
        else submission
        for number, submission in enumerate(scenario.submissions)
    ]
    comes = [draw.randrange(500, FAULTY_MS * 2 // 3) for _ in range(draw.choice([1, 1, 2]))]
    goes = [draw.randrange(at_ms + 1_000, FAULTY_MS) for at_ms in comes if draw.random() < 0.7]
    events = [TimedFault(at_ms, Event.ADD_TASKMANAGER) for at_ms in comes]
    events += [TimedFault(at_ms, Event.DRAIN_TASKMANAGER) for at_ms in goes]
    return dataclasses.replace(scenario, submissions=submissions, events=(*scenario.events, *events))


def without_faults(scenario: Scenario) -> Scenario:
    """Return the scenario, and nothing goes wrong in it."""
    return dataclasses.replace(scenario, calls=(), events=())


def _submission(draw: random.Random) -> Submission:
    return Submission(
        draw.choice([0, 0, draw.randrange(FAULTY_MS // 2)]),
        parallelism=draw.choice([1, 1, 2]),
        takes_checkpoints=draw.random() < 0.8,
        is_restarted=draw.random() < 0.85,
        keeps_checkpoints=draw.random() < 0.3,
        num_retained=draw.choice([1, 1, 2]),
        times=draw.choice([1, 1, 2]),
        is_adopted=draw.random() < 0.5,
    )


def _request(draw: random.Random, num_jobs: int) -> Request:
    kind = draw.choice(
        [Kind.CANCEL, Kind.SAVEPOINT, Kind.SAVEPOINT, Kind.STOP, Kind.CHECKPOINT, Kind.RESCALE, Kind.DISPOSE]
    )
    argument = draw.choice([1, 2, 3]) if kind == Kind.RESCALE else int(draw.random() < 0.3)
    return Request(draw.randrange(500, FAULTY_MS), kind, draw.randrange(num_jobs), argument, draw.choice([1, 1, 2]))


def _call(draw: random.Random) -> CallFault:
    point = draw.choice([Point.SQL] * 5 + [Point.BUS, Point.COMMAND, Point.EVENT])
    action = draw.choice(_CALL_ACTIONS[point])
    ms = {
        Action.LATE: draw.choice([100, 1_000, 6_000]),
        Action.FREEZE: draw.choice([500, 3_000, 8_000]),
        Action.KILL: draw.choice([0, 1]),
    }
    # early passages matter more: later ones may never come
    return CallFault(point, 1 + int(_PASSAGES[point] * draw.random() ** 1.5), action, ms.get(action, 0))


def _event(draw: random.Random) -> TimedFault:
    event = draw.choice([*_FAULTS, Event.KILL_LEADER, Event.KILL_LEADER, Event.FREEZE_LEADER, Event.DATABASE_AWAY])
    lasting = (Event.FREEZE_LEADER, Event.DATABASE_AWAY, Event.BUS_AWAY)
    return TimedFault(draw.randrange(FAULTY_MS), event, draw.choice([400, 2_000, 7_000]) if event in lasting else 0)


#: jobs in each state in which a new leader finds them: one that is restarted, one that is not, one that is to be
#: cancelled, one that waits for slots. They are claimed, taken over, asked for, and end.
EVERY_STEP = Scenario(
    1,
    taskmanagers=(3,),
    submissions=(
        Submission(0),
        Submission(0, is_restarted=False, takes_checkpoints=False),
        Submission(0),
        Submission(1_500, parallelism=2),
        Submission(7_500),
    ),
    requests=(
        Request(2_200, Kind.SAVEPOINT, 0),
        Request(3_990, Kind.CANCEL, 2),
        Request(4_001, Kind.CHECKPOINT, 0),
        Request(7_000, Kind.STOP, 0),
        Request(7_200, Kind.DISPOSE, 0),
    ),
    events=(TimedFault(4_000, Event.KILL_LEADER),),
)
#: jobs that a new leader adopts: one that was rescaled, one that is to be cancelled behind a savepoint
ADOPTED = Scenario(
    2,
    taskmanagers=(3,),
    submissions=(Submission(0, is_adopted=True), Submission(0, is_adopted=True)),
    requests=(
        Request(2_400, Kind.RESCALE, 0, 2),
        Request(3_990, Kind.SAVEPOINT, 1),
        Request(4_002, Kind.SAVEPOINT, 0),
        Request(9_000, Kind.CANCEL, 1),
    ),
    events=(TimedFault(4_000, Event.KILL_LEADER),),
)
