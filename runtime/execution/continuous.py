"""Continuous execution in application mode: the JobMaster in this process, its slots in barrier stages on Spark.

One stage per pipelined region hosts the region's slots for the attempt's life. Slots register over Flight from wherever
the cluster has room; what Spark reports of a stage is one event among others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark import SparkContext

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, JobId, SlotId
from runtime.execution.errors import ExecutionError
from runtime.execution.spark_session import is_local
from runtime.execution.spark_slot import SlotSpec
from runtime.execution.spark_stages import SparkStages, kill_worker
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.control_server import ControlServer
from runtime.jobmaster.events import JobMasterEvent, SlotLost, SlotMessageReceived, StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import JobMasterMessage, SlotMessage


class SparkSlots:
    """Implements SlotProvider on barrier stages of one SparkContext, and of the next one if that is lost.

    Args:
        acquire: gives a context that is sound, with room for all slots of the job at once.
        job_id: names the stages' groups.
        configuration: the job's.
        post: takes events, from any thread.
    """

    def __init__(
        self,
        acquire: Callable[[], SparkContext],
        job_id: JobId,
        configuration: Configuration,
        post: Callable[[JobMasterEvent], None],
    ) -> None:
        context = acquire()
        self._acquire = acquire
        self._stages = SparkStages(context)
        self._job_id = job_id
        self._post = post
        self._local = is_local(context.master)
        self._token = secrets.token_hex(16)
        self._lease_ms = configuration.get(options.HEARTBEAT_TIMEOUT).to_millis()
        self._window_bytes = configuration.get(options.CHANNEL_WINDOW_BYTES)
        self._floating_bytes = configuration.get(options.FLOATING_BYTES_PER_GATE)
        #: regions whose stages run or have been asked for
        self._regions: dict[Attempt, list[Region]] = {}
        host = "127.0.0.1" if self._local else str(context.getConf().get("spark.driver.host"))
        self._control = ControlServer(host, lambda _: self._token, self._on_message, self._on_lost)

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        self._regions.setdefault(attempt, []).extend(regions)
        for region in regions:
            try:
                self._stages.move_to(self._acquire())
                self._start(attempt, region)
            except (ExecutionError, Py4JError, OSError) as error:
                # no session can be had, or it was lost just now: the restart strategy says what is next
                self._post(StageEnded(region.index, attempt, str(error) or repr(error)))

    def _start(self, attempt: Attempt, region: Region) -> None:
        spec = SlotSpec(
            slots=tuple(region.slots),
            attempt=attempt,
            control_address=self._control.address,
            token=self._token,
            local=self._local,
            lease_ms=self._lease_ms,
            window_bytes=self._window_bytes,
            floating_bytes=self._floating_bytes,
        )
        self._stages.start(self._group(attempt, region.index), spec, self._stage_ended(region.index, attempt))

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: the slots of an application end with it."""

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: there is nobody to adopt."""

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        self._control.send(slot, attempt, message)

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._control.disconnect(attempt, slot)

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        for process in processes:
            kill_worker(process.host, process.pid)

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        held = self._regions.pop(attempt, [])
        over = held if regions is None else regions
        left = [region for region in held if region not in over]
        if left:
            self._regions[attempt] = left
        for slot in (slot for region in over for slot in region.slots):
            self._control.disconnect(attempt, slot)
        self._stages.end([self._group(attempt, region.index) for region in over])

    def close(self) -> None:
        self._stages.join()
        self._control.stop()

    def _group(self, attempt: Attempt, region: int) -> str:
        return f"{self._job_id}-{attempt}-{region}"

    def _stage_ended(self, region: int, attempt: Attempt) -> Callable[[str | None], None]:
        return lambda error: self._post(StageEnded(region, attempt, error))

    def _on_message(self, slot: SlotId, message: SlotMessage) -> None:
        self._post(SlotMessageReceived(message, slot))

    def _on_lost(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._post(SlotLost(slot, attempt, cause))
