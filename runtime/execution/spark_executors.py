"""SparkExecutors: the executors of a session as Spark's own status store has them, which its page shows, too.

Asked of the JVM again and again; a JVM that does not answer is never waited for long. One thread.
Source: Spark, AppStatusStore and ExecutorSummary.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from pyspark import SparkContext

from runtime.execution.executor_figures import SparkExecutor
from runtime.execution.session_health import JvmCall

logger = logging.getLogger(__name__)

MAX_EXECUTORS: Final = 50
"""More: a look takes several hundred calls into the JVM."""
PATIENCE_S: Final = 1.0
"""Of a look; an answer that comes later is taken by the next one."""


class SparkExecutors:
    """The executors of one session.

    Args:
        context: of the session.
        patience_s: how long a look may wait for the JVM.
    """

    def __init__(self, context: SparkContext, patience_s: float = PATIENCE_S) -> None:
        self._context = context
        self._patience_s = patience_s
        self._question: JvmCall | None = None
        self._known: list[SparkExecutor] = []
        self._has_failed = False

    def look(self) -> list[SparkExecutor]:
        """Return the executors, those that are gone last; as they were before while the JVM does not answer."""
        question = self._question = self._question or JvmCall(self._read)
        if not question.wait(self._patience_s):
            return self._known
        self._question = None
        try:
            self._known = question.answer()
            self._has_failed = False
        except Exception as error:
            # what is only shown must not end a TaskManager
            if not self._has_failed:
                logger.warning("Spark does not tell its executors: %s", error)
            self._has_failed = True
        return self._known

    def _read(self) -> list[SparkExecutor]:
        summaries = self._context._jsc.sc().statusStore().executorList(False)
        found = [_executor(summaries.apply(index)) for index in range(min(summaries.size(), MAX_EXECUTORS))]
        return sorted(found, key=lambda executor: (not executor["is_active"], executor["id"]))


def _executor(summary: Any) -> SparkExecutor:
    return {
        "id": str(summary.id()),
        "address": str(summary.hostPort()),
        "is_active": bool(summary.isActive()),
        "cores": int(summary.totalCores()),
        "active_tasks": int(summary.activeTasks()),
        "completed_tasks": int(summary.completedTasks()),
        "failed_tasks": int(summary.failedTasks()),
        "memory_used": int(summary.memoryUsed()),
        "memory_max": int(summary.maxMemory()),
        "disk_used": int(summary.diskUsed()),
        "duration": int(summary.totalDuration()),
        "gc_time": int(summary.totalGCTime()),
    }
