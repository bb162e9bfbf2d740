"""TapSink: writes down what flows at a port: types of batches, rows with their kinds and event times, watermarks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.client.preview_taps import to_json
from runtime.common.types import Row
from runtime.core.batch import RecordBatch
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class TapSink(Sink):
    """Writes to files of a directory of the test."""

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _TapWriter(Path(self._directory) / f"{self._name}.{context.subtask_index}", context)


class _TapWriter(SinkWriter):
    def __init__(self, path: Path, context: WriterContext) -> None:
        self._path = path
        self._file = path.open("a")

    def write_watermark(self, watermark: int) -> None:
        self._file.write(json.dumps({"watermark": watermark}) + "\n")

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        values = batch.values()
        kinds = [value.get_row_kind().name if isinstance(value, Row) else "INSERT" for value in values]
        names = list(values[0]._fields or ()) if isinstance(values[0], Row) else ["value"]
        arrow = None if batch.type_info is None else [plain_type(kind) for kind in batch.arrow().schema.types]
        declared = None if batch.type_info is None else batch.type_info.type_string()
        line = {
            "rows": batch.num_rows,
            "names": names,
            "type": declared,
            "arrow": arrow,
            "kinds": kinds,
            "times": batch.timestamps() if batch.has_timestamps else None,
            "values": [str(value) for value in values[:20]],
            "shown": [to_json(value) for value in values],
        }
        self._file.write(json.dumps(line) + "\n")

    def flush(self, end_of_input: bool) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def plain_type(kind: pa.DataType) -> str:
    """Return a type's text, whatever form of it columns have on their way."""
    if pa.types.is_decimal(kind):
        return "decimal"
    return str(kind).replace("large_", "").replace("_view", "")


def by_subtask(directory: Path, name: str) -> list[list[dict[str, Any]]]:
    """Return what each subtask of a tap has written down: batches and watermarks, in order."""
    return [list(map(json.loads, path.read_text().splitlines())) for path in sorted(directory.glob(f"{name}.*"))]


def what_flowed(directory: Path, name: str) -> list[dict[str, Any]]:
    """Return what a tap has written down, batch by batch."""
    return [line for lines in by_subtask(directory, name) for line in lines if "watermark" not in line]


def settled_rows(rows: list[Any]) -> list[str]:
    """Return the rows that are left when all changes are done."""
    left: Counter[str] = Counter()
    for row in rows:
        values = dict(row) if isinstance(row, dict) else {"value": row}
        taken = values.pop("$kind", "INSERT") in ("UPDATE_BEFORE", "DELETE")
        left[json.dumps(values, sort_keys=True)] += -1 if taken else 1
    assert min(left.values(), default=0) >= 0, "a row is taken back that was not there"
    return sorted(left.elements())


def in_order(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
