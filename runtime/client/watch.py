"""Watches a job from a terminal until it has ended, and shows its progress."""

from __future__ import annotations

from typing import Any

from runtime.client.errors import ClientError
from runtime.client.jobs import (
    TERMINAL_STATES,
    FailureNews,
    StallNews,
    duration_text,
    failure_text,
    progress_text,
    stale_text,
)
from runtime.client.rest import RequestRefusedError, RestClient, ServerUnreachableError
from runtime.client.terminal import FAILURE, SUCCESS, Terminal

POLL_S = 0.5
#: a file is not a terminal: one line per change of state, and now and then one that shows the rates
LINE_EVERY_S = 5.0
#: a web process that is restarted is back within seconds; longer than that is worth an error
UNREACHABLE_S = 30.0
CANCEL_WAIT_S = 60.0
#: HTTP status of a server whose database is away
UNAVAILABLE = 503


def watch_job(client: RestClient, job_id: str, terminal: Terminal) -> dict[str, Any]:
    """Show a job's progress until it has ended; returns its last live document.

    Raises:
        ServerUnreachableError: nothing answers for 30 s.
    """
    progress, patience = _Progress(terminal), Patience(terminal)
    while True:
        try:
            document = client.live(job_id)
        except ClientError as error:
            patience.bear(error)
            terminal.sleep(POLL_S)
            continue
        patience.heard()
        progress.show(document)
        state: str = document["state"]
        if state in TERMINAL_STATES:
            terminal.close_line()
            if state == "FAILED":
                terminal.complain(f"job {document['name']!r} failed: {failure_text(document)}")
            else:
                terminal.line(f"Job {job_id} is {state} after {duration_text(document['duration'])}")
            return document
        terminal.sleep(POLL_S)


class _Progress:
    """A job's progress: one line that changes on a terminal, else a line when there is something new, or now and then.

    Args:
        terminal: to print on.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._news = FailureNews()
        self._stalls = StallNews()
        self._told: tuple[str, bool] | None = None
        self._line_s = float("-inf")

    def show(self, document: dict[str, Any]) -> None:
        """Show the job's progress, as far as the server knows it."""
        failed = self._news.text(document)
        if failed:
            self._terminal.line(failed)
        for line in self._stalls.lines(document):
            self._terminal.line(line)
        stale = stale_text(document)
        text = f"{stale} Last known: {progress_text(document)}" if stale else progress_text(document)
        # not the reason itself, in which the age grows with every answer
        told, now_s = (document["state"], bool(stale)), self._terminal.monotonic()
        if self._terminal.people.isatty():
            self._terminal.status(text)
        elif told != self._told or now_s - self._line_s >= LINE_EVERY_S:
            self._terminal.line(text)
            self._line_s = now_s
        self._told = told


class Patience:
    """Bears with a server that is restarted, or whose database is away, while a command waits.

    Args:
        terminal: to print on.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._heard_s = terminal.monotonic()
        self._is_lost = False

    def heard(self) -> None:
        """Note that the server has answered."""
        self._heard_s = self._terminal.monotonic()
        self._is_lost = False

    def bear(self, error: ClientError) -> None:
        """Return if the request may be repeated, saying so once.

        Raises:
            ClientError: it is the server's last word, or the server has not answered for 30 s.
        """
        is_away = isinstance(error, ServerUnreachableError) or (
            isinstance(error, RequestRefusedError) and error.status == UNAVAILABLE
        )
        if not is_away or self._terminal.monotonic() - self._heard_s > UNREACHABLE_S:
            raise error
        if not self._is_lost:
            self._terminal.complain(f"{error}; trying again for {UNREACHABLE_S:.0f} s")
        self._is_lost = True


class StaleNews:
    """Says once, while a command waits, that whoever has to act is silent; and again if that recurs.

    Args:
        terminal: to print on.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._is_told = False

    def show(self, document: dict[str, Any]) -> None:
        """Tell what a document says of its own age."""
        stale = stale_text(document)
        if stale and not self._is_told:
            self._terminal.complain(f"{stale} Still waiting; Ctrl-C ends the waiting only.")
        self._is_told = bool(stale)


def wait_cancelled(client: RestClient, job_id: str, terminal: Terminal, **fields: str) -> int:
    """Wait until a job has ended that was asked to be cancelled; returns the exit code.

    Args:
        client: to ask with.
        job_id: the job.
        terminal: to print on; `fields` are members of the result.

    Raises:
        ClientError: it has not for a long time.
    """
    state = wait_ended(client, job_id, terminal)
    terminal.result({"jobid": job_id, "state": state, **fields}, f"Job {job_id} is {state}")
    return SUCCESS if state == "CANCELED" else FAILURE


def wait_ended(client: RestClient, job_id: str, terminal: Terminal) -> str:
    """Wait until a job has ended that was asked to; returns its state.

    Raises:
        ClientError: it has not for a long time.
    """
    deadline_s = terminal.monotonic() + CANCEL_WAIT_S
    news, patience = StaleNews(terminal), Patience(terminal)
    while terminal.monotonic() < deadline_s:
        try:
            document = client.live(job_id)
        except ClientError as error:
            patience.bear(error)
            terminal.sleep(POLL_S)
            continue
        patience.heard()
        news.show(document)
        state: str = document["state"]
        if state in TERMINAL_STATES:
            return state
        terminal.sleep(POLL_S)
    raise ClientError(f"job {job_id} has been asked to end, but has not ended within {CANCEL_WAIT_S:.0f} s")
