"""ClusterSlotProvider: runs a job's slots in barrier stages on the cluster's TaskManagers.

The counterpart of application mode's SparkSlots: the control server is here, in the jobmanager; stages are started by
commands. A region may be split into stages on several TaskManagers; it ends with the last of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow
import pyarrow.flight as flight
from django.conf import settings
from django.utils.crypto import salted_hmac

from backend.cluster.leadership import LeadershipLostError
from backend.cluster.placements import ClusterPlacement
from backend.cluster.resource_manager import ResourceManager
from backend.cluster.slot_pool import SlotRequest, Stage
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import runs_in_passes
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.actions import SlotProcess
from runtime.jobmaster.adoption import ADOPTION_TIMEOUT_MS
from runtime.jobmaster.adoption_client import offer_adoption
from runtime.jobmaster.control_server import ControlServer
from runtime.jobmaster.events import JobMasterEvent, SlotLost, SlotMessageReceived, StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.network.tls import TlsError
from runtime.task.control_session import AdoptionOffer
from runtime.task.messages import CancelTasks, JobMasterMessage, ReleaseSlot, SlotMessage

#: Spark needs up to 4 s to end the workers of a cancelled stage
CLOSE_TIMEOUT_S = 8.0
#: pause before a slot that cannot be reached is offered again to come over, and the time after which it counts as gone:
#: a process that lives accepts connections, however busy it is
OFFER_RETRY_S = 0.2
UNREACHABLE_S = 1.0
#: time between two looks whether a lease that has lapsed is valid again, or lost
LEASE_RETRY_S = 0.1
TOKEN_SALT = "tidemark.slots"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ClusterSlotProvider:
    """Implements SlotProvider for one job.

    Args:
        resources: grants the slots.
        host: interface and address of this process that slots can reach.
        job_id: the job.
        since_ms: submission time of the job: the oldest is served first.
        has_run: whether the job ran under an earlier leader, and restarts.
        configuration: the job's configuration.
        on_reserved: called by any thread when the slots requested by `reserve` are granted.
        record_attempt: makes the number of an attempt after the first one durable before any of it runs, because a
            later leader must never reuse it, and forgets where its regions were; returns False if the job is no longer
            this leader's. May block.
        record_placements: records where regions run. May block.
        post: accepts events from any thread.
        epoch: the leader's.
        placement: where the job runs under an earlier leader.
        may_act: returns whether the leader's lease is valid; raises LeadershipLostError once another one leads.
    """

    def __init__(
        self,
        resources: ResourceManager,
        host: str,
        job_id: str,
        since_ms: int,
        has_run: bool,
        configuration: Configuration,
        on_reserved: Callable[[], None],
        record_attempt: Callable[[Attempt, Collection[int]], bool],
        record_placements: Callable[[Sequence[ClusterPlacement]], None],
        post: Callable[[JobMasterEvent], None],
        epoch: int = 0,
        placement: Sequence[ClusterPlacement] = (),
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_act = may_act
        #: ends of slots that wait for the lease, in order
        self._held: list[Callable[[], None]] = []
        self._resources = resources
        self._host = host
        self._job_id = job_id
        self._since_ms = since_ms
        self._has_run = has_run
        self._on_reserved = on_reserved
        self._record_attempt = record_attempt
        self._record_placements = record_placements
        self._post = post
        self._epoch = epoch
        self._in_passes = runs_in_passes(configuration, blocks_by_default=False)
        # what drives passes ends with its leader; the next one goes on from the last snapshot
        self._orphan_timeout_ms = 0 if self._in_passes else configuration.get(options.SLOT_ORPHAN_TIMEOUT).to_millis()
        self._lease_ms = configuration.get(options.HEARTBEAT_TIMEOUT).to_millis()
        self._window_bytes = configuration.get(options.CHANNEL_WINDOW_BYTES)
        self._floating_bytes = configuration.get(options.FLOATING_BYTES_PER_GATE)
        self._lock = threading.Lock()
        #: granted but not deployed yet: the JobMaster requests the first attempt's slots only once they are granted
        self._reserved: list[Stage] = []
        #: regions whose slots have been requested and not released, by attempt
        self._wanted: dict[Attempt, set[int]] = {}
        self._recording = threading.Lock()
        #: the highest recorded attempt
        self._recorded = Attempt(-1)
        self._begun = False
        #: running stages, by attempt and region
        self._running: dict[tuple[Attempt, int], list[Stage]] = {}
        self._region_stages: dict[tuple[Attempt, int], int] = {}
        self._errors: dict[tuple[Attempt, int], str] = {}
        #: the stage of each slot, in the latest attempt of its region
        self._stage_of: dict[SlotId, Stage] = {}
        for placed in placement:
            key = (placed.region.attempt, placed.region.region)
            self._begun = True
            self._wanted.setdefault(placed.region.attempt, set()).add(placed.region.region)
            self._running[key] = list(placed.stages)
            self._region_stages[key] = len(placed.stages)
            self._stage_of |= {slot: stage for stage in placed.stages for slot in stage.slots}
        self._control = ControlServer(host, self._token_of, self._on_message, self._on_lost)
        resources.attach(job_id, self)

    @property
    def is_adoptable(self) -> bool:
        """Return whether the job's slots outlive this process."""
        return self._orphan_timeout_ms > 0

    def reserve(self, attempt: Attempt, regions: Sequence[Region], *, is_open: bool = False) -> None:
        """Request the slots of the first attempt; the job starts when they are granted.

        Args:
            attempt: its number.
            regions: of the job.
            is_open: whether it is not decided yet how many these will be: none are granted until `reserve_instead`.
        """
        self._resources.request(replace(self._request(attempt, regions), is_open=is_open))

    def reserve_instead(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        """Request other slots for the first attempt, unless those requested before have been granted."""
        self._resources.request_instead(self._request(attempt, regions))

    def placements(self) -> Mapping[SlotId, str]:
        """Return the TaskManager of each slot of the current attempt."""
        with self._lock:
            return {slot: stage.taskmanager for slot, stage in self._stage_of.items()}

    # --- SlotProvider -------------------------------------------------------------------------------------------------

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        with self._lock:
            self._wanted.setdefault(attempt, set()).update(region.index for region in regions)
            self._begun = True
            is_alone = len(self._wanted) > 1
            reserved, self._reserved = self._reserved, []
        slots = sorted(slot for region in regions for slot in region.slots)
        if sorted(slot for stage in reserved for slot in stage.slots) != slots or reserved[0].key.attempt != attempt:
            # other slots were granted at the same moment
            for stage in reserved:
                self._resources.give_back(stage)
            reserved = []
        if reserved:
            self._deploy(reserved)
        elif is_alone:
            # recording may wait for the database, which must not delay the heartbeats to the slots of other regions
            threading.Thread(
                target=self._request_recorded, args=(attempt, regions), name=f"attempt-{attempt}", daemon=True
            ).start()
        else:
            self._request_recorded(attempt, regions)

    def _request_recorded(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        with self._recording:
            if attempt > self._recorded:
                if not self._record_attempt(attempt, [region.index for region in regions]):
                    return
                self._recorded = attempt
            elif (
                # a later attempt, of other regions, was recorded first: where these ran is forgotten all the same
                attempt < self._recorded
                and self._is_wanted(attempt)
                and not self._record_attempt(self._recorded, [region.index for region in regions])
            ):
                return
        if self._is_wanted(attempt):
            self._resources.request(self._request(attempt, regions))

    def _is_wanted(self, attempt: Attempt) -> bool:
        with self._lock:
            return attempt in self._wanted

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        if not self.is_adoptable:
            return
        with self._lock:
            placements = [
                ClusterPlacement(
                    replace(region, epoch=self._epoch), tuple(self._running.get((region.attempt, region.region), ()))
                )
                for region in regions
            ]
        self._record_placements(placements)

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        for region in regions:
            for slot in region.slots:
                name = f"adopt-{slot.slot}"
                threading.Thread(target=self._adopt, args=(region.attempt, slot), name=name, daemon=True).start()

    def _adopt(self, attempt: Attempt, placed: PlacedSlot) -> None:
        """Offer a slot to adopt it, again for a moment if its process does not accept the connection."""
        offer = AdoptionOffer(placed.slot, attempt, self._epoch, self._control.address)
        until_s = time.monotonic() + UNREACHABLE_S
        while True:
            try:
                offer_adoption(placed.data_address, offer, self._token_of(attempt), ADOPTION_TIMEOUT_MS / 1000)
                return
            except flight.FlightTimedOutError:
                # it may be frozen: the machine waits no longer either
                return
            except (flight.FlightError, pyarrow.ArrowException, TlsError) as error:
                if time.monotonic() >= until_s or not isinstance(error, flight.FlightUnavailableError):
                    cause = f"it did not switch over from the earlier leader: {str(error).splitlines()[0]}"
                    break
            time.sleep(OFFER_RETRY_S)
        if not self._control.is_connected(placed.slot, attempt):
            # else only the answer was lost
            self._post(SlotLost(placed.slot, attempt, cause))

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        if isinstance(message, CancelTasks | ReleaseSlot):
            self._end(lambda: self._control.send(slot, attempt, message))
        else:
            self._control.send(slot, attempt, message)

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._end(lambda: self._control.disconnect(attempt, slot))

    def _end(self, tell: Callable[[], None]) -> None:
        """Tell slots that they are to end, or end the server that they are connected to.

        Without a valid lease that waits: another leader may be about to adopt them. A leader that has stood still
        would otherwise take them along when it finds, as it goes on, that its checkpoints are refused.
        """
        with self._lock:
            is_held = bool(self._held)
            if is_held or (self.is_adoptable and not self._leads()):
                self._held.append(tell)
                if not is_held:
                    threading.Thread(target=self._end_later, name=f"ends-{self._job_id[:8]}", daemon=True).start()
                return
        tell()

    def _end_later(self) -> None:
        try:
            while not self._may_act():
                time.sleep(LEASE_RETRY_S)
        except LeadershipLostError:
            return
        with self._lock:
            held, self._held = self._held, []
        for tell in held:
            tell()

    def _leads(self) -> bool:
        try:
            return self._may_act()
        except LeadershipLostError:
            return False

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        where = self.placements()
        self._resources.kill(self._job_id, [(where[p.slot], p.host, p.pid) for p in processes if p.slot in where])

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        only = None if regions is None else {region.index for region in regions}
        with self._lock:
            unused, self._reserved = self._reserved, []
            left = set() if only is None else self._wanted.get(attempt, set()) - only
            if left:
                self._wanted[attempt] = left
            else:
                self._wanted.pop(attempt, None)
        self._resources.withdraw(self._job_id, attempt)
        for stage in unused:
            self._resources.give_back(stage)
        for slot in (None,) if regions is None else [slot for region in regions for slot in region.slots]:
            self._end(partial(self._control.disconnect, attempt, slot))
        self._resources.end_attempt(self._job_id, attempt, only)

    def close(self) -> None:
        self._resources.wait_until_free(self._job_id, CLOSE_TIMEOUT_S)
        if self._begun:
            self._end(self._control.stop)
        else:
            # it has no slots, and whoever closes it then may never have a lease again
            self._control.stop()
        self._resources.detach(self._job_id)

    def discard(self) -> None:
        """Close it before it was used; whatever its job has left of slots stays."""
        self._control.stop()
        self._resources.detach(self._job_id)

    # --- JobSlots -----------------------------------------------------------------------------------------------------

    def granted(self, request: SlotRequest, stages: Sequence[Stage]) -> None:
        with self._lock:
            wanted, begun = set(self._wanted), self._begun
            if not begun:
                self._reserved = list(stages)
        if not begun:
            self._on_reserved()
        elif request.attempt in wanted:
            self._deploy(stages)
        else:
            for stage in stages:
                self._resources.give_back(stage)

    def stage_ended(self, stage: Stage, error: str | None) -> None:
        attempt, region = stage.key.attempt, stage.region
        key = (attempt, region)
        with self._lock:
            if stage in self._reserved:
                # its TaskManager is gone before the job began: the attempt will request slots again
                self._reserved.remove(stage)
                unused, self._reserved = self._reserved, []
                running = None
            else:
                unused = []
                running = self._running.get(key, [])
                if stage not in running:
                    return
                running.remove(stage)
                if error is not None:
                    self._errors.setdefault(key, error)
            first_error = self._errors.get(key)
            is_only = self._region_stages.get(key) == 1
        for other in unused:
            self._resources.give_back(other)
        if running is None:
            return
        if error is not None and not is_only:
            for slot in stage.slots:
                self._post(SlotLost(slot, attempt, f"its stage on {stage.taskmanager} ended: {error}"))
        if not running:
            self._post(StageEnded(region, attempt, first_error))

    # --- small things -------------------------------------------------------------------------------------------------

    def _request(self, attempt: Attempt, regions: Sequence[Region]) -> SlotRequest:
        slots = {region.index: tuple(region.slots) for region in regions}
        by_index = tuple(slots.get(index, ()) for index in range(max(slots, default=-1) + 1))
        has_run = self._has_run or self._begun
        return SlotRequest(self._job_id, attempt, self._since_ms, by_index, has_run, is_undivided=self._in_passes)

    def _deploy(self, stages: Sequence[Stage]) -> None:
        with self._lock:
            self._forget_old()
            for stage in stages:
                self._running.setdefault((stage.key.attempt, stage.region), []).append(stage)
            for key in {(stage.key.attempt, stage.region) for stage in stages}:
                self._region_stages[key] = len(self._running[key])
            self._stage_of |= {slot: stage for stage in stages for slot in stage.slots}
        deployment: dict[str, Any] = {
            "control_address": self._control.address,
            "orphan_timeout_ms": self._orphan_timeout_ms,
            "in_passes": self._in_passes,
            "local": self._host in LOOPBACK,
            "lease_ms": self._lease_ms,
            "window_bytes": self._window_bytes,
            "floating_bytes": self._floating_bytes,
        }
        for stage in stages:
            self._resources.deploy(stage, deployment | {"token": self._token_of(stage.key.attempt)})

    def _forget_old(self) -> None:
        """Forget released attempts whose stages have ended; the caller holds the lock."""
        over = [key for key in self._region_stages if key[0] not in self._wanted and not self._running.get(key)]
        for key in over:
            del self._region_stages[key]
            self._running.pop(key, None)
            self._errors.pop(key, None)
        of_job = [slot for slot, stage in self._stage_of.items() if stage.key.attempt not in self._wanted]
        for slot in of_job:
            del self._stage_of[slot]

    def _token_of(self, attempt: Attempt) -> str:
        """Return the secret of an attempt's slots, which every leader of the cluster can derive, and nobody else."""
        key = settings.TIDEMARK_CLUSTER_KEYS[0]
        return salted_hmac(TOKEN_SALT, f"{self._job_id} {attempt}", key, algorithm="sha256").hexdigest()

    def _on_message(self, slot: SlotId, message: SlotMessage) -> None:
        self._post(SlotMessageReceived(message, slot))

    def _on_lost(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        self._post(SlotLost(slot, attempt, cause))
