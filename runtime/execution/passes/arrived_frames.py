"""ArrivedFrames: the frames that a shuffle has brought for the tasks of a partition, until these read them in order.

Frames come in any order and are read in that of their consumers. Most are in memory, or lie where their producers have
written them; what memory has no room for is written to a local file as it is, because packing it would cost more than
the tasks do. One thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from runtime.execution.passes.frame_files import FiledFrame, FrameFile, FrameReader
from runtime.network.channel import ChannelId

MEMORY_BYTES: Final = 256 << 20
"""Frames that are kept in memory. More: state of the tasks has less room. Less: a batch of middle size is written to
disk for nothing."""

Order = tuple[int, ...]
"""What the frames of a vertex are sorted by; each once."""


class ArrivedFrames:
    """The frames of one partition.

    Args:
        directory: returns a local directory; called if memory does not suffice.
        filed_in: where producers have written frames; None: they have not.
        memory_bytes: frames that are kept in memory.
    """

    def __init__(
        self, directory: Callable[[], Path], filed_in: Path | None = None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self._directory = directory
        self._filed_in = filed_in
        self._left = memory_bytes
        #: by vertex
        self._frames: dict[int, list[tuple[Order, ChannelId, bytes | tuple[Path, FiledFrame]]]] = {}
        self._overflow = FrameFile(directory, "arrived")
        self._reader = FrameReader()

    @property
    def overflow_bytes(self) -> int:
        """Return how much memory had no room for."""
        return self._overflow.num_bytes

    def add(self, vertex: int, order: Order, channel: ChannelId, frame: bytes) -> None:
        """Add a frame.

        Raises:
            OSError: there is no room for it.
        """
        kept: bytes | tuple[Path, FiledFrame] = frame
        if self._left < len(frame):
            kept = self._directory(), self._overflow.add(frame)
        else:
            self._left -= len(frame)
        self._frames.setdefault(vertex, []).append((order, channel, kept))

    def add_filed(self, vertex: int, order: Order, channel: ChannelId, frame: FiledFrame) -> None:
        """Add a frame that its producer has written."""
        assert self._filed_in is not None
        self._frames.setdefault(vertex, []).append((order, channel, (self._filed_in, frame)))

    def take(self, vertex: int) -> Iterator[tuple[ChannelId, bytes]]:
        """Yield the frames of a vertex in their order, and forget each.

        Raises:
            OSError: a file cannot be read.
        """
        frames = self._frames.pop(vertex, [])
        frames.sort(key=lambda frame: frame[0], reverse=True)
        while frames:
            _, channel, kept = frames.pop()
            yield channel, self._reader.read(*kept) if isinstance(kept, tuple) else kept

    def close(self) -> None:
        """Forget all; files stay where they are; idempotent."""
        self._frames.clear()
        self._reader.close()
        self._overflow.close()
