"""Samples of a slot's loop: shares of functions, on and off the CPU, while a call does not return; dumps of threads."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

import pytest

from runtime.core.ids import TaskId, VertexId
from runtime.core.redaction import Redaction
from runtime.task.messages import SampledStacks, SampleStacks
from runtime.task.stack_samples import MAX_STACKS, StackSampler, _Samples, frame_name
from runtime.task.stalls import LoopWatch

TASK = TaskId(VertexId("v" * 32), 1)
ANSWER_S = 30


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))


def slow() -> None:
    burn(0.007)


def fast() -> None:
    burn(0.003)


def work() -> None:
    slow()
    fast()


@contextmanager
def loop(step: Callable[[], None]) -> Iterator[LoopWatch]:
    """A thread that steps a task over and over, as a slot's loop does."""
    watches: queue.SimpleQueue[LoopWatch] = queue.SimpleQueue()
    ended = threading.Event()

    def run() -> None:
        watch = LoopWatch()
        watches.put(watch)
        while not ended.is_set():
            watch.turn()
            watch.task = TASK
            step()
            watch.task = None

    thread = threading.Thread(target=run, name="slot-loop")
    thread.start()
    try:
        yield watches.get(timeout=ANSWER_S)
    finally:
        ended.set()
        thread.join(ANSWER_S)


def sampled(watch: LoopWatch, duration_ms: int = 1_500, interval_ms: int = 5) -> SampledStacks:
    answers: queue.SimpleQueue[SampledStacks] = queue.SimpleQueue()
    assert StackSampler(watch, str).sample(SampleStacks(7, duration_ms, interval_ms), answers.put)
    return answers.get(timeout=ANSWER_S)


def share(found: SampledStacks, function: Callable[[], None]) -> tuple[float, float]:
    """Parts of all samples in which a function was on the stack, on the CPU and off it."""
    name = frame_name(function.__code__)
    stacks = [each for each in found.stacks[TASK] if name in [found.frames[frame] for frame in each.frames]]
    return sum(each.on_cpu for each in stacks) / found.count, sum(each.off_cpu for each in stacks) / found.count


def test_functions_have_the_shares_of_their_time() -> None:
    with loop(work) as watch:
        found = sampled(watch)
    assert found.request_id == 7 and found.count > 50
    slow_share, fast_share = sum(share(found, slow)), sum(share(found, fast))
    assert slow_share == pytest.approx(0.7, abs=0.1)
    assert fast_share == pytest.approx(0.3, abs=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which thread has had the CPU")
def test_a_call_that_waits_is_off_the_cpu() -> None:
    with loop(waits) as watch:
        on_cpu, off_cpu = share(sampled(watch), waits)
    assert off_cpu > 0.9 > 0.1 > on_cpu


def waits() -> None:
    time.sleep(0.05)


def test_a_call_that_does_not_return_is_seen_and_so_are_all_threads() -> None:
    released = threading.Event()

    def hangs() -> None:
        released.wait()

    with loop(hangs) as watch:
        found = sampled(watch, 200)
        dump = sampled(watch, 0)
        released.set()
    assert sum(share(found, hangs)) > 0.9
    assert dump.count == 0 and not dump.stacks
    [stack] = [stack for name, stack in dump.threads.items() if name.startswith("slot-loop ")]
    assert "released.wait()" in stack and "in hangs" in stack
    assert any(name.startswith("MainThread ") for name in dump.threads)


def test_names_of_threads_are_redacted() -> None:
    released = threading.Event()
    named = threading.Thread(target=released.wait, name="reads with c4n4ry-9")
    named.start()
    answers: queue.SimpleQueue[SampledStacks] = queue.SimpleQueue()
    try:
        with loop(work) as watch:
            redact = Redaction({("pg", "password"): "c4n4ry-9"})
            assert StackSampler(watch, redact).sample(SampleStacks(1, 0, 5), answers.put)
            threads = answers.get(timeout=ANSWER_S).threads
    finally:
        released.set()
        named.join()
    assert f"reads with <pg.password> ({named.ident})" in threads


def test_one_request_is_carried_out_at_a_time() -> None:
    answers: queue.SimpleQueue[SampledStacks] = queue.SimpleQueue()
    with loop(work) as watch:
        sampler = StackSampler(watch, str)
        assert sampler.sample(SampleStacks(1, 300, 5), answers.put)
        assert not sampler.sample(SampleStacks(2, 300, 5), answers.put)
        assert answers.get(timeout=ANSWER_S).request_id == 1
        deadline = time.monotonic() + ANSWER_S
        while not sampler.sample(SampleStacks(3, 0, 5), answers.put):
            assert time.monotonic() < deadline
        assert answers.get(timeout=ANSWER_S).request_id == 3


def test_different_stacks_are_bounded() -> None:
    samples = _Samples()

    class Frame:
        def __init__(self, code: CodeType) -> None:
            self.f_code = code

    for number in range(MAX_STACKS + 10):
        made = compile("def f(): pass", f"file{number}.py", "exec").co_consts[0]
        samples.add(TASK, [Frame(made)], is_on_cpu=True)  # type: ignore[list-item]
    found = samples.result(1, {})
    assert len(found.stacks[TASK]) == MAX_STACKS + 1
    assert sum(each.on_cpu for each in found.stacks[TASK]) == MAX_STACKS + 10
