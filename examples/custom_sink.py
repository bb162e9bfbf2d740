"""A sink of one's own: every subtask writes a hidden file, to which a committer gives its final name at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.connectors.base import Committer, RecordBatch, Sink, SinkWriter, WriterContext


class TallySink(Sink):
    """Writes one tally per subtask into a directory.

    Args:
        directory: exists already.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return TallyWriter(Path(self.directory, f".tally-{context.subtask_index}-{context.attempt}"))

    def create_committer(self) -> Committer:
        return TallyCommitter()


class TallyWriter(SinkWriter):
    """Counts what it is given; the file that says so stays hidden until it is committed."""

    def __init__(self, hidden: Path) -> None:
        self.hidden = hidden
        self.count = 0
        self.is_prepared = False

    def write(self, batch: RecordBatch) -> None:
        self.count += batch.num_rows

    def prepare_commit(self) -> Sequence[Any]:
        self.hidden.write_text(str(self.count))
        self.is_prepared = True
        return [str(self.hidden)]

    def close(self) -> None:
        if not self.is_prepared:
            self.hidden.unlink(missing_ok=True)


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
