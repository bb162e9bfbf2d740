"""`tidemark logs`: prints and log output of a job's slots, whole, from the end, or as it grows."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.client.arguments import Actions, add_job_command, non_negative
from runtime.client.errors import ClientError
from runtime.client.job_log import JobLogPrinter
from runtime.client.jobs import FailureNews, resolve_job, resolve_vertex
from runtime.client.logs import LogChoice, LogFollower, follow_logs, tell_failure
from runtime.client.rest import RestClient
from runtime.client.terminal import INTERRUPTED, SUCCESS, Terminal

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
PROCESSES = ("jobmanager", "taskmanager")
"""Kinds of logs that are no slot's."""


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
        "--kind",
        choices=["out", "log", *PROCESSES],
        help="only what was printed, only what was logged (default: both), or what a JobManager has logged about the "
        "job or a TaskManager that runs it, which is --by-time",
    )
    search = parser.add_argument_group(
        "all logs by time", "entries of all slots and attempts as one log; --tail counts entries"
    )
    search.add_argument("--by-time", action="store_true", help="everything; implied by the options that follow")
    search.add_argument("--search", metavar="TEXT", help="only entries with this text, in any case")
    search.add_argument("--level", choices=LEVELS, help="only what was logged with this level or a higher one")
    search.add_argument("--vertex", metavar="NAME", help="only what tasks of this vertex have logged: its name, or id")
    search.add_argument("--operator", metavar="UID", help="only what this operator has logged: its uid, or name")
    parser.set_defaults(command=logs)


def _follower(
    client: RestClient, job_id: str, options: argparse.Namespace, terminal: Terminal
) -> LogFollower | JobLogPrinter:
    is_by_time = options.by_time or options.search or options.level or options.vertex or options.operator
    if not is_by_time and options.kind not in PROCESSES:
        return LogFollower(client, job_id, LogChoice(options.attempt, options.slot, options.kind), terminal)
    vertices = client.live(job_id)["vertices"]
    given = {
        "q": options.search,
        "level": options.level,
        "vertex": options.vertex and resolve_vertex(options.vertex, vertices)["id"],
        "operator": options.operator and _uid_of(options.operator, vertices),
        "attempt": options.attempt,
        "slot": options.slot,
        "kind": options.kind,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    return JobLogPrinter(client, job_id, wanted, {v["id"]: v["name"] for v in vertices}, terminal)


def _uid_of(given: str, vertices: Sequence[Mapping[str, Any]]) -> str:
    """Return the uid of the operator with this uid, or the only one with this name.

    Raises:
        ClientError: there is none, or several have the name.
    """
    operators = [operator for vertex in vertices for operator in vertex["operators"]]
    uids = [operator["uid"] for operator in operators if given == operator["uid"]]
    uids = uids or [operator["uid"] for operator in operators if given == operator["name"]]
    if len(uids) == 1:
        return str(uids[0])
    known = ", ".join(f"{operator['uid']} ({operator['name']})" for operator in operators)
    raise ClientError(f"{'several operators are' if uids else 'no operator is'} named {given!r}; there are: {known}")


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
