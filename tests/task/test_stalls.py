"""Where a slot's loop stands that does not turn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.task.stalls import MAX_FRAMES, MAX_LINE_CHARS, user_stack
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


def waits(*table: int) -> None:
    ENTERED.set()
    assert LEAVE.wait(10)


def test_a_stack_is_short_whatever_the_program_does(tmp_path: Path) -> None:
    ENTERED.clear()
    LEAVE.clear()
    file = tmp_path / "job.py"
    program = (
        f"def ask(n):\n    tell(n - 1) if n else waits({', '.join(map(str, range(500)))})\ndef tell(n):\n    ask(n)\n"
    )
    file.write_text(program)
    functions: dict[str, Any] = {"waits": waits}
    exec(compile(program, str(file), "exec"), functions)
    thread = threading.Thread(target=functions["ask"], args=(200,))
    thread.start()
    assert ENTERED.wait(10)
    assert thread.ident is not None
    lines = user_stack(thread.ident).splitlines()
    LEAVE.set()
    thread.join()
    assert len(lines) <= 2 * MAX_FRAMES
    assert max(map(len, lines)) == MAX_LINE_CHARS + 1
    assert any("LEAVE.wait(10)" in line for line in lines)


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    wait_until(lambda: user_stack(thread.ident or 0) == "", 5, "the thread's end")
