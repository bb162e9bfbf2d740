"""Finds the job that a user means, and describes jobs. Pure functions over REST answers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from runtime.client.errors import ClientError
from runtime.client.tables import one_line

TERMINAL_STATES = frozenset({"FINISHED", "CANCELED", "FAILED"})
#: a URI's scheme has two characters or more: C: is a drive
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: what `list -s` shows, after Flink's CLI
SCHEDULED_STATES = frozenset({"INITIALIZING", "CREATED"})


class JobNotFoundError(ClientError):
    """The user's text names no job, or several."""


def resolve_job(typed: str, jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the job with an id, with the beginning of an id, or with a name.

    Of several jobs with the name, the one that has not ended is meant.

    Args:
        typed: what the user wrote.
        jobs: of /jobs/overview.

    Raises:
        JobNotFoundError: no job or more than one is meant.
    """
    for candidates in (
        [job for job in jobs if job["jid"] == typed],
        [job for job in jobs if job["name"] == typed and job["state"] not in TERMINAL_STATES],
        [job for job in jobs if job["name"] == typed],
        [job for job in jobs if typed and job["jid"].startswith(typed.lower())],
    ):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            shown = ", ".join(f"{job['jid'][:8]} ({job['state']})" for job in candidates[:8])
            raise JobNotFoundError(f"{typed!r} matches {len(candidates)} jobs, give the id: {shown}")
    raise JobNotFoundError(f"there is no job {typed!r}; `tidemark list -a` shows all")


def absolute_location(typed: str | None) -> str | None:
    """Make a path absolute as the user's shell would; the cluster would look for a relative one in its own directory.

    Args:
        typed: a path or a URI; None and "" stay as they are.
    """
    if not typed or _URI.match(typed):
        return typed
    # not resolved: a link may have another target where the cluster looks
    return os.path.abspath(typed)  # noqa: PTH100


def slots_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the slots of a live document: [{"slot", "pid", "host", "taskmanager"}], by number."""
    slots: dict[int, dict[str, Any]] = {}
    for vertex in document.get("vertices", []):
        for subtask in vertex["subtasks"]:
            if subtask["slot"] is not None:
                fields = ("slot", "pid", "host", "taskmanager")
                slots[subtask["slot"]] = {name: subtask[name] for name in fields}
    return [slots[slot] for slot in sorted(slots)]


def count_text(number: float | None) -> str:
    """Format 1234567 as 1,234,567; an unknown count as –."""
    return "–" if number is None else f"{round(number):,}"


def bytes_text(number: float | None) -> str:
    """Format 1536 as 1.5 KiB."""
    if number is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def duration_text(ms: float) -> str:
    """Format 3723000 as 1:02:03; below an hour as 02:03."""
    seconds = int(max(0.0, ms)) // 1000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def percent(ms_per_second: float | None) -> str:
    """Format milliseconds per second as a share."""
    return "–" if ms_per_second is None else f"{round(ms_per_second / 10)} %"


def restarts_text(number: int) -> str:
    """Format 1 as 1 restart."""
    return f"{number} restart" if number == 1 else f"{number} restarts"


def resolve_vertex(given: str, vertices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the vertex that is meant by its id, its name or a prefix of the name.

    Raises:
        ClientError: none or several are meant.
    """
    found = [v for v in vertices if v["id"] == given or v["name"] == given or v["name"].startswith(given)]
    if len(found) != 1:
        known = ", ".join(repr(v["name"]) for v in vertices)
        count = len(found) or "none"
        raise ClientError(f"--vertex {given} matches {count} of the job's vertices, which are {known}")
    return found[0]


def time_text(ms: float) -> str:
    """Format epoch ms as the local time of this machine, to the second; what is no date, as the number itself."""
    try:
        return datetime.fromtimestamp(ms / 1000.0, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        # event times in microseconds, say
        return f"{ms:.0f} ms"


def progress_text(document: dict[str, Any]) -> str:
    """Describe a job in one line: state, duration, records of sources and sinks with their rates."""
    state = document["state"]
    if state not in TERMINAL_STATES and document.get("waiting_for"):
        parts = [f"{state}: {document['waiting_for']}"]
        if document.get("restarts"):
            parts.append(restarts_text(document["restarts"]))
        return ", ".join(filter(None, [*parts, next_attempt_text(document)]))
    vertices = document.get("vertices", [])
    parts = [f"{state:<10} {duration_text(document['duration']):>8}"]
    for word, flag, metric in (("read", "is_source", "records_in"), ("written", "is_sink", "records_out")):
        metrics = [vertex["metrics"] for vertex in vertices if vertex[flag]]
        total = sum(m[metric] or 0 for m in metrics)
        rate = sum(m[f"{metric}_per_second"] or 0 for m in metrics)
        parts.append(f"{word} {count_text(total):>11} ({count_text(rate):>7}/s)")
    if document.get("restarts"):
        parts.append(restarts_text(document["restarts"]))
    parts.extend(filter(None, [next_attempt_text(document)]))
    return "   ".join(parts)


def next_attempt_text(document: dict[str, Any]) -> str:
    """Describe when the next attempt is due, as "next attempt in 8 s"; "" if none waits for its time."""
    due = document.get("next_attempt_at", -1)
    return "" if due < 0 else f"next attempt in {max(0.0, due - document['now']) / 1000:.0f} s"


def cause_text(document: dict[str, Any]) -> str:
    """Describe in one line why a job failed last and what follows; "" if it never has.

    For example "attempt 2 failed: map (1/2): ValueError: bad; 2 restarts, next attempt in 8 s".
    """
    failure = document.get("failure")
    if not failure:
        return ""
    # the message may quote a record, and a record may have anything in it, such as what colours the terminal
    message = _with_task(failure, one_line(" ".join(str(failure["message"]).split())))
    after = ", ".join(filter(None, [restarts_text(document["restarts"]), next_attempt_text(document)]))
    return f"attempt {failure['attempt']} failed: {message}; {after}"


def _with_task(failure: dict[str, Any], message: str) -> str:
    """Return a failure's message after its task's name; errors of user code name the operator themselves."""
    task = failure.get("task_name")
    return f"{task}: {message}" if task and not str(failure.get("name", "")).endswith("UserFunctionError") else message


def stall_lines(document: dict[str, Any]) -> list[str]:
    """Return lines about calls that do not return, each with its position in the code."""
    lines = []
    for stall in document.get("stalls", ()):
        name = stall["task_name"] or f"slot {stall['slot']}"
        # a server of an earlier version takes every call for one of user code
        who = "user code" if stall.get("in_user_code", True) else "the runtime"
        lines.append(f"{name}: {who} has not returned for {max(0, document['now'] - stall['since']) // 1000} s")
        lines.extend(f"    {line.strip()}" for line in stall["stack"].splitlines())
    if lines:
        lines.append("A job restarts for such a call only if task.stall.timeout is set.")
    return lines


class FailureNews:
    """Reports the newest failure of a job once."""

    def __init__(self) -> None:
        self._told = 0

    def text(self, document: dict[str, Any]) -> str:
        """Return the latest failure if it has not been reported and the job continues; otherwise ""."""
        failure = document.get("failure")
        if not failure or failure["timestamp"] <= self._told or document["state"] in TERMINAL_STATES:
            return ""
        self._told = failure["timestamp"]
        return cause_text(document)


class StallNews:
    """Reports each call that does not return once, with its position in the code."""

    def __init__(self) -> None:
        self._told: set[tuple[int, float]] = set()

    def lines(self, document: dict[str, Any]) -> list[str]:
        """Return lines about the calls that have not been reported; none once the job has ended."""
        stalls = [] if document["state"] in TERMINAL_STATES else list(document.get("stalls", ()))
        news = [stall for stall in stalls if (stall["slot"], stall["since"]) not in self._told]
        self._told = {(stall["slot"], stall["since"]) for stall in stalls}
        return stall_lines(document | {"stalls": news})


def failure_text(document: dict[str, Any]) -> str:
    """Describe why a job failed, in one line unless there is more, such as which state of a savepoint found no
    operator.
    """
    exceptions = document.get("exceptions") or []
    if not exceptions:
        return "the cause is not known"
    latest = max(exceptions, key=lambda entry: float(entry["timestamp"]))
    lines = str(latest["message"]).strip().splitlines()
    message = "\n".join(one_line(line.expandtabs()).rstrip() for line in lines)
    return _with_task(latest, message)


def stale_text(document: dict[str, Any]) -> str:
    """Describe in a sentence why a document may be out of date, with its age; "" while it is fresh.

    Args:
        document: of a job or of the cluster, as REST gives it.
    """
    return str(document.get("freshness", {}).get("reason", ""))
