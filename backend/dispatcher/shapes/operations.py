"""Responses about asynchronous operations: their status and result.

Source: Flink, AsynchronousOperationResult, SavepointInfo, CheckpointInfo, SerializedThrowableSerializer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.dispatcher.shapes.throwables import throwable

Result = Mapping[str, Any]
IN_PROGRESS: Mapping[str, Any] = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def savepoint(result: Result | None) -> Mapping[str, Any]:
    """Return the response of /jobs/:jobid/savepoints/:triggerid; `result` is None until it is completed."""
    return _completed(result, "failure-cause", {"location": (result or {}).get("location")})


def checkpoint(result: Result | None) -> Mapping[str, Any]:
    """Return the response of /jobs/:jobid/checkpoints/:triggerid."""
    return _completed(result, "failureCause", {"checkpointId": (result or {}).get("checkpoint_id")})


def disposal(result: Result | None) -> Mapping[str, Any]:
    """Return the response of /savepoint-disposal/:triggerid."""
    return _completed(result, "failure-cause", {})


def _completed(result: Result | None, failure_key: str, operation: Mapping[str, Any]) -> Mapping[str, Any]:
    if result is None:
        return IN_PROGRESS
    if "error" in result:
        operation = {failure_key: throwable(str(result["error"]))}
    return {"status": {"id": "COMPLETED"}, "operation": dict(operation)}
