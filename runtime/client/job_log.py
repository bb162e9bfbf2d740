"""JobLogPrinter: the logs of all slots of a job as one, by time, on a terminal; searched by the server. One thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from runtime.client.rest import RestClient
from runtime.client.terminal import Terminal

MAX_ENTRIES = 1_000
"""Of an answer, as the server allows."""
Entry = Mapping[str, Any]


class JobLogPrinter:
    """Prints entries of a job's log, and what is added to them.

    Args:
        client: to read them with.
        job_id: whose they are.
        wanted: which of them, as the server's route takes it.
        names: vertex id → its name.
        terminal: to print on.
    """

    def __init__(
        self,
        client: RestClient,
        job_id: str,
        wanted: Mapping[str, str | int],
        names: Mapping[str, str],
        terminal: Terminal,
    ) -> None:
        self._client = client
        self._job_id = job_id
        self._wanted = dict(wanted)
        self._names = names
        self._terminal = terminal
        self._cursor: str | None = None
        self._is_told = False

    def print_new(self, with_rotated: bool = False) -> int:
        """Print what has not been printed, the oldest first; returns the number of logs that are there."""
        while True:
            found = self._ask({"order": "oldest"}, self._cursor)
            self._cursor = found["cursor"]
            self._print(found["entries"])
            if found["is_complete"]:
                return int(found["logs"])

    def print_tail(self, entries: int) -> int:
        """Print the last entries; the rest counts as printed. Returns the number of logs that are there."""
        latest: list[Entry] = []
        found = self._ask({"order": "newest", "limit": max(1, min(entries, MAX_ENTRIES))}, None)
        self._cursor = found["follow"]
        while True:
            latest += found["entries"]
            if found["cursor"] is None or len(latest) >= entries:
                break
            found = self._ask({"order": "newest"}, found["cursor"])
        self._print(latest[:entries][::-1])
        return int(found["logs"])

    def finish(self) -> None:
        """Do nothing: entries are whole."""

    def _ask(self, how: Mapping[str, str | int], cursor: str | None) -> dict[str, Any]:
        query = {"limit": MAX_ENTRIES} | self._wanted | dict(how)
        found = self._client.job_log(self._job_id, query if cursor is None else query | {"cursor": cursor})
        if found["left_out"] and not self._is_told:
            self._is_told = True
            self._terminal.complain(f"{found['left_out']} logs are left out; --attempt or --slot shows them")
        return found

    def _print(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            place = f"slot-{entry['slot']}"
            if entry["slot"] is None:
                # "taskmanager/host:4711-0a1b2c"
                place = entry["name"]
            elif entry["vertex"]:
                place = f"{self._names.get(entry['vertex'], entry['vertex'])} #{entry['subtask']}"
            elif entry["kind"] == "out":
                place += ".out"
            head = f"{_clock(entry['time'])} {entry['level']:5} {place} | "
            for line in entry["text"].split("\n"):
                self._terminal.line(head + line)
                head = "    "


def _clock(ms: int | None) -> str:
    """Return a time of this machine's zone, to the millisecond."""
    if ms is None:
        return "-" * 23
    at = datetime.fromtimestamp(ms / 1000.0, UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
