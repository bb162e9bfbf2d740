"""Counters of a sink operator: accepted and refused records, pending committables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from runtime.core.batch import RecordBatch
from runtime.operators.sink import Committer, Sink, SinkError, SinkWriter, WriterContext
from tests.connectors.rigs import SinkRig


class CountingSink(Sink):
    """Prepares one committable per batch; refuses negative records, and the first commit if asked to."""

    def __init__(self, failing_commits: int = 0) -> None:
        self.failing_commits = failing_commits

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer | None:
        return _Committer(self.failing_commits)


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self._batches = 0

    def write(self, batch: RecordBatch) -> None:
        if min(batch.values()) < 0:
            raise ValueError("negative")
        self._batches += 1

    def prepare_commit(self) -> Sequence[Any]:
        prepared, self._batches = list(range(self._batches)), 0
        return prepared


class _Committer(Committer):
    def __init__(self, failing: int) -> None:
        self._failing = failing

    def commit(self, committables: Sequence[Any]) -> None:
        if self._failing:
            self._failing -= 1
            raise SinkError("not now")


def test_records_and_committables_are_counted() -> None:
    rig = SinkRig(CountingSink(failing_commits=1))
    rig.write(1, 2, 3)
    rig.write(4)
    with pytest.raises(SinkError, match="negative"):
        rig.write(-1, 5)
    rig.operator.snapshot_state()
    metrics = rig.metrics.snapshot()
    assert (metrics["numRecordsSend"], metrics["numRecordsSendErrors"], metrics["currentSendTime"]) == (4, 2, 0.0)
    assert (metrics["totalCommittables"], metrics["pendingCommittables"]) == (2, 2)
    with pytest.raises(SinkError, match="not now"):
        rig.operator.commit_finished()
    rig.operator.commit_finished()
    metrics = rig.metrics.snapshot()
    assert (metrics["failedCommittables"], metrics["successfulCommittables"]) == (2, 2)
    assert metrics["pendingCommittables"] == 0
    rig.operator.close()
