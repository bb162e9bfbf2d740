"""The process that drives the passes of one region for a TaskManager: it hosts the region's slots.

`batch_drivers` starts it. Its first line of input says what slots are told, see SlotSpec; the input ends with the
TaskManager, and this process then ends, too. Its output is one line with what has failed, or nothing. It shares the
TaskManager's SparkContext, over a gateway of its own: code of users that plans batches (enumerators of sources) runs
here, and not in the TaskManager.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.garbage import collect_garbage_less_often
from runtime.core.ids import Attempt, SlotId
from runtime.execution.slot_host import SlotHost
from runtime.execution.spark_passes import SparkPasses
from runtime.execution.spark_slot import SlotSpec
from runtime.task.control_client import connect_control
from runtime.task.control_link import ControlLostError

logger = logging.getLogger(__name__)


def encode_order(group: str, spec: SlotSpec) -> bytes:
    """Return the line that tells this process what to do."""
    return json.dumps({"group": group, "spec": asdict(spec)}).encode() + b"\n"


def _decode_order(line: bytes) -> tuple[str, SlotSpec]:
    order = json.loads(line)
    spec = SlotSpec(**order["spec"])
    slots = tuple(SlotId(slot) for slot in spec.slots)
    return order["group"], replace(spec, slots=slots, attempt=Attempt(spec.attempt))


def drive(group: str, spec: SlotSpec) -> None:
    """Host the slots until the JobMaster releases them.

    Args:
        group: begins the names of the queries and job groups on Spark.
        spec: what slots are told.

    Raises:
        ControlLostError: the JobMaster is gone.
    """
    context = _attach()
    actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def wake() -> None:
        actions.put(_nothing)

    links = {
        slot: connect_control(spec.control_address, slot, spec.attempt, spec.token, SYSTEM_CLOCK, spec.lease_ms)
        for slot in spec.slots
    }
    for link in links.values():
        link.set_listener(wake)
    host = SlotHost(
        spec.attempt,
        links,
        SYSTEM_CLOCK,
        lambda host: SparkPasses(host, context, group, actions.put),
        socket.gethostname(),
    )
    while not host.is_released:
        # heartbeats say how long ago this was
        host.publish()
        with suppress(queue.Empty):
            actions.get(timeout=host.idle_ms() / 1000.0)()
        while host.step():
            host.publish()


def _attach() -> SparkContext:
    """Return the TaskManager's context; it is not this process's to stop."""
    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    return SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.sc().conf()))


def _nothing() -> None:
    """Do nothing; the loop looks at its host when it is woken."""


def _end_with_input(source: IO[bytes]) -> None:
    source.read()
    os._exit(1)


def main() -> Any:
    """Run this process; does not return."""
    # what code of users prints is no answer
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    collect_garbage_less_often()
    group, spec = _decode_order(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, args=(sys.stdin.buffer,), name="input", daemon=True).start()
    status = 0
    try:
        drive(group, spec)
    except Exception as error:
        if not isinstance(error, ControlLostError):
            logger.exception("the driver of the job's passes has failed")
        status = 1
        answer.write(" ".join((str(error) or type(error).__name__).splitlines()[:1]) + "\n")
    answer.flush()
    sys.stderr.flush()
    # threads may wait for Spark; the TaskManager ends what is left there
    os._exit(status)


if __name__ == "__main__":
    main()
