"""The child of `runtime.client.schemas`: finds the columns of the first file of a source, and answers with them.

It runs no user code; it is confined because it opens whatever file a user names. Its request is {"paths", "format",
"cpu_s", "memory_bytes"}; its answer {"path", "row", "columns"} or {"error"}.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from runtime.client.child_process import begin, limit
from runtime.connectors.files.paths import list_files, local_path
from runtime.connectors.formats.found_columns import ColumnsNotFoundError, row_type_of_file
from runtime.operators.source import SourceError


def main() -> None:
    answer_fd, request = begin()
    limit(request["memory_bytes"], request["cpu_s"])
    with os.fdopen(answer_fd, "w", encoding="utf-8") as answer:
        json.dump(_found(request), answer)


def _found(request: dict[str, Any]) -> dict[str, Any]:
    try:
        files = list_files([local_path(path) for path in request["paths"]])
        # an empty file says nothing, and another one may
        path = next((file for file in files if Path(file).stat().st_size > 0), files[0])
        row = row_type_of_file(path, request["format"])
    except (SourceError, ColumnsNotFoundError, OSError, ValueError) as error:
        return {"error": str(error)}
    columns = [[name, kind.type_string()] for name, kind in zip(row.field_names, row.field_types, strict=True)]
    return {"path": path, "row": row.type_string(), "columns": columns}


if __name__ == "__main__":
    main()
