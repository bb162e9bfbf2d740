"""Demands: how many records per second each vertex of a job should process, by what its sources have to read. Pure.

Source: Kalavri et al., Three steps is all you need (DS2), OSDI 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.scaling_window import VertexRates

HELD_BACK = 0.1
"""Share of time for which a source waits for room before its demand counts as unknown. Source: Flink's page, where more
is back-pressure."""
KNOWN_BACKLOG_S = 5.0
"""A source that is held back although fewer records are pending than it reads in this time has more than it reports:
its readers know what they have fetched, not what is there."""
EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Load:
    """Demand on a vertex, in records per second."""

    shared: float
    """Of all its subtasks together."""
    broadcast: float = 0.0
    """Of each of its subtasks."""
    backlog: float = 0.0
    """Records that wait before its sources and come on top."""
    held: float = 0.0
    """Share of time for which a source before it is held back, if that hides the demand; 0: the demand is known."""


class Demands:
    """Computes the demand on each vertex: on sources from what they read, on others from ratios of output to input.

    Args:
        in_edges: by vertex.
        consumers: of each vertex, one per edge.
        rates: measured ones.
        parallelism: of the vertices that run.
        blind_growth: largest growth of a demand that is unknown.
    """

    def __init__(
        self,
        in_edges: Mapping[VertexId, Sequence[JobEdge]],
        consumers: Mapping[VertexId, Sequence[VertexId]],
        rates: Mapping[VertexId, VertexRates],
        parallelism: Mapping[VertexId, int],
        blind_growth: float,
    ) -> None:
        self._blind_growth = blind_growth
        self.rates = rates
        self.parallelism = parallelism
        self._in_edges = in_edges
        self._consumers = consumers
        self._loads: dict[VertexId, Load | None] = {}

    def waits_outside(self, vertex: VertexId) -> bool:
        """Return whether a vertex that has no room for output waits for something else than its consumers, a service
        perhaps: these have nothing to do.
        """
        consumers = [self.rates.get(consumer) for consumer in self._consumers[vertex]]
        return all(rates is not None and rates.idle >= 0.5 for rates in consumers)

    def load(self, vertex: VertexId) -> Load | None:
        """Return the demand; None if no source before it can tell."""
        if vertex not in self._loads:
            self._loads[vertex] = self._source(vertex) if not self._in_edges[vertex] else self._fed(vertex)
        return self._loads[vertex]

    def _source(self, vertex: VertexId) -> Load | None:
        rates = self.rates.get(vertex)
        if rates is None:
            return None
        is_held = rates.back_pressured > HELD_BACK and not self.waits_outside(vertex)
        # a backlog that was worked off during the window has held the source back as well
        knows_backlog = rates.pending_peak > rates.records_in * KNOWN_BACKLOG_S
        if not is_held or knows_backlog:
            return Load(max(0.0, rates.records_in + rates.pending_growth), backlog=float(rates.pending or 0))
        growth = min(self._blind_growth, 1.0 / max(1.0 - rates.back_pressured, EPSILON))
        return Load(rates.records_in * growth, held=rates.back_pressured)

    def _fed(self, vertex: VertexId) -> Load | None:
        fed = [(edge, load) for edge in self._in_edges[vertex] if (load := self.load(edge.source)) is not None]
        if not fed:
            return None
        flows = self._flows(vertex)
        total = Load(0.0)
        for edge, load in fed:
            feeding = self.rates.get(edge.source)
            if feeding is None or feeding.records_in <= 0.0:
                continue
            ratio = flows[edge.edge_id] / feeding.records_in
            arriving = (load.shared + load.broadcast * self.parallelism[edge.source]) * ratio
            total = Load(
                total.shared + (0.0 if _is_broadcast(edge) else arriving),
                total.broadcast + (arriving if _is_broadcast(edge) else 0.0),
                total.backlog + (0.0 if _is_broadcast(edge) else load.backlog * ratio),
                max(total.held, load.held),
            )
        return total

    def _flows(self, vertex: VertexId) -> dict[int, float]:
        """Return the records per second that come by each edge into a vertex; of a broadcast, per subtask.

        Counts are per vertex, not per edge: what cannot be told apart is divided evenly.
        """
        edges, now = self._in_edges[vertex], self.parallelism[vertex]
        arrived = self.rates[vertex].records_in
        flows = {}
        for edge in edges:
            feeding = self.rates.get(edge.source)
            flows[edge.edge_id] = 0.0 if feeding is None else feeding.records_out / len(self._consumers[edge.source])
        known = sum(flows[e.edge_id] * (now if _is_broadcast(e) else 1) for e in edges)
        # what has left its producers and what has arrived differ by what is on the way, and by uneven edges
        scale = arrived / known if known > 0.0 else 0.0
        return {edge_id: flow * scale for edge_id, flow in flows.items()}


def _is_broadcast(edge: JobEdge) -> bool:
    return edge.partitioning is Partitioning.BROADCAST
