"""`tidemark kafka transactions`: lists, commits and aborts transactions of Kafka. Needs no cluster of Tidemark."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from runtime.client.arguments import Actions, CommandParser, LocalCommand, with_json
from runtime.client.errors import ClientError
from runtime.client.terminal import Terminal


def add_kafka(actions: Actions) -> None:
    """Add `kafka transactions` with its actions."""
    parser = actions.add_parser(
        "kafka",
        help="look after transactions of Kafka",
        description="Look after transactions of Kafka that a job has left open: readers of committed records wait.",
        example="tidemark kafka transactions list --bootstrap-servers localhost:9092",
    )
    kinds: Actions = parser.add_subparsers(required=True, metavar="KIND", title="kinds")
    transactions = kinds.add_parser(
        "transactions",
        help="list, commit and abort transactions",
        description="List, commit and abort transactions, of any program.",
        example="tidemark kafka transactions list --bootstrap-servers localhost:9092 --prefix totals",
    )
    verbs: Actions = transactions.add_subparsers(required=True, metavar="ACTION", title="actions")
    listing = verbs.add_parser(
        "list",
        help="list transactions, the oldest first",
        description="List open transactions, the oldest first, with the job that has begun them.",
        example="tidemark kafka transactions list --bootstrap-servers localhost:9092 --prefix totals",
    )
    listing.add_argument("--prefix", default="", metavar="PREFIX", help="beginning of their transactional ids")
    listing.add_argument("--all", action="store_true", help="those, too, that were committed or aborted")
    committing = verbs.add_parser(
        "commit",
        help="commit open transactions",
        description="Commit open transactions. A job that goes on from a checkpoint commits what that holds by\n"
        "itself. What no checkpoint holds is written again by a job that goes on: do not commit that.",
        example="tidemark kafka transactions commit --bootstrap-servers localhost:9092 totals-tidemark-...-0-0-1",
    )
    aborting = verbs.add_parser(
        "abort",
        help="abort open transactions",
        description="Abort open transactions. A checkpoint that holds one cannot be restored any more: the records in\n"
        "it are lost.",
        example="tidemark kafka transactions abort --bootstrap-servers localhost:9092 totals-tidemark-...-0-0-1",
    )
    for verb in (committing, aborting):
        verb.add_argument("ids", nargs="+", metavar="ID", help="transactional ids")
        verb.add_argument("-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal")
    for verb in (listing, committing, aborting):
        _with_brokers(verb)
        with_json(verb)
    listing.set_defaults(local=_locally("list_transactions"))
    committing.set_defaults(local=_locally("commit_transactions"))
    aborting.set_defaults(local=_locally("abort_transactions"))


def _with_brokers(parser: CommandParser) -> None:
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="brokers, separated by commas")
    parser.add_argument(
        "--properties",
        metavar="FILE",
        type=Path,
        help="properties of a client (security.protocol=..., sasl.password=...), one a line",
    )


def _locally(name: str) -> LocalCommand:
    """Return a function of `kafka_transactions`, which is imported only when it is called: it loads Kafka's clients."""

    def act(options: argparse.Namespace, terminal: Terminal) -> int:
        try:
            command: LocalCommand = getattr(import_module("runtime.client.kafka_transactions"), name)
        except ImportError as error:
            raise ClientError(str(error)) from error
        return command(options, terminal)

    return act
