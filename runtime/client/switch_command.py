"""`tidemark switch`: a running job goes on in another execution, from a savepoint. The cluster does it by itself."""

from __future__ import annotations

import argparse
import uuid
from typing import Any, Final

from runtime.client import watch
from runtime.client.arguments import Actions, add_job_command, with_json
from runtime.client.errors import ClientError
from runtime.client.jobs import resolve_job
from runtime.client.rest import RestClient
from runtime.client.submission import told_if_long
from runtime.client.terminal import INTERRUPTED, SUCCESS, Terminal
from runtime.client.watch import Patience, StaleNews

UNDER_WAY: Final = {
    "CHECKED": "The program can be executed so: the job is stopped next …",
    "STOPPING": "Suspending the job …",
    "SUBMITTED": "Starting job {job_id} …",
    "ROLLING_BACK": "{message}. Going back to the job as it was …",
}
"""What is shown of a switch that has not ended, by its state."""


def add_switch(actions: Actions) -> None:
    """Add `switch`."""
    parser = add_job_command(
        actions,
        "switch",
        help="let a job go on in micro-batches, or continuously again",
        description="Stop a job with a savepoint, and start its program from there in another execution.\n"
        "If it cannot be started so, it goes on as before, from the savepoint. The cluster does all of it: the switch\n"
        "goes on if this command is ended.",
        example='tidemark switch "Flights by hour" micro-batch',
    )
    parser.add_argument("execution", choices=("micro-batch", "continuous"), help="how the job is executed from then on")
    with_json(parser)
    parser.set_defaults(command=switch)


def switch(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Ask for the switch of a job, and show what becomes of it until that is settled."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    is_asked = False
    try:
        with told_if_long(terminal, "The server runs the program up to its execute(), after those submitted earlier …"):
            begun = _asked(client, job_id, options.execution, terminal)
        is_asked = True
        ended = _followed(client, begun, terminal)
    except KeyboardInterrupt:
        goes_on = "goes on" if is_asked else "may go on"
        terminal.line(f"Interrupted: the switch of job {job_id} {goes_on} without this command")
        return INTERRUPTED
    location = ended["savepoint"]
    if ended["state"] == "ROLLED_BACK":
        raise ClientError(f"{ended['message']}. It goes on as before, from {location}: job {ended['goes_on_as']}")
    if ended["state"] == "FAILED":
        left = f". The savepoint of job {job_id}: {location}" if location else ""
        raise ClientError(f"{ended['message']}{left}")
    terminal.result(
        {"jobid": ended["job_id"], "stopped": job_id, "location": location, "execution": options.execution},
        f"Job {ended['job_id']} goes on in its place: {options.execution}",
    )
    return SUCCESS


def _asked(client: RestClient, job_id: str, execution: str, terminal: Terminal) -> dict[str, Any]:
    """Ask for a switch, again if the answer is lost: one key makes one switch.

    Raises:
        ClientError: it is refused, or no server answers for a while.
    """
    key = uuid.uuid4().hex
    patience: Patience | None = None
    while True:
        try:
            return client.switch_execution(job_id, execution, key)
        except ClientError as error:
            # from the first loss, not from the beginning: the program may have been planned for a minute before
            patience = patience or Patience(terminal)
            patience.bear(error)
        terminal.sleep(watch.POLL_S)


def _followed(client: RestClient, begun: dict[str, Any], terminal: Terminal) -> dict[str, Any]:
    """Show what becomes of a switch until it has ended; returns it.

    Raises:
        ClientError: no server answers for a while; the switch goes on.
    """
    found, shown, is_saved = begun, "", False
    news, patience = StaleNews(terminal), Patience(terminal)
    while True:
        if found["savepoint"] and not is_saved:
            terminal.line(f"Savepoint: {found['savepoint']}")
            is_saved = True
        if found["state"] not in UNDER_WAY:
            return found
        text = UNDER_WAY[found["state"]].format(**found)
        if text != shown:
            terminal.line(text)
            shown = text
        terminal.sleep(watch.POLL_S)
        try:
            newest = client.switch_of(begun["old_job_id"])
            news.show(client.cluster())
        except ClientError as error:
            patience.bear(error)
            continue
        patience.heard()
        if newest is None or newest["id"] != begun["id"]:
            raise ClientError("the switch has failed, and somebody has asked for another one since")
        found = newest
