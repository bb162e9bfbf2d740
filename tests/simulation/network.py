"""Channels between simulated slots: the engine's own connections, credits and frames, over pipes instead of sockets.

A pipe carries one direction of one connection in order, each frame a little later than it was sent; pipes do not wait
for each other. A connection can break, and does so when one of its processes ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.common.typeinfo import TypeInformation
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import ChannelFailure, ChannelId, InputChannel, NetworkEnvironment, OutputChannel
from runtime.network.local import LocalNetwork
from runtime.network.remote import (
    Connection,
    ConnectionOwner,
    ConsumerConnection,
    GateCredit,
    ProducerConnection,
    RemoteInputChannel,
    RemoteOutputChannel,
)

if TYPE_CHECKING:
    from tests.simulation.world import SlotProcess, World


class Wire:
    """All connections between slots."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pairs: list[Pair] = []

    def connect(self, consumer: SimulatedEnvironment, producer: SlotId, address: str) -> None:
        """A consumer calls its producer."""
        environment = self.world.environment_at(address)
        consumer_end = consumer.consumers[producer]
        producer_end = None if environment is None else environment.producers.get(consumer.slot)
        if environment is None or producer_end is None or producer_end.is_open or environment.is_closed:
            self.world.later(consumer.process, lambda: consumer_end.on_end("nobody answers"))
            return
        producer_end.is_open = consumer_end.is_open = True
        self.pairs.append(Pair(self.world, (producer_end, environment), (consumer_end, consumer)))

    def pump(self) -> None:
        """Take what has been put into outboxes."""
        if any(pair.is_over for pair in self.pairs):
            self.pairs = [pair for pair in self.pairs if not pair.is_over]
        for pair in self.pairs:
            pair.pump()

    def break_all_of(self, process: SlotProcess) -> None:
        """The process has ended: its connections end without a word."""
        for pair in self.pairs:
            if process in pair.processes:
                pair.break_off(f"{process.name} is gone")


End = tuple[Connection, "SimulatedEnvironment"]


class Pair:
    """A connection: its two ends, and the messages between them."""

    def __init__(self, world: World, producer: End, consumer: End) -> None:
        self._world = world
        self._ends = (producer, consumer)
        self._arrives_ms = [0.0, 0.0]
        self._has_ended = [False, False]
        self.is_over = False
        self.processes = (producer[1].process, consumer[1].process)

    def pump(self) -> None:
        for side in (0, 1):
            connection, environment = self._ends[side]
            if environment.process.is_frozen:
                continue
            outbox = connection.outbox
            while not outbox.empty():
                frame = outbox.get()
                self._send(side, None if frame is None else bytes(frame))

    def _send(self, side: int, frame: bytes | None) -> None:
        connection, environment = self._ends[1 - side]
        # behind what was sent before
        at_ms = max(self._arrives_ms[side], self._world.clock.monotonic_ms() + self._world.delay_ms())
        self._arrives_ms[side] = at_ms

        def arrive() -> None:
            if self.is_over:
                return
            if frame is not None:
                connection.on_frame(pa.py_buffer(frame))
                environment.process.wake()
                return
            self._has_ended[side] = True
            if not connection.ended.is_set():
                connection.on_end("the stream ended")
            environment.process.wake()
            if all(self._has_ended):
                self.is_over = True

        self._world.deliver(environment.process, at_ms, arrive)

    def break_off(self, cause: str) -> None:
        """Nothing arrives any more; both ends notice."""
        if self.is_over:
            return
        self.is_over = True
        for connection, environment in self._ends:
            self._world.later(environment.process, _ended(connection, environment, cause))


def _ended(connection: Connection, environment: SimulatedEnvironment, cause: str) -> Callable[[], None]:
    def end() -> None:
        if not connection.ended.is_set():
            connection.on_end(cause)
        environment.process.wake()

    return end


class SimulatedEnvironment(NetworkEnvironment, ConnectionOwner):
    """The channels of one slot: queues within it, connections to others."""

    def __init__(self, process: SlotProcess, slot: SlotId, attempt: Attempt, wire: Wire, window_bytes: int) -> None:
        self.process = process
        self.slot = slot
        self.attempt = attempt
        self.producers: dict[SlotId, ProducerConnection] = {}
        self.consumers: dict[SlotId, ConsumerConnection] = {}
        self.is_closed = False
        self._wire = wire
        self._window_bytes = window_bytes
        self._gates: dict[tuple[int, int], GateCredit] = {}
        self._local = LocalNetwork(window_bytes).environment(slot)
        self._failures: deque[ChannelFailure] = deque()
        self.refused_frames = 0

    @property
    def address(self) -> str:
        return f"sim://{self.process.name}"

    def create_output_channel(
        self, channel_id: ChannelId, consumer_slot: SlotId, record_type: TypeInformation | None
    ) -> OutputChannel:
        if consumer_slot == self.slot:
            return self._local.create_output_channel(channel_id, consumer_slot, record_type)
        connection = self.producers.get(consumer_slot)
        if connection is None:
            connection = self.producers[consumer_slot] = ProducerConnection(consumer_slot, self.attempt, self)
        channel = RemoteOutputChannel(channel_id, connection, record_type, self._window_bytes)
        connection.channels[channel_id] = channel
        return channel

    def create_input_channel(
        self, channel_id: ChannelId, producer_slot: SlotId, record_type: TypeInformation | None
    ) -> InputChannel:
        if producer_slot == self.slot:
            return self._local.create_input_channel(channel_id, producer_slot, record_type)
        connection = self.consumers.get(producer_slot)
        if connection is None:
            connection = self.consumers[producer_slot] = ConsumerConnection(producer_slot, self.attempt, self)
        # starved on purpose: nothing to borrow
        gate = self._gates.setdefault((channel_id.edge_id, channel_id.consumer), GateCredit(0))
        channel = RemoteInputChannel(channel_id, connection, record_type, self._window_bytes, gate)
        connection.channels[channel_id] = channel
        return channel

    def connect(self, peers: Mapping[SlotId, str]) -> None:
        for producer in self.consumers:
            self._wire.connect(self, producer, peers[producer])

    def poll_failures(self) -> list[ChannelFailure]:
        failures = [*self._local.poll_failures(), *self._failures]
        self._failures.clear()
        return failures

    def set_listener(self, on_change: Callable[[], None]) -> None:
        """The scheduler is told instead."""

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._local.close()
        for connection in (*self.producers.values(), *self.consumers.values()):
            connection.close()

    def notify(self) -> None:
        self.process.wake()

    def report(self, failure: ChannelFailure) -> None:
        if not self.is_closed:
            self._failures.append(failure)
            self.process.wake()

    def count_refused_frame(self) -> None:
        self.refused_frames += 1
