"""Detection of the call that blocks a slot's loop."""

from __future__ import annotations

import linecache
import threading
from pathlib import Path
from typing import Any

import pytest

from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.core.ids import TaskId, VertexId
from runtime.task.stalls import MAX_FRAMES, MAX_LINE_CHARS, LoopStacks, LoopWatch
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
    first_call = rig.slot._watch.call()
    wait_until(lambda: "LEAVE.wait(10)" in stack_of(rig), 5, "the lines of source")
    call = rig.slot._watch.call()
    LEAVE.set()
    loop.join()
    assert first_call is not None and call is not None
    assert first_call.stack.splitlines()[0] == call.stack.splitlines()[0]
    assert call.task == rig.task().task_id
    assert call.in_user_code
    first, *_ = call.stack.splitlines()
    assert "test_stalls.py" in first
    assert first.endswith("in asks_a_slow_service")
    rig.release()


def test_what_the_runtime_waits_for_is_no_user_code() -> None:
    may_go = threading.Event()
    thread = threading.Thread(target=may_go.wait, args=(10,))
    thread.start()
    waiting = LoopStacks().sample(thread.ident or 0)
    may_go.set()
    thread.join()
    assert not waiting.in_user_code
    assert "in wait" in waiting.text


def test_a_loop_says_which_task_it_steps_unless_it_may_take_its_time() -> None:
    watch = LoopWatch()
    watch.turn()
    watch.task = TaskId(VertexId("window"), 1)
    call = watch.call()
    assert call is not None
    assert call.task == TaskId(VertexId("window"), 1)
    assert "test_stalls.py" in call.stack
    watch.is_excused = True
    assert watch.call() is None


def stack_of(rig: SlotRig) -> str:
    call = rig.slot._watch.call()
    return "" if call is None else call.stack


def test_a_stack_waits_for_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    is_reading, may_read = threading.Event(), threading.Event()

    def read_slowly(file: str) -> None:
        is_reading.set()
        assert may_read.wait(10)

    monkeypatch.setattr(linecache, "checkcache", read_slowly)
    ENTERED.clear()
    LEAVE.clear()
    thread = threading.Thread(target=waits)
    thread.start()
    assert ENTERED.wait(10)
    sampler, ident = LoopStacks(), thread.ident or 0
    for _ in range(3):
        stack = sampler.sample(ident).text
        assert "in waits" in stack and "LEAVE.wait(10)" not in stack
    assert is_reading.wait(5)
    assert [t.name for t in threading.enumerate()].count("stack-source") == 1
    may_read.set()
    wait_until(lambda: "LEAVE.wait(10)" in sampler.sample(ident).text, 5, "the lines of source")
    LEAVE.set()
    thread.join()


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
    sampler, ident = LoopStacks(), thread.ident
    wait_until(lambda: "LEAVE.wait(10)" in sampler.sample(ident).text, 5, "the lines of source")
    lines = sampler.sample(ident).text.splitlines()
    LEAVE.set()
    thread.join()
    assert len(lines) <= 2 * MAX_FRAMES
    assert max(map(len, lines)) == MAX_LINE_CHARS + 1


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    wait_until(lambda: LoopStacks().sample(thread.ident or 0).text == "", 5, "the thread's end")
