"""Continuous execution: one barrier stage per pipelined region hosts the job's slots for the attempt's life.

The JobMaster runs in this process; slots are Python workers that Spark starts, wherever the cluster has room, and that
register over Flight. Spark only starts and ends processes: it never retries, and what it reports is one event among
others. Stages run in threads of their own, because a Spark action blocks.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark import InheritableThread, SparkContext

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, JobId, SlotId
from runtime.execution.spark_session import is_local, log_file
from runtime.execution.spark_slot import SlotSpec
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.control_server import ControlServer
from runtime.jobmaster.events import JobMasterEvent, SlotLost, SlotMessageReceived, StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.task.messages import JobMasterMessage, SlotMessage

#: Spark needs up to 4 s to notice and end the workers of a cancelled stage
STAGE_END_TIMEOUT_S = 8.0


class SparkSlots:
    """Implements SlotProvider on barrier stages of one SparkContext.

    Args:
        context: with room for all slots of the job at once.
        job_id: names the job group of the stages.
        configuration: the job's.
        post: takes events, from any thread.
    """

    def __init__(
        self, context: SparkContext, job_id: JobId, configuration: Configuration, post: Callable[[JobMasterEvent], None]
    ) -> None:
        self._context = context
        self._job_id = job_id
        self._post = post
        self._local = is_local(context.master)
        self._token = secrets.token_hex(16)
        self._lease_ms = configuration.get(options.HEARTBEAT_TIMEOUT).to_millis()
        self._window_bytes = configuration.get(options.CHANNEL_WINDOW_BYTES)
        self._stages: dict[Attempt, list[threading.Thread]] = {}
        host = "127.0.0.1" if self._local else str(context.getConf().get("spark.driver.host"))
        self._control = ControlServer(host, self._token, self._on_message, self._on_lost)

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        self._stages[attempt] = []
        for region in regions:
            thread = InheritableThread(target=self._run_stage, args=(attempt, region), name=f"stage-{region.index}")
            thread.daemon = True
            self._stages[attempt].append(thread)
            thread.start()

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        self._control.send(slot, attempt, message)

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._control.disconnect(attempt, slot)

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        for process in processes:
            if process.host == socket.gethostname():
                _kill_worker(process.pid)
        self._context.cancelJobGroup(self._group(attempt))

    def release_attempt(self, attempt: Attempt) -> None:
        self._control.disconnect(attempt)
        if any(stage.is_alive() for stage in self._stages.get(attempt, ())):
            # slots that left end their stage by themselves within milliseconds; whoever is left is cancelled
            for stage in self._stages[attempt]:
                stage.join(0.5)
            if any(stage.is_alive() for stage in self._stages[attempt]):
                self._context.cancelJobGroup(self._group(attempt))

    def close(self) -> None:
        for stages in self._stages.values():
            for stage in stages:
                stage.join(STAGE_END_TIMEOUT_S)
        self._control.stop()

    def _run_stage(self, attempt: Attempt, region: Region) -> None:
        spec = SlotSpec(
            slots=tuple(region.slots),
            attempt=attempt,
            control_address=self._control.address,
            token=self._token,
            local=self._local,
            lease_ms=self._lease_ms,
            window_bytes=self._window_bytes,
        )
        count = len(region.slots)
        error: str | None = None
        try:
            self._context.setJobGroup(self._group(attempt), f"Tidemark job {self._job_id}, region {region.index}")
            self._context.parallelize(range(count), count).barrier().mapPartitions(spec).collect()
        except Exception as failure:
            error = _first_cause(str(failure))
        self._post(StageEnded(region.index, attempt, error))

    def _group(self, attempt: Attempt) -> str:
        return f"{self._job_id}-{attempt}"

    def _on_message(self, slot: SlotId, message: SlotMessage) -> None:
        self._post(SlotMessageReceived(message, slot))

    def _on_lost(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._post(SlotLost(slot, attempt, cause))


def _kill_worker(pid: int) -> None:
    """kill -9 a slot's process if that pid is still a Spark worker's."""
    with suppress(OSError):
        if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def _first_cause(text: str) -> str:
    """The telling line of a Spark error, in one line; the whole of it is in Spark's log."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception: " in line or "Error: " in line] or lines[:1] or ["unknown"]
    return f"{telling[0][:300]} (Spark's log: {log_file()})"


