"""A slot's report of its memory."""

from __future__ import annotations

import mmap

from runtime.task.memory import AVAILABLE, LIMIT, PEAK, RESIDENT, memory_metrics


def test_resident_memory_grows_by_what_is_held_and_its_peak_stays() -> None:
    before = memory_metrics()
    # from the system: what other tests have freed may be resident still, and be had again
    held = mmap.mmap(-1, 64 << 20)
    for page in range(0, len(held), mmap.PAGESIZE):
        held[page] = 1
    during = memory_metrics()
    assert int(str(during[RESIDENT])) - int(str(before[RESIDENT])) > 48 << 20
    assert int(str(during[PEAK])) >= int(str(during[RESIDENT]))
    held.close()
    after = memory_metrics()
    assert int(str(after[PEAK])) >= int(str(during[RESIDENT])) - (8 << 20)


def test_what_is_left_is_told_with_its_limit() -> None:
    told = memory_metrics()
    assert 0 < int(str(told[AVAILABLE])) <= int(str(told[LIMIT]))
