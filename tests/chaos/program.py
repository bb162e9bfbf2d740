"""The program of a chaos run: the self-proving job on Spark, in application mode, in a process of its own.

`python -m tests.chaos.program CONFIG` runs it; CONFIG is a JSON file (`JobConfig`). It keeps writing how it stands into
a file, and takes commands on its standard input, a line each: `stop DIRECTORY`, `cancel`, `rescale N`, `spare on` and
`spare off` (of processes that are lost), `clock SECONDS` (by which the JobMaster's jumps).
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import runtime.execution.continuous as continuous
from runtime.execution.application import JobHandle
from runtime.execution.spark_stages import SparkStages
from runtime.jobmaster.slot_registry import SlotStatus
from tests.chaos.fault_points import jump_clock
from tests.chaos.job import JobConfig, build

STATUS_INTERVAL_S = 0.04


@dataclass(frozen=True)
class ProgramStatus:
    """State of a program's job, as written to status.json."""

    pid: int = 0
    job_id: str = ""
    state: str = ""
    attempt: int = -1
    restarts: int = 0
    workers: tuple[int, ...] = ()
    """Pids of the live slots."""
    completed: int = 0
    """Checkpoints of this program that were completed."""
    failed: int = 0
    newest: int = -1
    """Id of the newest completed checkpoint of this program."""
    refused: int = 0
    """Messages of older attempts that were not accepted."""
    errors: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """To commands, in the order in which they were answered."""
    parallelism: int = 0
    waiting_for: str = ""
    """What it waits for; for whoever finds it standing still."""


class _Program:
    def __init__(self, config: JobConfig) -> None:
        self._directory = Path(config.directory)
        self._answers: list[str] = []
        self._answered = threading.Lock()
        self._patches = pytest.MonkeyPatch()
        (self._directory / "program.pid").write_text(str(os.getpid()))
        self._handle: JobHandle = build(config).execute_async("chaos").handle

    def run(self) -> int:
        """Until the job has ended; the exit code."""
        while not self._handle.result.done():
            self._write_status()
            if select.select([sys.stdin], [], [], STATUS_INTERVAL_S)[0]:
                self._command(sys.stdin.readline().split())
        self._write_status()
        error = self._handle.result.exception()
        if error is not None:
            print(error, file=sys.stderr)
        return 0 if error is None else 1

    def _command(self, words: list[str]) -> None:
        match words:
            case ["stop", directory]:
                self._answer("stop", self._handle.stop_with_savepoint(directory))
            case ["cancel"]:
                self._handle.cancel()
            case ["rescale", parallelism]:
                vertices = self._handle.status().parallelism
                self._answer("rescale", self._handle.rescale(dict.fromkeys(vertices, int(parallelism))))
            case ["spare", "on"]:
                # as if lost slots were on another machine, where nobody can kill them
                self._patches.setattr(continuous, "kill_worker", lambda host, pid: False)
                self._patches.setattr(SparkStages, "cancel", lambda stages, group: None)
            case ["spare", "off"]:
                self._patches.undo()
            case ["clock", seconds]:
                jump_clock(float(seconds))
            case []:
                # whoever started this program is gone
                self._handle.cancel()
            case _:
                raise ValueError(f"unknown command {words}")

    def _answer(self, command: str, future: Future[Any]) -> None:
        def note(done: Future[Any]) -> None:
            error = done.exception()
            with self._answered:
                self._answers.append(
                    f"{command} failed: {error}" if error is not None else f"{command} {done.result()}"
                )

        future.add_done_callback(note)

    def _write_status(self) -> None:
        status = self._handle.status()
        newest = status.checkpoints.latest_completed
        with self._answered:
            answers = tuple(self._answers)
        document = ProgramStatus(
            pid=os.getpid(),
            job_id=status.job_id,
            state=status.state.value,
            attempt=int(status.attempt),
            restarts=status.restarts,
            workers=tuple(s.pid for s in status.slots if s.pid is not None and s.status is SlotStatus.LIVE),
            completed=status.checkpoints.counts.completed,
            failed=status.checkpoints.counts.failed,
            newest=-1 if newest is None else int(newest.checkpoint_id),
            refused=status.refused_messages,
            errors=tuple(e.cause.message[:300] for e in status.exceptions[-3:]),
            answers=answers,
            parallelism=max(status.parallelism.values(), default=0),
            waiting_for=status.waiting_for,
        )
        path = self._directory / "status.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(document)))
        draft.replace(path)


if __name__ == "__main__":
    sys.exit(_Program(JobConfig.read(Path(sys.argv[1]))).run())
