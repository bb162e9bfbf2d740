"""ProcessLog: the newest lines of the log of a JobManager or TaskManager, for the log of a job. Any thread; waits for
Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from backend.cluster.jobmanager_list import list_jobmanagers
from backend.cluster.process_log import ProcessText, read_process_text

MAX_PROCESSES: Final = 16
"""Of each kind. More: a search holds half a MiB of each, and its cursor becomes too long for an address."""
Kind = Literal["jobmanager", "taskmanager"]


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """The log of a process as far as it is kept, in place of a `LogFile`."""

    kind: Kind
    process: str
    text: ProcessText
    attempt: None = None
    """Its lines are of no attempt, and of no slot."""
    slot: None = None

    @property
    def name(self) -> str:
        """Return its name among the logs of a job."""
        return f"{self.kind}/{self.process}"

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return len(self.text.data)


def is_of_process(name: str) -> bool:
    """Return whether a name among the logs of a job is that of a process's log."""
    return name.startswith(("jobmanager/", "taskmanager/"))


def processes_of(document: Mapping[str, Any], kind: str = "") -> list[tuple[Kind, str]]:
    """Return kind and id of the JobManagers that live, and of the TaskManagers that run a job. Reads the database.

    Args:
        document: the job's.
        kind: "jobmanager" or "taskmanager": only these.
    """
    found: list[tuple[Kind, str]] = []
    if kind != "taskmanager":
        found += [("jobmanager", entry["id"]) for entry in list_jobmanagers()["jobmanagers"][:MAX_PROCESSES]]
    if kind != "jobmanager":
        subtasks = (subtask for vertex in document["vertices"] for subtask in vertex["subtasks"])
        names = {subtask.get("taskmanager") or "" for subtask in subtasks}
        found += [("taskmanager", name) for name in sorted(names - {""})[:MAX_PROCESSES]]
    return found


def read_processes(processes: Iterable[tuple[Kind, str]], positions: Mapping[str, int]) -> list[ProcessLog]:
    """Return the logs of processes that have any.

    Args:
        processes: their kinds and ids.
        positions: name of a log → offset from which on it is wanted; of one that is missing, all is.
    """
    logs = (
        ProcessLog(kind, process, read_process_text(process, positions.get(f"{kind}/{process}", 0)))
        for kind, process in processes
    )
    return [log for log in logs if log.text.data]
