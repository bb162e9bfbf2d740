"""Cost of samples of stacks, and how far they are from the truth: a loop that is sampled as a flame graph does it.

Run as `python -m benchmarks.sampling`; `make bench` does so at its end. The loop runs a function of a known share of
its time below frames as deep as those of a chain. It is sampled in every other turn; the cost is the CPU time of the
whole process for a step of the loop, sampler included, over that of turns without. A step's time is taken in chunks of
some samples each, of which the lower tenth counts, since what else the machine does only adds to it. Exit code 1: a
limit is exceeded.
"""

from __future__ import annotations

import queue
import statistics
import sys
import time
from typing import Final

from runtime.core.ids import TaskId, VertexId
from runtime.task.messages import SampledStacks, SampleStacks
from runtime.task.stack_samples import StackSampler, frame_name
from runtime.task.stalls import LoopWatch

TURN_MS: Final = 3_000
TURNS: Final = 8
STEPS: Final = 150
"""Of a chunk: some 100 ms of CPU time."""
INTERVAL_MS: Final = 10
"""As the page asks for."""
DEPTH: Final = 20
PLANTED: Final = 0.7
MAX_COST, MAX_ERROR = 0.03, 0.10
TASK: Final = TaskId(VertexId("v" * 32), 0)


def planted() -> int:
    return spin(7_000)


def other() -> int:
    return spin(3_000)


def spin(times: int) -> int:
    total = 0
    for number in range(times):
        total += number & 7
    return total


def chained(depth: int) -> None:
    """Do a step below that many frames."""
    if depth > 0:
        chained(depth - 1)
    else:
        planted()
        other()


def chunks_ns(watch: LoopWatch, turn_ms: int) -> list[float]:
    """CPU time of the process for a step of the loop, in each chunk of one turn."""
    spent, until = [], time.monotonic() + turn_ms / 1000
    while time.monotonic() < until:
        began = time.process_time_ns()
        for _ in range(STEPS):
            watch.turn()
            watch.task = TASK
            chained(DEPTH)
            watch.task = None
        spent.append((time.process_time_ns() - began) / STEPS)
    return spent


def share_of(found: SampledStacks, name: str) -> float:
    """Part of the task's samples in which a function was on the stack."""
    counts = [
        (each.on_cpu + each.off_cpu, [found.frames[frame] for frame in each.frames]) for each in found.stacks[TASK]
    ]
    return sum(count for count, frames in counts if name in frames) / sum(count for count, _ in counts)


def lowest(values: list[float]) -> float:
    """Return the lower tenth."""
    return statistics.quantiles(values, n=10)[0]


def main() -> int:
    """Measure, print, and return the exit code."""
    watch = LoopWatch()
    sampler, answers = StackSampler(watch, str), queue.SimpleQueue[SampledStacks]()
    chunks_ns(watch, TURN_MS)
    plain, with_samples, shares = [], [], []
    for turn in range(TURNS):
        plain += chunks_ns(watch, TURN_MS)
        if not sampler.sample(SampleStacks(turn, TURN_MS, INTERVAL_MS), answers.put):
            raise RuntimeError("the sampler is still at work")
        with_samples += chunks_ns(watch, TURN_MS)
        shares.append(share_of(answers.get(timeout=60), frame_name(planted.__code__)))
    cost, share = lowest(with_samples) / lowest(plain) - 1, statistics.median(shares)
    print(f"cost of {1000 // INTERVAL_MS} samples a second: {cost:+.2%} (limit {MAX_COST:.0%})")
    print(f"share of the planted function: {share:.1%}, in truth {PLANTED:.0%} (limit: {MAX_ERROR:.0%} apart)")
    return 0 if cost <= MAX_COST and abs(share - PLANTED) <= MAX_ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
