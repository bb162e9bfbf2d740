"""The actions of `tidemark kafka transactions`, by way of Kafka's transaction coordinators."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from runtime.client.errors import ClientError
from runtime.client.jobs import duration_text, time_text
from runtime.client.tables import table
from runtime.client.terminal import SUCCESS, Terminal
from runtime.connectors.kafka.coordinator import CoordinatorError, Described, TransactionCoordinator
from runtime.connectors.kafka.properties import PropertyError, admin_properties
from runtime.operators.two_phase_commit import TransactionId

PATIENCE_S: Final = 10.0
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
ALL: Final = (*OPEN, "Empty", "CompleteCommit", "CompleteAbort", "Dead")


def list_transactions(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a table of transactions, oldest first."""
    with closing(_coordinator(options)) as coordinator:
        try:
            named = coordinator.ids(options.prefix, ALL if options.all else OPEN)
            found = [described for name in named if (described := coordinator.describe(name)) is not None]
        except CoordinatorError as error:
            raise ClientError(f"Kafka: {error}") from error
    found.sort(key=lambda each: each.start_ms)
    rows = [("BEGAN", "STATE", "TIMEOUT", "JOB", "ATTEMPT", "SUBTASK", "PARTITIONS", "ID")]
    rows += [
        (
            time_text(each.start_ms) if each.start_ms > 0 else "–",
            each.state,
            duration_text(each.timeout_ms),
            *_origin(each.transactional_id),
            ", ".join(each.partitions) or "–",
            each.transactional_id,
        )
        for each in found
    ]
    # an id is not cut: the other actions take it whole
    lines = table(rows, right={2, 4, 5}, columns=terminal.columns, shrink=((6, 10),))
    terminal.result([_document(each) for each in found], *(lines if found else ["There are no such transactions."]))
    return SUCCESS


def commit_transactions(options: argparse.Namespace, terminal: Terminal) -> int:
    """Commit open transactions."""
    return _end(options, terminal, commit=True)


def abort_transactions(options: argparse.Namespace, terminal: Terminal) -> int:
    """Abort open transactions."""
    return _end(options, terminal, commit=False)


def _end(options: argparse.Namespace, terminal: Terminal, *, commit: bool) -> int:
    verb, done = ("commit", "Committed") if commit else ("abort", "Aborted")
    with closing(_coordinator(options)) as coordinator:
        try:
            found = [_open_one(coordinator, name) for name in dict.fromkeys(options.ids)]
            if not options.yes:
                _confirm(terminal, f"{verb.capitalize()} {_listed(found)}?", verb)
            ended = []
            for each in found:
                if not coordinator.end(each.transactional_id, each.producer_id, each.epoch, commit=commit):
                    raise ClientError(f"transaction {each.transactional_id} has ended meanwhile; list them again")
                ended.append(each.transactional_id)
                terminal.line(f"{done} {each.transactional_id}")
        except CoordinatorError as error:
            raise ClientError(f"Kafka: {error}") from error
    terminal.result({done.lower(): ended})
    return SUCCESS


def _confirm(terminal: Terminal, question: str, verb: str) -> None:
    if terminal.ask is None:
        raise ClientError(f"nothing was done: there is no terminal to ask for confirmation; -y does {verb} without it")
    if not terminal.ask(question):
        raise ClientError("nothing was done")


def _open_one(coordinator: TransactionCoordinator, name: str) -> Described:
    found = coordinator.describe(name)
    if found is None:
        raise ClientError(f"there is no transaction {name}")
    if not found.is_ongoing:
        raise ClientError(f"transaction {name} is not open: it is {found.state}")
    return found


def _listed(found: Sequence[Described]) -> str:
    if len(found) == 1:
        [only] = found
        return f"transaction {only.transactional_id} in {', '.join(only.partitions) or 'no partition'}"
    return f"{len(found)} transactions"


def _origin(transactional_id: str) -> tuple[str, str, str]:
    """Return the job, attempt and subtask that have begun a transaction, as far as its id tells."""
    _, mark, rest = transactional_id.rpartition("tidemark-")
    known = TransactionId.parse(mark + rest)
    return ("–", "–", "–") if known is None else (known.job_id[:8], str(known.attempt), str(known.subtask_index))


def _document(each: Described) -> dict[str, Any]:
    return {
        "id": each.transactional_id,
        "state": each.state,
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "timeout_ms": each.timeout_ms,
        "start_ms": each.start_ms,
        "partitions": list(each.partitions),
    }


def _coordinator(options: argparse.Namespace) -> TransactionCoordinator:
    properties: dict[str, str] = {}
    if options.properties is not None:
        try:
            lines = options.properties.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ClientError(f"the properties cannot be read: {error}") from error
        for line in lines:
            name, mark, value = line.strip().partition("=")
            if name and not name.startswith(("#", "!")):
                if not mark:
                    raise ClientError(f"{options.properties}: {name!r} is no property: name=value")
                properties[name.strip()] = value.strip()
    if options.bootstrap_servers:
        properties["bootstrap.servers"] = options.bootstrap_servers
    if not properties.get("bootstrap.servers"):
        raise ClientError("which brokers? give --bootstrap-servers, or --properties with bootstrap.servers")
    try:
        return TransactionCoordinator(admin_properties(properties), PATIENCE_S)
    except PropertyError as error:
        raise ClientError(str(error)) from error
