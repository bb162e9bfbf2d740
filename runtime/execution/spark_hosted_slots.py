"""SparkHostedSlots: the slots of an application are hosted in its process, the tasks of each pass run on Spark.

A thread steps the hosts (`slot_host`), whose passes `spark_passes` makes.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark import SparkContext

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, JobId, SlotId
from runtime.execution.errors import ExecutionError
from runtime.execution.hosted_slots import HostedSlots
from runtime.execution.slot_host import SlotHost
from runtime.execution.spark_passes import SparkPasses
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.events import JobMasterEvent, StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion
from runtime.task.messages import JobMasterMessage

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0


def _nothing() -> None:
    """Do nothing; the thread looks at its hosts when it is woken."""


class SparkHostedSlots:
    """Implements SlotProvider: hosts the slots of a job whose tasks run in passes; a thread of its own steps the hosts.

    Args:
        acquire: gives a context that is sound.
        job_id: names the thread.
        post: takes events, from any thread.
    """

    def __init__(
        self,
        acquire: Callable[[], SparkContext],
        job_id: JobId,
        post: Callable[[JobMasterEvent], None],
    ) -> None:
        acquire()
        self._acquire = acquire
        self._job_id = job_id
        self._post_event = post
        self._actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._context: SparkContext | None = None
        self._hosted = HostedSlots(post, SYSTEM_CLOCK, lambda: None, self._passes_of)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"passes-{job_id[:8]}", daemon=True)
        self._thread.start()

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        try:
            context = self._acquire()
        except (ExecutionError, Py4JError, OSError) as error:
            # no session can be had, or it was lost just now: the restart strategy says what is next
            for region in regions:
                self._post_event(StageEnded(region.index, attempt, str(error) or repr(error)))
            return

        def request() -> None:
            self._context = context
            self._hosted.request_slots(attempt, regions)

        self._actions.put(request)

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        self._actions.put(lambda: self._hosted.send(slot, attempt, message))

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._actions.put(lambda: self._hosted.refuse(slot, attempt, cause))

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: the slots of an application end with it."""

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        """Do nothing: there is nobody to adopt."""

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        self._actions.put(lambda: self._hosted.kill_slots(attempt, processes))

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        self._actions.put(lambda: self._hosted.release_attempt(attempt, regions))

    def close(self) -> None:
        def close() -> None:
            self._hosted.close()
            self._is_closed = True

        self._actions.put(close)
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _passes_of(self, host: SlotHost) -> SparkPasses:
        assert self._context is not None
        return SparkPasses(host, self._context, f"{self._job_id}-{id(host):x}", self._actions.put)

    def _run(self) -> None:
        while not self._is_closed:
            try:
                action = self._actions.get(timeout=self._hosted.idle_ms() / 1000.0)
            except queue.Empty:
                action = _nothing
            try:
                action()
                while self._hosted.step():
                    pass
            except Exception as error:
                # a bug of ours: without its hosts, the attempt ends
                logger.exception("the thread of the job's passes has made an error")
                self._hosted.lose_all(f"{type(error).__name__}: {error}")
