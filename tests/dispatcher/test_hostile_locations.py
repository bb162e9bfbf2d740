"""Locations of snapshots that lead nowhere, on every route that takes one: refused in words, never an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster import services
from backend.cluster.models import Job, Operation
from runtime.common.config_options import ConfigurationError
from tests.cluster.graphs import graph_json

HOSTILE = [
    *("s3://[bad", "s3://[::1/x", "s3://a]b/x", "file://[bad", "hdfs://exa\u2100mple/x", "s3a://\u2488.example/"),
    *("s3://", "://", "file://", "gopher://x/y", "http://169.254.169.254/latest", "\\\\host\\share", "C:\\x"),
    *("file:///a\0b", "/a\0b", "\ud800", "file:///\ud800", "s3://b/\ud800", "/" + "a/" * 3_000, "/" + "a" * 300),
    *("/etc/passwd", "file:///etc/../etc/passwd", "/proc/self/environ", "file:///%2e%2e/%2e%2e/etc", "../..", "~root"),
    *("s3://user:secret@bucket/x", "file://elsewhere/x", "s3://bucket/x?region=y", "s3://bucket/x#y", "-rf", "$HOME"),
]
ROUTES = ["savepoint", "stop", "disposal", "keys", "lookup"]
OPTIONS = ["execution.checkpointing.dir", "execution.checkpointing.savepoint-dir", "execution.state-recovery.path"]


def asked(api: APIClient, route: str, job: Job, location: str) -> Any:
    """Ask a route for something with a location."""

    def post(path: str, body: dict[str, Any]) -> Any:
        # a client may escape what UTF-8 does not have
        return api.post(path, json.dumps(body), content_type="application/json")

    match route:
        case "savepoint":
            return post(f"/v1/jobs/{job.id}/savepoints", {"target-directory": location})
        case "stop":
            return post(f"/v1/jobs/{job.id}/stop", {"targetDirectory": location})
        case "disposal":
            return post("/v1/savepoint-disposal", {"savepoint-path": location})
        case _:
            return post(f"/api/v1/jobs/{job.id}/state/{route}", {"snapshot": location})


@pytest.mark.parametrize("route", ROUTES)
def test_what_leads_nowhere_is_refused_in_words(api: APIClient, job: Job, home: Path, route: str) -> None:
    for location in HOSTILE:
        answer = asked(api, route, job, location)
        assert 400 <= answer.status_code < 500, (location, answer.status_code, answer.content)
        told = answer.content.decode()
        assert "Traceback" not in told and "root:" not in told, (location, told)
        assert "secret@" not in told, told
    assert not Operation.objects.exists() and Job.objects.count() == 1


@pytest.mark.parametrize("option", OPTIONS)
def test_no_job_is_submitted_that_names_such_a_place(db: None, home: Path, option: str) -> None:
    user = User.objects.create_user("alice")
    for location in HOSTILE:
        with pytest.raises(ConfigurationError) as refused:
            services.submit_job(graph_json(1, **{option: location}), None, [], {}, user)
        assert "secret@" not in str(refused.value)
    assert not Job.objects.exists()
