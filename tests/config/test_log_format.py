"""Logs as JSON: a line each, with what it is about; requests keep their names."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from backend.audit.redaction import RedactingFilter
from backend.config import environment
from backend.config.environment import EnvironmentProblem
from backend.config.log_format import REQUEST_HEADER, JsonFormatter, RequestId

JOB = "a" * 32


def line_of(text: str, *arguments: object, exception: BaseException | None = None) -> dict[str, Any]:
    info = None if exception is None else (type(exception), exception, exception.__traceback__)
    record = logging.LogRecord("backend.cluster", logging.WARNING, __file__, 1, text, arguments, info)
    RedactingFilter().filter(record)
    formatted = JsonFormatter().format(record)
    assert "\n" not in formatted
    return dict(json.loads(formatted))


def test_a_record_is_one_line_with_its_job_and_attempt() -> None:
    line = line_of("job %s, attempt %d: stage %d ended:\nnormally", JOB, 3, 0)
    assert line["message"] == f"job {JOB}, attempt 3: stage 0 ended:\nnormally"
    assert (line["job"], line["attempt"], line["level"], line["logger"]) == (JOB, 3, "WARNING", "backend.cluster")
    assert line["time"].endswith("Z") and "request" not in line
    assert "job" not in line_of("attempt 3 of something")


def test_exceptions_are_in_the_line_without_their_secrets() -> None:
    try:
        raise ValueError("password=hunter2 is wrong")
    except ValueError as error:
        line = line_of("it failed", exception=error)
    assert "ValueError" in line["exception"] and "hunter2" not in json.dumps(line)
    assert sys.exc_info() == (None, None, None)


@pytest.mark.parametrize(
    ("given", "kept"), [("proxy-7.a_b", True), ("", False), ("two\nlines", False), ("x" * 65, False), ("é", False)]
)
def test_a_request_has_one_name_in_all_lines_and_in_its_answer(given: str, kept: bool) -> None:
    lines = []

    def view(request: object) -> HttpResponse:
        lines.append(line_of("something"))
        return HttpResponse()

    request = RequestFactory().get("/", headers={REQUEST_HEADER: given})
    name = RequestId(view)(request)[REQUEST_HEADER]
    assert lines[0]["request"] == name
    assert (name == given) is kept
    assert "request" not in line_of("later")


def test_the_format_is_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.log_format() == "line"
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "json")
    assert environment.log_format() == "json"
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "xml")
    with pytest.raises(EnvironmentProblem, match="must be line or json"):
        environment.log_format()
