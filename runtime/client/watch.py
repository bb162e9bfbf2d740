"""Watching a job from a terminal: progress until its end, and its log files as they grow."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from runtime.client.jobs import TERMINAL_STATES, duration_text, failure_text, progress_text
from runtime.client.rest import RestClient, ServerUnreachableError

POLL_S = 0.5
#: a file is not a terminal: one line per change of state, and now and then one that shows the rates
LINE_EVERY_S = 5.0
CHUNK_BYTES = 1 << 18
#: a web process that is restarted is back within seconds; longer than that is worth an error
UNREACHABLE_S = 30.0


@dataclass(slots=True)
class Terminal:
    """Where a command writes, and how it waits."""

    out: TextIO
    err: TextIO
    ask: Callable[[str], bool] | None = None
    """Asks a yes-or-no question; None if nobody is there to answer."""
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    _open_line: int = field(default=0, init=False)

    def line(self, text: str) -> None:
        """A line of output."""
        self.close_line()
        print(text, file=self.out, flush=True)

    def status(self, text: str) -> None:
        """Replace the line at the bottom of a terminal."""
        # a line that wraps could not be replaced
        text = text[: shutil.get_terminal_size().columns - 1]
        padding = " " * max(0, self._open_line - len(text))
        print(f"\r{text}{padding}", end="", file=self.out, flush=True)
        self._open_line = len(text)

    def close_line(self) -> None:
        """Leave the status line as it is."""
        if self._open_line:
            self._open_line = 0
            print(file=self.out, flush=True)

    def complain(self, text: str) -> None:
        """A line on stderr."""
        self.close_line()
        print(f"tidemark: {text}", file=self.err, flush=True)


def watch_job(client: RestClient, job_id: str, terminal: Terminal) -> str:
    """Show a job's progress until it has ended; returns its last state.

    Raises:
        ServerUnreachableError: nothing answers for 30 s.
    """
    is_tty = terminal.out.isatty()
    last_state, last_line_s = "", float("-inf")
    heard_s = terminal.monotonic()
    while True:
        now_s = terminal.monotonic()
        try:
            document = client.live(job_id)
        except ServerUnreachableError:
            if now_s - heard_s > UNREACHABLE_S:
                raise
            terminal.sleep(POLL_S)
            continue
        heard_s = now_s
        state: str = document["state"]
        if is_tty:
            terminal.status(progress_text(document))
        elif state != last_state or now_s - last_line_s >= LINE_EVERY_S:
            terminal.line(progress_text(document))
            last_line_s = now_s
        last_state = state
        if state in TERMINAL_STATES:
            terminal.close_line()
            if state == "FAILED":
                terminal.complain(f"job {document['name']!r} failed: {failure_text(document)}")
            else:
                terminal.line(f"Job {job_id} is {state} after {duration_text(document['duration'])}")
            return state
        terminal.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class LogChoice:
    """Which log files are meant; None = the latest attempt of each slot, all slots, both kinds."""

    attempt: int | None = None
    slot: int | None = None
    kind: str | None = None

    def names(self, files: Sequence[Mapping[str, Any]], with_rotated: bool) -> list[str]:
        """The files that are meant, by slot and kind; what was rotated away (".1" at the end) before the rest.

        Args:
            files: as REST lists them.
            with_rotated: whether what was rotated away is meant too.
        """
        # a region that was not restarted with the others is of an older attempt
        latest: dict[int, int] = {}
        for file in files:
            latest[file["slot"]] = max(file["attempt"], latest.get(file["slot"], 0))
        chosen = [
            (file["slot"], file["kind"], is_current, file["name"])
            for file in files
            if file["attempt"] == (latest[file["slot"]] if self.attempt is None else self.attempt)
            and self.slot in (None, file["slot"])
            and self.kind in (None, file["kind"])
            and ((is_current := file["name"].endswith(file["kind"])) or with_rotated)
        ]
        return [name for _, _, _, name in sorted(chosen)]


class LogFollower:
    """Prints log files from their start, and what is added to them.

    Args:
        client: to read them with.
        job_id: whose they are.
        choice: which of them.
        terminal: to print on.
    """

    def __init__(self, client: RestClient, job_id: str, choice: LogChoice, terminal: Terminal) -> None:
        self._client = client
        self._job_id = job_id
        self._choice = choice
        self._terminal = terminal
        self._offsets: dict[str, int] = {}
        self._rests: dict[str, str] = {}

    def print_new(self, with_rotated: bool = False) -> int:
        """Print whole lines that have not been printed; returns the number of files that are meant."""
        names = self._choice.names(self._client.log_files(self._job_id), with_rotated)
        for name in names:
            prefix = "" if len(names) == 1 else f"{short_name(name)} | "
            self._print_file(name, prefix)
        return len(names)

    def finish(self) -> None:
        """Print last lines that were never ended."""
        for name, rest in self._rests.items():
            if rest:
                self._terminal.line(f"{short_name(name)} | {rest}" if len(self._rests) > 1 else rest)
        self._rests.clear()

    def _print_file(self, name: str, prefix: str) -> None:
        while True:
            offset = self._offsets.get(name, 0)
            part = self._client.log_text(self._job_id, name, offset, CHUNK_BYTES)
            self._offsets[name] = part["next_offset"]
            *lines, rest = (self._rests.get(name, "") + part["text"]).split("\n")
            self._rests[name] = rest
            for line in lines:
                self._terminal.line(prefix + line)
            if part["next_offset"] >= part["size"] or part["next_offset"] <= offset:
                return


def short_name(name: str) -> str:
    """attempt-0/slot-1.out as slot-1.out."""
    return name.rpartition("/")[2]


def follow_logs(client: RestClient, job_id: str, choice: LogChoice, terminal: Terminal) -> None:
    """Print logs until the job has ended.

    Raises:
        ServerUnreachableError: nothing answers for 30 s.
    """
    follower = LogFollower(client, job_id, choice, terminal)
    heard_s = terminal.monotonic()
    while True:
        try:
            # asked for before the logs: what the job's last moments wrote must not be missed
            ended = client.live(job_id)["state"] in TERMINAL_STATES
            follower.print_new()
        except ServerUnreachableError:
            if terminal.monotonic() - heard_s > UNREACHABLE_S:
                raise
        else:
            heard_s = terminal.monotonic()
            if ended:
                follower.finish()
                return
        terminal.sleep(POLL_S)
