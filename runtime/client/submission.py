"""Submission: one request to start a job, under an id that the client has chosen.

Whatever becomes of the answer, the job can be found, and cancelled, by that id. The request runs on a thread of its
own, so that Ctrl-C does not cut it off from what the server makes of it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from runtime.client import watch
from runtime.client.errors import ClientError
from runtime.client.rest import SUBMIT_TIMEOUT_S, RequestRefusedError, RestClient, ServerUnreachableError
from runtime.client.terminal import INTERRUPTED, Terminal

QUIET_S = 5.0
"""Users who see nothing for longer think that the command hangs; most programs are planned sooner."""
LOOK_S = 0.5
"""Interval in which whoever waits looks whether there is something to tell."""

Send = Callable[[str], object]
"""Sends the request for a job of that id."""


class Submission:
    """A job on its way to the cluster. Used by one thread; `start` begins another one.

    Args:
        client: to look for the job with, while the request does not need it.
        send: sends the request; raises a ClientError if there is no answer, or a refusal.
        terminal: for waiting, and for what to say.
    """

    def __init__(self, client: RestClient, send: Send, terminal: Terminal) -> None:
        self.job_id = uuid.uuid4().hex
        self._client = client
        self._send = send
        self._terminal = terminal
        self._failure: BaseException | None = None
        #: the first answer that was lost, if it is sent again
        self._lost: ServerUnreachableError | None = None
        # not join(): when interrupted, it assumes that the thread has ended
        self._is_over = threading.Event()
        # an interpreter that ends does not wait for a server that never answers
        self._thread = threading.Thread(target=self._submit, name="submission", daemon=True)

    def start(self) -> None:
        """Send the request."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the job is there.

        Raises:
            ServerUnreachableError: the server does not say what came of it; the message has the job's id.
            ClientError: the server refuses it.
        """
        began_s = time.monotonic()
        is_quiet, is_lost = True, False
        while not self._is_over.wait(min(QUIET_S, LOOK_S)):
            if self._lost is not None:
                if not is_lost:
                    self._terminal.complain(f"{self._lost}; trying again for {watch.UNREACHABLE_S:.0f} s")
                is_lost = True
            elif is_quiet and time.monotonic() - began_s >= QUIET_S:
                self._terminal.line("The server runs the program up to its execute(), after those submitted earlier …")
                is_quiet = False
        try:
            self._answered()
        except ServerUnreachableError as error:
            raise ServerUnreachableError(f"{error}; {self.may_appear()}") from None

    def _answered(self) -> None:
        self._is_over.wait()
        if self._failure is not None:
            raise self._failure

    def give_up(self) -> int:
        """Cancel the job, as soon as the server has planned it; returns the exit code.

        If it is interrupted again, it says which job may still appear.
        """
        try:
            if self._thread.ident is None:
                self._terminal.line("Interrupted: no job was started")
            else:
                self._cancel()
        except KeyboardInterrupt:
            self._terminal.complain(self.may_appear())
        return INTERRUPTED

    def _cancel(self) -> None:
        self._terminal.line(f"Interrupted: job {self.job_id} is cancelled as soon as the server has planned it …")
        try:
            self._answered()
        except ServerUnreachableError as error:
            self._terminal.complain(f"{error}; {self.may_appear()}")
        except ClientError as refused:
            self._terminal.line(f"No job was started: {refused}")
        else:
            cancel_and_watch(self._client, self.job_id, self._terminal)

    def may_appear(self) -> str:
        """Say which job there may be, although nobody answers, and what ends it."""
        return f"job {self.job_id} may still start or be running: `tidemark cancel {self.job_id[:8]}` ends it"

    def _submit(self) -> None:
        try:
            self._send_until_answered()
        except BaseException as failure:  # (raised again by who waits)
            self._failure = failure
        finally:
            self._is_over.set()

    def _send_until_answered(self) -> None:
        """Send the request, again if the answer is lost: the same id never makes two jobs."""
        began_s = self._terminal.monotonic()
        lost_s: float | None = None
        while True:
            try:
                self._send(self.job_id)
                return
            except ServerUnreachableError as error:
                now_s = self._terminal.monotonic()
                # from the first loss, not from the beginning: a program may have been planned for a minute before
                lost_s = now_s if lost_s is None else lost_s
                if now_s - lost_s > watch.UNREACHABLE_S or now_s - began_s >= SUBMIT_TIMEOUT_S:
                    raise
                self._lost = self._lost or error
                self._terminal.sleep(watch.POLL_S)
            except RequestRefusedError as refused:
                if lost_s is not None and refused.status == HTTPStatus.CONFLICT and self._is_there():
                    return
                raise

    def _is_there(self) -> bool:
        try:
            self._client.live(self.job_id)
        except RequestRefusedError:
            return False
        return True


@contextmanager
def told_if_long(terminal: Terminal, text: str) -> Iterator[None]:
    """Say what takes so long, if the block does; its thread prints nothing meanwhile."""
    timer = threading.Timer(QUIET_S, terminal.line, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cancel_and_watch(client: RestClient, job_id: str, terminal: Terminal) -> None:
    """Have a job cancelled and wait for its end; say so if it may go on, because no server answers."""
    try:
        cancel_quietly(client, job_id, terminal)
        watch.watch_job(client, job_id, terminal)
    except ServerUnreachableError as error:
        terminal.complain(f"{error}; job {job_id} may still be running: `tidemark cancel {job_id[:8]}` ends it")


def cancel_quietly(client: RestClient, job_id: str, terminal: Terminal) -> None:
    """Ask for a job to be cancelled, which may have ended by itself in the meantime; ask again if nobody answers.

    Raises:
        ClientError: it is refused, or nobody answers for a while.
    """
    patience = watch.Patience(terminal)
    while True:
        try:
            client.cancel(job_id)
            return
        except RequestRefusedError as refused:
            if refused.status == HTTPStatus.CONFLICT:
                return
            patience.bear(refused)
        except ServerUnreachableError as error:
            patience.bear(error)
        terminal.sleep(watch.POLL_S)
