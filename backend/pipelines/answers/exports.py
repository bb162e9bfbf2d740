"""Pipelines as files."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.pipelines.answers.pipelines import PipelineAnswer


class ImportedPipeline(TypedDict):
    pipeline: PipelineAnswer
    stripped: list[str]
    """JSON pointers of URLs that had a user or a password, which were left out."""


class ExportQuery(TypedDict, total=False):
    format: Literal["json", "python"]
    version: int
    """Default: the head."""


class ExportBody(TypedDict):
    document: dict[str, Any]
    format: NotRequired[Literal["json", "python"]]


class Export(TypedDict):
    file_name: str
    text: str
    stripped: list[str]
    """JSON pointers of what was left out: users and passwords of URLs, and values under names of secrets."""
