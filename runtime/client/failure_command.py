"""The command about a job's failures: equal ones together, with what else went on when they happened."""

from __future__ import annotations

import argparse
from typing import Any

from runtime.client.arguments import Actions, add_job_command, with_json
from runtime.client.jobs import resolve_job, time_text
from runtime.client.rest import RestClient
from runtime.client.tables import one_line
from runtime.client.terminal import SUCCESS, Terminal

SHOWN = 3
"""Occurrences of a group that are shown without --json."""


def add_exceptions(actions: Actions) -> None:
    """Add `exceptions`."""
    parser = add_job_command(
        actions,
        "exceptions",
        help="show why a job has failed, equal failures together",
        description="Show the failures of a job, those with the same class, vertex and line as one,\n"
        "each with what else went on in its attempt: checkpoints, savepoints, rescaling, slots lost.",
        example='tidemark exceptions "Flights live"',
    )
    with_json(parser)
    parser.set_defaults(command=_exceptions)


def _exceptions(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    found = client.failures(job_id)
    terminal.result(found, *_lines(found))
    return SUCCESS


def _lines(found: dict[str, Any]) -> list[str]:
    if not found["groups"]:
        return ["Nothing has failed in this job."]
    lines = []
    if found["kept"] < found["total"]:
        lines.append(f"The newest {found['kept']} of {found['total']} failures; older ones are not kept.")
    for group in found["groups"]:
        where = ", ".join(part for part in (group["vertex_name"], group["place"]) if part)
        lines.append(one_line(f"{group['count']} x {group['name']}{f' in {where}' if where else ''}"))
        lines.append(one_line(f"  {group['message']}"))
        if group["count"] > 1:
            lines.append(f"  first {time_text(group['first'])}, last {time_text(group['last'])}")
        for occurrence in group["occurrences"][:SHOWN]:
            on = f" on {occurrence['location']}" if occurrence["location"] else ""
            lines.append(f"  {time_text(occurrence['timestamp'])}  attempt {occurrence['attempt']}{on}")
            lines += [one_line(f"    {time_text(b['timestamp'])}  {b['text']}") for b in occurrence["beside"]]
    return lines
