"""`tidemark savepoint`: inspects a checkpoint or savepoint, verifies it, deletes it. Needs no cluster.

Runs under the user's own account on whatever location the user names; `dispose` refuses anything but a snapshot. If
a cluster is known, it is asked to delete: it knows what its jobs may have to restore.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import writer_of_directory
from runtime.checkpoint.savepoint_reader import OperatorSummary, SavepointReader, StateSummary
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.client import watch
from runtime.client.errors import ClientError
from runtime.client.jobs import bytes_text, time_text
from runtime.client.rest import RequestRefusedError, RestClient, ServerUnreachableError
from runtime.client.server import NoServerError, find_server
from runtime.client.tables import table
from runtime.client.terminal import FAILURE, SUCCESS, Terminal
from runtime.state.errors import StateError
from runtime.state.handles import DamagedSnapshotError


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run `savepoint inspect` or `savepoint dispose`.

    Raises:
        ClientError: it cannot be done; the message is one line.
    """
    files = SnapshotFiles(ArrowFileSystem())
    try:
        if options.action == "dispose":
            return _dispose(files, options, terminal)
        return _inspect(files, options, terminal)
    except (CheckpointStorageError, DamagedSnapshotError, StateError, OSError) as error:
        raise ClientError(str(error)) from error


def _inspect(files: SnapshotFiles, options: argparse.Namespace, terminal: Terminal) -> int:
    metadata = files.load(options.path)
    verified_bytes = files.verify(metadata)
    num_files = len(set(metadata.files()))
    if options.verify_only:
        terminal.result(
            {"location": metadata.options.directory, "files": num_files, "bytes": verified_bytes},
            f"{num_files} files and the metadata are intact ({bytes_text(verified_bytes)})",
        )
        return SUCCESS
    reader = SavepointReader(metadata, files.file_system)
    operators = [(operator, reader.states(operator.operator_id)) for operator in reader.operators()]
    if options.json:
        terminal.result(_document(metadata, operators))
        return SUCCESS
    what = "savepoint" if metadata.options.is_savepoint else f"checkpoint {metadata.checkpoint_id}"
    terminal.line(f"{what}  {metadata.options.kind.value}  {metadata.options.directory}")
    terminal.line(
        f"job {metadata.job_name!r} {metadata.job_id}, taken {time_text(metadata.timestamp_ms)}, "
        f"{num_files} files, {bytes_text(verified_bytes)}, all intact"
    )
    if metadata.channels:
        in_flight = sum(channel.length for channel in metadata.channels)
        terminal.line(f"in flight: {bytes_text(in_flight)} in {len(metadata.channels)} channels")
    rows = [("OPERATOR", "UID", "PARALLELISM", "MAX", "KEYS", "FORMAT", "SIZE")]
    rows += [
        (
            o.name,
            o.uid,
            str(o.parallelism),
            str(o.max_parallelism),
            o.key_type or "–",
            ", ".join(o.formats) or "–",
            bytes_text(o.size),
        )
        for o, _ in operators
    ]
    for line in ["", *table(rows, right={2, 3, 6}, columns=terminal.columns, shrink=((1, 16), (0, 16)))]:
        terminal.line(line)
    states = [("STATE", "OPERATOR", "KIND", "SERIALIZER", "ENTRIES", "SIZE")]
    states += [
        (s.name, o.name, s.kind, s.serializer or "–", f"{s.entries:,}", bytes_text(s.size))
        for o, found in operators
        for s in found
    ]
    if len(states) > 1:
        for line in ["", *table(states, right={4, 5}, columns=terminal.columns, shrink=((3, 16), (1, 16), (0, 16)))]:
            terminal.line(line)
    return SUCCESS


def _document(
    metadata: CheckpointMetadata, operators: list[tuple[OperatorSummary, list[StateSummary]]]
) -> dict[str, Any]:
    return {
        "location": metadata.options.directory,
        "is_savepoint": metadata.options.is_savepoint,
        "kind": metadata.options.kind.value,
        "checkpoint_id": metadata.checkpoint_id,
        "job_id": metadata.job_id,
        "job_name": metadata.job_name,
        "timestamp_ms": metadata.timestamp_ms,
        "files": [dataclasses.asdict(file) for file in dict.fromkeys(metadata.files())],
        "operators": [
            dataclasses.asdict(operator) | {"states": [dataclasses.asdict(state) for state in states]}
            for operator, states in operators
        ],
    }


def _dispose(files: SnapshotFiles, options: argparse.Namespace, terminal: Terminal) -> int:
    directory = files.directory_of(options.path)
    if not options.yes:
        if terminal.ask is None:
            raise ClientError(
                f"{directory} was not deleted: there is no terminal to ask for confirmation; -y deletes without asking"
            )
        if not terminal.ask(f"Delete {directory}?"):
            terminal.line("Nothing was deleted")
            return FAILURE
    if options.offline or not _disposed_by_cluster(directory, terminal):
        files.dispose(options.path)
    terminal.result({"deleted": directory}, f"Deleted {directory}")
    return SUCCESS


def _disposed_by_cluster(directory: str, terminal: Terminal) -> bool:
    """Have the cluster delete a snapshot; False if there is no cluster, or none of its jobs may write there.

    Raises:
        ClientError: a job needs it, it cannot be deleted, or nobody can tell whether a job needs it.
    """
    try:
        client = RestClient(find_server(os.environ, Path.cwd()))
    except NoServerError:
        if writer_of_directory(directory) is not None:
            why = "is a job's checkpoint, and there is no cluster to ask whether the job has to restore from it"
            raise ClientError(f"{directory} {why}; --offline deletes it") from None
        return False
    try:
        request_id = client.dispose_savepoint(directory)
        answer = _disposal(client, request_id, terminal)
    except ServerUnreachableError as error:
        raise ClientError(f"{error}; --offline deletes without asking whether a job needs it") from None
    except RequestRefusedError as refused:
        if refused.status == HTTPStatus.BAD_REQUEST:
            return False
        raise
    cause = answer.get("operation", {}).get("failure-cause")
    if cause is not None:
        message = str(cause["message"])
        raise ClientError(message if directory in message else f"{directory} was not deleted: {message}")
    return True


def _disposal(client: RestClient, request_id: str, terminal: Terminal) -> dict[str, Any]:
    """Wait until the cluster has deleted a snapshot, or has not; return the answer."""
    news, patience = watch.StaleNews(terminal), watch.Patience(terminal)
    while True:
        try:
            answer = client.savepoint_disposal(request_id)
            if answer["status"]["id"] == "COMPLETED":
                return answer
            news.show(client.cluster())
            patience.heard()
        except ClientError as error:
            patience.bear(error)
        terminal.sleep(watch.POLL_S)
