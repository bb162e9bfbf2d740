"""Commands about jobs as a whole: list, info, cancel."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from runtime.client import checkpoint_commands
from runtime.client.arguments import JOB_HELP, Actions, add_job_command, with_format, with_json, with_wide
from runtime.client.jobs import (
    SCHEDULED_STATES,
    TERMINAL_STATES,
    bytes_text,
    cause_text,
    count_text,
    duration_text,
    failure_text,
    percent,
    resolve_job,
    restarts_text,
    slots_of,
    stale_text,
    stall_lines,
    time_text,
)
from runtime.client.rest import RestClient
from runtime.client.tables import one_line, table
from runtime.client.terminal import SUCCESS, Terminal
from runtime.client.watch import wait_cancelled

SHOWN_CV = 0.2
"""Coefficient of variation from which on a data skew is told: of small ones there are as many as vertices."""


def add_list(actions: Actions) -> None:
    """Add `list`."""
    parser = actions.add_parser(
        "list",
        help="list jobs",
        description="List the jobs that have not ended, newest first. TASKS counts running and finished tasks.",
        example="tidemark list --all",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-r", "--running", action="store_true", help="only jobs that have started")
    which.add_argument("-s", "--scheduled", action="store_true", help="only jobs that have not started yet")
    which.add_argument("-a", "--all", action="store_true", help="also jobs that have ended")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="only jobs with this tag; repeated, with all"
    )
    with_json(parser, "print the jobs as JSON, in Flink's shape")
    with_wide(parser)
    parser.set_defaults(command=list_jobs)


def add_info(actions: Actions) -> None:
    """Add `info`."""
    parser = add_job_command(
        actions,
        "info",
        help="show one job: its tasks, their rates, and what holds it up",
        description="Show a job's vertices with records, rates and load, what holds it up, and its slots.",
        example='tidemark info "Flights live"',
    )
    with_json(parser, "print everything that is known as JSON, with the process ids of the slots")
    with_wide(parser)
    parser.set_defaults(command=info)


def add_cancel(actions: Actions) -> None:
    """Add `cancel`."""
    parser = actions.add_parser(
        "cancel",
        help="end a job at once, optionally after a savepoint",
        description="End a job at once and wait until it has ended. With -s it can be resumed from a savepoint.",
        usage="tidemark cancel [-d] [-s [DIRECTORY] [--type FORMAT]] [--json] JOB",
        example='tidemark cancel "Flights live"',
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help=JOB_HELP)
    parser.add_argument("-d", "--detached", action="store_true", help="return at once, do not wait for the end")
    parser.add_argument(
        "-s",
        "--with-savepoint",
        dest="savepoint",
        nargs="?",
        const="",
        metavar="DIRECTORY",
        help="take a savepoint first, in this directory (default: the cluster's)",
    )
    with_format(parser)
    with_json(parser)
    parser.set_defaults(command=_cancel, usage_error=parser.error)


def list_jobs(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a table of jobs, newest first: those that have not ended, unless options say otherwise."""
    jobs = sorted(client.jobs(), key=lambda job: float(job["start-time"]), reverse=True)
    if options.running:
        jobs = [job for job in jobs if job["state"] not in TERMINAL_STATES | SCHEDULED_STATES]
    elif options.scheduled:
        jobs = [job for job in jobs if job["state"] in SCHEDULED_STATES]
    elif not options.all:
        jobs = [job for job in jobs if job["state"] not in TERMINAL_STATES]
    if options.tag:
        tags = client.all_tags()
        jobs = [job for job in jobs if set(options.tag) <= set(tags.get(job["jid"], ()))]
    none = "There are no jobs." if options.all else "There are no such jobs; `tidemark list -a` also lists ended ones."
    rows = [("JOB", "NAME", "STATE", "STARTED", "DURATION", "TASKS")]
    rows += [
        (
            job["jid"],
            job["name"],
            job["state"],
            time_text(job["start-time"]),
            duration_text(job["duration"]),
            f"{job['tasks'].get('running', 0) + job['tasks'].get('finished', 0)}/{job['tasks']['total']}",
        )
        for job in jobs
    ]
    # a part of the name tells more than the second half of an id, of which the beginning will do
    lines = table(rows, right={4, 5}, columns=terminal.columns, shrink=((1, 24), (0, 9), (1, 8)))
    terminal.result(jobs, *(lines if jobs else [none]))
    warn_if_stale(client.cluster(), terminal)
    return SUCCESS


def warn_if_stale(document: dict[str, Any], terminal: Terminal) -> None:
    """Complain if a document, of a job or of the cluster, is out of date."""
    stale = stale_text(document)
    if stale:
        terminal.complain(f"{stale} The data shown may be out of date.")


def info(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a job with its vertices, what holds it up, and its slots; as JSON the live document and `slots` with their
    pids.
    """
    document = client.live(resolve_job(options.job, client.jobs())["jid"])
    slots = slots_of(document)
    warn_if_stale(document, terminal)
    if options.json:
        terminal.result(document | {"slots": slots})
        return SUCCESS
    terminal.line(f"{one_line(document['name'])}  {document['state']}  {document['id']}")
    attempt = f"attempt {document['attempt']}, {restarts_text(document['restarts'])}"
    terminal.line(
        f"started {time_text(document['start_time'])}, {duration_text(document['duration'])}, "
        f"parallelism {document['parallelism']}, {attempt}"
    )
    stalls = stall_lines(document)
    if document.get("waiting_for") and not (stalls and document["state"] == "RUNNING"):
        # a job that runs waits for the calls that are told below
        terminal.line(f"waiting: {document['waiting_for']}")
    if document["state"] == "FAILED":
        terminal.line(f"failed: {failure_text(document)}")
    elif document.get("failure"):
        terminal.line(f"{time_text(document['failure']['timestamp'])}  {cause_text(document)}")
    for line in stalls:
        terminal.line(line)
    for line in _vertex_table(document["vertices"], terminal.columns):
        terminal.line(line)
    why = [*_why(document), *_skew(document), *_event_time(document)]
    for line in ["", *why] if why else []:
        terminal.line(one_line(line))
    for line in _slot_table(slots, terminal.columns):
        terminal.line(line)
    return SUCCESS


def _why(document: dict[str, Any]) -> list[str]:
    """Return what holds the job up, as the jobmanager has found it; [] for a job that does not run."""
    if document["state"] != "RUNNING":
        return []
    causes = document.get("causes")
    if causes is None:
        return ["Why: watching the job"]
    names = {vertex["id"]: vertex["name"] for vertex in document["vertices"]}
    found = [f"Why: {names[cause['vertex']]} {cause['text']}" for cause in causes.values()]
    return found or ["Why: nothing holds the job up"]


def _skew(document: dict[str, Any]) -> list[str]:
    """Return how unevenly the records of vertices are spread over their subtasks, the worst first."""
    names = {vertex["id"]: vertex["name"] for vertex in document["vertices"]}
    lines = []
    for vertex_id, (*total, live_cv, live_max, live_subtask) in document.get("skew", {}).items():
        parts = [
            f"{when} CV {100 * cv:.0f} %, subtask {subtask} gets {ratio:.1f} × the average"
            for when, (cv, ratio, subtask) in (("now", (live_cv, live_max, live_subtask)), ("since the start", total))
            if cv is not None and cv >= SHOWN_CV
        ]
        if parts:
            lines.append(f"Data skew: {names[vertex_id]}: {'; '.join(parts)}")
    return lines


def _event_time(document: dict[str, Any]) -> list[str]:
    """Return how far event time is, and who is the last; [] if there is none."""
    time = document.get("event_time", {})
    if "newest" not in time:
        return []
    line = f"Event time: {time_text(time['newest'])}"
    if time["is_live"]:
        line += f", {duration_text(document['now'] - time['newest'])} behind the clock"
    if "speed" in time:
        line += f", {time['speed']:,.1f} × real time"
    holder = time.get("holder")
    if holder is not None:
        known = "behind" in holder
        behind = f"{duration_text(holder['behind'])} behind that" if known else "without a watermark yet"
        line += f"; last: {_origin(document, holder)}, {behind}"
    idle = time.get("idle", ())
    if not idle:
        return [line]
    more = time["num_idle"] - len(idle)
    told = [_origin(document, each) for each in idle] + ([f"{more} more"] if more else [])
    return [line, f"Idle: {'; '.join(told)}"]


def _origin(document: dict[str, Any], place: dict[str, Any]) -> str:
    """Return the name of a vertex with the subtask, and the split, of a place where event time begins."""
    name = next(vertex["name"] for vertex in document["vertices"] if vertex["id"] == place["vertex"])
    split = f", split {place['split']}" if "split" in place else ""
    return f"{name} (subtask {place['subtask']}{split})"


def _vertex_table(vertices: Sequence[dict[str, Any]], columns: int | None) -> list[str]:
    if not vertices:
        return []
    rows = [("VERTEX", "TASKS", "STATE", "IN", "IN/S", "OUT", "OUT/S", "BYTES OUT", "BUSY", "IDLE", "BACK-PRESSURED")]
    for vertex in vertices:
        metrics = vertex["metrics"]
        rows.append(
            (
                vertex["name"],
                str(vertex["parallelism"]),
                vertex["state"],
                count_text(metrics["records_in"]),
                count_text(metrics["records_in_per_second"]),
                count_text(metrics["records_out"]),
                count_text(metrics["records_out_per_second"]),
                bytes_text(metrics["bytes_out"]),
                percent(metrics["busy"]),
                percent(metrics["idle"]),
                percent(metrics["back_pressured"]),
            )
        )
    return ["", *table(rows, right=set(range(1, 11)) - {2}, columns=columns, shrink=((0, 24), (10, 6), (0, 8)))]


def _slot_table(slots: Sequence[dict[str, Any]], columns: int | None) -> list[str]:
    if not slots:
        return []
    fields = ("slot", "pid", "host", "taskmanager")
    rows = [tuple(field.upper() for field in fields)]
    rows += [tuple("–" if slot[field] is None else str(slot[field]) for field in fields) for slot in slots]
    return ["", *table(rows, right={0, 1}, columns=columns, shrink=((3, 12), (2, 12)))]


def _cancel(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Cancel a job and wait until it has ended."""
    # `cancel -s JOB`, as Flink has it, names no directory
    if options.job is None:
        options.job, options.savepoint = options.savepoint, ""
    if not options.job:
        options.usage_error("the following arguments are required: JOB")
    if options.savepoint is not None:
        return checkpoint_commands.cancel(client, options, terminal)
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    client.cancel(job_id)
    if options.detached:
        terminal.result({"jobid": job_id}, f"Job {job_id} will be cancelled")
        return SUCCESS
    return wait_cancelled(client, job_id, terminal)
