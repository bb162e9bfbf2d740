"""Generated requests on every described route: no server error, and every answer as the contract describes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from backend.accounts.services import ensure_admin
from backend.cluster import services
from backend.cluster.models import Operation
from tests.dispatcher import rows
from tests.support.tools import needs_tools, tool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(1800), needs_tools]

TOKEN = "a-token-of-the-tests-that-nobody-guesses"
OPENAPI = Path(__file__).parent.parent.parent / "docs" / "openapi.json"
CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance"
LEFT_OUT = (
    # would end the requests' own right to be answered
    "/api/v1/session",
    "/api/v1/tokens/{token_id}",
    "/api/v1/users/{name}",
    # is answered with 503, as Flink does
    "/v1/jobs/{job_id}/rescaling",
)
CONFIGURATION = """
[parameters]
{parameters}
"""


def test_generated_requests_are_answered_as_described(
    live_server: LiveServer, settings: Settings, home: Path, no_redis: None, tmp_path: Path
) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 0
    settings.TIDEMARK_SAVEPOINTS_PER_MINUTE = 0
    ensure_admin(TOKEN)
    rows.taskmanager()
    job = rows.running_job()
    savepoint = services.request_operation(job, Operation.Kind.SAVEPOINT, {"format": "NATIVE"}, None)
    known = {
        "path.job_id": job.id,
        "path.application_id": job.id,
        "path.vertex_id": rows.SINK,
        "path.taskmanager_id": rows.TASKMANAGER,
        "path.trigger_id": savepoint.trigger_id,
        "path.index": "0",
        "path.attempt": "0",
        "path.checkpoint_id": "1",
    }
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(
        CONFIGURATION.format(parameters="\n".join(f'"{name}" = "{value}"' for name, value in known.items()))
    )
    left_out = [part for path in LEFT_OUT for part in ("--exclude-path", path)]
    result = subprocess.run(
        (
            str(tool("schemathesis")),
            "--config-file",
            str(configuration),
            "run",
            str(OPENAPI),
            *("--url", live_server.url),
            *("--header", f"Authorization: Bearer {TOKEN}"),
            *("--checks", CHECKS),
            *("--phases", "examples,coverage,fuzzing"),
            *("--mode", "all"),
            *("--max-examples", "15"),
            # no answer is late because the machine does something else
            *("--request-timeout", "60"),
            *("--seed", "7"),
            "--generation-deterministic",
            "--continue-on-failure",
            "--no-color",
            *left_out,
        ),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=1700,
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-4_000:]
