"""Commands about a job's checkpoints: savepoint, stop, cancel with savepoint, checkpoint, checkpoints, rescale.

Each asks the cluster for something and, unless detached, waits until it is done. What is asked for is done by whoever
leads then, also if the wait is interrupted.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from runtime.client import watch
from runtime.client.arguments import (
    JOB_HELP,
    Actions,
    LocalCommand,
    add_job_command,
    positive,
    with_format,
    with_json,
    with_wide,
)
from runtime.client.errors import ClientError
from runtime.client.jobs import absolute_location, bytes_text, count_text, resolve_job, resolve_vertex, time_text
from runtime.client.rest import RestClient
from runtime.client.tables import table
from runtime.client.terminal import SUCCESS, Terminal
from runtime.client.watch import Patience, StaleNews, wait_cancelled

SAVEPOINT_ACTIONS = ("take", "list", "inspect", "dispose")
_PATH_HELP = "directory of the savepoint or checkpoint, or its _metadata file; a path or a URI"


def add_stop(actions: Actions) -> None:
    """Add `stop`."""
    parser = add_job_command(
        actions,
        "stop",
        help="take a savepoint, then stop the job",
        description="Take a savepoint, commit everything up to it, and end the job.\n"
        "`tidemark run -s PATH` resumes from it.",
        example='tidemark stop -p /data/savepoints "Flights live"',
    )
    with_format(parser)
    parser.add_argument(
        "-p",
        "--savepoint-path",
        metavar="DIRECTORY",
        help="where the savepoint goes (default: the cluster's directory)",
    )
    parser.add_argument(
        "-d", "--drain", action="store_true", help="let all windows and timers fire first, as at the end of the input"
    )
    parser.add_argument("--detached", action="store_true", help="return at once, do not wait for the end")
    with_json(parser)
    parser.set_defaults(command=stop)


def add_checkpoints(actions: Actions) -> None:
    """Add `checkpoint` and `checkpoints`."""
    one = add_job_command(
        actions,
        "checkpoint",
        help="trigger a checkpoint of a job now",
        description="Trigger a checkpoint now, regardless of the job's interval.",
        example='tidemark checkpoint --full "Flights live"',
    )
    kind = one.add_mutually_exclusive_group()
    kind.add_argument("--full", action="store_true", help="a full checkpoint, which needs no earlier one")
    kind.add_argument("--incremental", action="store_true", help="only what has changed since the last one")
    with_json(one)
    one.set_defaults(command=checkpoint)
    many = add_job_command(
        actions,
        "checkpoints",
        help="show the latest checkpoints of a job, and its latest savepoint",
        description="Show how many checkpoints a job has taken, and the latest of them with duration and size.\n"
        "With --phases, where the time of each of the last 60 went.",
        example='tidemark checkpoints "Flights live"\ntidemark checkpoints --phases "Flights live"',
    )
    many.add_argument(
        "--phases", action="store_true", help="show the phases of the slowest subtask, and where the time was lost"
    )
    with_json(many, "print the statistics as JSON, in Flink's shape")
    many.set_defaults(command=checkpoints)
    each = add_job_command(
        actions,
        "batches",
        help="show the last batches of a job in micro-batches",
        description="Show what each of the last batches has read and written, and where its time went.",
        example='tidemark batches "Flights by hour"',
    )
    with_json(each)
    each.set_defaults(command=batches)


def add_rescale(actions: Actions) -> None:
    """Add `rescale`."""
    parser = add_job_command(
        actions,
        "rescale",
        help="change the parallelism of a running job",
        description="Restart a job from a checkpoint with another parallelism.\n"
        "With --min, it runs with less while there are too few slots, and is rescaled as slots come and go.",
        example='tidemark rescale "Flights live" 4\ntidemark rescale "flights live" 4 --vertex Window\n'
        'tidemark rescale "Flights live" 8 --min 2',
    )
    parser.add_argument("parallelism", type=positive, metavar="N", help="the new parallelism; with --min, the largest")
    parser.add_argument(
        "--min",
        type=positive,
        metavar="M",
        dest="lower",
        help="the least that the job runs with (default: N, or what was set before if that was less than the most)",
    )
    parser.add_argument(
        "--vertex",
        action="append",
        metavar="NAME",
        help="only this vertex: its name, a prefix of it, or its id; may be given several times "
        "(default: all vertices that have the job's parallelism)",
    )
    with_json(parser)
    parser.set_defaults(command=rescale)


def add_savepoint(actions: Actions) -> None:
    """Add `savepoint` with its actions."""
    parser = actions.add_parser(
        "savepoint",
        help="take, list, inspect or delete savepoints",
        description="Take, list, inspect or delete savepoints.\n"
        "`savepoint JOB [DIRECTORY]` is short for `savepoint take JOB [DIRECTORY]`.",
        example='tidemark savepoint "Flights live"',
    )
    on_savepoint: Actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    take = add_job_command(
        on_savepoint,
        "take",
        help="take a savepoint of a job, which continues",
        description="Take a savepoint of a job; the job continues.",
        example='tidemark savepoint take "Flights live" /data/savepoints',
    )
    take.add_argument(
        "directory", nargs="?", metavar="DIRECTORY", help="where the savepoint goes (default: the cluster's directory)"
    )
    with_format(take)
    take.add_argument("--detached", action="store_true", help="return at once, do not wait for the savepoint")
    with_json(take)
    take.set_defaults(command=savepoint)
    listing = on_savepoint.add_parser(
        "list",
        help="list the savepoints that the cluster has taken",
        description="List the savepoints that the cluster has taken and nobody has deleted, newest first.",
        example='tidemark savepoint list "Flights live"',
    )
    listing.add_argument("job", nargs="?", metavar="JOB", help=f"only those of this job: {JOB_HELP}")
    listing.add_argument("-a", "--all", action="store_true", help="also those whose files are gone")
    with_json(listing, "print the savepoints as JSON")
    with_wide(listing)
    listing.set_defaults(command=list_savepoints)
    inspect = on_savepoint.add_parser(
        "inspect",
        help="verify a savepoint and show its state",
        description="Read every file of a savepoint or checkpoint, verify it, and show its operators and states.",
        example="tidemark savepoint inspect /data/savepoints/savepoint-1a2b3c-0123456789ab",
    )
    inspect.add_argument("path", metavar="PATH", help=_PATH_HELP)
    inspect.add_argument("--verify-only", action="store_true", help="only compare every file with its checksum")
    with_json(inspect, "print everything that is known as JSON, with all files")
    with_wide(inspect)
    inspect.set_defaults(local=_offline)
    dispose = on_savepoint.add_parser(
        "dispose",
        help="delete a savepoint that no job needs any more",
        description="Delete a savepoint or checkpoint. One that a job may still have to restore is kept.",
        example="tidemark savepoint dispose /data/savepoints/savepoint-1a2b3c-0123456789ab",
    )
    dispose.add_argument("path", metavar="PATH", help=_PATH_HELP)
    dispose.add_argument("-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal")
    dispose.add_argument(
        "--offline", action="store_true", help="delete without asking the cluster whether one of its jobs needs it"
    )
    with_json(dispose)
    dispose.set_defaults(local=_offline)


def _offline(options: argparse.Namespace, terminal: Terminal) -> int:
    # loaded when asked for: what reads state takes longer to load than all other commands take to run
    local: LocalCommand = importlib.import_module("runtime.client.savepoint_commands").run
    return local(options, terminal)


def savepoint(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a savepoint; the job continues."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    request_id = client.trigger_savepoint(job_id, absolute_location(options.directory), options.type)
    if options.detached:
        return _requested(job_id, request_id, terminal)
    result = wait_for_request(client, job_id, request_id, terminal, "Taking a savepoint")
    terminal.result({"jobid": job_id, **result}, f"Savepoint completed. Path: {result['location']}")
    return SUCCESS


def stop(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Stop a job with a savepoint."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    directory = absolute_location(options.savepoint_path)
    request_id = client.stop(job_id, directory, options.type, drain=options.drain)
    if options.detached:
        return _requested(job_id, request_id, terminal)
    result = wait_for_request(
        client, job_id, request_id, terminal, "Draining the job" if options.drain else "Suspending the job"
    )
    terminal.result({"jobid": job_id, **result}, f"Job {job_id} has stopped. Savepoint: {result['location']}")
    return SUCCESS


def cancel(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a savepoint, then cancel the job at once; it continues if the savepoint fails."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    directory = absolute_location(options.savepoint or None)
    request_id = client.trigger_savepoint(job_id, directory, options.type, cancel_job=True)
    if options.detached:
        return _requested(job_id, request_id, terminal)
    result = wait_for_request(client, job_id, request_id, terminal, "Taking a savepoint")
    terminal.line(f"Savepoint completed. Path: {result['location']}")
    return wait_cancelled(client, job_id, terminal, location=result["location"])


def list_savepoints(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a table of savepoints, newest first: when each was taken, of which job, who needs it."""
    job_id = None if options.job is None else resolve_job(options.job, client.jobs())["jid"]
    found = [savepoint for savepoint in client.savepoints(job_id) if options.all or savepoint["exists"] is not False]
    rows = [("TAKEN", "JOB", "NAME", "FORMAT", "SIZE", "NEEDED BY", "PATH")]
    rows += [
        (
            time_text(savepoint["created_at"]),
            savepoint["job_id"][:8],
            savepoint["job_name"],
            savepoint["format"],
            bytes_text(savepoint["size"]),
            (savepoint["needed_by"] or "–")[:8],
            savepoint["location"] if savepoint["exists"] is not False else f"gone: {savepoint['location']}",
        )
        for savepoint in found
    ]
    # a path is not cut: the other commands take it whole
    lines = table(rows, right={4}, columns=terminal.columns, shrink=((2, 8),))
    terminal.result(found, *(lines if found else ["There are no such savepoints."]))
    return SUCCESS


def checkpoint(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Take a checkpoint now."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    kind = "FULL" if options.full else "INCREMENTAL" if options.incremental else "CONFIGURED"
    result = wait_for_request(client, job_id, client.trigger_checkpoint(job_id, kind), terminal, "Taking a checkpoint")
    text = f"Checkpoint {result['checkpoint_id']} completed. Path: {result['location']}"
    terminal.result({"jobid": job_id, **result}, text)
    return SUCCESS


def rescale(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Change a job's parallelism; max parallelisms are limits.

    Without names it is that of the vertices that have the job's, the largest: those that were given a smaller one, such
    as a sink that is to write one file, keep it.
    """
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    chosen = _chosen(client.live(job_id)["vertices"], options.vertex or [])
    lower: int | None = options.lower
    if lower is not None and lower > options.parallelism:
        raise ClientError(f"--min {options.lower} is more than the parallelism {options.parallelism}")
    wanted = {vertex["id"]: options.parallelism for vertex in chosen}
    wait_for_request(client, job_id, client.rescale(job_id, wanted, lower), terminal, "Rescaling the job")
    now = client.live(job_id)
    has = {vertex["id"]: vertex["parallelism"] for vertex in now["vertices"]}
    changed = [
        {"id": v["id"], "name": v["name"], "from": v["parallelism"], "to": has[v["id"]]}
        for v in chosen
        if v["parallelism"] != has[v["id"]]
    ]
    lines = [f"{change['name']}: {change['from']} → {change['to']}" for change in changed]
    if now.get("scaling"):
        lines.append(str(now["scaling"]))
    terminal.result(
        {"jobid": job_id, "parallelism": wanted, "changed": changed},
        f"Job {job_id} runs with its new parallelism" if changed else f"Job {job_id} keeps its parallelism",
        *lines,
    )
    return SUCCESS


def _chosen(vertices: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    if not names:
        largest = max(vertex["parallelism"] for vertex in vertices)
        return [vertex for vertex in vertices if vertex["parallelism"] == largest]
    return [resolve_vertex(name, vertices) for name in names]


def checkpoints(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the counts, and the latest checkpoints and the latest savepoint, newest first."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    if options.phases:
        return _phases(client.checkpoint_gantt(job_id), options, terminal)
    document = client.checkpoints(job_id)
    if options.json:
        terminal.result(document)
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
    shown, savepoint = list(document["history"]), document["latest"].get("savepoint")
    if savepoint is not None and all(entry["id"] != savepoint["id"] for entry in shown):
        # the history is short, and what a user has asked for must be found
        shown.append(savepoint)
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
        for entry in shown
    ]
    if len(rows) > 1:
        for line in ["", *table(rows, right={0, 4, 5, 6, 7})]:
            terminal.line(line)
    return SUCCESS


def _phases(document: dict[str, Any], options: argparse.Namespace, terminal: Terminal) -> int:
    """Print where the time of the last checkpoints went, newest first."""
    if options.json:
        terminal.result(document)
        return SUCCESS
    rows: list[tuple[str, ...]] = [
        ("ID", "STATUS", "TRIGGERED", "DURATION", "DELAY", "ALIGNMENT", "SYNC", "ASYNC", "COMMIT", "LOST IN")
    ]
    rows += [_phase_row(checkpoint) for checkpoint in document["checkpoints"]]
    if len(rows) == 1:
        terminal.line("No checkpoint yet.")
        return SUCCESS
    for line in table(rows, right={0, 3, 4, 5, 6, 7, 8}):
        terminal.line(line)
    return SUCCESS


def batches(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the last batches of a job in micro-batches, newest first."""
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    document = client.batches(job_id)
    if options.json:
        terminal.result(document)
        return SUCCESS
    if not document["micro_batches"]:
        raise ClientError("the job is not executed in micro-batches")
    if not document["batches"]:
        terminal.line("No batch yet.")
        return SUCCESS
    phases = ("plan", "run", "store", "commit")
    rows = [("BATCH", "CHECKPOINT", "KIND", "TIME", "READ", "WRITTEN", *map(str.upper, phases), "DURATION", "INPUT")]
    rows += [
        (
            str(batch.get("number", "–")),
            str(batch["checkpoint"]),
            batch["kind"],
            time_text(batch["time"]),
            count_text(batch["read_records"]),
            count_text(batch["write_records"]),
            *(f"{count_text(round(batch['phases'][phase]))} ms" for phase in phases),
            f"{count_text(round(batch['duration']))} ms",
            "nothing left" if batch["caught_up"] else "more to read",
        )
        for batch in document["batches"]
    ]
    for line in table(rows, right={0, 1, 4, 5, 6, 7, 8, 9, 10}):
        terminal.line(line)
    return SUCCESS


def _phase_row(checkpoint: dict[str, Any]) -> tuple[str, ...]:
    subtasks = checkpoint["subtasks"]
    phases = subtasks[0]["phases"] if subtasks else {}

    def duration(value: float | None) -> str:
        return "–" if value is None else f"{count_text(round(value))} ms"

    return (
        str(checkpoint["id"]),
        checkpoint["status"],
        time_text(checkpoint["trigger_timestamp"]),
        duration(checkpoint.get("duration")),
        *(duration(phases.get(phase)) for phase in ("start-delay", "alignment", "sync", "async")),
        duration(checkpoint.get("commit_duration")),
        "; ".join(text for text in (checkpoint["text"], checkpoint.get("failure_message")) if text),
    )


def _requested(job_id: str, request_id: str, terminal: Terminal) -> int:
    terminal.result({"jobid": job_id, "request-id": request_id}, f"Request {request_id}")
    return SUCCESS


def wait_for_request(client: RestClient, job_id: str, request_id: str, terminal: Terminal, what: str) -> dict[str, Any]:
    """Wait for a request to end and return its result.

    Raises:
        ClientError: it was not done; the message says why.
    """
    terminal.line(f"{what} …")
    operation: dict[str, Any] = {"state": "PENDING"}
    news = StaleNews(terminal)
    patience = Patience(terminal)
    while operation["state"] != "COMPLETED":
        try:
            operation = client.operation(job_id, request_id)
            if operation["state"] != "COMPLETED":
                news.show(client.live(job_id))
            patience.heard()
        except ClientError as error:
            patience.bear(error)
        if operation["state"] != "COMPLETED":
            terminal.sleep(watch.POLL_S)
    result: dict[str, Any] = operation["result"] or {}
    if "error" in result:
        raise ClientError(str(result["error"]))
    return result
