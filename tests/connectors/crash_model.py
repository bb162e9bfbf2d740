"""A job of nothing but a sink, with a crash between any two of its steps: what is visible at the end must be each
record once, and nothing else may be left in the target.

The JobMaster's part (which checkpoint is complete, who is told) is played by the test; the operators are real, and what
travels from one attempt to the next is bytes. A zombie is the process of an older attempt that was not ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from runtime.common import Row, Types
from runtime.operators.sink import Sink, SinkError
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot
from tests.connectors.rigs import SinkRig

TYPE = Types.ROW_NAMED(["id"], [Types.LONG()])
#: Every step that a schedule may consist of; those of one letter take an argument in 0..3.
STEPS = (
    "write",
    "checkpoint",
    "checkpoint is given up",
    "savepoint",
    "crash",
    "crash in the snapshot",
    "crash before the checkpoint is complete",
    "crash before the commit",
    "crash between two commits",
    "commit again",
    "freeze",
    "the frozen writes",
    "the frozen prepare",
    "the frozen die",
)


class SinkJob:
    """Runs one sink.

    Args:
        sink: to be written to.
        kill: ends the process of a subtask, as far as this process can: nothing is cleaned up.
        total: records that are written in the end, numbered from 0.
    """

    def __init__(self, sink: Sink, kill: Callable[[SinkRig], None], total: int = 40) -> None:
        self._sink = sink
        self._kill = kill
        self._total = total
        self.attempt = -1
        self._checkpoint_id = 0
        self._position = 0
        #: of the newest completed checkpoint: how far the source had come, and the sink's state
        self._completed: tuple[int, Sequence[OperatorSnapshot]] = (0, ())
        #: that were taken in full, oldest first
        self.savepoints: list[Sequence[OperatorSnapshot]] = []
        self.rigs: list[SinkRig] = []
        self._zombies: list[SinkRig] = []
        #: attempts that were not ended properly, and may have done anything since
        self.frozen_attempts: list[int] = []
        self._restart(1)

    def run(self, steps: Sequence[tuple[str, int]]) -> None:
        """Do what a schedule says, then everything that is left to do, and end in good order."""
        for step, number in steps:
            self.do(step, number)
        for _ in range(20):
            with suppress(SinkError):
                self._end()
                break
            self._crash(1)
        for zombie in self._zombies:
            self._kill(zombie)

    def do(self, step: str, number: int) -> None:
        """Take one step; an error of a sink is a crash."""
        try:
            self._do(step, number)
        except SinkError:
            self._crash(number)

    def _do(self, step: str, number: int) -> None:
        match step:
            case "write":
                self._write(number + 1)
            case "checkpoint":
                self._complete(self._snapshot())
                self._notify(len(self.rigs))
            case "checkpoint is given up":
                self._snapshot()
            case "savepoint":
                # sinks are not told of it: it is no point to go back to
                self.savepoints.append(self._snapshot(is_savepoint=True))
            case "crash":
                self._crash(number)
            case "crash in the snapshot":
                self._snapshot(number % len(self.rigs))
                self._crash(number)
            case "crash before the checkpoint is complete":
                self._snapshot()
                self._crash(number)
            case "crash before the commit":
                self._complete(self._snapshot())
                self._crash(number)
            case "crash between two commits":
                self._complete(self._snapshot())
                self._notify(number % len(self.rigs))
                self._crash(number)
            case "commit again":
                self._complete(self._snapshot())
                self._notify(len(self.rigs))
                self._notify(len(self.rigs))
            case "freeze":
                self._zombies += self.rigs
                self.frozen_attempts.append(self.attempt)
                self._restart(number)
            case "the frozen writes":
                self._as_zombies(lambda rig: rig.write(Row(id=-1)))
            case "the frozen prepare":
                self._as_zombies(lambda rig: rig.snapshot(self._checkpoint_id + 1))
            case "the frozen die":
                zombies, self._zombies = self._zombies, []
                for rig in zombies:
                    self._kill(rig)
            case _:
                raise AssertionError(step)

    def _write(self, count: int) -> None:
        for record in range(self._position, min(self._position + count, self._total)):
            self.rigs[record % len(self.rigs)].write(Row(id=record))
        self._position = min(self._position + count, self._total)

    def _snapshot(self, subtasks: int | None = None, is_savepoint: bool = False) -> Sequence[OperatorSnapshot]:
        self._checkpoint_id += 1
        return [rig.snapshot(self._checkpoint_id, is_savepoint=is_savepoint) for rig in self.rigs[:subtasks]]

    def _complete(self, snapshots: Sequence[OperatorSnapshot]) -> None:
        self._completed = self._position, snapshots

    def _notify(self, subtasks: int) -> None:
        for rig in self.rigs[:subtasks]:
            rig.complete(self._checkpoint_id)

    def _crash(self, number: int) -> None:
        for rig in self.rigs:
            self._kill(rig)
        self._restart(number)

    def _restart(self, number: int) -> None:
        parallelism = number % 3 + 1
        for _ in range(20):
            self.attempt += 1
            self._position, snapshots = self._completed
            dealt: Sequence[OperatorSnapshot | None] = [None] * parallelism
            if snapshots:
                dealt = redistribute(snapshots, parallelism, 128)
            self.rigs = []
            try:
                for subtask, snapshot in enumerate(dealt):
                    self.rigs.append(SinkRig(self._sink, TYPE, subtask, parallelism, snapshot, self.attempt))
                return
            except SinkError:
                # a second failure, during recovery
                for rig in self.rigs:
                    self._kill(rig)
        raise AssertionError("the job does not come up")

    def _as_zombies(self, action: Callable[[SinkRig], Any]) -> None:
        for rig in self._zombies:
            # it may find that its target is gone
            with suppress(SinkError):
                action(rig)

    def _end(self) -> None:
        self._write(self._total)
        for rig in self.rigs:
            rig.operator.finish()
        self._complete(self._snapshot())
        self._notify(len(self.rigs))
        for rig in self.rigs:
            rig.operator.commit_finished()
        for rig in self.rigs:
            rig.operator.job_finished()
            rig.operator.close()


def random_steps(seed: int, count: int) -> list[tuple[str, int]]:
    """A schedule; the same for the same seed."""
    generator = random.Random(seed)
    # records come between most of the other steps
    names = [*STEPS, *("write",) * 8]
    return [(generator.choice(names), generator.randrange(4)) for _ in range(count)]
