"""LedTaskManagers: the leader's side of the TaskManagers: what they report on the bus, and their rows in SQL.

Used by the jobmanager's loop. Every report is complete, so that the next one makes up for a lost one; the rows follow
at each poll.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kombu.exceptions import OperationalError

from backend.cluster import commands
from backend.cluster.cluster_document import taskmanager_entry
from backend.cluster.containment import Containment
from backend.cluster.job_store import JobStore
from backend.cluster.leader_machine import (
    LeaderMachine,
    RegisterTaskManager,
    TaskManagerAction,
    TaskManagerRows,
    UnregisterTaskManager,
)
from backend.cluster.models import TaskManager
from backend.cluster.resource_manager import TASKMANAGER_TIMEOUT_MS, KnownTaskManager, ResourceManager
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

Document = dict[str, Any]


class LedTaskManagers:
    """The TaskManagers of one leader.

    Args:
        machine: decides.
        store: writes rows.
        resources: knows the TaskManagers and their stages.
        clock: for the times in rows.
        containment: contains failures.
        forget: deletes what the broker keeps for a worker that has ended.
    """

    def __init__(
        self,
        machine: LeaderMachine,
        store: JobStore,
        resources: ResourceManager,
        clock: Clock,
        containment: Containment,
        forget: Callable[[str], None] = commands.forget,
    ) -> None:
        self._forget = forget
        self._machine = machine
        self._store = store
        self._resources = resources
        self._clock = clock
        self._containment = containment
        #: those that have signed off, until their rows say so
        self._gone: set[str] = set()

    # --- reports ------------------------------------------------------------------------------------------------------

    def heartbeat(self, report: Mapping[str, Any], stages: Sequence[tuple[str, int, int]], age_ms: float) -> bool:
        """Handle a heartbeat; return whether the TaskManager is new."""
        if age_ms >= TASKMANAGER_TIMEOUT_MS:
            # no leader has read for long: it says nothing about the present
            return False
        is_new = self._resources.heartbeat(report, stages, self._clock.now_ms(), age_ms)
        if is_new:
            logger.info("TaskManager %s registered with %d slots", report["id"], report["slots"])
        return is_new

    def gone(self, name: str, cause: str) -> bool:
        """Handle the end of a TaskManager; return whether it was known."""
        if not self._resources.remove(name, f"TaskManager {name} is gone: {cause}"):
            return False
        logger.info("TaskManager %s is gone: %s", name, cause)
        self._gone.add(name)
        return True

    def drop_silent(self, read_until_ms: float) -> bool:
        """Remove the TaskManagers whose heartbeat has timed out; return whether there were any.

        Args:
            read_until_ms: see `ResourceManager.silent`.
        """
        silent = self._resources.silent(read_until_ms)
        for name in silent:
            logger.warning("heartbeat of TaskManager %s timed out", name)
            self._resources.remove(
                name, f"the heartbeat of TaskManager {name} timed out: its process or machine is gone, or overloaded"
            )
        return bool(silent)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Make the rows true."""
        known = {of.id: of for of, _ in self._resources.taskmanagers()}
        for action in self._machine.taskmanagers(
            TaskManagerRows(self._store.registered_taskmanagers(), known, self._gone)
        ):
            with self._containment.of(f"TaskManager {action.name}"):
                self._act(action, known)

    def _act(self, action: TaskManagerAction, known: dict[str, KnownTaskManager]) -> None:
        match action:
            case RegisterTaskManager(name):
                self._store.save_taskmanager(_row(known[name].report, self._clock.now_ms()))
            case UnregisterTaskManager(name, has_signed_off):
                state = TaskManager.State.GONE if has_signed_off else TaskManager.State.LOST
                forgotten = self._store.taskmanager_gone(name, state, self._clock.now_ms())
                self._gone.discard(name)
                for worker_name in forgotten:
                    self._forget_worker(worker_name)

    def _forget_worker(self, worker_name: str) -> None:
        try:
            self._forget(worker_name)
        except OperationalError as error:
            # it costs the broker some bytes, which is no reason to try again
            logger.warning("the queue of worker %s could not be deleted: %s", worker_name, error)

    def entries(self) -> list[Document]:
        """Return the entries of the cluster's document."""
        return [
            taskmanager_entry(_row(known.report, known.heard_at), free, is_draining=known.evicts_at_ms is not None)
            for known, free in self._resources.taskmanagers()
        ]


def _row(report: Mapping[str, Any], now: int) -> TaskManager:
    names = ("id", "worker_name", "host", "pid", "slots", "spark_master", "registered_at", "hardware")
    return TaskManager(**{name: report[name] for name in names}, last_heartbeat=now)
