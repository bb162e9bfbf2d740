"""The command about a job's autoscaler: shows what it decides and why, and switches it on or off."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from runtime.client.arguments import JOB_HELP, Actions, with_json
from runtime.client.jobs import resolve_job, time_text
from runtime.client.rest import RestClient
from runtime.client.tables import one_line
from runtime.client.terminal import SUCCESS, Terminal

_SWITCHES: dict[str, bool | None] = {"on": True, "off": False, "auto": None}
SHOWN = 5
"""Earlier decisions that are shown without --json."""


def add_autoscaler(actions: Actions) -> None:
    """Add `autoscaler`."""
    parser = actions.add_parser(
        "autoscaler",
        help="show a job's autoscaler, or switch it on or off",
        description="Show which parallelisms the autoscaler of a job wants and why, and what it has decided;\n"
        "or switch it on or off. `auto` leaves it to the job's option job.autoscaler.enabled.",
        example='tidemark autoscaler "Flights live"\ntidemark autoscaler "flights live" on',
    )
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    parser.add_argument("switch", nargs="?", choices=list(_SWITCHES), help="switch it; without, it is shown only")
    with_json(parser)
    parser.set_defaults(command=_autoscaler)


def _autoscaler(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    if options.switch is not None:
        found = client.switch_autoscaler(job_id, _SWITCHES[options.switch])
    else:
        found = client.autoscaler(job_id)
    names = {vertex["id"]: vertex["name"] for vertex in client.live(job_id)["vertices"]}
    terminal.result(found, *_lines(found, names))
    return SUCCESS


def _lines(found: dict[str, Any], names: dict[str, str]) -> Sequence[str]:
    lines = ["The autoscaler is off."]
    if found["enabled"]:
        lines = [one_line(f"The autoscaler is on: {found['reason'] or 'it begins'}.")]
        lines += [
            one_line(f"  {names.get(vertex, vertex)}: {decision['wanted']}. {decision['reason']}")
            for vertex, decision in found["vertices"].items()
        ]
    for decision in found["decisions"][:SHOWN]:
        lines.append(one_line(f"{time_text(decision['decided_at'])}  {decision['reason']}{_cost(decision)}"))
        lines += [one_line(f"  {change['name']}: {change['reason']}") for change in decision["changes"].values()]
    return lines


def _cost(decision: dict[str, Any]) -> str:
    return "" if decision["cost_ms"] is None else f", which took {decision['cost_ms'] / 1000:.1f} s"
