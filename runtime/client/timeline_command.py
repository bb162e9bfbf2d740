"""The command about what a job has gone through: its states and attempts, operations and failures, in their order."""

from __future__ import annotations

import argparse
from typing import Any

from runtime.client.arguments import Actions, add_job_command, with_json
from runtime.client.jobs import duration_text, resolve_job, time_text
from runtime.client.rest import RestClient
from runtime.client.tables import one_line
from runtime.client.terminal import SUCCESS, Terminal


def add_timeline(actions: Actions) -> None:
    """Add `timeline`."""
    parser = add_job_command(
        actions,
        "timeline",
        help="show what a job has gone through: states, attempts, operations, failures",
        description="Show a job's states and attempts, what was asked of it, rescalings, and failures, in their order.",
        example='tidemark timeline "Flights live"',
    )
    with_json(parser)
    parser.set_defaults(command=_timeline)


def _timeline(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    found = client.timeline(job_id)
    lines = [(span["begin"], _state(span, found["now"])) for span in found["states"]]
    lines += [(event["begin"], _event(event)) for event in found["events"]]
    lines.sort(key=lambda line: float(line[0]))
    told = [one_line(f"{time_text(begin)}  {text}") for begin, text in lines]
    if found.get("is_cut", False):
        told.insert(0, f"{time_text(found['begin'])}  what was before is no longer kept")
    terminal.result(found, *told)
    return SUCCESS


def _state(span: dict[str, Any], now: int) -> str:
    attempt = "" if span["attempt"] is None else f", attempt {span['attempt']}"
    end = now if span["end"] is None else span["end"]
    lasted = f"{'so far ' if span['end'] is None else ''}{duration_text(max(0, end - span['begin']))}"
    cause = f": {span['cause']}" if span["cause"] else ""
    return f"{span['state']}{attempt}, {lasted}{cause}"


def _event(event: dict[str, Any]) -> str:
    took = 0 if event["end"] is None else event["end"] - event["begin"]
    return f"  {event['text']}" + (f", took {duration_text(took)}" if took > 0 else "")
