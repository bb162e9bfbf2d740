"""The channels of a task, made from its deployment: the gates that it reads, the writers that it fills."""

from __future__ import annotations

import pickle

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.network.channel import ChannelId, InputChannel, NetworkEnvironment, RecordLimit
from runtime.network.partitioners import create_selector
from runtime.network.record_writer import RecordWriter
from runtime.task.input_gate import GateListener, InputGate
from runtime.task.messages import TaskDeployment


def create_gates(deployment: TaskDeployment, network: NetworkEnvironment, listener: GateListener) -> list[InputGate]:
    """Make a gate for each input of the head, with its channels.

    Args:
        deployment: of the task.
        network: of its slot.
        listener: learns of barriers and ends.
    """
    by_input: dict[int, list[InputChannel]] = {}
    for edge in deployment.in_edges:
        for producer, slot in sorted(deployment.upstream_slots[edge.edge_id].items()):
            channel_id = ChannelId(edge.edge_id, producer, deployment.task.subtask_index)
            channel = network.create_input_channel(channel_id, slot, edge.record_type)
            by_input.setdefault(edge.input_index, []).append(channel)
    gates: list[InputGate] = []
    for index, channels in sorted(by_input.items()):
        gates.append(InputGate(index, channels, listener, sum(len(gate.channels) for gate in gates)))
    return gates


def create_writer(
    edge: JobEdge, deployment: TaskDeployment, network: NetworkEnvironment, configuration: Configuration, clock: Clock
) -> RecordWriter:
    """Make the writer of one of the task's edges, with its channels.

    Args:
        edge: one of the deployment's.
        deployment: of the task.
        network: of its slot.
        configuration: of the job.
        clock: for the buffer timeout.
    """
    subtask = deployment.task.subtask_index
    channels = []
    for consumer, slot in sorted(deployment.downstream_slots[edge.edge_id].items()):
        channel_id = ChannelId(edge.edge_id, subtask, consumer)
        channels.append(network.create_output_channel(channel_id, slot, edge.record_type))
    emitter = deployment.vertex.operators[edge.source_operator].name
    limit = RecordLimit(emitter, configuration.get(options.MAX_RECORD_BYTES))
    for channel in channels:
        channel.limit_records(limit)
    selector = create_selector(
        edge.partitioning,
        len(channels),
        subtask,
        None if edge.partitioner is None else pickle.loads(edge.partitioner),
        deployment.downstream_max_parallelism[edge.edge_id],
    )
    return RecordWriter(selector, channels, edge.buffer_timeout_ms, clock)


def allows_unaligned(edge: JobEdge, configuration: Configuration) -> bool:
    """Return whether barriers may overtake on an edge: its rows can be dealt out at another parallelism, or the job's
    options force it.
    """
    deals_out = not edge.partitioning.is_pointwise and edge.partitioning is not Partitioning.BROADCAST
    return deals_out or configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS)
