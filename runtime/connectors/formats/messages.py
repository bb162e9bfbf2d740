"""Messages (entries of a log, lines of a socket) to batches of records and back, by a line format or by a schema.

A line format decodes many messages in one call, into columns if it has a row type; a DeserializationSchema is called
for each. One decoder per reader, used by its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.files.file_format import LineFormat
from runtime.connectors.files.writer_formats import RowWriterFormat
from runtime.connectors.formats.bad_records import BadRecord, BadRecordHandler, join_batches, salvage
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError

MessageFormat = LineFormat | DeserializationSchema


def message_type(message_format: MessageFormat) -> TypeInformation | None:
    """Type of the records that messages become; None: Python objects."""
    if isinstance(message_format, LineFormat):
        return message_format.produced_type()
    return message_format.get_produced_type()


class MessageDecoder:
    """Decodes the messages of one reader.

    Args:
        message_format: how to read a message.
        bad_records: takes those that cannot be read.
        origin: what messages come from, for error messages and dead letters.
    """

    def __init__(self, message_format: MessageFormat, bad_records: BadRecordHandler, origin: str) -> None:
        self._format = message_format
        self._bad_records = bad_records
        self._origin = origin
        self._type = message_type(message_format)

    def decode(self, messages: Sequence[bytes], position: Callable[[int], str]) -> tuple[RecordBatch, list[int] | None]:
        """The records of messages, and the index of each record's message; None if each message gave one.

        Args:
            messages: any number.
            position: says where a message (by its index) comes from, for error messages and dead letters.

        Raises:
            SourceError: a message cannot be read and the policy is to fail; it shows the message.
        """
        kept: list[int] | None
        if isinstance(self._format, LineFormat):
            batch, kept, bad = self._decode_many(self._format, messages)
        else:
            batch, kept, bad = self._decode_each(self._format, messages)
        for record in bad:
            if not self._bad_records.is_tolerant:
                shown = repr(messages[record.index][:200])[1:]
                raise SourceError(f"{self._origin}, {position(record.index)}: {record.error}: {shown}")
            self._bad_records.add(self._origin, position(record.index), record.error, messages[record.index])
        return batch, kept

    def _decode_many(
        self, line_format: LineFormat, messages: Sequence[bytes]
    ) -> tuple[RecordBatch, list[int] | None, list[BadRecord]]:
        skips = line_format.skips
        kept = [index for index, message in enumerate(messages) if not skips(message)]
        is_all = len(kept) == len(messages)
        present = messages if is_all else [messages[index] for index in kept]
        if not present:
            return join_batches((), self._type), kept, []
        try:
            return self._decode_lines(line_format, present), None if is_all else kept, []
        except ValueError:
            batch, bad = salvage(lambda part: self._decode_lines(line_format, part), present, self._type)
        out = {record.index for record in bad}
        bad = [replace(record, index=kept[record.index]) for record in bad]
        return batch, [index for number, index in enumerate(kept) if number not in out], bad

    def _decode_lines(self, line_format: LineFormat, messages: Sequence[bytes]) -> RecordBatch:
        batch = line_format.decode_messages(messages)
        if batch.num_rows != len(messages):
            raise ValueError("a message is not one record")
        return batch

    def _decode_each(
        self, schema: DeserializationSchema, messages: Sequence[bytes]
    ) -> tuple[RecordBatch, list[int] | None, list[BadRecord]]:
        values: list[Any] = []
        kept: list[int] = []
        bad: list[BadRecord] = []
        deserialize = schema.deserialize
        for index, message in enumerate(messages):
            try:
                value = deserialize(message)
            except (ValueError, TypeError) as error:
                bad.append(BadRecord(index, len(values), str(error).strip()))
                continue
            # as in Flink, a schema says with None that the message has no record
            if value is not None:
                values.append(value)
                kept.append(index)
        batch = RecordBatch.of_values(values, type_info=self._type)
        return batch, None if len(kept) == len(messages) else kept, bad


class MessageEncoder:
    """Encodes records as messages, one each.

    Args:
        message_format: a writer format whose records are lines (the ends are left out), or a schema.
        input_type: type of the records.

    Raises:
        SinkError: the format cannot write records of that type.
    """

    def __init__(
        self, message_format: RowWriterFormat | SerializationSchema, input_type: TypeInformation | None
    ) -> None:
        self._format = message_format
        self._type = input_type
        if isinstance(message_format, RowWriterFormat):
            message_format.check(input_type)

    def encode(self, batch: RecordBatch) -> list[bytes]:
        """One message per record.

        Raises:
            SinkError: a record cannot be written.
        """
        writer = self._format
        if isinstance(writer, RowWriterFormat):
            lines = writer.render(batch, self._type).split(b"\n")
            lines.pop()
            if len(lines) == batch.num_rows:
                return lines
            # a record has line ends in it
            rows = range(batch.num_rows)
            return [writer.render(batch.slice(row, row + 1), self._type).removesuffix(b"\n") for row in rows]
        try:
            return list(map(writer.serialize, batch.values()))
        except (TypeError, ValueError) as error:
            raise SinkError(f"a record cannot be written: {error}") from error
