"""SparkStages: barrier stages of one SparkContext, each hosting slots of one job's attempt for the attempt's life. The
slots of a job in micro-batches are hosted by a driver beside them instead (`batch_drivers`).

Spark only starts and ends processes: it never retries, and how a stage ended is told to a callback. Stages run in
threads of their own, because a Spark action blocks. Used by an application's own JobMaster and by TaskManagers.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark import SparkContext

from runtime.execution.batch_drivers import MODULE, BatchDrivers
from runtime.execution.session_health import JvmCall
from runtime.execution.spark_session import log_file
from runtime.execution.spark_slot import SlotSpec

#: slots that were told to leave end their stage within milliseconds; Spark cancels those that have not by then
LEAVE_TIMEOUT_S = 0.5
#: Spark needs up to 4 s to notice and end the workers of a cancelled stage
STAGE_END_TIMEOUT_S = 8.0


class SparkStages:
    """Starts and ends stages; any thread may call.

    Args:
        context: with room for the slots of all stages at once.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._drivers = BatchDrivers()
        self._lock = threading.Lock()
        self._groups: dict[str, list[threading.Thread]] = {}

    def move_to(self, context: SparkContext) -> None:
        """Start stages in another context from now on: the previous one can run nothing any more."""
        self._context = context

    def start(self, group: str, spec: SlotSpec, on_end: Callable[[str | None], None]) -> None:
        """Start a stage with one slot per partition, or the driver of slots in micro-batches.

        The caller neither waits for the JVM nor hears of its death: that is how the stage ends, as told to `on_end`.

        Args:
            group: stages that are cancelled together.
            spec: what its slots are told.
            on_end: called once, on the stage's thread, with the error or None, when Spark says that the stage is over.

        Raises:
            RuntimeError: the process cannot have another thread; `on_end` is not called.
        """
        name = f"stage-{group}"
        # not Spark's InheritableThread: its start is a call into the JVM, which may be dead or hang
        thread = threading.Thread(target=self._run, args=(group, spec, on_end), name=name, daemon=True)
        with self._lock:
            self._groups.setdefault(group, []).append(thread)
        try:
            thread.start()
        except RuntimeError:
            self._forget(group, thread)
            raise

    def warm_up(self) -> None:
        """Have Spark start the process that it forks workers from, so that the first stage need not wait for imports.

        Returns at once. If it comes to nothing, the first stage tells why.
        """
        threading.Thread(target=self._run_nothing, name="stage-warm-up", daemon=True).start()

    def end(self, groups: Sequence[str]) -> None:
        """Give the groups' stages a moment (for all together) to end by themselves, then cancel the rest."""
        deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
        for thread in (thread for group in groups for thread in self._threads(group)):
            thread.join(max(0.0, deadline_s - time.monotonic()))
        for group in groups:
            if any(thread.is_alive() for thread in self._threads(group)):
                self.cancel(group)

    def cancel(self, group: str) -> None:
        """Have Spark end the group's stages; their workers are killed within 4 s.

        Returns at once: a JVM that hangs never answers, and one that is dead or stopped has no stages.
        """
        if self._threads(group):
            self._drivers.cancel(group)
        context = self._context
        JvmCall(lambda: context.cancelJobGroup(group))

    def join(self) -> None:
        """Wait (8 s at most) until no stage runs."""
        with self._lock:
            threads = [thread for group in self._groups.values() for thread in group]
        deadline_s = time.monotonic() + STAGE_END_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _run_nothing(self) -> None:
        with suppress(Exception):
            self._context.parallelize([0], 1).foreach(bool)

    def _threads(self, group: str) -> Iterable[threading.Thread]:
        with self._lock:
            return list(self._groups.get(group, ()))

    def _run(self, group: str, spec: SlotSpec, on_end: Callable[[str | None], None]) -> None:
        count = len(spec.slots)
        error: str | None = None
        try:
            if spec.in_passes:
                error = self._drivers.run(self._context, group, spec)
            else:
                self._context.setJobGroup(group, f"Tidemark {group}")
                self._context.parallelize(range(count), count).barrier().mapPartitions(spec).collect()
        except Exception as failure:
            error = _first_cause(str(failure))
        finally:
            self._forget(group, threading.current_thread())
        on_end(error)

    def _forget(self, group: str, thread: threading.Thread) -> None:
        with self._lock:
            threads = self._groups[group]
            threads.remove(thread)
            if not threads:
                del self._groups[group]
                self._drivers.forget(group)


def kill_worker(host: str, pid: int) -> bool:
    """kill -9 a slot's process, if it is on this machine and that pid is still a slot's: a worker of Spark, or what
    drives passes.
    """
    if host != socket.gethostname():
        return False
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"pyspark" in command or MODULE.encode() in command:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _first_cause(text: str) -> str:
    """Return the telling line of a Spark error; the whole error is in Spark's log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception: " in line or "Error: " in line] or lines[:1] or ["unknown"]
    return f"{telling[0][:300]} (Spark's log: {log_file()})"
