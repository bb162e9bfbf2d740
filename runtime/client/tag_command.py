"""The command about a job's tags: shows them, adds some, removes some."""

from __future__ import annotations

import argparse

from runtime.client.arguments import JOB_HELP, Actions, with_json
from runtime.client.jobs import resolve_job
from runtime.client.rest import RestClient
from runtime.client.tables import one_line
from runtime.client.terminal import SUCCESS, Terminal


def add_tag(actions: Actions) -> None:
    """Add `tag`."""
    parser = actions.add_parser(
        "tag",
        help="show a job's tags, add some, or remove some",
        description="Show the tags of a job, by which the overview and `tidemark list --tag` find it; add some, or\n"
        "remove some. At its submission a job gets those of the option pipeline.tags.",
        example='tidemark tag "Flights live" team=payments prod\ntidemark tag "Flights live" --remove prod',
    )
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="tags to add; without, they are shown only")
    parser.add_argument("--remove", action="append", default=[], metavar="TAG", help="a tag to remove; may be repeated")
    with_json(parser)
    parser.set_defaults(command=_tag)


def _tag(client: RestClient, options: argparse.Namespace, terminal: Terminal) -> int:
    job_id: str = resolve_job(options.job, client.jobs())["jid"]
    tags = client.tags(job_id)
    if options.tags or options.remove:
        tags = client.set_tags(job_id, [tag for tag in [*tags, *options.tags] if tag not in options.remove])
    terminal.result({"tags": tags}, one_line("  ".join(tags)) if tags else "The job has no tags.")
    return SUCCESS
