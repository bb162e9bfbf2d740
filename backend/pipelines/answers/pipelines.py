"""Pipelines with their versions and drafts."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.pipelines.answers.deployments import DeploymentListed


class VersionListed(TypedDict):
    number: int
    semantic_hash: str
    """Equal for documents that make the same job."""
    message: str
    author: str | None
    created_at: int


class VersionAnswer(VersionListed):
    document: dict[str, Any]


class VersionsAnswer(TypedDict):
    versions: list[VersionListed]
    """Newest first."""


class DraftListed(TypedDict):
    tag: str
    """In quotes: the draft's ETag."""
    base: int
    """Number of the version that it began with."""
    semantic_hash: str
    updated_at: int


class DraftAnswer(DraftListed):
    document: dict[str, Any]


class Editor(TypedDict):
    """Somebody else with a draft."""

    user: str | None
    base: int
    updated_at: int


class PipelineListed(TypedDict):
    id: str
    name: str
    owner: str | None
    tags: list[str]
    created_at: int
    updated_at: int
    archived_at: int | None
    head: VersionListed
    draft: DraftListed | None
    """The user's own."""
    deployment: DeploymentListed | None
    """The newest one."""


class PipelineAnswer(PipelineListed):
    editors: list[Editor]


class PipelinesAnswer(TypedDict):
    pipelines: list[PipelineListed]
    """Those changed last first, at most 500."""


class PipelinesQuery(TypedDict, total=False):
    archived: Literal["true", "false"]
    text: str
    """In the name, whatever the case."""
    tag: str


class NewPipeline(TypedDict):
    document: dict[str, Any]
    message: NotRequired[str]
    tags: NotRequired[list[str]]


class PipelineChange(TypedDict):
    tags: NotRequired[list[str]]
    archived: NotRequired[bool]


class NewVersion(TypedDict):
    document: dict[str, Any]
    message: NotRequired[str]
    draft: NotRequired[str | None]
    """Tag of the own draft that the document has come from; null: there was none. It ends with the version; another one
    (412, draft_moved) is kept, and nothing is saved. Without this, a draft ends only if it is the very document."""


class RestoreVersion(TypedDict):
    version: int


class NewDraft(TypedDict):
    document: dict[str, Any]
    base: int


class DiffQuery(TypedDict, total=False):
    before: int
    """Number of a version; default: the one before `after`."""
    after: int
    """Default: the head."""


class ChangedValue(TypedDict):
    pointer: str
    before: Any
    after: Any


class ChangedItem(TypedDict):
    id: str
    name: str
    changes: list[ChangedValue]


class ChangedEdges(TypedDict):
    added: list[str]
    removed: list[str]
    changed: list[ChangedItem]


class ChangedNodes(ChangedEdges):
    moved: list[str]
    """Nodes of which the position differs."""


class Diff(TypedDict):
    before: int
    after: int
    nodes: ChangedNodes
    edges: ChangedEdges
    settings: list[ChangedValue]
    """Of all that belongs to no node, no edge and no layout."""
