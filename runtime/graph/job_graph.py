"""JobGraph: chains of operators and the edges between them; what a JobMaster runs.

Plain immutable values; factories are carried as cloudpickle bytes so that neither the JobMaster nor a web process ever
has to load user code. Source: Flink, JobGraph, JobVertex, JobEdge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.common.secrets import SecretName
from runtime.common.typeinfo import TypeInformation
from runtime.core.ids import JobId, OperatorId, VertexId
from runtime.graph.partitioning import Partitioning
from runtime.state.state_meta import DeclaredStates, StatePart


@dataclass(frozen=True, slots=True)
class ChainedOperator:
    """An operator of a chain. Index 0 of a vertex's `operators` is the head (or the source)."""

    operator_id: OperatorId
    uid: str
    name: str
    description: str
    factory: bytes
    """cloudpickle of an `runtime.operators.operator.OperatorFactory`."""
    output_type: TypeInformation | None
    key_type: str = ""
    """Type of its inputs' keys, as `runtime.graph.key_types` names it; "" = they are not keyed."""
    window_type: str = ""
    """Type of the windows that its state is kept by; "" = there are none."""
    state_content: str = ""
    """What the values in its state are of, as far as their type does not tell: "rows, sum"; "" = the type tells."""
    state_parts: tuple[StatePart, ...] = ()
    """The same more exactly, where the parts have an order or expressions; () = unknown, as of graphs of earlier
    versions."""
    declared_states: DeclaredStates | None = None
    """The states that it is known to use; None: nothing is known, as of graphs of earlier versions."""
    defined_at: str = ""
    """Place in the user's program, "file:line"; "" = not known."""
    unread_columns: tuple[str, ...] = ()
    """Columns of its output that may be null whatever they are in the source: nobody reads them."""


@dataclass(frozen=True, slots=True)
class ChainEdge:
    """Edge in a chain: output of operator `source` feeds operator `target` (indexes into the vertex's operators)."""

    source: int
    target: int
    input_index: int = 0
    side_output_tag: str | None = None


@dataclass(frozen=True, slots=True)
class JobEdge:
    """Edge between chains: operator `source_operator` of `source` feeds input `input_index` of the head of `target`."""

    edge_id: int
    """Unique in the job."""
    source: VertexId
    source_operator: int
    """Index into the source vertex's operators."""
    target: VertexId
    input_index: int
    partitioning: Partitioning
    partitioner: bytes | None
    """cloudpickle of the key selector (KEY_GROUP) or of (Partitioner, key selector) (CUSTOM); else None."""
    side_output_tag: str | None
    record_type: TypeInformation | None
    buffer_timeout_ms: int


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators; runs as `parallelism` tasks."""

    vertex_id: VertexId
    name: str
    """Names of the operators joined as Flink does: "Source: a -> map -> (b, c)"."""
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operators: Sequence[ChainedOperator]
    chain_edges: Sequence[ChainEdge]

    @property
    def head(self) -> ChainedOperator:
        return self.operators[0]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job ready to run. `vertices` is in topological order, sources first."""

    job_id: JobId
    name: str
    vertices: Sequence[JobVertex]
    edges: Sequence[JobEdge]
    configuration: Mapping[str, str]
    """Flat Flink-style options."""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretName] = ()
    """Secrets that its code refers to, sorted; never their values."""

    def vertex(self, vertex_id: VertexId) -> JobVertex:
        return next(v for v in self.vertices if v.vertex_id == vertex_id)

    def in_edges(self, vertex_id: VertexId) -> list[JobEdge]:
        return [e for e in self.edges if e.target == vertex_id]

    def out_edges(self, vertex_id: VertexId) -> list[JobEdge]:
        return [e for e in self.edges if e.source == vertex_id]
