"""`tidemark logs`: prints and log output of a job's slots, whole, from the end, or as it grows."""

from __future__ import annotations

import argparse

from runtime.client.arguments import Actions, add_job_command, non_negative
from runtime.client.errors import ClientError
from runtime.client.job_log import JobLogPrinter
from runtime.client.jobs import FailureNews, resolve_job, resolve_vertex
from runtime.client.logs import LogChoice, LogFollower, follow_logs, tell_failure
from runtime.client.rest import RestClient
from runtime.client.terminal import INTERRUPTED, SUCCESS, Terminal

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def add_logs(actions: Actions) -> None:
    """Add `logs`."""
    parser = add_job_command(
        actions,
        "logs",
        help="show what a job has printed and logged",
        description="Show what the slots of a job have printed (out) and logged (log).",
        example='tidemark logs -f --tail 20 "Flights live"\n'
        'tidemark logs --by-time --level WARN --search timeout "Flights live"',
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
    search = parser.add_argument_group(
        "all logs by time", "entries of all slots and attempts as one log; --tail counts entries"
    )
    search.add_argument("--by-time", action="store_true", help="everything; implied by the options that follow")
    search.add_argument("--search", metavar="TEXT", help="only entries with this text, in any case")
    search.add_argument("--level", choices=LEVELS, help="only what was logged with this level or a higher one")
    search.add_argument("--vertex", metavar="NAME", help="only what tasks of this vertex have logged: its name, or id")
    parser.set_defaults(command=logs)


def _follower(
    client: RestClient, job_id: str, options: argparse.Namespace, terminal: Terminal
) -> LogFollower | JobLogPrinter:
    if not (options.by_time or options.search or options.level or options.vertex):
        return LogFollower(client, job_id, LogChoice(options.attempt, options.slot, options.kind), terminal)
    vertices = client.live(job_id)["vertices"]
    given = {
        "q": options.search,
        "level": options.level,
        "vertex": options.vertex and resolve_vertex(options.vertex, vertices)["id"],
        "attempt": options.attempt,
        "slot": options.slot,
        "kind": options.kind,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    return JobLogPrinter(client, job_id, wanted, {v["id"]: v["name"] for v in vertices}, terminal)


def logs(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print what the slots have printed and logged: whole, its end, or as it grows."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    follower = _follower(client, job_id, options, terminal)
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
