"""A sink of one's own: subtasks write a hidden file for each checkpoint, to which a committer gives its final name.

A job without checkpoints, as this one is by default, has one at its end.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import Committer, RecordBatch, Sink, SinkWriter, WriterContext


class TallySink(Sink):
    """Writes tallies into a directory, which add up to the number of records.

    Args:
        directory: exists already.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return TallyWriter(Path(self.directory))

    def create_committer(self) -> Committer:
        return TallyCommitter()


class TallyWriter(SinkWriter):
    """Counts what it is given; a file that says so stays hidden until it is committed.

    No two files have the same name: whatever else the job writes, before or after a failure, is another one's.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def write(self, batch: RecordBatch) -> None:
        self.count += batch.num_rows

    def prepare_commit(self) -> Sequence[Any]:
        if self.count == 0:
            return []
        hidden = self.directory / f".tally-{uuid.uuid4()}"
        hidden.write_text(str(self.count))
        self.count = 0
        return [str(hidden)]


class TallyCommitter(Committer):
    """Gives tallies their final names; those that have them already are passed over."""

    def commit(self, committables: Sequence[Any]) -> None:
        for hidden in map(Path, committables):
            if hidden.exists():
                hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with tempfile.TemporaryDirectory() as directory:
        numbers = env.from_collection(range(100), Types.LONG()).rebalance().map(lambda n: n * n, Types.LONG())
        numbers.sink_to(TallySink(directory))
        env.execute("custom sink")
        tallies = [int(path.read_text()) for path in Path(directory).glob("tally-*")]
        print(f"{sum(tallies)} records in all, hidden files left: {len(list(Path(directory).glob('.tally-*')))}")


if __name__ == "__main__":
    main()
