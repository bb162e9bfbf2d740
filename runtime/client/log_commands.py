"""`tidemark logs`: prints and log output of a job's slots, whole, from the end, or as it grows."""

from __future__ import annotations

import argparse

from runtime.client.arguments import Actions, add_job_command, non_negative
from runtime.client.errors import ClientError
from runtime.client.jobs import FailureNews, resolve_job
from runtime.client.logs import LogChoice, LogFollower, follow_logs, tell_failure
from runtime.client.rest import RestClient
from runtime.client.terminal import INTERRUPTED, SUCCESS, Terminal


def add_logs(actions: Actions) -> None:
    """Add `logs`."""
    parser = add_job_command(
        actions,
        "logs",
        help="show what a job has printed and logged",
        description="Show what the slots of a job have printed (out) and logged (log).",
        example='tidemark logs -f --tail 20 "Flights live"',
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow the logs until the job ends")
    parser.add_argument(
        "-n", "--tail", type=non_negative, metavar="N", help="start with the last N lines of each slot (default: all)"
    )
    parser.add_argument("--attempt", type=non_negative, metavar="N", help="logs of this attempt (default: the latest)")
    parser.add_argument("--slot", type=non_negative, metavar="N", help="logs of this slot (default: all)")
    parser.add_argument(
        "--kind", choices=["out", "log"], help="only what was printed, or only what was logged (default: both)"
    )
    parser.set_defaults(command=logs)


def logs(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print what the slots have printed and logged: whole, its end, or as it grows."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    choice = LogChoice(options.attempt, options.slot, options.kind)
    follower = LogFollower(client, job_id, choice, terminal)
    try:
        if options.tail is not None:
            found = follower.print_tail(options.tail)
        else:
            found = follower.print_new(with_rotated=not options.follow)
        if options.follow:
            follow_logs(client, job_id, follower, terminal)
            return SUCCESS
    except KeyboardInterrupt:
        return INTERRUPTED
    tell_failure(client.live(job_id), FailureNews(), terminal)
    if not found:
        raise ClientError(f"job {job_id} has no such log files (yet)")
    follower.finish()
    return SUCCESS
