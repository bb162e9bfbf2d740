"""Raw lines and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.common import Types
from runtime.common.typeinfo import TypeInformation
from runtime.connectors import (
    RawLineFormat,
    RawMessageSchema,
    RawWriterFormat,
)
from runtime.datastream.connectors.file_system import FileSink, FileSource
from runtime.operators.sink import SinkError
from tests.connectors.rigs import SinkRig, SourceRig


def test_raw_lines_come_back(tmp_path: Path) -> None:
    rig = SinkRig(FileSink.for_row_format(str(tmp_path), RawWriterFormat()).build(), None)
    lines = [b"a\xff", b"", b"c"]
    rig.write(*lines)
    rig.finish()
    (part,) = tmp_path.rglob("part-*")
    assert SourceRig(FileSource.for_record_stream_format(RawLineFormat(), part).build()).run().values == lines
    rig = SinkRig(FileSink.for_row_format(str(tmp_path), RawWriterFormat()).build(), None)
    with pytest.raises(SinkError, match="must be bytes"):
        rig.write("text")
    rig.operator.close()


@pytest.mark.parametrize(
    ("type_info", "value", "message"),
    [
        (None, b"\x00\xff", b"\x00\xff"),
        (Types.STRING(), "ü", "ü".encode()),
        (Types.INT(), -2, b"\xff\xff\xff\xfe"),
        (Types.LONG(), 1, b"\0\0\0\0\0\0\0\1"),
        (Types.BOOLEAN(), True, b"\1"),
        (Types.DOUBLE(), 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
    ],
)
def test_raw_values_come_back(type_info: TypeInformation | None, value: Any, message: bytes) -> None:
    schema = RawMessageSchema(type_info)
    assert schema.serialize(value) == message
    assert schema.deserialize(message) == value
    little = RawMessageSchema(type_info, endianness="little-endian")
    assert little.deserialize(little.serialize(value)) == value


def test_raw_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes are not a raw"):
        RawMessageSchema(Types.INT()).deserialize(b"abc")
    with pytest.raises(TypeError, match="is no"):
        RawMessageSchema(Types.INT()).serialize("x")
    with pytest.raises(TypeError, match="no raw form"):
        RawMessageSchema(Types.LIST(Types.INT()))
    with pytest.raises(ValueError, match="endianness"):
        RawMessageSchema(endianness="middle")
