"""Leadership: one epoch per leader, and no write of a leader that has been replaced."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import InterfaceError

from backend.cluster import services
from backend.cluster.job_store import KEPT_EXCEPTIONS, KEPT_TASKMANAGERS, JobStore
from backend.cluster.leadership import (
    Leadership,
    LeadershipLostError,
    LeaseKeeper,
    LeaseLapsedError,
    LoopStalledError,
    SlowDatabaseError,
    read_lease,
    take_over,
)
from backend.cluster.lease import LEASE_MS, STALL_MS, HeldLease, LeaseRow
from backend.cluster.models import Job, LeaderEpoch, TaskManager
from runtime.core.clock import SYSTEM_CLOCK
from runtime.testing import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership

pytestmark = pytest.mark.django_db


def submitted() -> Job:
    return services.submit_job(graph_json(), None, [], {}, None)


def taken(store: JobStore) -> list[str]:
    """Ids of the jobs without a runner, which are the store's leader's afterwards."""
    jobs = store.without_runner(())
    return [job.id for job in jobs if store.take(job)]


def test_every_leader_gets_a_higher_epoch() -> None:
    assert [take_leadership(name).epoch for name in ("a", "b", "c")] == [1, 2, 3]
    assert LeaderEpoch.objects.get().holder == "c"


def test_a_replaced_leader_can_neither_claim_nor_save(live_redis: str) -> None:
    old = JobStore(take_leadership("old"))
    job = submitted()
    assert taken(old) == [job.id]
    other = submitted()
    new = JobStore(take_leadership("new"))
    job.state = "RUNNING"
    with pytest.raises(LeadershipLostError, match="new leads with epoch 2"):
        old.save(job, [])
    with pytest.raises(LeadershipLostError):
        taken(old)
    assert Job.objects.get(id=job.id).state == "INITIALIZING"
    assert taken(new) == [job.id, other.id]
    assert old.without_runner(()) == []


def test_a_take_over_fails_if_the_lease_was_renewed_since_it_was_seen() -> None:
    leader = take_leadership("a")
    seen = read_lease()
    leader.renew()
    assert read_lease().beat == seen.beat + 1
    assert take_over(seen, "b", "", SYSTEM_CLOCK) is None
    assert take_over(read_lease(), "b", "host:1", SYSTEM_CLOCK) is not None
    assert read_lease() == LeaseRow(2, seen.beat + 2, "b", "host:1")


class SlowClock:
    """A clock by which every call to the database takes two seconds."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> int:
        return round(self._now_ms)

    def monotonic_ms(self) -> float:
        self._now_ms += 2_000
        return self._now_ms


def test_a_take_over_that_had_to_wait_for_the_database_is_rolled_back() -> None:
    take_leadership("a")
    seen = read_lease()
    with pytest.raises(SlowDatabaseError):
        take_over(seen, "b", "", SlowClock())
    assert read_lease() == seen


def test_a_leader_with_nothing_to_write_learns_that_it_was_replaced_when_it_renews() -> None:
    old = take_leadership("old")
    take_leadership("new")
    assert old.may_act()
    with pytest.raises(LeadershipLostError, match="new leads with epoch 2"):
        old.renew()
    with pytest.raises(LeadershipLostError):
        old.may_act()


def test_a_leader_whose_lease_has_lapsed_writes_nothing_until_it_is_renewed(live_redis: str) -> None:
    clock = ManualClock(1_700_000_000_000)
    job = submitted()
    leader = take_over(read_lease(), "a", "", clock)
    assert leader is not None
    store = JobStore(leader)
    clock.advance(LEASE_MS)
    assert not leader.may_act()
    job.state = "RUNNING"
    with pytest.raises(LeaseLapsedError):
        store.save(job, [])
    assert Job.objects.get(id=job.id).state == "INITIALIZING"
    leader.renew()
    assert store.save(job, [])


def test_a_released_lease_is_free_and_its_holder_acts_no_more() -> None:
    leader = take_leadership("a")
    leader.release()
    assert not leader.may_act()
    row = read_lease()
    assert (row.epoch, row.holder, row.address) == (1, "", "")
    assert take_leadership("b").epoch == 2
    # too late, and of another epoch
    leader.release()
    assert read_lease().holder == "b"


def test_a_job_that_nobody_runs_is_found_until_somebody_does(live_redis: str) -> None:
    store = JobStore(take_leadership("a"))
    job = submitted()
    for _ in range(2):
        assert taken(store) == [job.id]
    assert Job.objects.get(id=job.id).leader_epoch == 1
    assert store.without_runner([job.id]) == []
    Job.objects.filter(id=job.id).update(state="FAILED")
    assert store.without_runner(()) == []


def test_the_end_of_a_job_is_recorded_once(live_redis: str) -> None:
    store, job = JobStore(take_leadership("a")), submitted()
    assert store.take(job)
    job.state, job.ended_at = "CANCELED", 5
    assert store.save(job, [])
    job.ended_at = 6
    assert store.save(job, []), "nobody heard that it was recorded"
    job.state, job.failure = "FAILED", {"message": "too late", "stacktrace": "", "timestamp": 7}
    assert not store.save(job, [])
    job.refresh_from_db()
    assert (job.state, job.ended_at, job.failure) == ("CANCELED", 5, None)


def test_a_failure_is_written_once_per_attempt(live_redis: str) -> None:
    store = JobStore(take_leadership("a"))
    job = submitted()
    entry = {
        "timestamp": 5,
        "name": "ValueError",
        "message": "bad",
        "stacktrace": "Traceback",
        "task_name": "map (1/2)",
        "location": "host:1",
        "attempt": 0,
        "suppressed": [],
    }
    store.save(job, [entry])
    store.save(job, [entry | {"suppressed": [{"name": "x", "message": "y", "task_name": ""}]}])
    [known] = store.known_exceptions(job)
    assert known["suppressed"]


def test_a_leader_whose_loop_stands_still_gives_its_lease_up_until_it_steps_again() -> None:
    clock = ManualClock(0)
    leader = take_over(read_lease(), "a", "", clock)
    assert leader is not None
    clock.advance(int(STALL_MS))
    leader.renew()
    clock.advance(1)
    beat = read_lease().beat
    with pytest.raises(LoopStalledError):
        leader.renew()
    assert read_lease().beat == beat
    leader.stepped()
    leader.renew()
    assert read_lease().beat == beat + 1 and leader.may_act()


def failure(attempt: int) -> dict[str, Any]:
    texts = dict.fromkeys(("name", "message", "stacktrace", "task_name", "location", "taskmanager"), "x")
    return {"timestamp": 1_000 - attempt, "attempt": attempt, "suppressed": [], **texts}


def test_the_newest_failures_of_a_job_are_kept_and_all_are_counted() -> None:
    job, other = submitted(), submitted()
    store = JobStore(take_leadership("a"))
    store.save(other, [failure(0)])
    total = KEPT_EXCEPTIONS + 20
    # as a runner gives them: all that it knows, the newest first, again and again
    for known in (1, 60, total, total):
        store.save(job, [failure(attempt) for attempt in reversed(range(known))])
        assert store.num_failures(job.id) == known
    assert set(job.exceptions.values_list("attempt", flat=True)) == set(range(20, total))
    assert store.num_failures(other.id) == other.exceptions.count() == 1
    store.save(job, [failure(total)])
    assert (store.num_failures(job.id), job.exceptions.count()) == (total + 1, KEPT_EXCEPTIONS)


def test_taskmanagers_that_ended_long_ago_are_forgotten() -> None:
    store = JobStore(take_leadership("a"))
    facts: dict[str, Any] = {
        "host": "h",
        "pid": 1,
        "slots": 1,
        "spark_master": "local",
        "registered_at": 1,
    }
    forgotten: list[str] = []
    for number in range(KEPT_TASKMANAGERS + 5):
        store.save_taskmanager(TaskManager(id=f"t{number}", worker_name=f"w{number}", last_heartbeat=number, **facts))
    for number in range(2, KEPT_TASKMANAGERS + 5):
        forgotten += store.taskmanager_gone(f"t{number}", TaskManager.State.LOST, 1_000 + number)
    assert sorted(forgotten) == ["w2", "w3", "w4"]
    assert store.registered_taskmanagers() == {"t0", "t1"}
    ended = TaskManager.objects.filter(state=TaskManager.State.LOST).values_list("id", flat=True)
    assert set(ended) == {f"t{number}" for number in range(5, KEPT_TASKMANAGERS + 5)}


class StumblingLeadership(Leadership):
    """Fails to renew once, in a way that nobody has foreseen."""

    def __init__(self) -> None:
        super().__init__(1, HeldLease(0.0), SYSTEM_CLOCK)
        self.calls = 0
        self.renewed = threading.Event()

    def renew(self) -> None:
        self.calls += 1
        if self.calls == 1:
            raise InterfaceError("unexpected DateStyle")
        self.renewed.set()


def test_a_renewal_that_fails_in_an_unforeseen_way_is_tried_again() -> None:
    leadership = StumblingLeadership()
    keeper = LeaseKeeper(leadership, SYSTEM_CLOCK)
    keeper.start()
    try:
        assert leadership.renewed.wait(10)
    finally:
        keeper.stop()
