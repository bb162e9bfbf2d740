"""Every error has a status other than 2xx, and {"errors": ["…"]}."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from backend.cluster import services
from backend.cluster.models import Job
from tests.dispatcher import rows

UNKNOWN = "f" * 32


@pytest.mark.parametrize("prefix", ["/", "/v1/"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "jobs/zz", 400),
        ("get", f"jobs/{UNKNOWN.upper()}", 400),
        ("patch", "jobs/zz", 400),
        ("get", f"jobs/{UNKNOWN}", 404),
        ("get", f"jobs/{UNKNOWN}/plan", 404),
        ("patch", f"jobs/{UNKNOWN}?mode=cancel", 404),
        ("get", f"jobs/{UNKNOWN}/yarn-cancel", 404),
        ("get", f"jobs/{UNKNOWN}/vertices/zz", 400),
        ("get", f"jobs/{UNKNOWN}/exceptions?maxExceptions=many", 404),
        ("get", f"applications/{UNKNOWN}", 404),
        ("get", "taskmanagers/nobody:1-abcdef", 404),
        ("delete", "jars/nothing.py", 404),
        ("post", f"jars/{'0' * 64}_x.py/run", 404),
        ("get", "nope", 404),
        ("get", "nope%0a", 404),
        ("get", f"jobs/{UNKNOWN}/nope", 404),
        ("post", "jobs", 405),
        ("get", "jars/upload", 405),
        ("options", "overview", 405),
    ],
)
def test_errors_have_one_shape(api: APIClient, method: str, path: str, status: int, prefix: str) -> None:
    answer = getattr(api, method)(prefix + path)
    assert answer.status_code == status
    assert list(answer.json()) == ["errors"]
    assert all(isinstance(line, str) and line for line in answer.json()["errors"])


def test_an_unknown_vertex_of_a_known_job_is_not_found(api: APIClient, job: Job) -> None:
    answer = api.get(f"/v1/jobs/{job.id}/vertices/{UNKNOWN}")
    assert answer.status_code == 404
    assert UNKNOWN in answer.json()["errors"][0]


def test_a_database_that_is_locked_is_503_and_says_when_to_come_back(
    api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked() -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(services, "cluster_document", locked)
    answer = api.get("/v1/overview")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert answer.json()["errors"] == ["The database is unavailable at the moment; try again."]


def test_an_error_that_nobody_foresaw_shows_an_id_and_not_its_cause(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("the secret cause")

    monkeypatch.setattr(services, "cluster_document", broken)
    answer = api.get("/v1/overview")
    assert answer.status_code == 500
    [message] = answer.json()["errors"]
    assert "secret" not in message
    reference = message.rsplit(" ", 1)[1].rstrip(".")
    assert reference in caplog.text and "the secret cause" in caplog.text


def test_gets_may_have_a_body(api: APIClient, job: Job) -> None:
    """Flink's Java client sends {} with every GET and PATCH."""
    answer = api.generic("GET", f"/v1/jobs/{job.id}/status", "{}", content_type="application/json")
    assert answer.json() == {"status": "RUNNING"}
    answer = api.generic("PATCH", f"/v1/jobs/{job.id}?mode=cancel", "{}", content_type="application/json")
    assert answer.status_code == 202


def test_any_accept_header_gets_json(api: APIClient) -> None:
    for accept in ("text/html", "application/xml", "*/*", "nonsense"):
        answer = api.get("/v1/jobs", HTTP_ACCEPT=accept)
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")


def test_answers_are_for_the_own_origin_and_are_not_kept(api: APIClient) -> None:
    answer = api.get("/v1/jobs", HTTP_ORIGIN="https://elsewhere.example")
    assert "Access-Control-Allow-Origin" not in answer
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"


@pytest.mark.django_db
def test_an_unknown_host_is_refused(client: APIClient) -> None:
    assert client.get("/v1/jobs", HTTP_HOST="elsewhere.example").status_code == 400


def test_too_many_names_are_refused(api: APIClient) -> None:
    job = rows.running_job()
    answer = api.get(f"/v1/jobs/{job.id}/metrics?get={','.join(f'm{i}' for i in range(5001))}")
    assert answer.status_code == 400


DIGITS = "9" * 10_000


def paths_with(patterns: list[URLPattern | URLResolver], good: dict[str, str], before: str = "") -> Iterator[str]:
    """Every path of the table with one parameter of 10,000 digits, and good values of the others."""
    for entry in patterns:
        route = before + str(entry.pattern).lstrip("^")
        if isinstance(entry, URLResolver):
            yield from paths_with(entry.url_patterns, good, route)
            continue
        # text, parameter, text, …
        parts = re.split(r"<(?:\w+:)?(\w+)>", route)
        for long in range(1, len(parts), 2):
            values = [DIGITS if n == long else good.get(part, "0") if n % 2 else part for n, part in enumerate(parts)]
            yield "".join(values)


def test_no_number_of_thousands_of_digits_breaks_a_route(api: APIClient, job: Job) -> None:
    good = {"job_id": job.id, "vertex_id": rows.SOURCE, "taskmanager_id": rows.TASKMANAGER}
    paths = [path for path in paths_with(get_resolver().url_patterns, good) if "(?P" not in path]
    # the page may not be built here
    paths = [path for path in paths if not path.startswith("ui/")]
    vertex = f"jobs/{job.id}/vertices/{rows.SOURCE}"
    assert any(path.endswith(f"{vertex}/subtasks/0/attempts/{DIGITS}") for path in paths)
    assert len(paths) > 80
    queries = [f"{vertex}/subtasks/metrics?subtasks={value}" for value in (DIGITS, f"0-{DIGITS}", f"{DIGITS}-1")]
    queries += [f"jobs/{job.id}/exceptions?maxExceptions={DIGITS}", f"taskmanagers/metrics?taskmanagers={DIGITS}"]
    for path in paths + queries:
        for method in (api.get, api.put):
            status = method(f"/{path}").status_code
            # lists in which nothing has that name
            assert status < 500, f"{method.__name__} {path[:200]}"
            if "/subtasks/" in path or "subtasks=" in path or "checkpoints/details/9" in path:
                assert status in (400, 404, 405), path[:200]


CONTRACT = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
#: no text of PostgreSQL's, too much of a pattern for SQLite, and what other readers take for something else
HOSTILE = ["\0", "x\0y", "%" * 60_000, "\U0010ffff", "[", "1e9", "-0", "../..", "'; --", "{", "true"]


def queries_of_the_contract() -> list[tuple[str, str]]:
    """Every GET of the contract with every parameter of its query."""
    paths: dict[str, Any] = json.loads(CONTRACT.read_text())["paths"]
    return [
        (path, given["name"])
        for path, methods in paths.items()
        for given in methods.get("get", {}).get("parameters", ())
        if given["in"] == "query"
    ]


def test_no_text_of_a_query_breaks_a_route(api: APIClient, job: Job) -> None:
    good = {"job_id": job.id, "application_id": job.id, "vertex_id": rows.SOURCE, "taskmanager_id": rows.TASKMANAGER}
    queries = queries_of_the_contract()
    assert len(queries) > 30
    for path, name in queries:
        filled = re.sub(r"{(\w+)}", lambda parameter: good.get(parameter[1], "0"), path)
        for value in HOSTILE:
            status = api.get(filled, {name: value}).status_code
            assert status < 500, f"{filled}?{name}={value[:10]!r}: {status}"
