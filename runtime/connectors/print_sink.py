"""PrintSink: shows records on the standard output of the program that started the job.

One message per batch goes to the client channel "stdout", whole lines in UTF-8. What is shown, prefix included, is what
PyFlink shows. Source: Flink, PrintSinkOutputWriter; PyFlink, DataStream.print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.core.batch import RecordBatch
from runtime.core.formatting import flink_formatter
from runtime.core.shortest_floats import with_shortest_floats
from runtime.network.channel import RecordLimit
from runtime.operators.operator import ClientChannel
from runtime.operators.sink import Sink, SinkWriter, WriterContext


class PrintSink(Sink):
    """Prints records.

    Args:
        identifier: put before each line, to tell several sinks apart.
    """

    def __init__(self, identifier: str | None = None) -> None:
        self.identifier = identifier

    def keeps_state(self) -> bool:
        return False

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        prefix = line_prefix(self.identifier, context.subtask_index, context.parallelism)
        return _PrintWriter(prefix, context.input_type, context.client, context.record_limit)


def line_prefix(identifier: str | None, subtask_index: int, parallelism: int) -> str:
    """Return the prefix of a line: nothing, `id> `, `N> ` or `id:N> ` with N the 1-based subtask."""
    parts = [identifier] if identifier else []
    if parallelism > 1:
        parts.append(str(subtask_index + 1))
    return ":".join(parts) + "> " if parts else ""


def _row_formatter(type_info: RowTypeInfo) -> Callable[[Row | None], str]:
    """Return the formatter of a stream's rows. PyFlink makes their text itself, in Python's spelling; rows inside
    others are Flink's.
    """
    shorten = with_shortest_floats(type_info)

    def show(row: Row | None) -> str:
        if row is None:
            return "null"
        shown = row if shorten is None else shorten(row)
        return f"{row.get_row_kind().short_string}[{','.join(map(str, shown))}]"

    return show


class _PrintWriter(SinkWriter):
    def __init__(
        self, prefix: str, type_info: TypeInformation | None, client: ClientChannel, limit: RecordLimit
    ) -> None:
        self._prefix = prefix
        self._format: Callable[[Any], str] = (
            _row_formatter(type_info) if isinstance(type_info, RowTypeInfo) else flink_formatter(type_info)
        )
        self._client = client
        self._limit = limit

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        prefix = self._prefix
        lines = [f"{prefix}{text}\n" for text in map(self._format, batch.values())]
        payload = self._client.redact("".join(lines)).encode("utf-8", "replace")
        if len(payload) > self._limit.max_bytes:
            for line in lines:
                self._limit.check(len(line.encode("utf-8", "replace")))
        self._client.send("stdout", payload)

    def is_available(self) -> bool:
        return self._client.is_available()
