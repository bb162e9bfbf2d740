"""The committed files of the contract are what the server's types say, and every route keeps to them."""

from __future__ import annotations

import re
from typing import Any, TypedDict

import pytest
from django.contrib.auth.models import User
from django.urls import path
from drf_spectacular.drainage import warn
from pytest_django import Settings
from rest_framework.response import Response
from rest_framework.test import APIClient

from backend.accounts.answers import Session
from backend.accounts.roles import Role, set_role
from backend.accounts.views import ProductView
from backend.cluster import services
from backend.cluster.models import Job, Operation
from backend.contract.operation import operation
from backend.contract.schema import ContractError, Schemas
from backend.gen import openapi
from backend.gen.files import generated_files
from backend.gen.openapi import DeclaredSchema, openapi_document
from tests.contract.checked_answers import ContractBrokenError, document
from tests.dispatcher import rows

GETS = sorted(path for path, operations in document()["paths"].items() if "get" in operations)


def test_the_committed_files_are_what_the_types_say() -> None:
    for file, text in generated_files().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is not up to date: run `make gen`"


@pytest.mark.usefixtures("home", "taskmanager")
def test_every_route_that_can_be_read_answers_as_described(api: APIClient, alice: User, job: Job) -> None:
    """The middleware compares."""
    set_role(alice, Role.ADMIN)
    rows.failure_of(job, 0)
    savepoint = services.request_operation(job, Operation.Kind.SAVEPOINT, {"format": "NATIVE"}, alice)
    checkpoint = services.request_operation(job, Operation.Kind.CHECKPOINT, {}, alice)
    disposal = services.request_operation(None, Operation.Kind.DISPOSE, {"path": "x"}, alice)
    known = {
        "job_id": job.id,
        "application_id": job.id,
        "vertex_id": rows.SINK,
        "index": "0",
        "attempt": "0",
        "checkpoint_id": "1",
        "taskmanager_id": rows.TASKMANAGER,
        "trigger_id": savepoint.trigger_id,
    }
    queries = {"/history": {"series": f"v.{rows.SINK}.busy"}, "/restore-points/check": {"location": "file:///x"}}
    others = {"disposal": disposal.trigger_id, "/checkpoints/{trigger_id}": checkpoint.trigger_id}
    assert len(GETS) > 50
    for route in GETS:
        trigger_id = next((trigger for part, trigger in others.items() if part in route), savepoint.trigger_id)
        is_known = set(re.findall(r"{(\w+)}", route)) <= known.keys()
        if not is_known or route.endswith(("log-search", "manager/log", "_id}/log")):
            # of a program or a pipeline that must be made, or a log that must be written, which other tests do
            assert api.get(re.sub(r"{(\w+)}", "0", route)).status_code in (400, 404)
            continue
        query = next((query for end, query in queries.items() if route.endswith(end)), {})
        answer = api.get(route.format(**known | {"trigger_id": trigger_id}), query)
        assert answer.status_code == (202 if route.endswith("yarn-cancel") else 200), (route, answer.content)


class Drifted(ProductView):
    """A view that answers something else than it declares."""

    @operation(Session)
    def get(self, request: Any) -> Response:
        return Response({"user": {"name": "alice", "role": "developer", "shoe_size": 43}, "submission": ""})


class Undeclared(ProductView):
    """A view that declares nothing."""

    def get(self, request: Any) -> Response:
        return Response({})


urlpatterns = [path("api/v1/session", Drifted.as_view()), path("api/v1/news", Undeclared.as_view())]


def test_an_answer_with_a_member_that_is_not_declared_fails_its_test(api: APIClient, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    with pytest.raises(ContractBrokenError, match="shoe_size"):
        api.get("/api/v1/session")
    with pytest.raises(ContractBrokenError, match=r"is not in openapi\.json"):
        api.get("/api/v1/news")


def test_a_route_that_declares_nothing_ends_the_generation(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    with pytest.raises(ContractError, match="GET /api/v1/news declares no operation"):
        openapi_document(Schemas())


def test_every_warning_of_the_generator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def tags(self: DeclaredSchema) -> list[str]:
        warn("a view without tags")
        return []

    monkeypatch.setattr(openapi.DeclaredSchema, "get_tags", tags)
    with pytest.raises(ContractError, match="a view without tags"):
        openapi_document(Schemas())


def test_two_types_of_one_name_are_refused() -> None:
    schemas = Schemas()
    schemas.of(Session)
    with pytest.raises(ContractError, match="two types are called Session"):
        schemas.of(TypedDict("Session", {"id": int}))  # type: ignore[operator]
