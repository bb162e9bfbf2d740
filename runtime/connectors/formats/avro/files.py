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
from runtime.connectors.formats.avro.schema import AvroSchema
from runtime.connectors.formats.avro.types import AvroTypes, avro_schema, to_avro
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
    """Records from Avro files; all of one schema, which the first file gives.

    Args:
        schema: the writers' schema of the files as JSON, where it is not to be taken from the first file.
    """

    def __init__(self, schema: str | None = None) -> None:
        self._schema = schema
        self._type = None if schema is None else _row_type(AvroTypes(json.loads(schema)).type_info, "schema")

    @property
    def takes_from_file(self) -> bool:
        return self._schema is None

    def resolve(self, path: str) -> AvroFormat:
        with _open(path) as file:
            schema = _Header(path, file).schema
        try:
            return AvroFormat(schema)
        except TypeError as error:
            raise SourceError(f"{path}: {error}") from error

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
        return _AvroReader(split, self._type, position, limiter)


class _Header:
    """Header of a file."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        try:
            reader = fastavro.reader(file)
            self.schema = str(reader.metadata["avro.schema"])
            self.sync = bytes(reader._header["sync"])
        except Exception as error:
            raise SourceError(f"{path} cannot be read as Avro: {error}") from error
        self.bytes = b""
        self.types = AvroTypes(json.loads(self.schema))


class _AvroReader(SplitReader):
    """Reads blocks; its position is [offset of a block, row behind it]."""

    def __init__(
        self, split: FileSplit, row_type: RowTypeInfo, position: Sequence[int] | None, limiter: RateLimiter
    ) -> None:
        self._path = split.path
        self._type = row_type
        self._limiter = limiter
        self._end = Path(split.path).stat().st_size if split.end is None else split.end
        self._file = _open(split.path)
        try:
            self._header = _Header(split.path, self._file)
            if _row_type(self._header.types.type_info, split.path) != row_type:
                raise SourceError(f"{split.path}: its records are {self._header.types.type_info}, not {row_type}")
            head = self._find_block(4)
            self._file.seek(0)
            self._header.bytes = self._file.read(head)
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
            blocks = self._read_blocks()
            read = self._header.types.read
            self._rows = [read(record) for record in fastavro.reader(io.BytesIO(self._header.bytes + blocks))]
        # fastavro raises whatever the bytes lead it to, and ValueError for a codec that is not installed
        except Exception as error:
            raise SourceError(f"{self._path}, block at byte {self._offset}: {error}") from error

    def _read_blocks(self) -> bytes:
        """Return the whole blocks from the next one on that start before the end; about DECODE_BYTES."""
        self._file.seek(self._next)
        blocks = bytearray()
        while self._next < self._end and len(blocks) < DECODE_BYTES:
            head, size = self._read_sizes()
            body = self._file.read(size + SYNC_BYTES)
            if len(body) != size + SYNC_BYTES or not body.endswith(self._header.sync):
                raise ValueError("the block is cut off or damaged")
            blocks += head + body
            self._next = self._file.tell()
        return bytes(blocks)

    def _read_sizes(self) -> tuple[bytes, int]:
        """Return the bytes of a block's two leading numbers, and the second of them: the block's size."""
        head = bytearray()
        value = 0
        for _ in range(2):
            value, shift = 0, 0
            while True:
                byte = self._file.read(1)
                if not byte:
                    raise ValueError("the block is cut off")
                head += byte
                value |= (byte[0] & 0x7F) << shift
                shift += 7
                if byte[0] < 0x80:
                    break
        return bytes(head), (value >> 1) ^ -(value & 1)

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
        return _AvroWriter(file, input_type, schema, self._codec, self._block_bytes)


class _AvroWriter(FormatWriter):
    def __init__(self, file: IO[bytes], row_type: TypeInformation, schema: Any, codec: str, block_bytes: int) -> None:
        self._convert = to_avro(row_type)
        self._writer = fastavro.write.Writer(file, schema, codec, sync_interval=block_bytes)

    def write(self, batch: RecordBatch) -> None:
        for value in batch.values():
            try:
                self._writer.write(self._convert(value))
            except Exception as error:
                raise SinkError(f"a record cannot be written as Avro: {error}: {value!r:.200}") from error

    def finish(self) -> None:
        self._writer.flush()


def _row_type(type_info: TypeInformation, where: str) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"{where}: its values must be records, not {type_info!r}")
    return type_info


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
        AvroWriterFormat.__init__(self, str(schema))

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return super().open(file, self._row_type, is_new)
