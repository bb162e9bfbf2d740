"""/jobs/:jobid/resource-requirements."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster.models import Job, Operation
from tests.accounts.cast import client_of
from tests.dispatcher import rows


def bounds(upper: Any, lower: Any = 1) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def test_the_requirements_are_what_the_job_runs_with(api: APIClient, job: Job) -> None:
    answer = api.get(f"/jobs/{job.id}/resource-requirements").json()
    assert answer == {rows.SOURCE: bounds(2), rows.SINK: bounds(2)}


def test_other_ones_become_an_operation_once(api: APIClient, job: Job) -> None:
    path = f"/v1/jobs/{job.id}/resource-requirements"
    for _ in range(2):
        answer = api.put(path, {rows.SOURCE: bounds(4), rows.SINK: bounds(3, -1)}, format="json")
        assert answer.status_code == 200
    operation = Operation.objects.get()
    assert (operation.kind, operation.parameters) == ("rescale", {"parallelism": {rows.SOURCE: 4, rows.SINK: 3}})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "No vertex"),
        ({"f" * 32: bounds(2)}, "the job has no vertex"),
        ({rows.SOURCE: bounds(129)}, "not in 1..128, its max parallelism"),
        ({rows.SOURCE: bounds(0)}, "whole number from 1"),
        ({rows.SOURCE: bounds("many")}, "whole number from 1"),
        ({rows.SOURCE: bounds(2, 3)}, "the lower bound 3 is above the upper bound 2"),
        ({rows.SOURCE: {"parallelism": 3}}, "is expected"),
        ({rows.SOURCE: 3}, "is expected"),
        ([], "a JSON object"),
    ],
)
def test_what_cannot_be_is_refused_at_once(api: APIClient, job: Job, body: Any, error: str) -> None:
    answer = api.put(f"/jobs/{job.id}/resource-requirements", body, format="json")
    assert answer.status_code == 400
    assert error in answer.json()["errors"][0]
    assert not Operation.objects.exists()


def test_rescaling_takes_an_operator_and_the_old_route_is_off(api: APIClient, job: Job, victor: User) -> None:
    path = f"/jobs/{job.id}/resource-requirements"
    viewer = client_of(victor)
    assert viewer.put(path, {rows.SOURCE: bounds(1)}, format="json").status_code == 403
    assert viewer.get(path).status_code == 200
    answer = api.patch(f"/jobs/{job.id}/rescaling?parallelism=3")
    assert (answer.status_code, list(answer.json())) == (503, ["errors"])
