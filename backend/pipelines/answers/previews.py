"""Previews."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.pipelines.answers.problems import Problem


class PreviewRequest(TypedDict):
    document: dict[str, Any]
    rows: NotRequired[int]
    """Of each source, up to 100,000; default 10,000."""


class PreviewPort(TypedDict):
    node: str
    port: str
    """An output, or "in" of a sink."""
    rows: int
    """That have passed."""
    sample: list[Any]
    """The first 150 of them, and 50 of the others; "$kind" is there in rows that are not inserted."""
    times: list[int | None]
    """Event time of each row of the sample."""
    watermarks: list[int | None]
    """That had come before each row of the sample."""
    columns: list[list[str]] | None
    """[name, type]; null: Python objects."""
    watermark: int | None


class PreviewEnd(TypedDict):
    message: str
    node: str | None
    """At which it failed, if that is known."""
    line: int | None
    """Of the generated program."""
    code_line: int | None
    """Of the node's own Python, or of the pipeline's shared code if `node` is null; null: the line is generated."""
    traceback: str
    simulated: bool | None
    """Whether time was simulated, because no source talks to the outside."""
    limited: list[str]
    """Nodes whose sources were ended before their own end, so that open windows fired."""
    output: str
    """What the program has printed, its end."""


class PreviewAnswer(TypedDict):
    id: str
    version: int
    """Grows with every change."""
    semantic_hash: str
    """Of the document."""
    state: Literal["running", "finished", "failed", "stopped", "timed out", "lost"]
    """lost: the process that ran it is gone."""
    ports: dict[str, dict[str, PreviewPort]]
    """Node → port."""
    pinned: list[str]
    """Sources in whose place the document's samples are read."""
    problems: list[Problem]
    """Of the document; nodes that they block, and all below, are left out."""
    end: PreviewEnd | None
