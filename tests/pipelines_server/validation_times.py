"""The server's time for an answer about a pipeline: seconds of CPU from the body to the answer's text."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from backend.accounts.views import FastJson
from backend.pipelines import building
from backend.pipelines.documents import check
from runtime.core.garbage import collect_garbage_less_often
from tests.pipeline.test_validate import three_hundred


@contextmanager
def as_in_a_web_process() -> Iterator[None]:
    """Garbage is collected as `backend.config.asgi` has it."""
    thresholds = gc.get_threshold()
    gc.collect()
    collect_garbage_less_often()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def server_time(value: dict[str, Any], known: str | None) -> tuple[float, dict[str, Any], int]:
    """Validate as the route does; return the seconds of CPU, the answer and its number of characters."""
    body = json.dumps({"document": value})
    began = time.process_time()
    answer = building.validated(check(json.loads(body)["document"]).document, known)
    size = len(FastJson().render(answer))
    return time.process_time() - began, answer, size


Edit = Callable[[dict[str, Any], int], None]


def other_expression(value: dict[str, Any], number: int) -> None:
    """Compute a column of a node in another way: nothing changes below it."""
    value["nodes"][f"n{2 + 37 * number % 298:03}"]["params"]["columns"][0][1] = f"cents * {number}"


def other_name(value: dict[str, Any], number: int) -> None:
    """Rename a column that a node makes: all nodes below it have other columns."""
    value["nodes"][f"n{2 + 37 * number % 298:03}"]["params"]["columns"][0][0] = f"renamed_{number}"


def edits_of_300_nodes(edit: Edit) -> Iterator[float]:
    """Seconds of CPU for one edit after the other, each by a client that knows the answer before."""
    value = three_hundred()
    _, answer, _ = server_time(value, None)
    for number in count():
        edit(value, number)
        took, answer, _ = server_time(value, answer["tag"])
        assert answer["is_deployable"]
        yield took
