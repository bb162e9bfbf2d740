"""Read schema: asks what a node reads rows of, a table or files, for its columns. Stores nothing. Blocks; any thread.

Tables are asked over their connection (`backend.pipelines.connections`), files in a confined child. How many children
may run is the planning queue's to say, as for tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from backend.cluster.connections import without_connection
from backend.dispatcher.planning_queue import ClientLeftError, PlanningQueue, QueueFullError
from backend.pipelines.building import catalog
from backend.pipelines.checking import RefusedError, TurnRefusedError
from backend.pipelines.connections import ConnectionUnknownError, OutsideError, describe_connection, get_connection
from runtime.client.schemas import SchemaNotFoundError, file_schema
from runtime.pipeline.document import Document
from runtime.pipeline.node_type import OutsideFiles, OutsideTable
from runtime.pipeline.validate import outside_of

MAX_READS: Final = 2
"""At a time in this process: each child is a Python process with Arrow."""
MAX_WAITING: Final = 16
MAX_WAIT_S: Final = 30.0
_turns = PlanningQueue(MAX_READS, MAX_WAITING, MAX_WAIT_S)


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """The columns of what a node reads.

    Attributes:
        origin: what was looked at: a file, or a table of a connection.
        field: JSON pointer, below the node, of the parameter that declares the columns.
        row: type of the rows.
        columns: (name, type) of each.
    """

    origin: str
    field: str
    row: str
    columns: Sequence[tuple[str, str]]

    @property
    def fingerprint(self) -> str:
        """Return a text that is the same while the columns are."""
        return hashlib.sha256(self.row.encode()).hexdigest()[:16]


def read_schema(document: Document, node_id: str, has_left: Callable[[], bool]) -> FoundSchema:
    """Ask for the columns of what a node reads.

    Args:
        document: the pipeline.
        node_id: of the node.
        has_left: returns whether the client is gone.

    Raises:
        RefusedError: the node does not say what it reads, or this cannot be asked; the message says why.
        TurnRefusedError: not now.
    """
    if node_id not in document.nodes:
        raise RefusedError(f"There is no node {node_id!r}.")
    outside = outside_of(document, catalog(), node_id)
    if outside is None:
        raise RefusedError(f"{document.nodes[node_id].name!r} does not name yet what it reads rows of.")
    return _of_table(outside) if isinstance(outside, OutsideTable) else _of_files(outside, has_left)


def _of_table(outside: OutsideTable) -> FoundSchema:
    try:
        found = describe_connection(get_connection(outside.connection), outside.table)
    except (ConnectionUnknownError, OutsideError) as error:
        raise RefusedError(str(error)) from error
    if found.row is None:
        raise RefusedError(f"The connection {outside.connection!r} knows no columns.")
    return FoundSchema(f"{outside.table} of {outside.connection}", outside.field, found.row, found.columns)


def _of_files(outside: OutsideFiles, has_left: Callable[[], bool]) -> FoundSchema:
    try:
        with without_connection(), _turns.turn(has_left):
            found = file_schema(
                outside.paths,
                outside.format,
                confinement=settings.TIDEMARK_CONFINEMENT,
                is_abandoned=has_left,
            )
    except SchemaNotFoundError as error:
        raise RefusedError(str(error)) from error
    except QueueFullError as error:
        raise TurnRefusedError("Too many files are being looked at; try again in a few seconds.") from error
    except ClientLeftError as error:
        raise RefusedError("The client has left.") from error
    return FoundSchema(found.path, outside.field, found.row, found.columns)
