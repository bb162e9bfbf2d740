"""Faults of a simulated run, as data: an action at the n-th passage of a named point.

A schedule is printed and can be replayed. Points are passed by collaborators that the simulation provides anyway (file
system, control links, the sink's database) and by the functions of the job; production code knows nothing of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Point(enum.Enum):
    """Points at which faults can occur."""

    STEP = "a slot begins a step"
    PROCESS = "a function is given a record"
    SNAPSHOT = "a function takes its snapshot"
    OPEN = "a function is opened"
    CLOSE = "a function is closed"
    UPLOAD = "a slot is about to write a file of a checkpoint"
    UPLOADED = "a slot has written a file of a checkpoint"
    RESTORE = "a slot reads a file of a checkpoint"
    READ = "the JobMaster reads metadata or what is recorded"
    SYNC = "a file of a checkpoint, or any directory, is about to be synced"
    METADATA = "the JobMaster is about to write the metadata"
    METADATA_WRITTEN = "the metadata are written"
    RECORD = "the JobMaster is about to record that a checkpoint is complete"
    RECORDED = "it is recorded"
    WRITE = "a sink is about to write records"
    PRE_COMMIT = "a sink is about to pre-commit: to prepare a transaction, to sync a file"
    PREPARED = "a sink has pre-committed"
    COMMIT = "a sink is about to commit: a transaction, a file by its name"
    COMMITTED = "a sink has committed"
    SOURCES = "a slot hears that source coordinators are to take their snapshots"
    TRIGGER = "a slot hears of a new checkpoint"
    ACKNOWLEDGE = "an acknowledgement arrives at the JobMaster"
    NOTIFY = "a slot hears that a checkpoint is complete"
    END = "a slot hears that all tasks have finished"
    BATCH = "a query begins a batch"
    BATCH_OVER = "a query hears that its batch is over"
    LEVEL = "a worker is about to run the tasks of a level"
    REPORTED = "a host of passes hears what the tasks of one have reported"
    REPEAT = "a worker is about to commit what a snapshot holds"


class Action(enum.Enum):
    """Kinds of faults. They hit the process that passes the point, unless stated otherwise."""

    KILL = "its process ends at once"
    RAISE = "what it does fails with an error; the storage refuses for good, or what it has done is not answered"
    OUTAGE = "the storage cannot be reached by anybody for `ms`"
    UNMOUNT = "the storage is not mounted on the slots' machine for `ms`: as if nothing had ever been in it"
    FREEZE = "its process stands still for `ms`, in the middle of what it does, and then goes on"
    ISOLATE = "its process is cut off from the JobMaster and cannot be killed; it goes on as long as it may"
    LAND_LATE = "its process ends, and the file it was writing appears `ms` later"
    DISCONNECT = "two slots lose their connection"
    DAMAGE = """a bit of the newest completed checkpoint flips, or one of its files is as an older checkpoint has it;
    `ms` other than 0: the largest of those that an older one has, too"""
    KILL_JOBMASTER = "the JobMaster ends, another takes over"
    FREEZE_JOBMASTER = "the JobMaster stands still for `ms`; another takes over and the first comes back"
    RESCALE = "the job is rescaled to `ms` subtasks"
    SAVEPOINT = "a savepoint is asked for"
    STOP = "the job is stopped with a savepoint and resumed from it as a new job; `ms` other than 0: it is drained"
    POWER_LOSS = "the slots' machine loses power, and its disk what was not synced"
    CLOCK_JUMP = "the wall clock jumps by `ms`; monotonic time goes on"
    KILL_DRIVER = "the JobMaster and the hosts of passes end at once: they are one process"


PASS_POINTS = frozenset({Point.BATCH, Point.BATCH_OVER, Point.LEVEL, Point.REPORTED, Point.REPEAT})
"""Points of jobs only whose tasks run in passes."""
PASS_ACTIONS = frozenset({Action.KILL_DRIVER})
"""Kinds of faults of such jobs only."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault."""

    point: Point
    nth: int
    """Which passage of the point, by whatever process; from 1."""
    action: Action
    ms: int = 0

    def __str__(self) -> str:
        argument = f" {self.ms}" if self.ms else ""
        return f"{self.point.name} #{self.nth}: {self.action.name}{argument}"


class ProcessEndedError(BaseException):
    """Unwinds the stack of a process that has been killed. No Exception: nothing in it may catch it, as nothing in a
    real process could."""


class InjectedError(Exception):
    """A function, a sink or a connection that fails as told."""
