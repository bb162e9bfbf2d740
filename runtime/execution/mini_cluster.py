"""MiniCluster: a job's JobMaster and all its slots in one loop of one thread, without Spark.

For tests and debuggers: a breakpoint in a user function stops the whole cluster, and with a manual clock that moves to
the next deadline by itself a job that waits for an hour takes no time. The same JobMaster, slots, operators and channel
logic as on Spark; only processes and sockets are missing.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import runs_in_passes
from runtime.common.secrets import SecretStore
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.execution.hosted_slots import HostedSlots
from runtime.execution.local_link import LocalControlLink
from runtime.execution.local_slots import LocalSlots
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import JobMasterEvent
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT
from runtime.network.local import LocalNetwork
from runtime.task.slot import MAX_WAIT_MS, Slot
from runtime.task.uploads import InlineUploads


class _SteppedSlots(LocalSlots[Slot]):
    """Slots are objects that the cluster's loop steps."""

    def __init__(
        self, post: Callable[[JobMasterEvent], None], clock: Clock, wake: Callable[[], None], window_bytes: int
    ) -> None:
        super().__init__(post, wake)
        self._window_bytes = window_bytes
        self._clock = clock

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        network = LocalNetwork(self._window_bytes)
        for region in regions:
            for slot in region.slots:
                link = LocalControlLink(slot, attempt, self._post)
                environment = network.environment(slot)
                new_slot = Slot(slot, attempt, "localhost", environment, link, self._clock, InlineUploads())
                new_slot.on_wake(self._wake)
                self.slots[slot, attempt] = (new_slot, link)

    def _release(self, host: Slot, slot: SlotId) -> None:
        host.release()

    def step(self) -> bool:
        busy = False
        for (slot_id, attempt), (slot, _) in list(self.slots.items()):
            if (slot_id, attempt) not in self.slots:
                continue
            try:
                busy = slot.step() or busy
            except Exception as error:
                # an error of the slot itself is a bug of ours, or a broken process on a real cluster: the slot is lost
                self._lose(slot_id, attempt, f"{type(error).__name__}: {error}")
                busy = True
                continue
            if slot.is_released:
                self.slots.pop((slot_id, attempt), None)
        return busy

    def awaits_mail(self) -> bool:
        return any(slot.awaits_mail() for slot, _ in self.slots.values())

    def idle_ms(self) -> float:
        return min((slot.idle_ms() for slot, _ in self.slots.values()), default=MAX_WAIT_MS)


class MiniCluster:
    """Runs one job in the calling thread.

    Args:
        graph: the job.
        outputs: takes what the job prints and collects.
        clock: a clock with a method `advance(ms)` is moved to the next deadline instead of waiting for it.
        home: where the job's checkpoints are; None = where its configuration says, else in a private directory.
        first_attempt: see JobMasterDriver.
        record_attempt, secrets: see JobMasterDriver.
    """

    def __init__(
        self,
        graph: JobGraph,
        outputs: ClientOutputs,
        clock: Clock,
        home: CheckpointHome | None = None,
        first_attempt: Attempt = FIRST_ATTEMPT,
        record_attempt: Callable[[Attempt], None] | None = None,
        secrets: SecretStore | None = None,
    ) -> None:
        self._clock = clock
        self._advance: Callable[[int], None] | None = getattr(clock, "advance", None)
        self._woken = threading.Event()
        providers: list[_SteppedSlots | HostedSlots] = []

        configuration = Configuration.from_dict(dict(graph.configuration))
        window_bytes = configuration.get(options.CHANNEL_WINDOW_BYTES)
        if home is None:
            settings = CheckpointSettings.from_configuration(configuration)
            home = CheckpointHome.of(settings, graph.job_id, slots_are_local=True)

        def create_provider(post: Callable[[JobMasterEvent], None]) -> _SteppedSlots | HostedSlots:
            if runs_in_passes(configuration, blocks_by_default=False):
                providers.append(HostedSlots(post, clock, self._woken.set))
            else:
                providers.append(_SteppedSlots(post, clock, self._woken.set, window_bytes))
            return providers[0]

        self.driver = JobMasterDriver(
            without_heartbeat_timeout(graph),
            create_provider,
            outputs,
            clock,
            first_attempt,
            home=home,
            is_inline=True,
            record_attempt=record_attempt,
            secrets=secrets,
        )
        self.driver.on_post = self._woken.set
        self._slots = providers[0]

    def cancel(self) -> None:
        """Ask the job to stop; any thread."""
        self.driver.cancel()

    def run(self) -> None:
        """Run the job to its end."""
        while not self.driver.ended.is_set():
            self.step()

    def step(self) -> None:
        """Step the JobMaster and every slot once; waits a little if there was nothing to do."""
        busy = self.driver.step()
        busy = self._slots.step() or busy
        if busy or self.driver.ended.is_set():
            return
        wait_ms = self._wait_ms()
        if self._advance is not None and not self._slots.awaits_mail():
            self._advance(max(1, int(wait_ms)))
            return
        started = time.monotonic()
        self._woken.wait(wait_ms / 1000.0)
        self._woken.clear()
        if self._advance is not None:
            # another thread is at work for an operator: time passes for both at the same pace
            self._advance(round((time.monotonic() - started) * 1000))

    def _wait_ms(self) -> float:
        wait = self._slots.idle_ms()
        job_due = self.driver.next_deadline_ms()
        if job_due is not None:
            wait = min(wait, job_due - self._clock.monotonic_ms())
        return max(0.0, wait)


def without_heartbeat_timeout(graph: JobGraph) -> JobGraph:
    """Return the job with no heartbeat timeout: a user function that waits stops the JobMaster too."""
    configuration: Mapping[str, str] = {**graph.configuration, options.HEARTBEAT_TIMEOUT.key: "365 d"}
    return dataclasses.replace(graph, configuration=configuration)
