from __future__ import annotations

from runtime.core.ids import SlotId
from runtime.jobmaster.slot_registry import SlotRegistry, SlotStatus

A, B = SlotId(0), SlotId(1)


def registry() -> SlotRegistry:
    return SlotRegistry((A, B))


def test_slots_are_missing_until_they_register() -> None:
    slots = registry()
    assert slots.missing() == [A, B]
    assert slots.register(A, 7, "host", "grpc://a", 0)
    assert (slots.missing(), slots.live(), slots.all_live()) == ([B], [A], False)
    assert slots.register(B, 8, "host", "grpc://b", 0)
    assert slots.all_live()
    assert slots.peers() == {A: "grpc://a", B: "grpc://b"}


def test_a_slot_registers_once_and_never_comes_back() -> None:
    slots = registry()
    assert not slots.register(SlotId(9), 1, "host", "", 0)
    assert slots.register(A, 1, "host", "", 0)
    assert not slots.register(A, 2, "host", "", 0)
    slots.mark_lost(A)
    assert not slots.register(A, 3, "host", "", 0)
    slots.mark_lost(B)
    assert not slots.register(B, 4, "host", "", 0)
    assert slots.is_gone(A)
    assert not slots.is_live(A)


def test_a_slot_is_silent_after_the_timeout_without_heartbeat() -> None:
    slots = registry()
    assert slots.next_silence_ms(5_000) is None
    slots.register(A, 1, "host", "", 100)
    slots.register(B, 2, "host", "", 200)
    slots.heartbeat(A, 3_000)
    assert slots.next_silence_ms(5_000) == 5_200
    assert slots.silent(5_199, 5_000) == []
    assert slots.silent(5_200, 5_000) == [B]
    slots.renew_all(5_200)
    assert slots.silent(9_000, 5_000) == []


def test_what_may_still_live_has_registered_and_has_not_left() -> None:
    slots = SlotRegistry(map(SlotId, range(4)))
    for slot in range(3):
        slots.register(SlotId(slot), 100 + slot, "host", "", 0)
    slots.mark_left(SlotId(0))
    slots.mark_lost(SlotId(1))
    slots.mark_lost(SlotId(3))
    assert [(e.slot, e.status, e.pid) for e in slots.may_live()] == [
        (1, SlotStatus.LOST, 101),
        (2, SlotStatus.LIVE, 102),
    ]
