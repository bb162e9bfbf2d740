"""ClusterSlotProvider on a ResourceManager whose commands are recorded: regions that are restarted while others run."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from backend.cluster import commands
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.placements import ClusterPlacement
from backend.cluster.resource_manager import DEPLOY_TIMEOUT_MS, END_RETRY_MS, ResourceManager
from backend.cluster.slot_pool import StageKey
from backend.cluster.slot_provider import ClusterSlotProvider
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.events import JobMasterEvent, SlotLost, StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.task.messages import CancelTasks, HeartbeatRequest
from runtime.testing.clock import ManualClock
from tests.support.waiting import wait_until

LEFT, RIGHT = Region(0, (SlotId(0),), ()), Region(1, (SlotId(1),), ())


class Rig:
    """A job of two regions on one TaskManager of two slots."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.events: list[JobMasterEvent] = []
        self.recorded: list[int] = []
        self.placements: list[ClusterPlacement] = []
        self.database = threading.Event()
        self.database.set()
        self.clock = ManualClock(0)
        #: whether the lease is valid; None: another leader has taken over
        self.lease: bool | None = True
        #: whether the broker takes deployments, and whether they arrive
        self.takes_deployments = True
        #: deployments that it was offered
        self.offered = 0
        #: while it is cleared, the broker does not answer
        self.broker = threading.Event()
        self.broker.set()
        self.resources = ResourceManager(1, self.clock, self._send)
        self.provider = ClusterSlotProvider(
            self.resources,
            "127.0.0.1",
            "job",
            0,
            False,
            Configuration(),
            lambda: None,
            self._record,
            self.placements.extend,
            self.events.append,
            may_act=self._may_act,
        )
        self.heartbeat()
        self.provider.reserve(Attempt(0), (LEFT, RIGHT))
        self.provider.request_slots(Attempt(0), (LEFT, RIGHT))

    def heartbeat(self, *stages: int) -> None:
        """The TaskManager reports stages of the first attempt."""
        report = {"id": "tm", "worker_name": "worker", "slots": 2}
        self.resources.heartbeat(report, [("job", 0, stage) for stage in stages], 0)

    def _send(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        if task == commands.DEPLOY_TASK:
            self.offered += 1
            assert self.broker.wait(10)
            if not self.takes_deployments:
                raise OperationalError("the broker does not answer")
        self.sent.append((task, arguments))

    def _may_act(self) -> bool:
        if self.lease is None:
            raise LeadershipLostError(1, 2, "another")
        return self.lease

    def _record(self, attempt: Attempt, regions: Collection[int]) -> bool:
        assert self.database.wait(10)
        self.recorded.append(attempt)
        return True

    def deployed(self) -> list[tuple[int, list[int]]]:
        return [(a["attempt"], a["slots"]) for task, a in self.sent if task == commands.DEPLOY_TASK]

    def ended(self) -> list[tuple[int, list[int] | None]]:
        return [(a["attempt"], a.get("stages")) for task, a in self.sent if task == commands.END_TASK]

    def told_to_end(self) -> list[tuple[str, int, list[int] | None]]:
        """Job, attempt and stages of each command to end."""
        sent = [arguments for task, arguments in self.sent if task == commands.END_TASK]
        return [(a["job_id"], a["attempt"], a.get("stages")) for a in sent]

    def end_stage(self, attempt: int, stage: int, error: str | None = None) -> None:
        self.resources.stage_ended(StageKey("job", Attempt(attempt), stage), error)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.database.set()
    made.broker.set()
    for attempt in range(3):
        made.provider.release_attempt(Attempt(attempt))
        for stage in range(2):
            made.end_stage(attempt, stage)
    made.provider.close()


def test_a_region_gets_a_stage_of_its_own_and_the_other_one_keeps_its(rig: Rig) -> None:
    assert rig.deployed() == [(0, [0]), (0, [1])]
    rig.end_stage(0, 1, "killed")
    assert rig.events == [StageEnded(1, Attempt(0), "killed")]
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    assert rig.ended() == []
    rig.provider.request_slots(Attempt(1), (RIGHT,))
    wait_until(lambda: rig.deployed()[2:] == [(1, [1])], 5, "the stage")
    assert rig.recorded == [1]
    rig.end_stage(0, 0, "killed too")
    assert rig.events[1:] == [StageEnded(0, Attempt(0), "killed too")]
    rig.end_stage(1, 0, None)
    assert rig.events[2:] == [StageEnded(1, Attempt(1), None)]


def test_only_the_stage_of_the_region_is_ended(rig: Rig) -> None:
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    assert rig.ended() == [(0, [1])]
    rig.provider.release_attempt(Attempt(0), (LEFT,))
    assert rig.ended()[1:] == [(0, [0])]


def test_a_stage_that_goes_on_behind_its_end_is_ended_again(rig: Rig) -> None:
    rig.heartbeat(0, 1)
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    assert rig.ended() == [(0, [1])]
    for _ in range(2):
        rig.clock.advance(4_000)
        rig.heartbeat(0, 1)
    assert rig.ended()[1:] == [(0, [1])], "the command may have been lost, with Redis"
    rig.clock.advance(4_000)
    rig.heartbeat(0, 1)
    assert len(rig.ended()) == 2, "Spark takes a while"
    rig.end_stage(0, 1)
    rig.clock.advance(9_000)
    rig.heartbeat(0)
    assert len(rig.ended()) == 2


def restarted(rig: Rig) -> None:
    """The right region begins its next attempt."""
    rig.heartbeat(0, 1)
    rig.end_stage(0, 1, "killed")
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    rig.provider.request_slots(Attempt(1), (RIGHT,))
    wait_until(lambda: rig.offered == 3, 5, "the attempt's deployment")
    rig.events.clear()


def test_a_deployment_that_the_broker_does_not_take_is_sent_with_the_next_heartbeat(rig: Rig) -> None:
    """It is no failure of the job, which would fail for good without a restart strategy."""
    rig.takes_deployments = False
    restarted(rig)
    rig.heartbeat(0)
    assert (len(rig.deployed()), rig.events) == (2, [])
    rig.takes_deployments = True

    def is_deployed() -> bool:
        rig.heartbeat(0)
        return rig.deployed()[2:] == [(1, [1])]

    wait_until(is_deployed, 5, "the stage")
    rig.heartbeat(0)
    assert len(rig.deployed()) == 3, "it is under way"


def test_a_deployment_that_does_not_arrive_is_sent_three_times(rig: Rig) -> None:
    """Redis was emptied; who takes no command at all is to fail the attempt in the end."""
    restarted(rig)
    for count in (4, 5):
        rig.clock.advance(DEPLOY_TIMEOUT_MS)
        rig.heartbeat(0)
        assert (len(rig.deployed()), rig.events) == (count, [])
    rig.clock.advance(DEPLOY_TIMEOUT_MS)
    rig.heartbeat(0)
    assert (len(rig.deployed()), rig.events) == (5, [StageEnded(1, Attempt(1), "its deployment did not arrive")])


def test_an_attempt_that_is_given_up_before_it_is_deployed_ends_at_once_and_is_not_deployed(rig: Rig) -> None:
    rig.takes_deployments = False
    restarted(rig)
    rig.provider.release_attempt(Attempt(1), (RIGHT,))
    wait_until(lambda: rig.events == [StageEnded(1, Attempt(1), "it was not deployed")], 5, "the end")
    rig.takes_deployments = True
    rig.heartbeat(0)
    assert len(rig.deployed()) == 2


def test_an_attempt_that_is_given_up_while_the_broker_does_not_answer_ends_with_the_error(rig: Rig) -> None:
    rig.takes_deployments = False
    rig.broker.clear()
    restarted(rig)
    rig.provider.release_attempt(Attempt(1), (RIGHT,))
    assert rig.events == []
    rig.broker.set()
    wait_until(lambda: rig.events == [StageEnded(1, Attempt(1), "it was not deployed")], 5, "the end")


def test_a_database_that_is_away_holds_up_the_region_alone(rig: Rig) -> None:
    rig.end_stage(0, 1, "killed")
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    rig.database.clear()
    rig.provider.request_slots(Attempt(1), (RIGHT,))
    assert len(rig.deployed()) == 2
    rig.database.set()
    wait_until(lambda: len(rig.deployed()) == 3, 5, "the stage")


def test_a_region_that_is_given_up_before_its_attempt_is_recorded_gets_nothing(rig: Rig) -> None:
    for stage in (0, 1):
        rig.end_stage(0, stage, "killed")
    rig.provider.release_attempt(Attempt(0), (RIGHT,))
    rig.database.clear()
    rig.provider.request_slots(Attempt(1), (RIGHT,))
    rig.provider.release_attempt(Attempt(1), (RIGHT,))
    rig.provider.release_attempt(Attempt(0), (LEFT,))
    rig.database.set()
    rig.provider.request_slots(Attempt(2), (LEFT, RIGHT))
    wait_until(lambda: rig.recorded in ([1, 2], [2]), 5, "the records")
    assert rig.deployed()[2:] == [(2, [0]), (2, [1])]


def test_a_heartbeat_that_is_older_than_the_end_of_a_stage_does_not_end_its_siblings(rig: Rig) -> None:
    rig.heartbeat(0, 1)
    rig.end_stage(0, 0, "a worker died")
    # snapshotted before the stage ended, sent after it
    rig.heartbeat(0, 1)
    assert rig.told_to_end() == [("job", 0, [0])]
    assert [stage.key.stage for stage in rig.resources._pool.stages("job")] == [1]


def test_a_heartbeat_that_a_later_one_has_overtaken_ends_nothing(rig: Rig) -> None:
    report = {"id": "tm", "worker_name": "tm", "slots": 2, "host": "alpha"}
    rig.resources.heartbeat(report | {"number": 2}, [("job", 0, 0)], 0)
    told = len(rig.told_to_end())
    rig.resources.heartbeat(report | {"number": 1}, [("job", 0, 0), ("gone", 0, 0)], 0)
    assert len(rig.told_to_end()) == told
    rig.resources.heartbeat(report | {"number": 3}, [("job", 0, 0), ("gone", 0, 0)], 0)
    assert len(rig.told_to_end()) > told


def test_stages_without_a_job_are_told_to_end_by_name_again_and_again(rig: Rig) -> None:
    report = {"id": "tm", "worker_name": "worker", "slots": 2}
    orphans = [("old", 3, 0), ("old", 3, 2), ("old", 4, 0)]
    for _ in range(3):
        rig.resources.heartbeat(report, orphans, 0)
    expected: list[tuple[str, int, list[int] | None]] = [("old", 3, [0, 2]), ("old", 4, [0])]
    assert rig.told_to_end() == expected
    rig.clock.advance(END_RETRY_MS)
    rig.resources.heartbeat(report, orphans, 0)
    assert rig.told_to_end() == 2 * expected


def test_a_slot_whose_recorded_address_is_malformed_is_lost(rig: Rig) -> None:
    placed = PlacedSlot(SlotId(0), 1, "host", "no address")
    rig.provider.adopt_slots([PlacedRegion(0, Attempt(0), (placed,), {})])
    wait_until(lambda: any(isinstance(event, SlotLost) for event in rig.events), 10, "the loss of the slot")


def test_other_slots_than_those_that_were_granted_for_the_first_attempt_are_requested_anew(
    rig: Rig,
) -> None:
    other = ClusterSlotProvider(
        rig.resources,
        "127.0.0.1",
        "other",
        0,
        False,
        Configuration(),
        lambda: None,
        rig._record,
        rig.placements.extend,
        rig.events.append,
    )
    try:
        rig.resources.heartbeat({"id": "more", "worker_name": "worker", "slots": 2}, [], 0)
        other.reserve(Attempt(0), (LEFT, RIGHT), is_open=True)
        other.reserve_instead(Attempt(0), (LEFT, RIGHT))
        # granted: too late for another request
        other.reserve_instead(Attempt(0), (LEFT,))
        assert rig.resources.slots().lacking == {}
        rig.sent.clear()
        other.request_slots(Attempt(0), (LEFT,))
        assert rig.deployed() == [(0, [0])]
        assert rig.resources.slots().held["other"] == (1, 0)
    finally:
        other.release_attempt(Attempt(0))
        rig.resources.stage_ended(StageKey("other", Attempt(0), 0), None)
        other.close()


@pytest.mark.parametrize("lease", [True, None])
def test_slots_are_ended_by_a_leader_with_a_valid_lease_only(
    lease: bool | None, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    control = rig.provider._control
    monkeypatch.setattr(control, "send", lambda slot, attempt, message: told.append(type(message).__name__))
    monkeypatch.setattr(control, "disconnect", lambda attempt, slot=None: told.append(f"{attempt} is over"))
    rig.lease = False
    rig.provider.send(SlotId(0), Attempt(0), CancelTasks())
    rig.provider.send(SlotId(0), Attempt(0), HeartbeatRequest(1, 0))
    rig.provider.release_attempt(Attempt(0))
    assert told == ["HeartbeatRequest"]
    rig.lease = lease
    ended = ["CancelTasks", "0 is over"]
    wait_until(lambda: told == ["HeartbeatRequest", *(ended if lease else ())], 5, "what is said once it is known")
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("ends-")], 5, "the thread's end")
    assert told == ["HeartbeatRequest", *(ended if lease else ())]


def accepts(address: str) -> bool:
    host, port = address.rpartition("//")[2].rsplit(":", 1)
    with suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


def test_a_job_that_closes_without_a_lease_ends_its_server_once_the_lease_is_valid_again(rig: Rig) -> None:
    address = rig.provider._control.address
    rig.lease = False
    rig.provider.release_attempt(Attempt(0))
    for stage in range(2):
        rig.end_stage(0, stage)
    rig.provider.close()
    assert accepts(address)
    rig.lease = True
    wait_until(lambda: not accepts(address), 5, "the server's end")


def test_regions_whose_attempts_are_recorded_out_of_order_both_forget_where_they_ran(rig: Rig) -> None:
    forgotten: list[tuple[int, list[int]]] = []
    record = rig._record

    def recording(attempt: Attempt, regions: Collection[int]) -> bool:
        forgotten.append((attempt, [*regions]))
        return record(attempt, regions)

    rig.provider._record_attempt = recording
    for stage in range(2):
        rig.end_stage(0, stage, "killed")
    rig.provider.release_attempt(Attempt(0), (LEFT, RIGHT))
    with rig.provider._lock:
        # both are wanted before either is recorded
        rig.provider._wanted = {Attempt(1): {LEFT.index}, Attempt(2): {RIGHT.index}}
    rig.provider._request_recorded(Attempt(2), (RIGHT,))
    rig.provider._request_recorded(Attempt(1), (LEFT,))
    assert forgotten == [(2, [RIGHT.index]), (2, [LEFT.index])], "the number never falls"
