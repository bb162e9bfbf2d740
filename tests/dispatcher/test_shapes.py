"""Every answer has every key of a real Flink 2.3 cluster's answer, with a value of the same kind.

data/flink_shapes.json: route → keys and kinds of values, lists by their first item; a text "NaN" is a number there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.cluster.models import Job, TaskManager
from tests.dispatcher import rows

SHAPES = json.loads((Path(__file__).parent / "data" / "flink_shapes.json").read_text())


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) or value == "NaN" else "string"


def differences(expected: Any, value: Any, path: str) -> list[str]:
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return [f"{path} is no object"]
        missing = [f"{path}.{key} is missing" for key in expected.keys() - value.keys()]
        shared = expected.keys() & value.keys()
        return missing + [d for key in sorted(shared) for d in differences(expected[key], value[key], f"{path}.{key}")]
    if isinstance(expected, list):
        if not isinstance(value, list):
            return [f"{path} is no list"]
        if expected and not value:
            return [f"{path} is empty: nothing was compared"]
        return [d for item in value for d in differences(expected[0], item, f"{path}[]")] if expected else []
    kind = kind_of(value)
    return [] if kind == expected or "null" in (kind, expected) else [f"{path} is a {kind}, not a {expected}"]


@pytest.mark.parametrize("prefix", ["/", "/v1/"])
@pytest.mark.parametrize("route", sorted(SHAPES))
def test_the_answer_has_flinks_shape(
    api: APIClient, job: Job, taskmanager: TaskManager, route: str, prefix: str
) -> None:
    rows.failure_of(job, 0)
    vertex = rows.SINK if route.endswith("watermarks") else rows.SOURCE
    path = route.replace(":job", job.id).replace(":vertex", vertex).replace(":taskmanager", rows.TASKMANAGER)
    answer = api.get(prefix + path)
    assert answer.status_code == 200
    assert differences(SHAPES[route], answer.json(), "answer") == []
