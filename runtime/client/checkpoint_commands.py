"""Commands about a job's checkpoints: savepoint, stop, cancel with one, checkpoint, checkpoints, rescale.

Each asks the cluster for something and, unless detached, waits until it is done. What is asked for is done by whoever
leads then, also if the wait is interrupted.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from runtime.client import watch
from runtime.client.commands import SUCCESS, wait_cancelled
from runtime.client.errors import ClientError
from runtime.client.jobs import absolute_location, bytes_text, count_text, resolve_job, table, time_text
from runtime.client.rest import RestClient, ServerUnreachableError
from runtime.client.watch import UNREACHABLE_S, Terminal


def savepoint(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a savepoint; the job goes on."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    request_id = client.trigger_savepoint(job_id, absolute_location(options.directory), options.type)
    if options.detached:
        terminal.line(f"Request {request_id}")
        return SUCCESS
    result = _wait(client, job_id, request_id, terminal, "Taking a savepoint")
    terminal.line(f"Savepoint completed. Path: {result['location']}")
    return SUCCESS


def stop(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """End a job behind a savepoint."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    directory = absolute_location(options.savepoint_path)
    request_id = client.stop(job_id, directory, options.type, drain=options.drain)
    if options.detached:
        terminal.line(f"Request {request_id}")
        return SUCCESS
    result = _wait(client, job_id, request_id, terminal, "Draining the job" if options.drain else "Suspending the job")
    terminal.line(f"Job {job_id} has stopped. Savepoint: {result['location']}")
    return SUCCESS


def cancel(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a savepoint, then end the job at once; it goes on if the savepoint fails."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    directory = absolute_location(options.savepoint or None)
    request_id = client.trigger_savepoint(job_id, directory, options.type, cancel_job=True)
    if options.detached:
        terminal.line(f"Request {request_id}")
        return SUCCESS
    result = _wait(client, job_id, request_id, terminal, "Taking a savepoint")
    terminal.line(f"Savepoint completed. Path: {result['location']}")
    return wait_cancelled(client, job_id, terminal)


def checkpoint(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a checkpoint now."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    kind = "FULL" if options.full else "INCREMENTAL" if options.incremental else "CONFIGURED"
    result = _wait(client, job_id, client.trigger_checkpoint(job_id, kind), terminal, "Taking a checkpoint")
    terminal.line(f"Checkpoint {result['checkpoint_id']} completed. Path: {result['location']}")
    return SUCCESS


def rescale(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Go on with another parallelism; max parallelisms are limits.

    Without names it is that of the vertices that have the job's, the largest: those that were given a smaller one, such
    as a sink that is to write one file, keep it.
    """
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    vertices = client.live(job_id)["vertices"]
    wanted = {vertex["id"]: options.parallelism for vertex in _chosen(vertices, options.vertex or [])}
    _wait(client, job_id, client.rescale(job_id, wanted), terminal, "Rescaling the job")
    terminal.line(f"Job {job_id} runs with parallelism {options.parallelism}")
    return SUCCESS


def _chosen(vertices: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    if not names:
        largest = max(vertex["parallelism"] for vertex in vertices)
        return [vertex for vertex in vertices if vertex["parallelism"] == largest]
    chosen = []
    for name in names:
        found = [v for v in vertices if v["id"] == name or v["name"] == name or v["name"].startswith(name)]
        if len(found) != 1:
            known = ", ".join(repr(v["name"]) for v in vertices)
            count = len(found) or "none"
            raise ClientError(f"--vertex {name}: that names {count} of the job's vertices, which are {known}")
        chosen.extend(found)
    return chosen


def checkpoints(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Counts, and the latest checkpoints and savepoints, newest first."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    document = client.checkpoints(job_id)
    if options.json:
        terminal.line(json.dumps(document, indent=1))
        return SUCCESS
    counts = document["counts"]
    terminal.line(
        f"triggered {counts['total']}, in progress {counts['in_progress']}, completed {counts['completed']}, "
        f"failed {counts['failed']}, restored {counts['restored']}"
    )
    restored = document["latest"]["restored"]
    if restored is not None:
        kind = "savepoint" if restored["is_savepoint"] else "checkpoint"
        terminal.line(
            f"restored from {kind} {restored['id']} at {time_text(restored['restore_timestamp'])}: "
            f"{restored['external_path']}"
        )
    rows = [("ID", "TYPE", "STATUS", "TRIGGERED", "DURATION", "ACKS", "CHECKPOINTED", "FULL SIZE", "PATH")]
    rows += [
        (
            str(entry["id"]),
            entry["checkpoint_type"],
            entry["status"],
            time_text(entry["trigger_timestamp"]),
            f"{count_text(entry['end_to_end_duration'])} ms",
            f"{entry['num_acknowledged_subtasks']}/{entry['num_subtasks']}",
            bytes_text(entry["checkpointed_size"]),
            bytes_text(entry["state_size"]),
            entry.get("failure_message") or ("deleted" if entry.get("discarded") else entry.get("external_path", "–")),
        )
        for entry in document["history"]
    ]
    if len(rows) > 1:
        for line in ["", *table(rows, frozenset({0, 4, 5, 6, 7}))]:
            terminal.line(line)
    return SUCCESS


def _wait(client: RestClient, job_id: str, request_id: str, terminal: Terminal, what: str) -> dict[str, Any]:
    """The result of a request, once it is over.

    Raises:
        ClientError: it was not done; the message says why.
    """
    terminal.line(f"{what} …")
    operation: dict[str, Any] = {"state": "PENDING"}
    heard_s = terminal.monotonic()
    while operation["state"] != "COMPLETED":
        try:
            operation = client.operation(job_id, request_id)
            heard_s = terminal.monotonic()
        except ServerUnreachableError:
            if terminal.monotonic() - heard_s > UNREACHABLE_S:
                raise
        if operation["state"] != "COMPLETED":
            terminal.sleep(watch.POLL_S)
    result: dict[str, Any] = operation["result"] or {}
    if "error" in result:
        raise ClientError(str(result["error"]))
    return result
