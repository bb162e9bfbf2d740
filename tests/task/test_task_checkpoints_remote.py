"""Checkpoints between slots that only Flight joins, with windows so small that every channel is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.core.checkpoint_options import Alignment
from runtime.core.ids import SlotId
from runtime.network.channel import NetworkEnvironment
from runtime.network.flight import FlightNetworkEnvironment
from runtime.task.messages import TaskState
from tests.task import test_task_checkpoints as jobs
from tests.task.checkpoint_rig import CheckpointRig
from tests.task.rigs import ATTEMPT

COUNT = 8_000
MADE: list[NetworkEnvironment] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    jobs.OUT.clear()
    yield
    jobs.OUT.clear()
    # also those of a test that has failed: an open server would keep the process from ending
    while MADE:
        MADE.pop().close()


def starved(slot: SlotId) -> NetworkEnvironment:
    made = FlightNetworkEnvironment(slot, ATTEMPT, "secret", "127.0.0.1", window_bytes=2_048, floating_bytes=0)
    MADE.append(made)
    return made


def full_rig(tmp_path: Path, count: int = COUNT) -> CheckpointRig:
    """A job whose sources have filled every channel, while nothing was counted."""
    rig = CheckpointRig(jobs.counting(count), tmp_path, network=starved).start()

    def are_sources_stuck() -> bool:
        for slot in rig.slots.values():
            slot._tasks.all[0].step()
        rig.route()
        for slot in rig.slots.values():
            slot._take_messages()
        return all(not slot._tasks.all[0].chain.is_available() for slot in rig.slots.values())

    rig.step_until_only(are_sources_stuck)
    return rig


@pytest.mark.parametrize("alignment", list(Alignment))
def test_a_checkpoint_under_back_pressure_loses_and_repeats_nothing(tmp_path: Path, alignment: Alignment) -> None:
    rig = full_rig(tmp_path)
    metadata = rig.checkpoint(1, alignment=alignment)
    assert bool(metadata.channels) == (alignment is Alignment.UNALIGNED)
    if alignment is Alignment.UNALIGNED:
        assert {channel.is_output for channel in metadata.channels} == {False, True}
    rig.step_until(rig.all_finished)
    assert len(jobs.OUT) == COUNT
    rig.release()

    jobs.OUT.clear()
    again = CheckpointRig(jobs.counting(COUNT), tmp_path, metadata, network=starved).start()
    again.step_until(again.all_finished)
    highest, expected = jobs.final_counts(), jobs.expected_counts(COUNT)
    if alignment is Alignment.AT_LEAST_ONCE:
        assert all(highest[key] >= count for key, count in expected.items())
    else:
        assert highest == expected
    again.release()


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000, -3_600_000])
def test_a_barrier_that_is_stuck_in_a_full_output_overtakes_when_its_time_is_up(tmp_path: Path, ahead_ms: int) -> None:
    rig = full_rig(tmp_path)
    rig.ahead_ms = ahead_ms
    rig.trigger(1, aligned_timeout_ms=1_000)
    counting = [slot._tasks.all[1] for slot in rig.slots.values()]
    for task in counting:
        task.chain.is_available = lambda: False  # type: ignore[method-assign]
    for _ in range(50):
        rig.step()
    assert not rig.is_acknowledged(1)
    rig.clock.advance(1_000)
    rig.step_until(lambda: rig.is_acknowledged(1))
    metadata = rig.metadata(1)
    assert {channel.is_output for channel in metadata.channels} == {False, True}
    assert all(task.state is TaskState.RUNNING for task in counting)
    rig.release()

    jobs.OUT.clear()
    again = CheckpointRig(jobs.counting(COUNT, 3), tmp_path, metadata, network=starved).start()
    again.step_until(again.all_finished)
    assert jobs.final_counts() == jobs.expected_counts(COUNT)
    again.release()


@pytest.mark.slow
def test_checkpoints_of_every_kind_one_after_the_other(tmp_path: Path) -> None:
    count = 3 * COUNT
    rig = full_rig(tmp_path, count)
    ways: list[dict[str, Any]] = [
        {"alignment": Alignment.UNALIGNED},
        {},
        {"alignment": Alignment.UNALIGNED},
        {"aligned_timeout_ms": 0},
    ]
    metadatas = []
    for number, changes in enumerate(ways, 1):
        metadatas.append(rig.checkpoint(number, **changes))
        rig.complete(number)
    assert len(jobs.OUT) < count - 2 * jobs.KEYS
    rig.step_until(rig.all_finished)
    assert len(jobs.OUT) == count
    rig.release()
    for metadata in metadatas:
        jobs.OUT.clear()
        again = CheckpointRig(jobs.counting(count), tmp_path, metadata, network=starved).start()
        again.step_until(again.all_finished)
        assert jobs.final_counts() == jobs.expected_counts(count)
        again.release()
