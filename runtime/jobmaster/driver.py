"""JobMasterDriver: feeds a job's machine with events and performs its actions. All decisions are the machine's.

`step` is called by one thread; `post` by any. Runs on a thread of its own (Spark) or in the loop of a MiniCluster.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable

from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import (
    DeliverClientOutput,
    JobMasterAction,
    JobStateChanged,
    KillSlots,
    RefuseSlot,
    ReleaseAttempt,
    RequestSlots,
    SendToSlot,
)
from runtime.jobmaster.client_outputs import Outputs
from runtime.jobmaster.events import CancelRequested, JobMasterEvent, Submitted, Tick
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT, JobMasterMachine
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.restart_strategy import create_restart_strategy
from runtime.jobmaster.slot_provider import SlotProvider
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.task.messages import ClientAck


class JobMasterDriver:
    """Runs one job.

    Args:
        graph: the job.
        create_provider: makes the slot provider; it is given the function by which events are posted.
        outputs: takes what slots send for the client.
        clock: for all deadlines.
        first_attempt: number of the first attempt; attempts of an earlier JobMaster of the job had lower ones.
    """

    def __init__(
        self,
        graph: JobGraph,
        create_provider: Callable[[Callable[[JobMasterEvent], None]], SlotProvider],
        outputs: Outputs,
        clock: Clock,
        first_attempt: Attempt = FIRST_ATTEMPT,
    ) -> None:
        self._clock = clock
        self._outputs = outputs
        self._events: queue.SimpleQueue[JobMasterEvent] = queue.SimpleQueue()
        configuration = Configuration.from_dict(dict(graph.configuration))
        self._machine = JobMasterMachine(
            graph,
            JobMasterOptions.from_configuration(configuration),
            create_restart_strategy(configuration, random.random),
            first_attempt,
        )
        self._provider = create_provider(self.post)
        self._lock = threading.Lock()
        self._closed = False
        self.ended = threading.Event()
        self.post(Submitted())

    def post(self, event: JobMasterEvent) -> None:
        """Queue an event; any thread."""
        self._events.put(event)

    def cancel(self) -> None:
        """Ask the job to stop; any thread, any number of times."""
        self.post(CancelRequested())

    def status(self) -> JobStatusSnapshot:
        """The job as it is now; any thread."""
        with self._lock:
            return self._machine.status()

    def step(self) -> bool:
        """Handle what has been posted and what is due; returns whether there was anything."""
        handled = False
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                break
            self._handle(event)
            handled = True
        if self._wait_ms() <= 0.0:
            self._handle(Tick())
            handled = True
        if self._machine.state.is_terminal and not self._closed:
            self._close()
        return handled

    def run(self) -> None:
        """Step until the job has ended and nothing of it is left."""
        while not self._closed:
            try:
                event = self._events.get(timeout=self._wait_ms() / 1000.0)
            except queue.Empty:
                event = Tick()
            self._handle(event)
            self.step()

    def next_deadline_ms(self) -> float | None:
        """Monotonic ms at which `step` has something to do even if nothing is posted."""
        return None if self._closed else self._machine.next_deadline_ms()

    def _wait_ms(self) -> float:
        deadline = self._machine.next_deadline_ms()
        if deadline is None:
            return 60_000.0
        return max(0.0, deadline - self._clock.monotonic_ms())

    def _handle(self, event: JobMasterEvent) -> None:
        with self._lock:
            actions = self._machine.handle(event, self._clock.monotonic_ms())
        for action in actions:
            self._perform(action)

    def _perform(self, action: JobMasterAction) -> None:
        match action:
            case SendToSlot(slot, attempt, message):
                self._provider.send(slot, attempt, message)
            case DeliverClientOutput(slot, attempt, channel, payload):
                self._outputs.deliver(slot, attempt, channel, payload, self._acknowledger(slot, attempt))
            case RequestSlots(attempt, regions):
                self._provider.request_slots(attempt, regions)
            case KillSlots(attempt, processes):
                self._provider.kill_slots(attempt, processes)
            case RefuseSlot(slot, attempt, cause):
                self._provider.refuse(slot, attempt, cause)
            case ReleaseAttempt(attempt):
                self._provider.release_attempt(attempt)
            case JobStateChanged():
                pass

    def _acknowledger(self, slot: SlotId, attempt: Attempt) -> Callable[[int], None]:
        return lambda size: self._provider.send(slot, attempt, ClientAck(size))

    def _close(self) -> None:
        self._closed = True
        self._provider.close()
        self._outputs.close()
        self.ended.set()
