"""The commands of the command line: each takes the client, its arguments and a terminal, and returns an exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.client.bottleneck import bottleneck_text, find_bottleneck, percent
from runtime.client.errors import ClientError
from runtime.client.jobs import (
    SCHEDULED_STATES,
    TERMINAL_STATES,
    absolute_location,
    bytes_text,
    count_text,
    duration_text,
    failure_text,
    resolve_job,
    restarts_text,
    slots_of,
    table,
    time_text,
)
from runtime.client.rest import RequestRefusedError, RestClient, RestoreRequest
from runtime.client.watch import POLL_S, LogChoice, LogFollower, Terminal, follow_logs, watch_job

SUCCESS = 0
FAILURE = 1
INTERRUPTED = 130
CANCEL_WAIT_S = 60.0


def run(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Upload a program, start its job and, unless detached, watch it to its end."""
    program_id = client.upload(Path(options.file))
    restore = None
    path = absolute_location(options.from_savepoint)
    if path is not None:
        restore = RestoreRequest(path, options.allow_non_restored_state, options.claim_mode)
    job_id = client.run(
        program_id,
        options.program_args,
        _configuration(options.option),
        options.parallelism,
        options.entry,
        restore,
        lambda warning: terminal.complain(f"warning: {warning}"),
    )
    terminal.line(f"Job has been submitted with JobID {job_id}")
    terminal.line(f"{client.server.url}/ui/jobs/{job_id}")
    if options.detached:
        return SUCCESS
    try:
        state = watch_job(client, job_id, terminal)
    except KeyboardInterrupt:
        return _interrupted(client, job_id, terminal)
    return SUCCESS if state == "FINISHED" else FAILURE


def _configuration(given: Sequence[str]) -> dict[str, str]:
    configuration = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise ClientError(f"-D {item}: an option reads key=value")
        configuration[key.strip()] = value
    return configuration


def _interrupted(client: RestClient, job_id: str, terminal: Terminal) -> int:
    """Ctrl-C: the job is the user's to keep or to end; with nobody to ask it ends, as a program would."""
    terminal.close_line()
    if terminal.ask is not None and not terminal.ask(f"Cancel job {job_id[:8]}?"):
        terminal.line(f"The job goes on: tidemark info {job_id[:8]}")
        return SUCCESS
    _cancel(client, job_id)
    watch_job(client, job_id, terminal)
    return INTERRUPTED


def _cancel(client: RestClient, job_id: str) -> None:
    try:
        client.cancel(job_id)
    except RequestRefusedError as refused:
        # it has ended by itself in the meantime
        if refused.status != 409:
            raise


def list_jobs(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """A table of jobs, newest first: those that have not ended, unless options say otherwise."""
    jobs = sorted(client.jobs(), key=lambda job: float(job["start-time"]), reverse=True)
    if options.running:
        jobs = [job for job in jobs if job["state"] not in TERMINAL_STATES | SCHEDULED_STATES]
    elif options.scheduled:
        jobs = [job for job in jobs if job["state"] in SCHEDULED_STATES]
    elif not options.all:
        jobs = [job for job in jobs if job["state"] not in TERMINAL_STATES]
    if options.json:
        terminal.line(json.dumps(jobs, indent=1))
        return SUCCESS
    if not jobs:
        terminal.line(
            "No jobs." if options.all else "No such jobs; `tidemark list -a` shows those that have ended too."
        )
        return SUCCESS
    rows = [("JOB", "NAME", "STATE", "STARTED", "DURATION", "TASKS")]
    rows += [
        (
            job["jid"],
            job["name"],
            job["state"],
            time_text(job["start-time"]),
            duration_text(job["duration"]),
            f"{job['tasks'].get('running', 0)}/{job['tasks']['total']}",
        )
        for job in jobs
    ]
    for line in table(rows, frozenset({4, 5})):
        terminal.line(line)
    return SUCCESS


def info(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """A job with its vertices, the one that limits it, and its slots; as JSON the live document and `slots` with their
    pids."""
    document = client.live(resolve_job(options.job, client.jobs())["jid"])
    slots = slots_of(document)
    if options.json:
        terminal.line(json.dumps(document | {"slots": slots}, indent=1))
        return SUCCESS
    terminal.line(f"{document['name']}  {document['state']}  {document['id']}")
    attempt = f"attempt {document['attempt']}, {restarts_text(document['restarts'])}"
    terminal.line(
        f"started {time_text(document['start_time'])}, {duration_text(document['duration'])}, "
        f"parallelism {document['parallelism']}, {attempt}"
    )
    if document.get("waiting_for"):
        terminal.line(f"waits: {document['waiting_for']}")
    if document["state"] == "FAILED":
        terminal.line(f"failed: {failure_text(document)}")
    for line in _vertex_table(document["vertices"]):
        terminal.line(line)
    limit = find_bottleneck(document["vertices"])
    if limit is not None:
        terminal.line("")
        terminal.line(bottleneck_text(limit))
    for line in _slot_table(slots):
        terminal.line(line)
    return SUCCESS


def _vertex_table(vertices: Sequence[dict[str, Any]]) -> list[str]:
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
    return ["", *table(rows, frozenset({1, 3, 4, 5, 6, 7, 8, 9, 10}))]


def _slot_table(slots: Sequence[dict[str, Any]]) -> list[str]:
    if not slots:
        return []
    columns = ("slot", "pid", "host", "taskmanager")
    rows = [tuple(column.upper() for column in columns)]
    rows += [tuple("–" if slot[column] is None else str(slot[column]) for column in columns) for slot in slots]
    return ["", *table(rows, frozenset({0, 1}))]


def cancel(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """End a job and wait until it has ended."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    client.cancel(job_id)
    if options.detached:
        terminal.line(f"Job {job_id} is asked to end")
        return SUCCESS
    return wait_cancelled(client, job_id, terminal)


def wait_cancelled(client: RestClient, job_id: str, terminal: Terminal) -> int:
    """Wait until a job has ended that was asked to.

    Raises:
        ClientError: it has not for a long time.
    """
    deadline_s = terminal.monotonic() + CANCEL_WAIT_S
    while terminal.monotonic() < deadline_s:
        document = client.live(job_id)
        if document["state"] in TERMINAL_STATES:
            terminal.line(f"Job {job_id} is {document['state']}")
            return SUCCESS if document["state"] == "CANCELED" else FAILURE
        terminal.sleep(POLL_S)
    raise ClientError(f"job {job_id} was asked to end and has not within {CANCEL_WAIT_S:.0f} s")


def logs(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """What the slots have printed and logged, whole or as it grows."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    choice = LogChoice(options.attempt, options.slot, options.kind)
    if options.follow:
        try:
            follow_logs(client, job_id, choice, terminal)
        except KeyboardInterrupt:
            return INTERRUPTED
        return SUCCESS
    follower = LogFollower(client, job_id, choice, terminal)
    if not follower.print_new(with_rotated=True):
        raise ClientError(f"job {job_id} has no such log files (yet)")
    follower.finish()
    return SUCCESS
