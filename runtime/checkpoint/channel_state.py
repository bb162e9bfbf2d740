"""Channel state: elements that an unaligned barrier has overtaken, written to a file and read back.

A file holds the frames of all channels of a task, one after the other, each preceded by its length; a ChannelState
names the part that belongs to one channel. Frames are those of the network, so frames that were sent over it are not
encoded twice, and each carries its own checksum. Any thread. Source: Flink, ChannelStateWriter and its serializer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.checkpoint.handles import ChannelState
from runtime.common.typeinfo import TypeInformation
from runtime.core.elements import StreamElement
from runtime.network.channel import ChannelId, Frame
from runtime.network.frame_codec import FrameDecoder
from runtime.network.frames import FrameError, decode_header
from runtime.state.handles import DamagedSnapshotError, FileHandle, StateFileReader, StateFileWriter

_LENGTH = struct.Struct("<I")
FILE_NAME = "channels"


@dataclass(frozen=True, slots=True)
class ChannelPart:
    """Elements that were overtaken at one end of one channel, in order."""

    channel_id: ChannelId
    frames: Sequence[Frame]
    is_output: bool
    """Whether they had not left the producer yet."""

    @property
    def size(self) -> int:
        """Return the number of bytes in a file."""
        return sum(_LENGTH.size + len(frame) for frame in self.frames)


def write_channel_states(parts: Sequence[ChannelPart], files: StateFileWriter) -> list[ChannelState]:
    """Write all parts into one file.

    Raises:
        OSError: it cannot be written.
    """
    parts = [part for part in parts if part.frames]
    if not parts:
        return []
    file = files.write(FILE_NAME, b"".join(_pieces(parts)))
    states, offset = [], 0
    for part in parts:
        channel = part.channel_id
        length = part.size
        states.append(
            ChannelState(channel.edge_id, channel.producer, channel.consumer, file, offset, length, part.is_output)
        )
        offset += length
    return states


def _pieces(parts: Sequence[ChannelPart]) -> Iterator[Frame]:
    for part in parts:
        for frame in part.frames:
            yield _LENGTH.pack(len(frame))
            yield frame


def read_channel_states(
    states: Sequence[ChannelState], record_types: Mapping[int, TypeInformation | None], files: StateFileReader
) -> Iterator[tuple[ChannelState, list[StreamElement]]]:
    """Yield the elements of each part, in the order given.

    Args:
        states: from one checkpoint.
        record_types: by edge id; None = Python objects.
        files: reads and verifies.

    Raises:
        DamagedSnapshotError: a file is missing or corrupt.
    """
    contents: dict[FileHandle, bytes] = {}
    for state in states:
        if state.file is None or state.length == 0:
            continue
        content = contents.get(state.file)
        if content is None:
            content = contents[state.file] = files.read(state.file)
        part = memoryview(content)[state.offset : state.offset + state.length]
        try:
            if len(part) != state.length:
                raise FrameError(f"it ends at byte {len(content)}")
            yield state, list(_decode(part, FrameDecoder(record_types[state.edge_id])))
        except (FrameError, struct.error) as error:
            raise DamagedSnapshotError(state.file.uri, f"elements in flight cannot be read: {error}") from error


def _decode(part: memoryview, decoder: FrameDecoder) -> Iterator[StreamElement]:
    offset = 0
    while offset < len(part):
        (length,) = _LENGTH.unpack_from(part, offset)
        offset += _LENGTH.size
        frame = bytes(part[offset : offset + length])
        offset += length
        yield decoder.decode(decode_header(frame), frame)
