"""Messages (entries of a log, lines of a socket) to batches of records and back, by a line format or by a schema.

A line format decodes many messages in one call, into columns if it has a row type; a DeserializationSchema is called
for each. One decoder per reader, used by its thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.bad_records import (
    SALVAGE_AT_ONCE,
    BadRecord,
    BadRecordHandler,
    join_batches,
    salvage,
)
from runtime.connectors.formats.file_format import LineFormat
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError

MessageFormat = LineFormat | DeserializationSchema


def message_type(message_format: MessageFormat) -> TypeInformation | None:
    """Return the type of the records that messages become; None: Python objects."""
    if isinstance(message_format, LineFormat):
        return message_format.produced_type()
    return message_format.get_produced_type()


class Decoded(NamedTuple):
    """Result of decoding some messages."""

    batch: RecordBatch
    kept: list[int] | None
    """Index of each record's message; None if each of the consumed messages gave one."""
    consumed: int
    """Number of messages that were consumed; the others are to be decoded next."""


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

    def decode(self, messages: Sequence[bytes], position: Callable[[int], str]) -> Decoded:
        """Decode the records of messages: of all of them, or up to where bad ones have been looked for.

        Args:
            messages: any number; at least one is consumed if there is one.
            position: says where a message (by its index) comes from, for error messages and dead letters.

        Raises:
            SourceError: a message cannot be read and the policy is to fail; it shows the message.
        """
        if isinstance(self._format, LineFormat):
            decoded, bad = self._decode_many(self._format, messages)
        else:
            decoded, bad = self._decode_each(self._format, messages)
        for record in bad:
            if not self._bad_records.is_tolerant:
                shown = repr(messages[record.index][:200])[1:]
                raise SourceError(f"{self._origin}, {position(record.index)}: {record.error}: {shown}")
            self._bad_records.add(self._origin, position(record.index), record.error, messages[record.index])
        return decoded

    def _decode_many(self, line_format: LineFormat, messages: Sequence[bytes]) -> tuple[Decoded, list[BadRecord]]:
        skips = line_format.skips
        kept = [index for index, message in enumerate(messages) if not skips(message)]
        is_all = len(kept) == len(messages)
        present = messages if is_all else [messages[index] for index in kept]
        count = len(present)
        while count:
            # none after `count` is consumed
            consumed = kept[count] if count < len(kept) else len(messages)
            part = present[:count]
            try:
                batch = self._decode_lines(line_format, part)
            except ValueError:
                if count > SALVAGE_AT_ONCE:
                    count //= 2
                    continue
                batch, bad = salvage(lambda some: self._decode_lines(line_format, some), part, self._type)
                out = {record.index for record in bad}
                bad = [replace(record, index=kept[record.index]) for record in bad]
                good = [index for number, index in enumerate(kept[:count]) if number not in out]
                return Decoded(batch, good, consumed), bad
            return Decoded(batch, None if is_all else kept[:count], consumed), []
        return Decoded(join_batches((), self._type), [], len(messages)), []

    def _decode_lines(self, line_format: LineFormat, messages: Sequence[bytes]) -> RecordBatch:
        batch = line_format.decode_messages(messages)
        if batch.num_rows != len(messages):
            raise ValueError("a message must hold exactly one record")
        return batch

    def _decode_each(self, schema: DeserializationSchema, messages: Sequence[bytes]) -> tuple[Decoded, list[BadRecord]]:
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
        return Decoded(batch, None if len(kept) == len(messages) else kept, len(messages)), bad


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
        #: asked for with the first record: it may be a registry that tells
        self._prefix: bytes | None = None
        if isinstance(message_format, RowWriterFormat):
            message_format.check(input_type)

    def encode(self, batch: RecordBatch) -> list[bytes]:
        """Return one message per record.

        Raises:
            SinkError: a record cannot be written.
        """
        writer = self._format
        if isinstance(writer, RowWriterFormat):
            if self._prefix is None and batch.num_rows:
                self._prefix = writer.message_prefix(self._type)
            lines = self._lines(writer, batch)
            return [self._prefix + line for line in lines] if self._prefix else lines
        try:
            return list(map(writer.serialize, batch.values()))
        except (TypeError, ValueError) as error:
            raise SinkError(f"a record cannot be written: {error}") from error

    def _lines(self, writer: RowWriterFormat, batch: RecordBatch) -> list[bytes]:
        lines = writer.render(batch, self._type).split(b"\n")
        lines.pop()
        if len(lines) == batch.num_rows:
            return lines
        # a record has line ends in it
        rows = range(batch.num_rows)
        return [writer.render(batch.slice(row, row + 1), self._type).removesuffix(b"\n") for row in rows]
