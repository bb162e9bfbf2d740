"""StreamGraph: the program as the user wrote it, one node per operator.

Made by the DataStream API, turned into a JobGraph by `runtime.graph.chaining`.

Source: Flink, StreamGraph, StreamNode, StreamEdge, ChainingStrategy.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.graph.partitioning import Partitioning


class ChainingStrategy(enum.Enum):
    """Says whether an operator may join its predecessor's chain, and be joined by its successor."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"


@dataclass(slots=True)
class StreamNode:
    """An operator as the user described it."""

    node_id: int
    name: str
    factory: Any
    """A `runtime.operators.operator.OperatorFactory`."""
    parallelism: int
    output_type: TypeInformation | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    description: str | None = None
    """The user's own words for plans; see `plan_text`."""
    default_description: str | None = None
    """Description of the operator in the words of the API that has added it."""
    is_named: bool = False
    """Whether the name is the user's own."""
    slot_sharing_group: str | None = None
    """None = inherited: the inputs' group if they agree, else "default"."""
    chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS
    is_source: bool = False
    is_sink: bool = False
    is_stateful: bool = False
    """Whether a uid matters: state would be lost or misplaced without one."""
    defined_at: str = ""
    """Place in the user's program that added it, "file:line"; "" = not known."""
    part_of: int | None = None
    """Node id of the operator that this one was added for; the user knows, names and identifies only that one."""
    part: str = ""
    """Its part in that operator: "local", "left"."""
    makes_changelog: bool = False
    """Whether rows that it emits take back others, which came to it as inserts."""

    @property
    def display_name(self) -> str:
        """Return the name in plans, tasks and errors: "Source: x" and "Sink: x" at the ends, as Flink prints them."""
        prefix = "Source: " if self.is_source else "Sink: " if self.is_sink else ""
        return self.name if self.name.startswith(prefix) else prefix + self.name

    @property
    def plan_text(self) -> str:
        """Return the text for plans: the user's description, else what the operator does, under the user's name for
        it.
        """
        if self.description:
            return self.description
        if not self.default_description:
            return self.display_name
        return f"{self.display_name}: {self.default_description}" if self.is_named else self.default_description


@dataclass(slots=True)
class StreamEdge:
    """Edge from the output of `source` into input `input_index` of `target`."""

    source: int
    target: int
    partitioning: Partitioning | None
    """None = FORWARD if both sides have the same parallelism, else REBALANCE."""
    input_index: int = 0
    side_output_tag: str | None = None
    record_type: TypeInformation | None = None
    partitioner: Any = None
    """KEY_GROUP: the key selector (value -> key). CUSTOM: (partition function (key, n) -> int, key selector)."""
    buffer_timeout_ms: int | None = None
    has_changelog_as_rows: bool = False
    """Whether the program has asked for a changelog's rows, each with its kind."""


@dataclass(slots=True)
class StreamGraph:
    """The whole program. Node ids ascend in the order in which the user added them, sources before their consumers."""

    job_name: str
    configuration: Mapping[str, str]
    buffer_timeout_ms: int
    max_parallelism: int | None = None
    chaining_enabled: bool = True
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)
    job_parameters: dict[str, str] = field(default_factory=dict)

    def in_edges(self, node_id: int) -> list[StreamEdge]:
        """Return the edges into a node, in the order in which they were added."""
        return [e for e in self.edges if e.target == node_id]

    def out_edges(self, node_id: int) -> list[StreamEdge]:
        return [e for e in self.edges if e.source == node_id]
