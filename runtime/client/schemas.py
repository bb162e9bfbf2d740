"""Finds the columns of files that a source names, in a confined child: the path is whatever a user has typed.

Blocking, some seconds at most; any thread may call. The child's side is `runtime.client.schema_child`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runtime.client.children import ChildAbandonedError, run_child
from runtime.client.confinement import USUAL, Confinement

TIMEOUT_S: Final = 20.0
CPU_S: Final = 10
MEMORY_BYTES: Final = 4 << 30
"""Address space, of which Arrow and Polars reserve more than 1 GiB."""
MAX_MESSAGE_CHARS: Final = 1_000


class SchemaNotFoundError(Exception):
    """The columns of the files cannot be told; the message says why."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """Columns that were found in a file."""

    path: str
    """The file that was looked at."""
    row: str
    columns: Sequence[tuple[str, str]]
    """(name, type) of each."""


def file_schema(
    paths: Sequence[str],
    file_format: Mapping[str, Any],
    *,
    confinement: Confinement = USUAL,
    timeout_s: float = TIMEOUT_S,
    is_abandoned: Callable[[], bool] = lambda: False,
) -> FileSchema:
    """Return the columns of the first file that is not empty.

    Args:
        paths: files, directories and patterns.
        file_format: see `runtime.connectors.formats.found_columns.row_type_of_file`.
        confinement: what of this machine the child may see.
        timeout_s: after so long it is ended.
        is_abandoned: asked while it runs; True ends it.

    Raises:
        SchemaNotFoundError: there is no such file, it cannot be read, or nobody wants the answer any more.
    """
    request = {"paths": list(paths), "format": dict(file_format), "cpu_s": CPU_S, "memory_bytes": MEMORY_BYTES}
    with tempfile.TemporaryDirectory(prefix="tidemark-schema-") as directory:
        try:
            result = run_child(
                "runtime.client.schema_child",
                json.dumps(request),
                Path(directory),
                timeout_s,
                is_abandoned=is_abandoned,
                confinement=confinement,
            )
        except ChildAbandonedError:
            raise SchemaNotFoundError("nobody waits for the columns any more") from None
    try:
        answer = json.loads(result.answer)
    except ValueError:
        reason = f"within {timeout_s:g} s" if result.timed_out else f"(exit code {result.exit_code})"
        raise SchemaNotFoundError(f"the columns were not found {reason}") from None
    if "error" in answer:
        raise SchemaNotFoundError(str(answer["error"])[:MAX_MESSAGE_CHARS])
    return FileSchema(answer["path"], answer["row"], [(name, kind) for name, kind in answer["columns"]])
