"""/jobs/:jobid/resource-requirements."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster.job_requirements import changed
from backend.cluster.models import Job, Operation
from runtime.core.ids import VertexId
from runtime.jobmaster.requirements import Bounds
from tests.accounts.cast import client_of
from tests.dispatcher import rows
from tests.support.between_reads import after_read


def bounds(upper: Any, lower: Any = -1) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def test_without_bounds_the_requirements_are_what_the_job_runs_with(api: APIClient, job: Job) -> None:
    answer = api.get(f"/jobs/{job.id}/resource-requirements").json()
    assert answer == {rows.SOURCE: bounds(2, 2), rows.SINK: bounds(2, 2)}
    Job.objects.update(vertex_parallelism={rows.SINK: 3})
    answer = api.get(f"/jobs/{job.id}/resource-requirements").json()
    assert answer == {rows.SOURCE: bounds(2, 2), rows.SINK: bounds(3, 3)}


@pytest.mark.parametrize(("number", "message"), [(1, "Job {} not found"), (2, "It does not exist any more.")])
def test_a_job_that_is_deleted_meanwhile_is_not_found(api: APIClient, job: Job, number: int, message: str) -> None:
    path = f"/jobs/{job.id}/resource-requirements"
    with after_read(number, "cluster_job", Job.objects.filter(id=job.id).delete):
        answer = api.get(path)
    assert (answer.status_code, answer.json()) == (404, {"errors": [message.format(job.id)]})


def test_a_jobs_own_bounds_are_shown(api: APIClient, job: Job) -> None:
    Job.objects.update(requirements={rows.SOURCE: [1, 8], rows.SINK: [2, 4]})
    answer = api.get(f"/jobs/{job.id}/resource-requirements").json()
    assert answer == {rows.SOURCE: bounds(8, 1), rows.SINK: bounds(4, 2)}


def test_other_ones_become_an_operation_once(api: APIClient, job: Job) -> None:
    path = f"/v1/jobs/{job.id}/resource-requirements"
    for _ in range(2):
        answer = api.put(path, {rows.SOURCE: bounds(4), rows.SINK: bounds(3, None)}, format="json")
        assert answer.status_code == 200
    operation = Operation.objects.get()
    wanted = {"parallelism": {rows.SOURCE: 4, rows.SINK: 3}, "before": {rows.SOURCE: 2, rows.SINK: 2}}
    assert (operation.kind, operation.parameters) == ("rescale", wanted)


def test_one_that_is_asked_for_again_is_the_same_though_a_vertex_has_changed(api: APIClient, job: Job) -> None:
    path = f"/v1/jobs/{job.id}/resource-requirements"
    first = api.put(path, {rows.SOURCE: bounds(4)}, format="json").json()
    Job.objects.update(vertex_parallelism={rows.SOURCE: 4})
    second = api.put(path, {rows.SOURCE: bounds(4)}, format="json").json()
    assert second == first and Operation.objects.get().parameters["before"] == {rows.SOURCE: 2}


def test_a_lower_bound_is_part_of_the_operation(api: APIClient, job: Job) -> None:
    body = {rows.SOURCE: bounds(4, 1), rows.SINK: bounds(3)}
    assert api.put(f"/jobs/{job.id}/resource-requirements", body, format="json").status_code == 200
    expected = {"parallelism": {rows.SOURCE: 4, rows.SINK: 3}, "lower": {rows.SOURCE: 1}}
    parameters = Operation.objects.get().parameters
    assert {name: parameters[name] for name in expected} == expected
    told = AuditEvent.objects.latest("pk").detail
    assert told["parameters"] == parameters
    was = {"lowerBound": 2, "upperBound": 2}
    assert told["before"] == {rows.SOURCE: was, rows.SINK: was}


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        pytest.param((2, 2), {"parallelism": {"v": 5}}, (5, 5), id="without room: the lower one is the upper one"),
        pytest.param((2, 4), {"parallelism": {"v": 5}}, (2, 5), id="with room: it stays"),
        pytest.param((2, 4), {"parallelism": {"v": 1}}, (1, 1), id="as far as it can"),
        pytest.param((2, 2), {"parallelism": {"v": 5}, "lower": {"v": 1}}, (1, 5), id="or as it is given"),
        pytest.param((2, 4), {"parallelism": {}}, (2, 4), id="a vertex that is not named keeps both"),
    ],
)
def test_a_bound_that_is_not_given_stays(
    own: tuple[int, int], given: dict[str, Any], expected: tuple[int, int]
) -> None:
    vertex = VertexId("v")
    assert changed({vertex: Bounds(*own)}, given) == {vertex: Bounds(*expected)}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "No vertex"),
        ({"f" * 32: bounds(2)}, "the job has no vertex"),
        ({rows.SOURCE: bounds(129)}, "not in 1..128, its max parallelism"),
        ({rows.SOURCE: bounds(0)}, "whole number from 1"),
        ({rows.SOURCE: bounds("many")}, "whole number from 1"),
        pytest.param({rows.SOURCE: bounds("1" * 5000)}, "whole number from 1", id="thousands of digits"),
        ({rows.SOURCE: bounds(2, 0)}, "whole number from 1"),
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


def test_a_body_that_is_nested_too_deeply_is_refused(api: APIClient, job: Job) -> None:
    answer = api.put(f"/jobs/{job.id}/resource-requirements", "[" * 100_000, content_type="application/json")
    assert (answer.status_code, "nested too deeply" in answer.json()["errors"][0]) == (400, True)


def test_rescaling_takes_an_operator_and_the_old_route_is_off(api: APIClient, job: Job, victor: User) -> None:
    path = f"/jobs/{job.id}/resource-requirements"
    viewer = client_of(victor)
    assert viewer.put(path, {rows.SOURCE: bounds(1)}, format="json").status_code == 403
    assert viewer.get(path).status_code == 200
    answer = api.patch(f"/jobs/{job.id}/rescaling?parallelism=3")
    assert (answer.status_code, list(answer.json())) == (503, ["errors"])
