"""Elements that were in flight when an unaligned checkpoint was taken, as a restored task takes them in.

Where both sides of an edge have the parallelism that they were saved with, every element goes back into its channel.
Elsewhere channels are not what they were: the task then takes rows only, those that the edge's partitioner would send
to it now, which a partitioner of the user's must therefore decide by the row alone. Loop's thread.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from runtime.checkpoint.channel_state import read_channel_states
from runtime.checkpoint.handles import TaskRestore
from runtime.core.batch import RecordBatch
from runtime.core.elements import StreamElement, Watermark
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.network.channel import ChannelId
from runtime.network.partitioners import ChannelSelector, create_selector
from runtime.state.handles import StateFileReader
from runtime.task.messages import TaskDeployment

Restored = list[RecordBatch | Watermark]


def restored_elements(
    restore: TaskRestore, deployment: TaskDeployment, files: StateFileReader
) -> Iterator[tuple[ChannelId, Restored]]:
    """Yield the elements to be taken in, in order, each list with a channel of the task.

    Raises:
        DamagedSnapshotError: a file is missing or not what was written.
    """
    record_types = {edge.edge_id: edge.record_type for edge in deployment.in_edges}
    subtask = deployment.task.subtask_index
    selectors = {
        edge.edge_id: _selector(edge, deployment) for edge in deployment.in_edges if edge.edge_id in restore.mixed_edges
    }
    for state, elements in read_channel_states(restore.channels, record_types, files):
        if state.edge_id not in restore.mixed_edges:
            yield ChannelId(state.edge_id, state.producer, subtask), _kept(elements)
            continue
        # any channel of the edge will do: it has nothing to say about event time
        producer = min(deployment.upstream_slots[state.edge_id])
        yield ChannelId(state.edge_id, producer, subtask), _own_rows(elements, selectors[state.edge_id], subtask)


def _kept(elements: Sequence[StreamElement]) -> Restored:
    return [element for element in elements if isinstance(element, RecordBatch | Watermark)]


def _own_rows(elements: Sequence[StreamElement], selector: ChannelSelector | None, subtask: int) -> Restored:
    own: Restored = []
    for element in elements:
        if not isinstance(element, RecordBatch) or not element.num_rows:
            continue
        batch = element.with_marks(())
        part = batch if selector is None else selector.split(batch)[subtask]
        if isinstance(part, RecordBatch) and part.num_rows:
            own.append(part)
    return own


def _selector(edge: JobEdge, deployment: TaskDeployment) -> ChannelSelector | None:
    """Return the selector that picks the task's rows of an edge; None if any subtask may have any row, and each part is
    given to one.
    """
    if edge.partitioning not in (Partitioning.KEY_GROUP, Partitioning.CUSTOM) or edge.partitioner is None:
        return None
    vertex = deployment.vertex
    partitioner = pickle.loads(edge.partitioner)
    return create_selector(edge.partitioning, vertex.parallelism, 0, partitioner, vertex.max_parallelism)
