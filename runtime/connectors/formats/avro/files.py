"""Avro container files, read by blocks and written with one schema.

A file may be cut anywhere: a range owns the blocks that start in it, and finds the first one by the file's sync
marker. Blocks are decoded many at a time by fastavro. Source: Avro 1.12 specification, object container files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import fastavro

from runtime.common.serialization import RowDataBulkWriterFactory
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.formats.avro.codecs import UNPACKERS, from_number, to_number
from runtime.connectors.formats.avro.schema import AvroSchema
from runtime.connectors.formats.avro.types import AvroTypes, avro_schema
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.file_format import FileFormat, FileSplit, even_ranges
from runtime.connectors.formats.row_types import check_fits
from runtime.connectors.formats.writer_format import FileWriterFormat, FormatWriter
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError
from runtime.operators.source import ReadStatus, SourceError, SplitReader

SYNC_BYTES = 16
#: Blocks are decoded together up to this size. Less, and the header's decoding shows; more holds up the slot's loop.
DECODE_BYTES = 1 << 18


class AvroFormat(FileFormat):
    """Records from Avro files.

    Args:
        schema: the reader's schema as JSON: files of other schemas are read as it says, by the rules of Avro's schema
            resolution. None: the first file gives the schema of all.

    Raises:
        ValueError: it is no schema.
        TypeError: it describes no record, or something that has no type here.
    """

    position_of = "blocks of Avro"
    formerly = ("AvroFormat",)

    def __init__(self, schema: str | None = None) -> None:
        self._schema = schema
        self._type: RowTypeInfo | None = None
        if schema is not None:
            type_info = AvroTypes(json.loads(schema)).type_info
            if not isinstance(type_info, RowTypeInfo):
                raise TypeError(f"a schema of records is needed, not one of {type_info}")
            self._type = type_info

    @property
    def takes_from_file(self) -> bool:
        return self._schema is None

    def resolve(self, path: str) -> AvroFormat:
        if self._schema is not None:
            return self
        with _open(path) as file:
            schema = _Header(path, file).schema
        resolved = AvroFormat()
        type_info = _types_of_file(path, schema).type_info
        if not isinstance(type_info, RowTypeInfo):
            raise SourceError(f"{path}: its values are {type_info}, not records")
        resolved._type = type_info
        return resolved

    def produced_type(self) -> TypeInformation | None:
        return self._type

    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        return even_ranges(Path(path).stat().st_size, parts)

    def open(
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        if self._type is None:
            raise SourceError(f"{split.path}: the format was not resolved against a file")
        return _AvroReader(split, self._type, self._schema, position, limiter)


class _Header:
    """Header of a file."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        try:
            reader = fastavro.reader(file)
            self.sync = bytes(reader._header["sync"])
            self.codec = str(reader.metadata.get("avro.codec", "null"))
            self.schema = json.loads(str(reader.metadata["avro.schema"]))
        except Exception as error:
            raise SourceError(f"{path} cannot be read as Avro: {error}") from error

    def for_fastavro(self, file: IO[bytes], length: int) -> bytes:
        """Return the header as fastavro is to see it: the file's own, or one of blocks that are not compressed."""
        if self.codec not in UNPACKERS:
            file.seek(0)
            return file.read(length)
        buffer = io.BytesIO()
        fastavro.writer(buffer, self.schema, [], codec="null", sync_marker=self.sync)
        return buffer.getvalue()


class _AvroReader(SplitReader):
    """Reads blocks; its position is [offset of a block, row behind it]."""

    def __init__(
        self,
        split: FileSplit,
        row_type: RowTypeInfo,
        schema: str | None,
        position: Sequence[int] | None,
        limiter: RateLimiter,
    ) -> None:
        self._path = split.path
        self._type = row_type
        self._limiter = limiter
        self._end = Path(split.path).stat().st_size if split.end is None else split.end
        self._file = _open(split.path)
        try:
            self._header = _Header(split.path, self._file)
            if schema is None:
                self._types, self._reader_schema = _types_of_file(split.path, self._header.schema), None
            else:
                self._types = AvroTypes(json.loads(schema))
                self._reader_schema = self._types.parsed
            if self._types.type_info != row_type:
                raise SourceError(f"{split.path}: its records are {self._types.type_info}, not {row_type}")
            head = self._find_block(4)
            self._head = self._header.for_fastavro(self._file, head)
            start, self._row = (split.start, 0) if position is None else (position[0], position[1])
            #: where the decoded rows begin, and where the next block does
            self._offset = self._next = self._find_block(max(start, head)) if position is None else start
        except BaseException:
            self._file.close()
            raise
        self._rows: list[Any] | None = None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        while self._rows is None or self._row >= len(self._rows):
            if self._rows is not None:
                self._row -= len(self._rows)
                self._offset = self._next
            if self._next >= self._end:
                self._rows = None
                return ReadStatus.END_OF_SPLIT
            self._decode()
        rows = self._limiter.take(min(max_rows, len(self._rows) - self._row))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        batch = self._rows[self._row : self._row + rows]
        self._row += rows
        return RecordBatch.of_values(batch, type_info=self._type)

    @property
    def position(self) -> Any:
        return [self._offset, self._row]

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._rows = None
        self._file.close()

    def _decode(self) -> None:
        """Decode the next blocks."""
        try:
            file = io.BytesIO(self._head + self._read_blocks())
            records = fastavro.reader(file, self._reader_schema, return_record_name=True)
            self._rows = list(map(self._types.read, records))
        # fastavro raises whatever the bytes lead it to, and ValueError for a codec that is not installed
        except Exception as error:
            raise SourceError(f"{self._path}, block at byte {self._offset}: {error}") from error

    def _read_blocks(self) -> bytes:
        """Return the whole blocks from the next one on that start before the end; about DECODE_BYTES."""
        self._file.seek(self._next)
        blocks = bytearray()
        unpack = UNPACKERS.get(self._header.codec)
        while self._next < self._end and len(blocks) < DECODE_BYTES:
            (count, _), (length, size) = self._read_number(), self._read_number()
            body = self._file.read(size + SYNC_BYTES)
            if len(body) != size + SYNC_BYTES or not body.endswith(self._header.sync):
                raise ValueError("the block is cut off or damaged")
            if unpack is not None:
                data = unpack(body[:size])
                length, body = to_number(len(data)), data + self._header.sync
            blocks += count + length + body
            self._next = self._file.tell()
        return bytes(blocks)

    def _read_number(self) -> tuple[bytes, int]:
        """Return the bytes of a block's next number, and the number."""
        raw = bytearray()
        while not raw or raw[-1] >= 0x80:
            byte = self._file.read(1)
            if not byte:
                raise ValueError("the block is cut off")
            raw += byte
        return bytes(raw), from_number(raw)

    def _find_block(self, start: int) -> int:
        """Return the offset of the first block at or after `start`; the file's size if there is none."""
        position = max(0, start - SYNC_BYTES)
        self._file.seek(position)
        carry = b""
        while chunk := self._file.read(DECODE_BYTES):
            data = carry + chunk
            found = data.find(self._header.sync)
            if found >= 0:
                return position + found + SYNC_BYTES
            carry = data[-(SYNC_BYTES - 1) :]
            position += len(data) - len(carry)
        return self._file.seek(0, io.SEEK_END)


class AvroWriterFormat(FileWriterFormat):
    """Avro files of rows.

    Args:
        schema: as JSON; None: it is made from the type of the records.
        codec: "null", "deflate", "bzip2" or "xz".
        block_bytes: records are gathered up to this size, which bounds memory, before they are written.
    """

    suffix = ".avro"
    can_resume = False

    def __init__(self, schema: str | None = None, codec: str = "deflate", block_bytes: int = 1 << 16) -> None:
        if codec not in ("null", "deflate", "bzip2", "xz"):
            raise ValueError(f"Avro codec {codec!r} is not supported")
        self._schema = schema
        self._codec = codec
        self._block_bytes = block_bytes

    def check(self, input_type: TypeInformation | None) -> None:
        if not isinstance(input_type, RowTypeInfo):
            raise SinkError("Avro needs rows of a known type; give the stream before it an output_type")
        try:
            avro_schema(input_type)
        except TypeError as error:
            raise SinkError(str(error)) from error

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        assert input_type is not None and is_new
        schema = avro_schema(input_type) if self._schema is None else json.loads(self._schema)
        return _AvroWriter(file, AvroTypes(schema), self._codec, self._block_bytes)


class _AvroWriter(FormatWriter):
    def __init__(self, file: IO[bytes], types: AvroTypes, codec: str, block_bytes: int) -> None:
        self._convert = types.write
        self._writer = fastavro.write.Writer(file, types.parsed, codec, sync_interval=block_bytes)

    def write(self, batch: RecordBatch) -> None:
        for value in batch.values():
            try:
                self._writer.write(self._convert(value))
            except Exception as error:
                raise SinkError(f"a record cannot be written as Avro: {error}: {value!r:.200}") from error

    def finish(self) -> None:
        self._writer.flush()


def _types_of_file(path: str, schema: Any) -> AvroTypes:
    try:
        return AvroTypes(schema)
    except (TypeError, ValueError) as error:
        raise SourceError(f"{path}: {error}") from error


def _open(path: str) -> IO[bytes]:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error


class AvroBulkWriters:
    """Makes writers of Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroBulkWriterFactory:
        """Return a writer for `FileSink.for_bulk_format`."""
        return AvroBulkWriterFactory(schema)


class AvroBulkWriterFactory(RowDataBulkWriterFactory, AvroWriterFormat):
    """Writes records of one schema; made by `AvroBulkWriters`."""

    def __init__(self, schema: AvroSchema) -> None:
        RowDataBulkWriterFactory.__init__(self, schema.row_type)
        AvroWriterFormat.__init__(self, str(schema), codec="null")

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return super().open(file, self._row_type, is_new)
