"""The server's time for an answer about a pipeline: seconds of CPU from the body to the answer's text."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backend.pipelines import building
from backend.pipelines.documents import check
from tests.pipeline.test_validate import three_hundred


@contextmanager
def as_in_a_web_process() -> Iterator[None]:
    """Collections of garbage skip what was imported, as `backend.config.asgi` has it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def server_time(value: dict[str, Any], known: str | None) -> tuple[float, dict[str, Any], int]:
    """Validate as the route does; return the seconds of CPU, the answer and its number of characters."""
    body = json.dumps({"document": value})
    began = time.process_time()
    answer = building.validated(check(json.loads(body)["document"]).document, known)
    size = len(json.dumps(answer))
    return time.process_time() - began, answer, size


def edits_of_300_nodes() -> Iterator[float]:
    """Seconds of CPU for one edit after the other, each by a client that knows the answer before; 50 at most."""
    value = three_hundred()
    _, answer, _ = server_time(value, None)
    for number in range(50):
        value["nodes"][f"n{200 + 2 * number:03}"]["params"]["columns"][0][1] = f"cents * {number}"
        took, answer, size = server_time(value, answer["tag"])
        assert answer["is_deployable"] and size < 200_000
        yield took
