"""Watching a job from a terminal: its progress, until it has ended."""

from __future__ import annotations

from runtime.client.errors import ClientError
from runtime.client.jobs import TERMINAL_STATES, FailureNews, duration_text, failure_text, progress_text
from runtime.client.rest import RestClient, ServerUnreachableError
from runtime.client.terminal import FAILURE, SUCCESS, Terminal

POLL_S = 0.5
#: a file is not a terminal: one line per change of state, and now and then one that shows the rates
LINE_EVERY_S = 5.0
#: a web process that is restarted is back within seconds; longer than that is worth an error
UNREACHABLE_S = 30.0
CANCEL_WAIT_S = 60.0


def watch_job(client: RestClient, job_id: str, terminal: Terminal) -> str:
    """Show a job's progress until it has ended; returns its last state.

    Raises:
        ServerUnreachableError: nothing answers for 30 s.
    """
    is_tty = terminal.people.isatty()
    last_state, last_line_s = "", float("-inf")
    heard_s = terminal.monotonic()
    news = FailureNews()
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
        failed = news.text(document)
        if failed:
            terminal.line(failed)
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


def wait_cancelled(client: RestClient, job_id: str, terminal: Terminal, **fields: str) -> int:
    """Wait until a job has ended that was asked to; returns the exit code.

    Args:
        client: to ask with.
        job_id: the job.
        terminal: to print on; `fields` are members of the result.

    Raises:
        ClientError: it has not for a long time.
    """
    deadline_s = terminal.monotonic() + CANCEL_WAIT_S
    while terminal.monotonic() < deadline_s:
        state = client.live(job_id)["state"]
        if state in TERMINAL_STATES:
            terminal.result({"jobid": job_id, "state": state, **fields}, f"Job {job_id} is {state}")
            return SUCCESS if state == "CANCELED" else FAILURE
        terminal.sleep(POLL_S)
    raise ClientError(f"job {job_id} has been asked to end, but has not ended within {CANCEL_WAIT_S:.0f} s")
