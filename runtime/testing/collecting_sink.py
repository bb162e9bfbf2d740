"""CollectingSink: writes records to files that become visible when they are committed; `run_job` reads them.

So a result is there exactly once whatever happened to the job, on every kind of execution that commits its sinks; what
`execute_and_collect` gives is not, since it comes while the job runs. A writer belongs to its slot's thread.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from runtime.core.batch import RecordBatch
from runtime.operators.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["CollectingSink", "collected_records"]

_PENDING, _VISIBLE = ".pending", ".records"


class CollectingSink(Sink):
    """Collects records in a directory.

    Args:
        directory: on a file system that all slots and the reader share; one for each sink.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def accepts_changelog(self) -> bool:
        return True

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        self._directory.mkdir(parents=True, exist_ok=True)
        prefix = f"{context.attempt:06d}-{context.subtask_index:05d}-{context.pass_number:08d}"
        return _Writer(self._directory, prefix)

    def create_committer(self) -> Committer:
        return _Committer(self._directory)


def collected_records(directory: Path) -> list[Any]:
    """Return all records that were committed: by attempt of the job, then by subtask, each subtask's in order."""
    records: list[Any] = []
    for path in sorted(directory.glob(f"*{_VISIBLE}")):
        records += pickle.loads(path.read_bytes())
    return records


class _Writer(SinkWriter):
    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._prefix = prefix
        # another job that was started from a savepoint of this one may write to the same directory
        self._token = uuid.uuid4().hex[:12]
        self._values: list[Any] = []
        self._files = 0

    def write(self, batch: RecordBatch) -> None:
        self._values += batch.values()

    def prepare_commit(self) -> Sequence[Any]:
        if not self._values:
            return ()
        name = f"{self._prefix}-{self._files:08d}-{self._token}"
        # cloudpickle: records may be of classes of the test module
        (self._directory / f"{name}{_PENDING}").write_bytes(cloudpickle.dumps(self._values))
        self._files += 1
        self._values = []
        return (name,)


class _Committer(Committer):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def commit(self, committables: Sequence[Any]) -> None:
        for name in committables:
            visible = self._directory / f"{name}{_VISIBLE}"
            if not visible.exists():
                (self._directory / f"{name}{_PENDING}").replace(visible)
