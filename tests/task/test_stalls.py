"""Where a slot's loop stands that does not turn."""

from __future__ import annotations

import threading
from typing import Any

from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.task.stalls import user_stack
from tests.support.waiting import wait_until
from tests.task.rigs import SlotRig, environment

ENTERED, LEAVE = threading.Event(), threading.Event()


def asks_a_slow_service(value: Any) -> Any:
    ENTERED.set()
    assert LEAVE.wait(10)
    return value


def test_a_stack_begins_with_the_users_own_line() -> None:
    ENTERED.clear()
    LEAVE.clear()
    env = environment(1)
    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(asks_a_slow_service).sink_to(BlackHoleSink())
    rig = SlotRig(env).start()
    loop = threading.Thread(target=rig.run, name="loop")
    loop.start()
    assert ENTERED.wait(10)
    call = rig.slot.stalled_call()
    LEAVE.set()
    loop.join()
    assert call is not None
    assert call.task == rig.task().task_id
    first, *_ = call.stack.splitlines()
    assert "test_stalls.py" in first
    assert first.endswith("in asks_a_slow_service")
    assert "LEAVE.wait(10)" in call.stack
    rig.release()


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    wait_until(lambda: user_stack(thread.ident or 0) == "", 5, "the thread's end")
