"""Lines of the cluster's own log: for people, or as JSON for collectors of logs."""

from __future__ import annotations

import json
import logging
import time
from typing import Final

LINE_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
FIELDS: Final = ("job", "attempt", "request")
"""What a record may say besides its text: `logger.info(text, extra={"job": …})`."""


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON: time (UTC), level, logger, message, and what else it says."""

    def __init__(self) -> None:
        super().__init__()
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
            "pid": record.process,
        }
        line |= {name: getattr(record, name) for name in FIELDS if getattr(record, name, None) is not None}
        # the filter that hides secrets has formatted it already
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            line["exception"] = trace
        return json.dumps(line, ensure_ascii=False, default=str)
