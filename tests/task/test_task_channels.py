from __future__ import annotations

import pytest

from runtime.common.configuration import Configuration
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.task.task_channels import allows_unaligned

FORCED = Configuration.from_dict({"execution.checkpointing.unaligned.forced": "true"})


@pytest.mark.parametrize(
    ("partitioning", "allows"),
    [
        (Partitioning.KEY_GROUP, True),
        (Partitioning.REBALANCE, True),
        (Partitioning.FORWARD, False),
        (Partitioning.RESCALE, False),
        (Partitioning.BROADCAST, False),
    ],
)
def test_barriers_overtake_where_rows_can_be_dealt_out_anew_or_it_is_forced(
    partitioning: Partitioning, allows: bool
) -> None:
    edge = JobEdge(0, VertexId("a"), 0, VertexId("b"), 0, partitioning, None, None, None, 100)
    assert allows_unaligned(edge, Configuration()) is allows
    assert allows_unaligned(edge, FORCED)
