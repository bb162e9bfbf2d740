"""Elements in flight of several edges, of which some have another parallelism than when they were saved."""

from __future__ import annotations

from pathlib import Path

from runtime.checkpoint.channel_state import ChannelPart, write_channel_states
from runtime.checkpoint.handles import TaskRestore
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter
from runtime.common import Types
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import Watermark
from runtime.core.ids import Attempt, CheckpointId, JobId, SlotId, TaskId
from runtime.graph.chaining import create_job_graph
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.network.channel import ChannelId
from runtime.network.frame_codec import FrameEncoder
from runtime.task.channel_restore import restored_elements
from runtime.task.messages import TaskDeployment
from tests.checkpoint.faulty import FaultyFileSystem

ATTEMPT = Attempt(0)


def elsewhere(key: int, num_partitions: int) -> int:
    """A partitioner that has changed its mind: nothing is for the second subtask any more."""
    return 0


def deployment() -> TaskDeployment:
    """Subtask 1 of a task with an input by custom partitioner (edge 0) and one by key (edge 1)."""
    graph = StreamGraph("job", {}, buffer_timeout_ms=100, chaining_enabled=False)
    graph.nodes[1] = StreamNode(1, "numbers", "factory", 2, Types.LONG(), is_source=True)
    graph.nodes[2] = StreamNode(2, "others", "factory", 3, Types.LONG(), is_source=True)
    graph.nodes[3] = StreamNode(3, "joined", "factory", 2)
    graph.edges.append(StreamEdge(1, 3, Partitioning.CUSTOM, 0, partitioner=(elsewhere, abs)))
    graph.edges.append(StreamEdge(2, 3, Partitioning.KEY_GROUP, 1, partitioner=abs))
    job = create_job_graph(graph, JobId("f" * 32))
    vertex = job.vertices[2]
    slots = {edge: dict.fromkeys(range(producers), SlotId(0)) for edge, producers in ((0, 2), (1, 3))}
    return TaskDeployment(TaskId(vertex.vertex_id, 1), vertex, job.in_edges(vertex.vertex_id), (), slots, {}, {}, {})


def in_flight(edge_id: int, values: list[int]) -> ChannelPart:
    """Rows, and the watermark behind them, that subtask 0 has sent to subtask 1."""
    channel = ChannelId(edge_id, 0, 1)
    encoder = FrameEncoder(channel, ATTEMPT, Types.LONG())
    frames = [encoder.encode(RecordBatch.of_values(values)), encoder.encode(Watermark(7))]
    return ChannelPart(channel, frames, is_output=False)


def test_only_rows_of_edges_that_have_changed_are_dealt_out_anew(tmp_path: Path) -> None:
    directory = f"file://{tmp_path}/chk-1"
    files = FaultyFileSystem()
    writer = TaskStateWriter(files, CheckpointOptions(directory, directory), CheckpointId(1), "joined (2/2)")
    numbers = list(range(100))
    states = write_channel_states([in_flight(0, numbers), in_flight(1, numbers)], writer)
    restore = TaskRestore(channels=states, mixed_edges=frozenset({1}))
    dealt = dict(restored_elements(restore, deployment(), TaskStateReader(files)))
    batch, watermark = dealt[ChannelId(0, 0, 1)]
    assert isinstance(batch, RecordBatch) and batch.values() == numbers
    assert watermark == Watermark(7)
    [mine] = dealt[ChannelId(1, 0, 1)]
    assert isinstance(mine, RecordBatch) and 0 < mine.num_rows < 100
