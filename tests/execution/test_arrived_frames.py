"""Frames come in any order, with or without room for them in memory, and are read in that of their consumers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.execution.passes.arrived_frames import ArrivedFrames
from runtime.execution.passes.frame_files import FiledFrame, FrameFile, FrameReader
from runtime.network.channel import ChannelId

CHANNEL = ChannelId(1, 2, 3)
FRAMES = st.tuples(st.integers(0, 2), st.integers(0, 50), st.binary(max_size=40), st.booleans())
"""Vertex, place in its order, content, and whether the producer has written it to a file."""


@given(frames=st.lists(FRAMES, unique_by=lambda frame: frame[:2]), memory_bytes=st.integers(0, 200))
def test_frames_are_read_in_order_wherever_they_were_kept(
    frames: list[tuple[int, int, bytes, bool]], memory_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        file = FrameFile(lambda: Path(theirs), "filed")
        arrived = ArrivedFrames(lambda: Path(ours), Path(theirs), memory_bytes)
        for vertex, sequence, frame, is_filed in frames:
            if is_filed:
                filed = FiledFrame.from_bytes(file.add(frame).to_bytes())
                arrived.add_filed(vertex, (0, sequence), CHANNEL, filed)
            else:
                arrived.add(vertex, (0, sequence), CHANNEL, frame)
        for vertex in range(3):
            of_vertex = sorted((sequence, frame) for of, sequence, frame, _ in frames if of == vertex)
            assert list(arrived.take(vertex)) == [(CHANNEL, frame) for _, frame in of_vertex]
        total = sum(len(frame) for _, _, frame, is_filed in frames if not is_filed)
        assert total - memory_bytes <= arrived.overflow_bytes <= total
        arrived.close()
        file.close()


def test_what_memory_has_room_for_makes_no_file() -> None:
    def directory() -> Path:
        raise AssertionError("nobody needs a file")

    arrived = ArrivedFrames(directory, memory_bytes=10)
    arrived.add(0, (0,), CHANNEL, b"0123456789")
    assert list(arrived.take(0)) == [(CHANNEL, b"0123456789")]
    assert not list(arrived.take(0)) and not list(arrived.take(1))
    arrived.close()
    arrived.close()


def test_a_file_that_has_lost_its_end_is_named(tmp_path: Path) -> None:
    file = FrameFile(lambda: tmp_path, "cut")
    filed = file.add(b"0123456789")
    file.close()
    (tmp_path / "cut").write_bytes(b"01234")
    reader = FrameReader()
    with pytest.raises(OSError, match="cut ends in the middle of a frame"):
        reader.read(tmp_path, filed)
    reader.close()


def test_nobody_writes_to_the_file_of_another(tmp_path: Path) -> None:
    first, second = FrameFile(lambda: tmp_path, "file"), FrameFile(lambda: tmp_path, "file")
    first.add(b"first")
    with pytest.raises(FileExistsError):
        second.add(b"second")
    first.close()
