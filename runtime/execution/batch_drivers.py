"""BatchDrivers: starts and ends the processes that drive passes in the SparkSession of a TaskManager."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

import runtime
from runtime.execution.batch_driver import encode_order
from runtime.execution.session_health import JvmCall
from runtime.execution.spark_passes import group_beside
from runtime.execution.spark_slot import SlotSpec

logger = logging.getLogger(__name__)

MODULE = "runtime.execution.batch_driver"
_CLEAR_TIMEOUT_S = 5.0
"""Time for Spark to end what an ended driver has left."""


class BatchDrivers:
    """The drivers of one TaskManager; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: by group; None: it was cancelled before it had begun
        self._processes: dict[str, subprocess.Popen[bytes] | None] = {}

    def run(self, context: SparkContext, group: str, spec: SlotSpec) -> str | None:
        """Run the driver of a region's slots to its end.

        Args:
            context: the TaskManager's.
            group: what `cancel` ends; begins the names of what the driver has on Spark.
            spec: what the slots are told.

        Returns:
            What has failed; None: the slots were released.

        Raises:
            OSError, Py4JError: the process cannot be started, or the JVM cannot be called.
        """
        gateway = context._jvm.org.apache.spark.api.python.Py4JServer(context._jsc.sc().conf())
        gateway.start()
        try:
            process = self._start(group, gateway)
            if process is None:
                return "it was cancelled"
            try:
                return _outcome(process, encode_order(group, spec))
            finally:
                with self._lock:
                    self._processes.pop(group, None)
        finally:
            _clear(context, group, gateway)

    def cancel(self, group: str) -> None:
        """Kill a driver; `run` then ends what it has left on Spark."""
        with self._lock:
            process = self._processes.setdefault(group, None)
        if process is not None:
            process.kill()

    def forget(self, group: str) -> None:
        """Note that a group is over: it was cancelled, perhaps, before it had begun."""
        with self._lock:
            self._processes.pop(group, None)

    def _start(self, group: str, gateway: Any) -> subprocess.Popen[bytes] | None:
        root = str(Path(runtime.__file__).resolve().parent.parent)
        environment = os.environ | {
            "PYSPARK_GATEWAY_PORT": str(gateway.getListeningPort()),
            "PYSPARK_GATEWAY_SECRET": gateway.secret(),
            "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
        }
        with self._lock:
            if group in self._processes:
                return None
            process = self._processes[group] = subprocess.Popen(
                [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        return process


def _outcome(process: subprocess.Popen[bytes], order: bytes) -> str | None:
    """Tell a driver what to do, and wait for its end; its input stays open as long as this process lives."""
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        try:
            process.stdin.write(order)
            process.stdin.flush()
        except BrokenPipeError:
            logger.warning("the driver has ended at once")
        said = process.stdout.read().decode(errors="replace").strip()
        status = process.wait()
    if status == 0:
        return None
    how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return f"the process that drives the job's passes has ended: {said or how}"


def _clear(context: SparkContext, group: str, gateway: Any) -> None:
    """End what a driver has left on Spark: its queries would wait for their next batch, and call nobody."""

    def clear() -> None:
        with ExitStack() as steps:
            steps.callback(gateway.shutdown)
            steps.callback(context.cancelJobGroup, group_beside(group))
            stop_queries(SparkSession(context)._jsparkSession.sharedState().activeStreamingQueries(), group)

    call = JvmCall(clear)
    if not call.wait(_CLEAR_TIMEOUT_S):
        logger.warning("Spark takes long to end the queries of %s", group)
        return
    try:
        call.answer()
    except Exception as error:
        # a JVM that is gone has none left
        logger.warning("the queries of %s were not ended: %s", group, error)


def stop_queries(queries: Mapping[Any, Any], group: str) -> None:
    """Stop the streaming queries of a group.

    Args:
        queries: the running queries of all groups by their run; others may end while this looks.
        group: begins the names of its queries.

    Raises:
        Py4JError: a query did not stop; the others were stopped.
    """
    with ExitStack() as stops:
        for run in list(queries):
            query = queries.get(run)
            if query is not None and str(query.name()).startswith(f"{group} "):
                stops.callback(query.stop)
