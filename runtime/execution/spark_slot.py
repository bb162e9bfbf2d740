"""The task of a barrier stage: runs one slot for the life of the attempt.

Runs in a Python worker that Spark has forked; it ends with the task (workers are not reused).
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from pyspark import BarrierTaskContext

from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, SlotId
from runtime.execution.worker_process import settle_worker
from runtime.network.addresses import outward_host
from runtime.network.credit import DEFAULT_FLOATING_BYTES
from runtime.network.flight import FlightNetworkEnvironment
from runtime.task.client_output import LineRedirect
from runtime.task.control_client import FlightControlLink, connect_control
from runtime.task.control_session import ADOPT_ACTION, ControlSession, SessionTerms
from runtime.task.log_records import RecordHandler, without_heads
from runtime.task.slot import Slot

#: how long a Python thread keeps the interpreter while another waits for it; the default of 5 ms makes network threads
#: wait for user code (Flight echo p50 53 ms instead of 4 ms beside three busy threads), shorter costs throughput
SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """Tells the slots of one region, through Spark, how to start; everything else comes over the control stream."""

    slots: Sequence[SlotId]
    """By partition of the stage."""
    attempt: Attempt
    control_address: str
    token: str
    local: bool
    """Whether all slots and the JobMaster are on one machine: they then talk over the loopback interface."""
    lease_ms: float
    window_bytes: int
    floating_bytes: int = DEFAULT_FLOATING_BYTES
    epoch: int = 0
    """Of the leader that deploys the slots."""
    orphan_timeout_ms: float = 0.0
    """How long the slots go on without a JobMaster."""
    in_passes: bool = False
    """True: one process hosts all of them, and runs their tasks in passes."""
    forward_logs: bool = False
    """Whether log output goes to the client too, as channel "log"; else to the worker's stderr, Spark's log."""

    def __call__(self, _: Iterator[int]) -> Iterator[int]:
        """Run the slot of this partition; yields nothing."""
        settle_worker()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        context = BarrierTaskContext.get()
        partition = context.partitionId()
        host = "127.0.0.1"
        if not self.local:
            executor = context.getTaskInfos()[partition].address.rpartition(":")[0]
            host = outward_host(executor, urlsplit(self.control_address).hostname or "")
        run_slot(self, self.slots[partition], host)
        return iter(())


def run_slot(spec: SlotSpec, slot_id: SlotId, host: str) -> None:
    """Run one slot until it is released.

    Raises:
        ControlLostError: the JobMaster is gone; the process must end.
    """
    lease_ms = max(spec.lease_ms, spec.orphan_timeout_ms)

    def connect(address: str) -> FlightControlLink:
        return connect_control(address, slot_id, spec.attempt, spec.token, SYSTEM_CLOCK, lease_ms)

    terms = SessionTerms(slot_id, spec.attempt, spec.epoch, spec.token, spec.orphan_timeout_ms)
    control = ControlSession(connect(spec.control_address), connect, terms, SYSTEM_CLOCK)
    network = FlightNetworkEnvironment(
        slot=slot_id,
        attempt=spec.attempt,
        token=spec.token,
        host=host,
        clock=SYSTEM_CLOCK,
        window_bytes=spec.window_bytes,
        floating_bytes=spec.floating_bytes,
    )
    network.serve_action(ADOPT_ACTION, control.offer)
    slot = Slot(slot_id, spec.attempt, socket.gethostname(), network, control, SYSTEM_CLOCK)
    with _redirected(slot, spec.forward_logs):
        slot.run()


@contextmanager
def _redirected(slot: Slot, forward_logs: bool) -> Iterator[None]:
    """Send what user code prints, and if asked for what it logs, to the client for as long as the slot lives."""
    stdout, stderr = sys.stdout, sys.stderr
    out = LineRedirect(slot.client, "stdout")
    slot.on_release(out.finish)
    sys.stdout = out
    root = logging.getLogger()
    handler: logging.Handler = logging.NullHandler()
    if forward_logs:
        log = LineRedirect(slot.client, "log", without_heads)
        slot.on_release(log.finish)
        sys.stderr = log
        handler = RecordHandler(slot.client, "log")
        root.addHandler(handler)
        root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        sys.stdout, sys.stderr = stdout, stderr
        slot.network.close()
