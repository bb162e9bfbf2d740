"""Changelogs in a program: which operators make them, and which may have one as their input. Pure.

A changelog is a stream in which a row's kind says whether it is new or takes an earlier one back. Factories tell by
two attributes, `makes_changelog` (default False) and `changelog_input` (default AS_ROWS: it runs a Python function).
What kinds a function gives its rows is not known here. Source: Flink, ChangelogMode and
FlinkChangelogModeInferenceProgram (the idea).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from runtime.graph.errors import GraphError
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


class ChangelogInput(enum.Enum):
    """Effect of an operator on a changelog."""

    REFUSES = "refuses"
    """It would take every row for a new one, or fail."""
    AS_ROWS = "as rows"
    """It runs a function, which has to know: the program asks for rows with kinds by `changelog_as_rows()`."""
    KEEPS = "keeps"
    """Its output is a changelog, too: every row keeps its kind."""
    TAKES = "takes"
    """It does what the kinds say, and that is the end of it."""


@dataclass(frozen=True, slots=True)
class Changelog:
    """Facts about a stream's changelog."""

    maker: StreamNode
    """The operator that makes it."""
    as_rows: bool
    """Whether the program has asked for its rows, each with its kind."""


def changelogs(
    nodes: Mapping[int, StreamNode], edges: Iterable[StreamEdge], order: Iterable[int]
) -> dict[int, Changelog]:
    """Return node id → the changelog that leaves the node, without nodes that emit inserts only.

    Args:
        nodes: of the program, by id.
        edges: of the program.
        order: ids of all nodes, producers before consumers.
    """
    inputs: dict[int, list[StreamEdge]] = {}
    for edge in edges:
        inputs.setdefault(edge.target, []).append(edge)
    leaving: dict[int, Changelog] = {}
    for node_id in order:
        node = nodes[node_id]
        if node.makes_changelog:
            leaving[node_id] = Changelog(node, False)
        elif _input_of(node) is ChangelogInput.KEEPS:
            found = [c for edge in inputs.get(node_id, ()) if (c := _on_edge(edge, leaving)) is not None]
            if found:
                leaving[node_id] = Changelog(found[0].maker, all(changelog.as_rows for changelog in found))
    return leaving


def check_changelogs(graph: StreamGraph, order: Iterable[int]) -> None:
    """Refuse a program in which an operator would take rows that take others back for new ones.

    Args:
        graph: the program.
        order: ids of all nodes, producers before consumers.

    Raises:
        GraphError: there is one; the message names it, what makes the changelog, and what to do.
    """
    leaving = changelogs(graph.nodes, graph.edges, order)
    for edge in graph.edges:
        changelog = _on_edge(edge, leaving)
        if changelog is None:
            continue
        node = graph.nodes[edge.target]
        accepted = _input_of(node)
        if accepted is ChangelogInput.REFUSES:
            why = _SINK if node.is_sink else _INSERTS_ONLY
        elif accepted is ChangelogInput.AS_ROWS and not changelog.as_rows:
            why = _FUNCTION
        else:
            continue
        names = (node.display_name, changelog.maker.display_name)
        raise GraphError(f"{names[1]!r} makes a changelog, and {names[0]!r} {why}", names)


def _on_edge(edge: StreamEdge, leaving: Mapping[int, Changelog]) -> Changelog | None:
    # side outputs are inserts
    changelog = None if edge.side_output_tag is not None else leaving.get(edge.source)
    return replace(changelog, as_rows=True) if changelog is not None and edge.has_changelog_as_rows else changelog


def _input_of(node: StreamNode) -> ChangelogInput:
    found: ChangelogInput = getattr(node.factory, "changelog_input", ChangelogInput.AS_ROWS)
    return found


_SINK = (
    "cannot take rows back: use a sink that can (such as print() or PostgresSink with key_columns), "
    "aggregate by window, or make rows that say it: changelog_as_rows().map(...) and each row's get_row_kind()"
)
_INSERTS_ONLY = "accepts inserts only: put it behind a window, or before the operator that makes the changelog"
_FUNCTION = (
    "would give every row back as a new one: call changelog_as_rows() before it and look at each row's get_row_kind(), "
    "or use select(), where() and filter(), which keep the kinds"
)
