"""`tidemark application forget`: forgets the job of an application, so that its next start begins a new one.

Needs no cluster: the state of an application is in its checkpoint directory.
"""

from __future__ import annotations

import argparse
import importlib

from runtime.checkpoint.errors import UnknownFileSystemError
from runtime.checkpoint.locations import to_uri
from runtime.client.arguments import Actions, with_json
from runtime.client.errors import ClientError
from runtime.client.terminal import FAILURE, SUCCESS, Terminal


def add_application(actions: Actions) -> None:
    """Add `application` with its action."""
    parser = actions.add_parser(
        "application",
        help="forget the state of an application that resumes by itself",
        description="Look after a program with a high-availability.cluster-id, which resumes when it is started again.",
        example="tidemark application forget /data/checkpoints orders",
    )
    on_application: Actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    forgets = on_application.add_parser(
        "forget",
        help="delete an application's checkpoints; its next start begins a new job",
        description="Delete the checkpoints of an application that is not running, and forget how its job has ended.\n"
        "The next start of its program begins a new job. Savepoints stay.",
        example="tidemark application forget /data/checkpoints orders",
    )
    forgets.add_argument("directory", metavar="DIRECTORY", help="its execution.checkpointing.dir; a path or a URI")
    forgets.add_argument("id", metavar="ID", help="its high-availability.cluster-id")
    forgets.add_argument("-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal")
    with_json(forgets)
    forgets.set_defaults(local=_forget)


def _forget(options: argparse.Namespace, terminal: Terminal) -> int:
    # execution is loaded only here: it takes PySpark with it, for which the other commands should not wait
    tenure = importlib.import_module("runtime.execution.tenure")
    errors = importlib.import_module("runtime.execution.errors")
    if not options.yes:
        if terminal.ask is None:
            raise ClientError(
                "nothing was deleted: there is no terminal to ask for confirmation; -y deletes without asking"
            )
        if not terminal.ask(f"Delete the checkpoints of application {options.id} in {options.directory}?"):
            terminal.line("Nothing was deleted")
            return FAILURE
    try:
        job_id = tenure.forget(tenure.Application(options.id, to_uri(options.directory)))
    except (errors.ApplicationError, UnknownFileSystemError) as error:
        raise ClientError(str(error)) from error
    if job_id is None:
        raise ClientError(f"there is no application {options.id} in {options.directory}")
    terminal.result({"forgotten": job_id}, f"Forgot job {job_id} of application {options.id}")
    return SUCCESS
