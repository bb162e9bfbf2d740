"""Lines of the cluster's own log, for people or as JSON for collectors of logs, and names of requests in them."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from django.http import HttpRequest, HttpResponse

LINE_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
REQUEST_HEADER: Final = "X-Request-ID"
#: names a job and its attempt as messages do
_JOB: Final = re.compile(r"\bjob ([0-9a-f]{32})\b")
_ATTEMPT: Final = re.compile(r"\battempt (\d{1,9})\b")
_GIVEN: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_request: ContextVar[str] = ContextVar("request", default="")


class JsonFormatter(logging.Formatter):
    """Writes a record as a line of JSON: time (UTC), level, logger, message, thread, process, and job, attempt, request
    and exception if there are."""

    def __init__(self) -> None:
        super().__init__()
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "thread": record.threadName,
            "pid": record.process,
        }
        job, attempt = _JOB.search(message), _ATTEMPT.search(message)
        if job is not None:
            line["job"] = job[1]
            if attempt is not None:
                line["attempt"] = int(attempt[1])
        if _request.get():
            line["request"] = _request.get()
        # the filter that hides secrets has formatted it already
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            line["exception"] = trace
        return json.dumps(line, ensure_ascii=False, default=str)


class RequestId:
    """Middleware: calls a request as a proxy has called it, or by a name of its own, in logs and in its answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(REQUEST_HEADER, "")
        name = given if _GIVEN.fullmatch(given) else secrets.token_hex(8)
        token = _request.set(name)
        try:
            response = self._get_response(request)
        finally:
            _request.reset(token)
        response[REQUEST_HEADER] = name
        return response
