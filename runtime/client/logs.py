"""LogFollower: a job's log files on a terminal: whole, their last lines, or as they grow. One thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.client import watch
from runtime.client.errors import ClientError
from runtime.client.jobs import TERMINAL_STATES, FailureNews
from runtime.client.rest import RestClient
from runtime.client.terminal import Terminal

CHUNK_BYTES = 1 << 18
LogFile = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogChoice:
    """Selects log files; None = the latest attempt of each slot, all slots, both kinds."""

    attempt: int | None = None
    slot: int | None = None
    kind: str | None = None

    def files(self, files: Sequence[LogFile], with_rotated: bool) -> list[LogFile]:
        """Return the selected files, by slot and kind; rotated ones (".1" at the end) before the rest.

        Args:
            files: as REST lists them.
            with_rotated: whether what was rotated away is meant too.
        """
        # a region that was not restarted with the others is of an older attempt
        latest: dict[int, int] = {}
        for file in files:
            latest[file["slot"]] = max(file["attempt"], latest.get(file["slot"], 0))
        chosen = [
            file
            for file in files
            if file["attempt"] == (latest[file["slot"]] if self.attempt is None else self.attempt)
            and self.slot in (None, file["slot"])
            and self.kind in (None, file["kind"])
            and (with_rotated or not _is_rotated(file))
        ]
        return sorted(chosen, key=lambda file: (file["slot"], file["kind"], not _is_rotated(file), file["name"]))


class Follower(Protocol):
    """Prints what is added to logs."""

    def print_new(self) -> int: ...

    def finish(self) -> None: ...


class LogFollower:
    """Prints log files, and what is added to them.

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
        """Print whole lines that have not been printed; returns the number of selected files."""
        names = [file["name"] for file in self._files(with_rotated)]
        for name in names:
            prefix = "" if len(names) == 1 else f"{short_name(name)} | "
            self._print_file(name, prefix)
        return len(names)

    def print_tail(self, lines: int) -> int:
        """Print the last lines that each slot has printed and logged so far; the rest counts as printed.

        Args:
            lines: of each slot and kind, >= 0; what was rotated away belongs to it.

        Returns:
            The number of files that are meant.
        """
        files = self._files(with_rotated=True)
        left: dict[tuple[int, str], int] = {}
        shown: dict[str, list[str]] = {}
        for file in reversed(files):
            name, series = file["name"], (file["slot"], file["kind"])
            shown[name] = self._tail(name, left.get(series, lines))
            left[series] = left.get(series, lines) - len(shown[name]) - bool(self._rests[name])
        for file in files:
            prefix = "" if len(files) == 1 else f"{short_name(file['name'])} | "
            for line in shown[file["name"]]:
                self._terminal.line(prefix + line)
        return len(files)

    def finish(self) -> None:
        """Print last lines that were never ended."""
        for name, rest in self._rests.items():
            if rest:
                self._terminal.line(f"{short_name(name)} | {rest}" if len(self._rests) > 1 else rest)
        self._rests.clear()

    def _files(self, with_rotated: bool) -> list[LogFile]:
        return self._choice.files(self._client.log_files(self._job_id), with_rotated)

    def _tail(self, name: str, wanted: int) -> list[str]:
        """Return the last lines of a file, at most that many; an unfinished one counts, and is kept for later."""
        window, before = CHUNK_BYTES, -1
        while True:
            begin, text = self._read(name, -window)
            *lines, rest = text.split("\n")
            # the oldest bytes of a log may be deleted: then it does not begin at 0
            if begin in (0, before) or len(lines) >= wanted:
                break
            before = begin
            window *= 4
        self._rests[name] = rest if wanted else ""
        whole = wanted - bool(rest)
        return lines[-whole:] if whole > 0 else []

    def _read(self, name: str, offset: int) -> tuple[int, str]:
        """Read from an offset to the end; returns the end's offset, and the text."""
        part = self._client.log_text(self._job_id, name, offset, CHUNK_BYTES)
        begin, text = part["offset"], part["text"]
        while part["offset"] < part["next_offset"] < part["size"]:
            part = self._client.log_text(self._job_id, name, part["next_offset"], CHUNK_BYTES)
            text += part["text"]
        self._offsets[name] = part["next_offset"]
        return begin, text

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
    """Shorten attempt-0/slot-1.out to slot-1.out."""
    return name.rpartition("/")[2]


def tell_failure(document: dict[str, Any], news: FailureNews, terminal: Terminal) -> None:
    """Report a new failure of a continuing job on stderr: its log may be in files of an older attempt."""
    failed = news.text(document)
    if failed:
        terminal.complain(failed)


def follow_logs(client: RestClient, job_id: str, follower: Follower, terminal: Terminal) -> None:
    """Print logs until the job has ended.

    Raises:
        ServerUnreachableError: nothing answers for 30 s.
    """
    patience = watch.Patience(terminal)
    news = FailureNews()
    while True:
        try:
            # asked before the logs are read: what the job wrote in its last moments must not be missed
            document = client.live(job_id)
            ended = document["state"] in TERMINAL_STATES
            follower.print_new()
            tell_failure(document, news, terminal)
        except ClientError as error:
            patience.bear(error)
        else:
            patience.heard()
            if ended:
                follower.finish()
                return
        terminal.sleep(watch.POLL_S)


def _is_rotated(file: LogFile) -> bool:
    return not str(file["name"]).endswith(file["kind"])
