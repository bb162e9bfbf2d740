"""Stages of a context whose JVM hangs or is gone: whoever ends them waits for no answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.core.ids import Attempt, SlotId
from runtime.execution.spark_slot import SlotSpec
from runtime.execution.spark_stages import SparkStages

SPEC = SlotSpec((SlotId(0),), Attempt(0), "grpc://127.0.0.1:1", "secret", True, 5_000.0, 1 << 20)


class SilentContext:
    """Stands for a SparkContext whose JVM hangs: no call returns before `thaw`."""

    def __init__(self) -> None:
        self._thawed = threading.Event()
        self.asked = threading.Event()

    def thaw(self) -> None:
        self._thawed.set()

    def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802
        self._thawed.wait(60)
        raise OSError("the JVM was killed")

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.asked.set()
        self._thawed.wait(60)


class StoppedContext(SilentContext):
    """Stands for a SparkContext that another job's session has replaced while a stage of it had not ended yet."""

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.asked.set()
        raise AttributeError("'NoneType' object has no attribute 'sc'")


@pytest.fixture(params=[SilentContext, StoppedContext])
def context(request: pytest.FixtureRequest) -> Iterator[SilentContext]:
    made: SilentContext = request.param()
    yield made
    made.thaw()


def returns(call: Callable[[], object]) -> bool:
    """Return whether a call returns within seconds, without an error."""
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done.wait(10)


def test_who_ends_a_stage_waits_for_no_jvm(context: Any) -> None:
    stages = SparkStages(context)
    ends: list[str | None] = []
    stages.start("job-0-0", SPEC, ends.append)
    assert returns(lambda: stages.end(["job-0-0"]))
    assert context.asked.wait(20)
    assert ends == []
    context.thaw()
    stages.join()
    assert "the JVM was killed" in (ends[0] or "")
