"""SlotPool: who gets which slots, and that no slot is given twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from backend.cluster.slot_pool import SlotPool, SlotRequest, StageKey
from runtime.core.ids import Attempt, SlotId


def request(job: str, *regions: int, since: int = 0, attempt: int = 0) -> SlotRequest:
    """A request for regions of these sizes."""
    first, slots = 0, []
    for size in regions:
        slots.append(tuple(SlotId(first + i) for i in range(size)))
        first += size
    return SlotRequest(job, Attempt(attempt), since, tuple(slots))


def pool(**taskmanagers: int) -> SlotPool:
    made = SlotPool()
    for name, slots in taskmanagers.items():
        made.add(name, slots)
    return made


def test_a_region_goes_into_the_taskmanager_that_it_fills_best() -> None:
    slots = pool(big=4, small=2)
    slots.request(request("a", 2))
    [(_, [stage])] = slots.grant()
    assert (stage.taskmanager, stage.slots) == ("small", (0, 1))
    assert slots.free == 4


def test_a_region_that_fits_nowhere_is_cut_into_one_stage_per_taskmanager() -> None:
    slots = pool(a=2, b=3)
    slots.request(request("job", 5))
    [(_, stages)] = slots.grant()
    assert sorted((s.taskmanager, len(s.slots)) for s in stages) == [("a", 2), ("b", 3)]
    assert sorted(slot for s in stages for slot in s.slots) == [0, 1, 2, 3, 4]
    assert {s.region for s in stages} == {0}
    assert {s.key.stage for s in stages} == {0, 1}


def test_what_may_not_be_cut_waits_for_a_taskmanager_with_room_for_it() -> None:
    slots = pool(a=2, b=3)
    slots.request(replace(request("job", 4), is_undivided=True))
    assert slots.grant() == []
    assert slots.shortage("job") == "needs 4 slots, 4 of them on one TaskManager, of which none has more than 3 free"
    slots.add("c", 4)
    [(_, [stage])] = slots.grant()
    assert (stage.taskmanager, len(stage.slots)) == ("c", 4)


def test_each_region_that_may_not_be_cut_has_room_beside_the_others() -> None:
    slots = pool(a=3, b=3)
    slots.request(replace(request("three", 2, 2, 2), is_undivided=True))
    assert slots.grant() == []
    slots.request(replace(request("two", 3, 2), is_undivided=True))
    [(granted, stages)] = slots.grant()
    assert granted.job_id == "two"
    assert sorted((s.region, s.taskmanager, len(s.slots)) for s in stages) == [(0, "a", 3), (1, "b", 2)]


def test_a_job_waits_until_all_its_slots_are_there_and_says_what_it_lacks() -> None:
    slots = pool()
    slots.request(request("a", 2))
    assert slots.shortage("a") == "needs 2 slots, no TaskManager is registered"
    slots.add("t", 1)
    assert slots.grant() == []
    assert slots.shortage("a") == "needs 2 slots, 1 is free (the cluster has 1 in all)"
    slots.add("u", 2)
    assert [r.job_id for r, _ in slots.grant()] == ["a"]
    assert slots.shortage("a") == ""


def test_the_oldest_job_is_served_first() -> None:
    slots = pool()
    slots.request(request("young", 2, since=20))
    slots.request(request("old", 2, since=10))
    slots.add("t", 2)
    assert [r.job_id for r, _ in slots.grant()] == ["old"]
    assert slots.shortage("young") == "needs 2 slots, 0 are free"
    # one that would run with less
    assert slots.shortage("young", 1) == "needs 1 slot and wants 2, 0 are free"
    assert slots.shortage("young", 7) == "needs 2 slots, 0 are free"


def test_a_small_job_does_not_wait_behind_one_that_cannot_start() -> None:
    slots = pool(t=2)
    slots.request(request("large", 3, since=1))
    slots.request(request("small", 1, since=2))
    assert [r.job_id for r, _ in slots.grant()] == ["small"]


def test_slots_are_free_again_when_their_stage_is_over() -> None:
    slots = pool(t=2)
    slots.request(request("a", 2))
    [(_, [stage])] = slots.grant()
    slots.request(request("b", 2))
    assert slots.grant() == []
    slots.withdraw("a")
    assert slots.release(stage.key) == stage
    assert slots.release(stage.key) is None
    assert [r.job_id for r, _ in slots.grant()] == ["b"]


def again(job: str, attempt: int, *regions: int, since: int = 0) -> SlotRequest:
    """Return the request of a restarting job."""
    return replace(request(job, *regions, since=since, attempt=attempt), has_run=True)


def test_a_job_keeps_its_place_between_its_attempts() -> None:
    slots = pool(t=2)
    slots.request(request("a", 2, since=1))
    [(_, [stage])] = slots.grant()
    slots.request(request("b", 1, since=2))
    slots.release(stage.key)
    assert slots.grant() == [], "the job waits for the delay of its restart strategy"
    assert slots.shortage("b") == "needs 1 slot, 2 are free, 2 of them kept for jobs that restart"
    slots.request(again("a", 1, 2, since=1))
    assert [r.job_id for r, _ in slots.grant()] == ["a"]


def test_a_job_keeps_its_place_when_its_taskmanager_is_replaced() -> None:
    slots = pool(t=2)
    slots.request(request("a", 2, since=1))
    slots.grant()
    slots.request(request("b", 2, since=2))
    slots.remove("t")
    slots.add("u", 2)
    assert slots.grant() == []
    slots.request(again("a", 1, 2, since=1))
    assert [r.job_id for r, _ in slots.grant()] == ["a"]


def test_a_job_that_needs_less_than_before_leaves_the_rest_to_others() -> None:
    slots = pool(t=4)
    slots.request(request("a", 4))
    [(_, [stage])] = slots.grant()
    slots.request(request("b", 2, since=2))
    slots.release(stage.key)
    slots.request(again("a", 1, 2))
    assert [r.job_id for r, _ in slots.grant()] == ["a", "b"]


def test_a_stage_that_is_over_late_leaves_its_slots_to_others() -> None:
    slots = pool(t=2, u=2, v=2)
    slots.request(request("a", 2))
    [(_, [late])] = slots.grant()
    slots.request(again("a", 1, 2))
    [(_, [lost])] = slots.grant()
    slots.request(request("b", 2, since=2))
    slots.request(request("c", 2, since=3))
    assert [r.job_id for r, _ in slots.grant()] == ["b"]
    slots.release(late.key)
    assert [r.job_id for r, _ in slots.grant()] == ["c"], "the job runs on others"
    slots.request(request("d", 2, since=4))
    slots.remove(lost.taskmanager)
    slots.add("w", 2)
    assert slots.grant() == [], "these are its place"


def test_jobs_that_ask_again_before_their_stages_are_over_do_not_keep_slots_from_each_other() -> None:
    slots = pool(t=2)
    slots.request(request("a", 1))
    slots.request(request("b", 1, since=2))
    old = [stage for _, stages in slots.grant() for stage in stages]
    slots.request(again("a", 1, 1))
    slots.request(again("b", 1, 1, since=2))
    assert slots.grant() == []
    for stage in old:
        slots.release(stage.key)
    assert [r.job_id for r, _ in slots.grant()] == ["a", "b"]


def test_a_job_does_not_wait_for_what_another_ones_older_attempt_still_holds() -> None:
    slots = pool(t=2)
    slots.request(request("a", 1))
    slots.request(request("b", 1, since=2))
    [(_, [of_a]), _] = slots.grant()
    slots.request(again("a", 1, 1))
    slots.request(again("b", 1, 1, since=2))
    slots.release(of_a.key)
    assert [r.job_id for r, _ in slots.grant()] == ["a"]


def test_a_place_is_not_kept_longer_than_its_attempt_waits() -> None:
    slots = pool(t=2, u=2)
    slots.request(request("a", 4))
    slots.grant()
    slots.remove("u")
    for stage in slots.stages("a"):
        slots.release(stage.key)
    slots.request(request("b", 2, since=2))
    slots.request(again("a", 1, 4))
    assert slots.grant() == []
    slots.withdraw("a", Attempt(1))
    assert [r.job_id for r, _ in slots.grant()] == ["b"]


def test_jobs_that_restart_under_a_new_leader_are_served_before_older_ones_that_have_not_run() -> None:
    slots = pool()
    slots.request(request("waiting", 2, since=1))
    slots.request(again("ran", 4, 2, since=2))
    slots.add("t", 1)
    slots.request(request("small", 1, since=3))
    assert slots.grant() == []
    slots.add("u", 1)
    assert [r.job_id for r, _ in slots.grant()] == ["ran"]


def test_regions_that_are_restarted_alone_wait_each_for_itself() -> None:
    slots = pool(t=1)
    slots.request(SlotRequest("a", Attempt(1), 0, ((), (SlotId(1),))))
    slots.request(SlotRequest("a", Attempt(2), 0, ((SlotId(0),),)))
    assert slots.shortage("a") == "needs 2 slots, 1 is free (the cluster has 1 in all)"
    [(granted, [stage])] = slots.grant()
    assert (granted.attempt, stage.region, stage.slots) == (1, 1, (1,))
    assert slots.shortage("a") == "needs 1 slot, 0 are free"
    slots.withdraw("a", Attempt(2))
    assert slots.shortage("a") == ""


def test_what_a_taskmanager_hosted_goes_with_it() -> None:
    slots = pool(t=2, u=2)
    slots.request(request("a", 4))
    slots.grant()
    lost = slots.remove("t")
    assert [s.taskmanager for s in lost] == ["t"]
    assert (slots.total, slots.free) == (2, 0)
    assert slots.remove("t") == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("remove"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("request"), st.integers(0, 9), st.integers(1, 7)),
        st.tuples(st.just("release"), st.integers(0, 9), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(steps)
def test_no_slot_is_ever_given_twice_and_none_is_lost(history: list[tuple[str, int, int]]) -> None:
    slots = SlotPool()
    capacity: dict[str, int] = {}
    for what, index, number in history:
        match what:
            case "add":
                slots.add(f"t{index}", number)
                capacity.setdefault(f"t{index}", number)
            case "remove":
                slots.remove(f"t{index}")
                capacity.pop(f"t{index}", None)
            case "request" if not slots.stages(f"j{index}"):
                slots.request(request(f"j{index}", number, 1))
            case "release":
                slots.release(StageKey(f"j{index}", Attempt(0), number))
        for granted, stages in slots.grant():
            assert sorted(s for stage in stages for s in stage.slots) == sorted(s for r in granted.regions for s in r)
        for name, total in capacity.items():
            used = sum(len(stage.slots) for stage in slots.stages(taskmanager=name))
            assert 0 <= used <= total
            assert slots.free_of(name) == total - used


def test_a_taskmanager_that_drains_keeps_its_stages_and_gets_no_more() -> None:
    slots = pool(old=4, new=2)
    slots.request(request("a", 3))
    [(_, [stage])] = slots.grant()
    slots.drain("old")
    assert (slots.total, slots.free, slots.free_of("old")) == (2, 2, 0)
    assert slots.slots_on_draining() == {"a": 3}
    assert slots.stages("a") == [stage]
    slots.request(request("b", 2, 1))
    assert slots.grant() == []
    assert "needs 3 slots, 2 are free (the cluster has 2 in all)" in slots.shortage("b")
    slots.release(stage.key)
    assert slots.slots_on_draining() == {}


def test_slots_for_a_job_that_leaves_are_those_that_are_kept_for_no_other() -> None:
    slots = pool(old=2, new=3)
    slots.request(request("waits", 2))
    [(_, [stage])] = slots.grant()
    slots.drain("old")
    assert slots.free_for("leaves") == 3
    slots.release(stage.key)
    # it restarts, and its slots are kept for it
    slots.request(replace(request("waits", 4, attempt=1), has_run=True))
    assert slots.grant() == []
    assert (slots.free_for("waits"), slots.free_for("leaves")) == (3, 0)


def test_a_request_that_is_open_is_granted_only_when_another_has_taken_its_place() -> None:
    slots = pool(t=4)
    slots.request(replace(request("a", 4), is_open=True))
    assert slots.grant() == []
    assert slots.lacking() == {"a": (4, False)}
    slots.request(request("b", 3))
    assert [r.job_id for r, _ in slots.grant()] == ["b"]
    slots.request(request("a", 1))
    assert [r.count for r, _ in slots.grant()] == [1]


def test_slots_that_are_claimed_for_a_job_go_to_no_other_whatever_it_had_before() -> None:
    slots = pool(old=2, new=2)
    slots.request(replace(request("a", 4), has_run=True))
    [(_, stages)] = slots.grant()
    slots.remove("old")
    for stage in stages:
        slots.release(stage.key)
    # it had four, and is to have two
    slots.claim({"a": 2})
    slots.request(request("b", 1))
    assert slots.grant() == []
    slots.add("more", 1)
    assert [r.job_id for r, _ in slots.grant()] == ["b"]
    # its place is kept while its attempt changes
    slots.withdraw("a", Attempt(0))
    slots.request(request("c", 1))
    assert slots.grant() == []
    slots.withdraw("a")
    assert [r.job_id for r, _ in slots.grant()] == ["c"]


def test_a_claim_counts_slots_on_taskmanagers_that_stay() -> None:
    slots = pool(old=2, new=3)
    slots.request(request("a", 2))
    slots.grant()
    slots.drain("old")
    assert slots.held("a") == (0, 2)
    slots.claim({"a": 2})
    slots.request(request("b", 2))
    assert slots.grant() == []
    slots.request(request("c", 1))
    assert [r.job_id for r, _ in slots.grant()] == ["c"]


def test_a_job_that_has_had_slots_lacks_those_that_it_does_not_have() -> None:
    slots = pool(t=3)
    slots.request(request("a", 2))
    [(_, [stage])] = slots.grant()
    assert slots.lacking() == {}
    slots.release(stage.key)
    assert slots.lacking() == {"a": (2, True)}
    slots.withdraw("a")
    assert slots.lacking() == {}
