"""Errors of the routes of pipelines."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from backend.accounts.answers import ProductError
from backend.pipelines.answers.deployments import Report
from backend.pipelines.answers.problems import Problem


class PipelineErrors(TypedDict):
    """Every error of a route of pipelines."""

    errors: list[ProductError]
    problems: NotRequired[list[Problem]]
    """What keeps a version from being deployed."""
    report: NotRequired[Report]
    """Why the state of the running job is in the way of a deployment."""
    current: NotRequired[dict[str, Any] | None]
    """With 412: what the client has not seen, a draft (null: it is gone) or a version, with its document."""
